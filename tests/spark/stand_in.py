"""Empty classes in place of what Spark 3.5 lacks, so that test files can be imported there. No test there uses them."""

from __future__ import annotations

import sys
from types import ModuleType

from sparklog.spark.spark_versions import HAS_PYTHON_SOURCES


class _Empty(ModuleType):
    """A module that has every class."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


if not HAS_PYTHON_SOURCES:
    for _name in ("pyspark.sql.datasource", "pyspark.sql.streaming.datasource"):
        sys.modules[_name] = _Empty(_name)
