"""Settings of every test run: where Hypothesis keeps its files, how hard it tries, and no surroundings leaking in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase

_CACHE = Path(__file__).parent.parent / ".cache" / "hypothesis"
set_hypothesis_home_dir(_CACHE)

# No deadline: on a busy machine it is a timed assert. Choose the other by --hypothesis-profile=thorough.
settings.register_profile("normal", deadline=None, database=DirectoryBasedExampleDatabase(_CACHE / "examples"))
settings.register_profile("thorough", settings.get_profile("normal"), max_examples=2_000)
settings.load_profile("normal")

# A cluster, a token or a Spark of the developer's shell must not reach a test.
for _name in [name for name in os.environ if name.startswith("SPARKLOG_") or name == "SPARK_HOME"]:
    del os.environ[_name]
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
