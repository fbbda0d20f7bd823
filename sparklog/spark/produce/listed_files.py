"""Lists files on any system that Spark reads from, through Hadoop: S3, HDFS and others, and patterns everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def listed_files(session: SparkSession, path: str) -> Iterator[tuple[str, list[tuple[str, ...]] | None]]:
    """Yield the files and folders that `path` names or, as a pattern, matches.

    With a folder come the files at any depth below it, each as the parts of its path from there on; with a file comes
    None. Raises Spark's errors.
    """
    jvm, hadoop = session._jvm, session._jsparkSession.sessionState().newHadoopConf()
    pattern = jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
    system = pattern.getFileSystem(hadoop)
    for match in system.globStatus(pattern) or ():
        root = match.getPath()
        if not match.isDirectory():
            yield root.toString(), None
            continue
        start = len(root.toUri().getPath().rstrip("/")) + 1
        below, files = [], system.listFiles(root, True)
        while files.hasNext():
            below.append(tuple(files.next().getPath().toUri().getPath()[start:].split("/")))
        yield root.toString(), below
