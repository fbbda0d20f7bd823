"""Whether each entry of the chain commits exactly the offsets that its records were made from."""

from __future__ import annotations

from sparklog.chain.follow.stored_entries import stored_entries
from sparklog.client.cluster import Cluster
from sparklog.core.records import Appended, AppliedCommand, OffsetsCommitted
from sparklog.storage.open_store import open_store

Consumed = dict[tuple[int, int], int]  # by topic id and partition


def entries_that_agree(cluster: Cluster, group: str, out: str = "out") -> int:
    """How many entries move the group. Fails if one of them has fewer or more records for topic `out` than it moves.

    A query that makes one record of each is what this is for.
    """
    state = cluster.connection.follower.catch_up().state
    topic_id, consumed, found = state.topic_ids[out], Consumed(), 0
    for stored in stored_entries(open_store(cluster.connection.url), 0, state.n + 1):
        for command in stored.entry.commands:
            moved, written = _moved(command, group, consumed), _written(command, topic_id)
            assert moved == written, f"entry {stored.entry.n} moves the group by {moved}, and has {written} records"
            found += moved > 0
    return found


def _moved(command: AppliedCommand, group: str, consumed: Consumed) -> int:
    moved = 0
    for record in command.records:
        if isinstance(record, OffsetsCommitted) and record.group == group:
            for row in record.offsets:
                moved += row.offset - consumed.get((row.topic_id, row.partition), 0)
                consumed[row.topic_id, row.partition] = row.offset
    return moved


def _written(command: AppliedCommand, topic_id: int) -> int:
    appended = (record for record in command.records if isinstance(record, Appended))
    return sum(range_.records for record in appended for range_ in record.ranges if range_.topic_id == topic_id)
