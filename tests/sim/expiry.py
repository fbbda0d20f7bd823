"""What expires by age, in worlds where somebody's clock is ahead. Check 21."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sparklog.core.commands import CommitOffsets
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.groups.membership import OffsetToCommit
from sparklog.core.records import AppliedCommand, FloorRaised, OffsetsForgotten
from sparklog.core.state import ClusterState
from tests.sim.process import Process, Steps, retried

AHEAD: Final = (5, 6)  # the clocks of `CLOCKS` are ahead if a seed ends with one of these; the first has coordinators
CLOCKS: Final = ("vacuum", "retention")
AHEAD_MS: Final = 72_000_000  # less than a day, or a job would not begin under a coordinator
CONFIG: Final = {"producer.id.expiration.ms": "2000", "offsets.retention.minutes": "1"}
RECENT: Final = 8  # entries: fewer than `chain/floor.py` looks at, as the older ones may be deleted


def committer(process: Process) -> Steps:
    """Commits offsets of a group that has no members."""
    return retried(process, lambda: _commit(process), 1_000)


def _commit(process: Process) -> Steps:
    state = yield from process.catch_up()
    offsets = tuple(
        OffsetToCommit(key.topic_id, key.partition, each.high_watermark, each.replication.leader_epoch)
        for key, each in sorted(state.partitions.items())
    )
    if offsets:
        yield from process.submit(CommitOffsets(state.chain_id, "readers", offsets))


def expired(before: ClusterState, command: AppliedCommand, times_ms: Sequence[int]) -> int:
    """Check what a command forgets because of its age, and return how many producers that are.

    `times_ms`: the times of all entries up to the command's own. The chain's time is no later than that of this entry,
    and of each of the last ones that the command's author had read.
    """
    recent = times_ms[max(0, command.n0 + 1 - RECENT) : command.n0 + 1]
    now_ms, config, count = min(times_ms[-1], *recent), effective_cluster(before.config), 0
    for record in command.records:
        if isinstance(record, FloorRaised):
            for number in record.expired_producers:
                used_ms = before.producers[number].last_used_ms
                assert used_ms + config.producer_id_expiration_ms < now_ms, f"21: {number} of {used_ms} at {now_ms}"
                count += 1
        elif isinstance(record, OffsetsForgotten):
            whole = {name: before.offsets.of_group(before.groups[name].number) for name in record.groups}
            for name, keys in (*whole.items(), *((part.group, part.partitions) for part in record.offsets)):
                rows = before.offsets.of_group(before.groups[name].number)
                committed_ms = max((rows[key].committed_ms for key in keys), default=0)
                kept_ms = committed_ms + config.offsets_retention_minutes * 60_000
                assert kept_ms <= now_ms, f"21: the offsets of {name} of {committed_ms} at {now_ms}"
    return count
