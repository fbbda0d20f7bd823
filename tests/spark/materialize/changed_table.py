"""A Delta table with a change feed, and a topic that gets its changes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.spark.produce.change_runs import run_changes
from sparklog.spark.produce.input_source import InputSource
from sparklog.spark.produce.produce_job import Target
from sparklog.spark.produce.produce_report import ProduceReport
from sparklog.spark.produce.rows import RowMapping
from tests.kit.silent_console import SILENT


@dataclass
class ChangedTable:
    """Four versions to begin with. `changes`: by version, what the topic gets of it, by key: a value, or None."""

    session: SparkSession
    cluster: Cluster
    path: Path
    topic: str
    changes: list[dict[int, str | None]]

    @classmethod
    def create(cls, session: SparkSession, cluster: Cluster, path: Path, topic: str = "t") -> ChangedTable:
        cluster.create_topic(topic, partitions=1)
        table = cls(session, cluster, path, topic, [{}])
        table._sql(
            "CREATE TABLE", "(id INT, name STRING) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        )
        table._sql("INSERT INTO", "VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
        table._sql("UPDATE", "SET name = 'moved' WHERE id < 3")
        table._sql("DELETE FROM", "WHERE id = 1")
        table.changes += [{1: "a", 2: "b", 3: "c", 4: "d"}, {1: "moved", 2: "moved"}, {1: None}]
        return table

    def change(self) -> None:
        """A further version."""
        self._sql("INSERT INTO", "VALUES (5, 'e')")
        self.changes.append({5: "e"})

    def _sql(self, verb: str, rest: str) -> None:
        self.session.sql(f"{verb} delta.`{self.path}` {rest}")

    def words(self) -> list[str]:
        """The command line of the job."""
        return [
            "produce", "--cluster", self.cluster.connection.url, "--topic", self.topic, "--changes", "--key", "id",
            str(self.path),
        ]  # fmt: skip

    def produce(self, session: SparkSession) -> ProduceReport:
        target, said = Target(self.cluster.connection.url, self.topic), SILENT
        mapping = RowMapping(key=("id",))
        return run_changes(InputSource(str(self.path)), mapping, target, spark=lambda: session, console=said)

    def _records(self) -> list[tuple[int, str | None]]:
        found = self.cluster.read(self.topic, partition=0).to_pylist()
        return [(int(row["key"]), None if row["value"] is None else json.loads(row["value"])["name"]) for row in found]

    def is_begun(self) -> bool:
        """Whether the topic has the changes of the first versions, whole and in order, and of no other."""
        found = self._records()
        for changes in self.changes:
            if not found:
                return True
            part, found = found[: len(changes)], found[len(changes) :]
            if dict(part) != changes or len(part) != len(changes):
                return False
        return not found

    def is_in_the_topic(self, session: SparkSession) -> bool:
        """Whether it has all of them, and their latest values are the table, as Delta's own reader finds it."""
        found = self._records()
        latest = {key: value for key, value in dict(found).items() if value is not None}
        rows = session.read.format("delta").load(str(self.path)).collect()
        return self.is_begun() and len(found) == sum(map(len, self.changes)) and latest == dict(map(tuple, rows))
