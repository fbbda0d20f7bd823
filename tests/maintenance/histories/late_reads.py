"""Readers whose plan is older than what jobs have done since, perhaps in the middle of a scan.

A read has nothing that was never there at its offset, and nothing twice. It has everything that is there still. Inside
the delays after which objects are deleted, it has everything that was there when it was planned. It fails only if it
was to fail on data loss, and records are gone by retention, delete-records or an unclean election.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sparklog.core.errors import DataLoss
from sparklog.core.lookup import topic_of
from sparklog.core.reading.plan import RangeToRead, plan_range
from sparklog.core.types import Offset, OffsetRange
from sparklog.log.read.scan import scan
from tests.maintenance.histories.partition_model import PartitionModel, Row
from tests.maintenance.histories.shape import TOPIC
from tests.maintenance.histories.writes import COLUMNS, rows_of

if TYPE_CHECKING:
    from tests.maintenance.histories.history import History


@dataclass(eq=False)
class LateRead:
    """A read under way. `then`: what was in its range when it was planned, at `planned_ms`."""

    model: PartitionModel
    plan: RangeToRead
    then: dict[int, Row]
    planned_ms: int
    elections: int
    fails_on_loss: bool
    found: list[tuple[int, Row]]
    batches: Iterator[pa.RecordBatch]

    def finish(self, history: History) -> None:
        """Read the rest, and compare."""
        error = self._drained()
        is_elected = self.model.elections > self.elections  # what an election forgets has no delay
        is_in_time = history.clock.at_ms - self.planned_ms < history.shape.shortest_delay_ms and not is_elected
        where = f"{TOPIC}-{self.model.number} [{self.plan.start}, {self.plan.end}) of entry {self.plan.planned_at}"
        self._compare(where)
        history.counts["old plan"] += not is_in_time
        if error is not None:
            history.note(f"  {error}")
            history.counts["data loss"] += 1
            lost = self.model.start > self.plan.start or is_elected
            assert self.fails_on_loss, f"10: {where}: {error}"
            assert lost, f"10: {where}: {error}"
            assert not is_in_time, f"10: {where}, inside the delays: {error}"
            return
        found = dict(self.found)
        missing = [at for at in self.model.rows if at in self.then and at not in found]
        assert not missing, f"10: {where} misses what is there still, {missing}"
        assert not is_in_time or found == self.then, (
            f"10: {where}, inside the delays: {self.then.keys() - found.keys()}"
        )

    def _drained(self) -> DataLoss | None:
        try:
            for batch in self.batches:
                self.found += rows_of(batch)
        except DataLoss as error:
            return error
        return None

    def _compare(self, where: str) -> None:
        offsets = [offset for offset, _ in self.found]
        assert offsets == sorted(set(offsets)), f"10: {where} finds offsets {offsets}"
        for offset, row in self.found:
            assert self.then.get(offset) == row, f"10: {where} finds {row} at {offset}, wanted {self.then.get(offset)}"


def begin_read(history: History, dice: random.Random) -> LateRead:
    """Plan a read of a range, and read some of its batches."""
    model = dice.choice(history.models)
    cluster = dice.choice(history.writers)
    state = cluster.connection.newest_state()
    stores = cluster.connection.stores(state)
    partition = state.partitions[history.key(model.number)]
    low, high = partition.log_start, partition.high_watermark
    start, end = sorted((dice.randint(low, high), dice.randint(low, high))) if dice.random() < 0.3 else (low, high)
    range_ = OffsetRange(Offset(start), Offset(end))
    plan = plan_range(state, topic_of(state, TOPIC), model.number, range_)
    fails_on_loss = dice.random() < 0.5 and not plan.lost
    batches = scan(plan, stores, COLUMNS, cluster.connection.replan, fail_on_data_loss=fails_on_loss)
    found: list[tuple[int, Row]] = []
    for _ in range(dice.choice((0, 0, 1, 2))):
        batch = next(batches, None)
        found += rows_of(batch) if batch is not None else ()
    then = {offset: row for offset, row in history.seen(model.number).rows.items() if start <= offset < end}
    return LateRead(model, plan, then, history.clock.at_ms, model.elections, fails_on_loss, found, batches)
