"""What identifies a write in foreachBatch, without Spark."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from sparklog.core.errors import InvalidInput
from sparklog.spark import exactly_once
from sparklog.spark.write import foreach_batch

COLUMNS = ["topic", "partition", "offset", "value"]


@pytest.fixture(autouse=True)
def query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreach_batch, "_query_of", lambda batch: "query-1")
    monkeypatch.setattr(foreach_batch, "_consumed", lambda batch: {})
    monkeypatch.setattr(foreach_batch, "_running_query", lambda batch: batch.running)
    monkeypatch.setattr(foreach_batch, "logged_if_readable", lambda *_: None)
    monkeypatch.setattr(foreach_batch, "_CALLS", {})


def app_id(**given: Any) -> str:
    """The `txnAppId` of a write."""
    batch, written = MagicMock(columns=COLUMNS, running=None), MagicMock()
    writer = written.write.format.return_value.mode.return_value.options.return_value
    exactly_once(lambda rows: written, **given)(batch, 7)
    (name, found), (version, number) = writer.option.call_args.args, writer.option.return_value.option.call_args.args
    assert (name, version, number) == ("txnAppId", "txnVersion", "7")
    batch.unpersist.assert_called_once_with()
    return str(found)


def test_two_writes_of_one_query_are_not_taken_for_repeats_of_each_other() -> None:
    """They have the same number; the second would add nothing, as if it were a repeat of the first."""
    ids = [app_id(group=group, **more) for group in ("a", "b") for more in ({"topic": "x"}, {"topic": "y"}, {})]
    assert len(set(ids)) == len(ids)
    assert ids[0] == app_id(group="a", topic="x"), "a repeat is the same write"
    assert ids[0].startswith("query-1")
    assert app_id(group="a", topic="x", app_id="mine") == "mine"


def call(writer: Any, run: str | None, batch_id: int, rows: int) -> None:
    """One call of foreachBatch; `rows` are told apart by their number."""
    running = None if run is None else foreach_batch._RunningQuery("query-1", run, "/checkpoint")
    batch = MagicMock(columns=COLUMNS, running=running)
    batch.semanticHash.return_value = rows
    writer(batch, batch_id)


def test_a_micro_batch_is_not_written_by_halves() -> None:
    """The second half would add nothing: it looks like a repeat of the first one."""
    first, second = (exactly_once(lambda rows: MagicMock(), group="g", topic="t") for _ in range(2))
    call(first, "run 1", 7, rows=1)
    call(first, "run 1", 7, rows=1)  # a function that tries again
    for writer, rows in ((first, 2), (second, 1)):
        with pytest.raises(InvalidInput, match="micro-batch 7 of query-1 g t has been written in this run"):
            call(writer, "run 1", 7, rows)
    call(first, "run 1", 8, rows=2)
    call(second, "run 2", 8, rows=3)  # the query was started again in this process
    for rows in (4, 5):
        call(first, None, 9, rows)  # nobody says which run it is
