"""What the job asks of Spark so that topic and table are those of its position. Sessions are played, without a JVM."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from sparklog.core.errors import Conflict
from sparklog.core.reading.plan import WeighedRange
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, PartitionIndex, TopicId
from sparklog.spark.materialize.delta_table import DeltaTable
from sparklog.spark.materialize.materialize_job import MaterializeJob, Table
from sparklog.spark.materialize.position import Mode, TablePosition
from sparklog.spark.materialize.steps import DueRange, next_step

POSITION = TablePosition("c" * 32, 7, "t", Mode.APPEND, 3, "run")  # type: ignore[arg-type]


@dataclass
class PlayedSession:
    """A session whose only table has this history: operations, oldest first; a "WRITE" is one of the job."""

    operations: tuple[str, ...] = ()
    options: dict[str, object] = field(default_factory=dict)

    def sql(self, statement: str) -> PlayedSession:
        return self

    def select(self, *columns: str) -> PlayedSession:
        return self

    def collect(self) -> list[Any]:
        return [
            SimpleNamespace(
                version=version,
                userMetadata=POSITION.to_metadata() if operation == "WRITE" else None,
                timestamp=datetime(2026, 1, 1, tzinfo=UTC),
                operation=operation,
            )
            for version, operation in enumerate(self.operations)
        ]

    @property
    def read(self) -> PlayedSession:
        return self

    def format(self, name: str) -> PlayedSession:
        return self

    def option(self, name: str, value: object) -> PlayedSession:
        self.options[name] = value
        return self

    def load(self) -> PlayedSession:
        return self


@pytest.mark.parametrize(
    "operation", ["RESTORE", "REPLACE TABLE", "CREATE OR REPLACE TABLE", "CREATE OR REPLACE TABLE AS SELECT"]
)
def test_what_others_took_back_is_not_taken_for_there(operation: str) -> None:
    for operations in (("WRITE", operation), ("WRITE", operation, "OPTIMIZE")):
        with pytest.raises(Conflict, match=f"wanted a table that only grows, found {operation} by another writer"):
            DeltaTable(PlayedSession(operations), "d").last_job_commit()  # type: ignore[arg-type]


def test_what_others_add_or_delete_is_their_business() -> None:
    found = DeltaTable(PlayedSession(("REPLACE TABLE", "WRITE", "DELETE", "OPTIMIZE")), "d").last_job_commit()  # type: ignore[arg-type]
    assert found is not None
    assert (found.position, found.is_last) == (POSITION, False)


def test_records_are_read_of_the_topic_that_the_step_is_of() -> None:
    due = {PartitionIndex(0): DueRange(OffsetRange(Offset(2), Offset(5)), LeaderEpoch(0))}
    job, session = MaterializeJob("t", Table("d"), lambda: None), PlayedSession()  # type: ignore[arg-type, return-value]
    job._session = session
    weights = {PartitionIndex(0): WeighedRange(TopicId(7), PartitionIndex(0), Offset(2), Offset(5), 0)}
    step = next_step(POSITION, due, weights, 10)
    job._records(SimpleNamespace(connection=SimpleNamespace(url="/c")), step)  # type: ignore[arg-type]
    assert session.options["topicId"] == 7
    assert session.options["startingOffsets"] == '{"t":{"0":2}}'
