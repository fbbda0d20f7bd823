"""Runs a demo with Sparks that start in half the time: python -m tests.examples.quick_spark PROGRAM …

They take the archive of classes and a SPARK_HOME without Spark's own copy of pyspark: see tests/spark_classes.py and
tests/spark_home.py. A folder of settings would keep them from the archive, so the one that matters comes as an option.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tests.spark_classes import NO_FOLDER, short_lived_spark
from tests.spark_home import spark_home


def main(program: str, *arguments: str) -> None:
    sys.path.insert(0, str(Path(program).parent))
    sys.argv = [program, *arguments]
    import steps

    theirs = steps.environment

    def environment() -> dict[str, str]:
        variables = theirs()
        log4j = Path(variables["SPARK_CONF_DIR"], "log4j2.properties")
        return variables | {
            "SPARK_CONF_DIR": str(NO_FOLDER),
            "SPARK_HOME": str(spark_home()),
            "SPARK_SUBMIT_OPTS": " ".join([*short_lived_spark(), f"-Dlog4j2.configurationFile={log4j}"]),
        }

    steps.environment = environment
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
