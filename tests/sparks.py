"""The tests that run on every Spark: `@pytest.mark.sparks(FEATURE)`, which make docs/spark_versions.md and its tests.

since="4.2", before="4.2"    on these versions only, because the others do it in another way, or not at all
also="3.5"                   on this version, too: what the others do without it, its JAR does
refused=True                 what the test proves is that it is refused, by name
"""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest

VERSIONS = ("3.5", "4.0", "4.1", "4.2", "4.3")

# In the order of the page; the second text is what differs.
FEATURES = {
    "offsets": ("Batch read by offsets", ""),
    "times": ("Batch read by time", ""),
    "columns": ("All columns, and only those that are named", ""),
    "tasks": ("Tasks of a read: sizes and order", ""),
    "latest": (
        "`latest` in a batch read",
        "4.0 plans each use of a DataFrame anew, up to what there is then; give `endingOffsets`, or `persist()` the "
        "DataFrame, if several uses must see the same records. Since 4.1 it is bound once, also in a join of a stream; "
        "with sparklog's JAR, each micro-batch reads a topic that it is joined with up to its present end",
    ),
    "metadata": ("The log's own state (`metadata`)", ""),
    "table": ("`CREATE TABLE … USING sparklog`, `SELECT`", ""),
    "insert": ("`INSERT INTO`, `saveAsTable`", "no Spark passes a table's options to a writer in Python"),
    "catalog": (
        "Topics as tables of a catalog, with the JAR",
        "3.5 has no `WITH (…)` in a `SELECT`: `spark.read.options(…).table(…)` does the same",
    ),
    "planner": (
        "A Python of its own for the planner: `spark.sparklog.python`",
        "since 4.0, Spark's workers need sparklog in their Python, too",
    ),
    "write": ("Batch write: one commit over all partitions, in order", ""),
    "again": ("`txnAppId`, `txnVersion`: a repeat adds nothing", ""),
    "failures": ("Failed and speculative tasks leave each row once", ""),
    "replicas": ("A write and a read without a lost store", ""),
    "by_partition": (
        "`sparklog.spark.by_partition`",
        "4.0 has no Arrow functions, so pandas is needed there, and no shuffle by number, which is made of its shuffle "
        "by hash",
    ),
    "wrong": ("Wrong options, columns and modes are refused before a task runs", ""),
    "stream": ("Stream read: new partitions, all columns", ""),
    "limits": (
        "`maxOffsetsPerTrigger` and the other limits",
        "without sparklog's JAR, before 4.2 each run of `trigger(availableNow=True)` ends after one micro-batch of at "
        "most the limits; without limits it takes all there is",
    ),
    "once": (
        "Stream write: each micro-batch once, over restarts and replays",
        "4.0 has no writer of streams by Arrow, but hands Arrow to a writer that is also one of batches",
    ),
    "killed": ("The same with a killed executor", ""),
    "groups": ("`groupId` of a stream", ""),
    "foreach_batch": ("`foreachBatch` with `exactly_once`", ""),
    "update": (
        "Output mode update",
        "Spark refuses it for every sink in Python; with sparklog's JAR, the rows that changed are appended",
    ),
    "roll": ("Jobs roll (also with a killed executor) and retention", ""),
    "vacuum": ("Job vacuum", ""),
    "compaction": ("Job compaction, also with a killed executor", "as `by_partition`, but without pandas"),
    "replication": ("Job replication", ""),
    "recovery": ("Job recovery", ""),
    "verify": ("Job verify", ""),
    "produce": ("Job produce: files and tables to a topic", "on 4.0 values of named JSON fields need pandas"),
    "materialize": ("Job materialize: a topic to a Delta table", "Delta Lake has no package for 4.3 yet"),
    "mirror": ("Job mirror: topics of a Kafka cluster, also compared with Kafka", ""),
    "py_files": ("The package by `--py-files`", ""),
    "connect": ("Spark Connect", ""),
}


def numbers(text: str) -> tuple[int, int]:
    """(major, minor) of a version."""
    found = re.match(r"(\d+)\.(\d+)", text)
    assert found is not None, text
    return int(found[1]), int(found[2])


SPARK = numbers(version("pyspark"))


def is_about(
    spark: tuple[int, int], since: str | None = None, before: str | None = None, also: str | None = None
) -> bool:
    """Whether a test with these limits runs on that Spark."""
    if also is not None and spark == numbers(also):
        return True
    return (since is None or spark >= numbers(since)) and (before is None or spark < numbers(before))


def reason_to_skip(item: pytest.Item) -> str | None:
    """A reason if the test is about other versions of Spark than the installed one."""
    for mark in item.iter_markers("sparks"):
        since, before = mark.kwargs.get("since"), mark.kwargs.get("before")
        if not is_about(SPARK, since, before, mark.kwargs.get("also")):
            limits = [f"{word} {limit}" for word, limit in (("since", since), ("before", before)) if limit is not None]
            return f"about Spark {' and '.join(limits)}: make test SPARK=… runs it"
    return None
