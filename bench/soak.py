"""What 100,000 commits leave behind: memory, snapshots and the time to open, after every 10,000 commits.

    python -m bench.soak [COMMITS]      prints a line for each tenth

One writer on a local disk appends one record at a time; its object is taken as uploaded. As in a maintained cluster,
every 1,000 commits retention forgets all but the newest 1,000 segments of each partition, what it forgot the time
before is confirmed as deleted, and old snapshots are vacuumed. FLOOR stays, so every command is remembered: that table
grows by 40 bytes per commit, and nothing else should grow. Nothing is synced: this is about sizes, not speed.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sparklog.chain.commit.committer import Committer
from sparklog.chain.follow.follower import Follower
from sparklog.chain.snapshot.old_snapshots import decide_old, delete_old, find
from sparklog.core.commands import (
    Command,
    ConfirmDeleted,
    CreateCluster,
    CreateTopic,
    MoveLogStart,
    NewStore,
)
from sparklog.core.coordination import Author
from sparklog.core.types import (
    Offset,
    PartitionIndex,
    StoreId,
    TopicId,
    TopicPartition,
)
from sparklog.storage.keys import CHUNKS, SNAPSHOTS
from sparklog.storage.local.store import LocalStore
from tests.chain.chain_kit import append

COMMITS = 100_000
PARTITIONS = 4
KEPT = 1_000  # segments of a partition
MAINTAINED_EVERY = 1_000
TOPIC = TopicId(1)


class CountingStore(LocalStore):
    """Counts the bytes that snapshots put."""

    snapshot_bytes = 0

    def put_if_absent(self, key: str, body: bytes) -> None:  # type: ignore[override]
        super().put_if_absent(key, body)
        if key.startswith((SNAPSHOTS, CHUNKS)):
            self.snapshot_bytes += len(body)


@dataclass(frozen=True)
class Tenth:
    """The figures after this many commits. Bytes written are counted since the line before."""

    commits: int
    known: int
    rss_mib: float
    written_mib: float
    stored_mib: float
    open_ms: float
    commits_per_second: float

    def shown(self) -> str:
        """One line of text."""
        return (
            f"{self.commits:,} commits: {self.rss_mib:.0f} MiB of memory, {self.known:,} commands known; snapshots: "
            f"{self.written_mib:.1f} MiB written since the line before, {self.stored_mib:.1f} MiB kept; opened in "
            f"{self.open_ms:.0f} ms; {self.commits_per_second:.0f} commits/s"
        )


def soak(folder: Path, commits: int = COMMITS) -> list[Tenth]:
    """Run it, printing each line as it comes."""
    store = CountingStore(str(folder / "soak"))
    committer = Committer(Follower(store), Author("client", "soak"))

    def submit(command: Command) -> None:
        committer.submit(committer.begin(command))

    submit(CreateCluster("c" * 32, (NewStore(StoreId("a"), ".", "i"),)))
    submit(CreateTopic("t", PARTITIONS, 1))
    found: list[Tenth] = []
    step = max(1, commits // 10)
    begun, written = time.perf_counter(), 0
    for done in range(1, commits + 1):
        submit(append(partition=done % PARTITIONS, n0=committer.follower.state.n0))
        if done % MAINTAINED_EVERY == 0:
            for command in _maintenance(committer):
                submit(command)
            committer.close()
            old = find(store)
            delete_old(store, old, decide_old(old))
        if done % step == 0:
            took = time.perf_counter() - begun
            found.append(_measured(store, committer, done, store.snapshot_bytes - written, step / took))
            print(found[-1].shown(), flush=True)
            begun, written = time.perf_counter(), store.snapshot_bytes
    return found


def _maintenance(committer: Committer) -> list[Command]:
    state = committer.follower.state
    commands: list[Command] = []
    for at in range(PARTITIONS):
        partition = state.partitions[TopicPartition(TOPIC, PartitionIndex(at))]
        commands.append(MoveLogStart(TOPIC, PartitionIndex(at), Offset(max(0, partition.next_offset - KEPT))))
    retired = tuple(each.number for each in state.retired)  # of the round before
    return [*commands, ConfirmDeleted(retired)] if retired else commands


def _measured(store: CountingStore, committer: Committer, done: int, written: int, rate: float) -> Tenth:
    committer.snapshots.write()
    opens = []
    for _ in range(5):
        begin = time.perf_counter()
        late = Follower(LocalStore(store.url))
        late.open()
        opens.append((time.perf_counter() - begin) * 1000)
    stored = sum(each.size_bytes for prefix in (SNAPSHOTS, CHUNKS) for each in store.list_keys(prefix))
    known = len(committer.follower.state.results)
    return Tenth(done, known, rss_mib(), written / 2**20, stored / 2**20, sorted(opens)[2], rate)


def rss_mib() -> float:
    """Resident memory now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    os.fsync = lambda fd: None  # type: ignore[assignment]
    with tempfile.TemporaryDirectory(prefix="sparklog-soak-") as name:
        soak(Path(name), int(sys.argv[1]) if len(sys.argv) > 1 else COMMITS)


if __name__ == "__main__":
    main()
