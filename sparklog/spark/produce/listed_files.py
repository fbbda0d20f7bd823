"""Lists files on any system that Spark reads from, through Hadoop: S3, HDFS and others, and patterns everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SYSTEM: Final = re.compile(r"(?:[^:/]+:)?(?://[^/]*)?")  # the part of a path before the first folder
_KIND: Final = re.compile(r"; isDirectory=(true|false); ")  # in the text of a FileStatus


def listed_files(session: SparkSession, path: str) -> Iterator[tuple[str, list[tuple[str, ...]] | None]]:
    """Yield the files and folders that `path` names or, as a pattern, matches.

    With a folder come the files at any depth below it, each as the parts of its path from there on; with a file comes
    None. A folder is listed in a few calls to the JVM, however many files it has. Raises Spark's errors.
    """
    gateway: Any = session.sparkContext._gateway
    jvm = gateway.jvm
    hadoop = jvm.org.apache.hadoop
    pattern = hadoop.fs.Path(path)
    system = pattern.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())

    def array(kind: Any, items: Any) -> Any:
        """Copy a Java array. Py4J passes an array only to a parameter of exactly its type."""
        copy = gateway.new_array(kind, len(items))
        jvm.java.lang.System.arraycopy(items, 0, copy, 0, len(items))
        return copy

    def texts(items: Any) -> list[str]:
        """Return the texts of a Java array. Py4J would ask for each element by itself."""
        joined = hadoop.util.StringUtils.join("\0", jvm.java.util.Arrays.asList(array(jvm.java.lang.Object, items)))
        return joined.split("\0") if joined else []

    matches = system.globStatus(pattern)
    if matches is None:
        return
    roots = texts(hadoop.fs.FileUtil.stat2Paths(matches))
    for match, root, status in zip(count(), roots, texts(matches), strict=False):
        kinds = _KIND.findall(status.replace(root, ""))
        if kinds == ["false"] or (not kinds and matches[match].isFile()):
            yield root, None
            continue
        statuses = hadoop.util.functional.RemoteIterators.toList(system.listFiles(hadoop.fs.Path(root), True))
        files = array(hadoop.fs.FileStatus, statuses.toArray())
        start = len(_folder(root).rstrip("/")) + 1
        yield root, [tuple(_folder(file)[start:].split("/")) for file in texts(hadoop.fs.FileUtil.stat2Paths(files))]


def _folder(path: str) -> str:
    return path[_SYSTEM.match(path).end() :]  # type: ignore[union-attr]
