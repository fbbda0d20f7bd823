"""`sparklog jar`: the path of the JAR that lets Spark read in Java."""

from __future__ import annotations

from sparklog.cli.output import ending

EPILOG = ending("spark-submit --jars $(sparklog jar) job.py")


def jar() -> None:
    """Print the path of sparklog's JAR, for spark-submit --jars and spark.jars.

    With the JAR, Spark reads records in Java instead of Python: the same rows, but faster (docs/columns.md).
    """
    from sparklog.spark.jar import jar_path

    print(jar_path())
