"""How a client waits for the chain: whom it asks, when it looks itself, and how often. Time goes by in pauses only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sparklog.client import waiting as waiting_module
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.core.commands import ClaimCoordination, DeleteTopic, ResignCoordination
from sparklog.core.coordination import Coordinator
from sparklog.core.errors import ChainDamaged, NotController, StoreUnavailable, TryAgain
from sparklog.core.purgatory import Records, WaitCondition
from sparklog.core.reading.positions import Position
from sparklog.core.types import EntryNumber, Offset
from sparklog.wire.messages import WaitReply
from tests.client.interfered_stores import tick
from tests.client.replicated_cluster import report
from tests.kit.hand_clock import HandClock
from tests.kit.log import new_cluster

ROW = pa.table({"value": ["x"]})
HOUR_MS = 3_600_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    init_cluster(str(tmp_path / "cluster"))
    with connect(str(tmp_path / "cluster")) as cluster:
        cluster.create_topic("t")
        yield cluster


@pytest.fixture
def writer(cluster: Cluster) -> Iterator[Cluster]:
    """Another process, which commits by itself whoever coordinates."""
    with connect(cluster.connection.url) as writer:
        writer.connection.committer.submit = writer.connection.committer.commit_here  # type: ignore[method-assign]
        yield writer


class Asked:
    """Stands for the coordinators that this cluster's process asks; `replies` come in turn, then `last`.

    A reply is True or False, at the newest position of the chain, or an error. `takes_ms` is how long each takes.
    """

    def __init__(self, cluster: Cluster, clock: HandClock, *replies: bool | Exception) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[str, int]] = []  # whom, and for how long
        self.takes_ms = 0
        self.before: Callable[[], object] = lambda: None
        self._cluster, self._clock = cluster, clock
        cluster.connection.committer.wait = self._wait  # type: ignore[method-assign]

    def _wait(self, known: Coordinator, wanted: WaitCondition, seen: EntryNumber, longest_ms: int) -> WaitReply:
        self.asked.append((known.name, longest_ms))
        self._clock.at_ms += min(self.takes_ms, longest_ms)
        self.before()
        reply = self.replies.pop(0) if self.replies else False
        if isinstance(reply, Exception):
            raise reply
        with connect(self._cluster.connection.url) as other:
            return WaitReply(EntryNumber(other.connection.follower.head.n), reply)


def claim(cluster: Cluster, epoch: int = 1) -> None:
    committer = cluster.connection.committer
    committer.commit_here(committer.begin(ClaimCoordination(epoch, f"c{epoch}", f"http://127.0.0.1:{epoch}")))


def behind_the_end(cluster: Cluster) -> Records:
    state = cluster.connection.follower.state
    (partition,) = state.partitions_of(state.topics[state.topic_ids["t"]])
    epoch = partition.replication.leader_epoch
    return Records((Position(state.chain_id, partition.topic_id, partition.partition, partition.next_offset, epoch),))


def wait(cluster: Cluster, longest_ms: int = HOUR_MS) -> bool:
    return cluster.connection.waiting.watch().wait(behind_the_end(cluster), longest_ms)


def looks(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """An item for each look at the chain from now on."""
    seen: list[None] = []
    catch_up = cluster.connection.follower.catch_up

    def counted() -> object:
        seen.append(None)
        return catch_up()

    monkeypatch.setattr(cluster.connection.follower, "catch_up", counted)
    return seen


# ---- without a coordinator --------------------------------------------------------------------------


def test_without_a_coordinator_it_looks_itself_at_longer_and_longer_intervals(
    cluster: Cluster, writer: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = tick(cluster, *[lambda: None] * 9, lambda: writer.append("t", ROW))
    seen = looks(cluster, monkeypatch)
    assert wait(cluster)
    assert len(seen) == 10
    assert clock.at_ms <= 10 + 20 + 40 + 80 + 160 + 5 * waiting_module.CHAIN_LOOK_MS
    assert not wait(cluster, longest_ms=10_000)
    assert clock.at_ms >= 10_000


def test_entries_that_bring_nothing_for_it_do_not_end_its_wait(cluster: Cluster, writer: Cluster) -> None:
    clock = tick(cluster, lambda: writer.create_topic("u"), lambda: writer.append("u", ROW))
    clock.events.append(lambda: writer.append("t", ROW))
    assert wait(cluster)
    assert clock.events == []


def test_an_unreadable_chain_is_looked_at_again(cluster: Cluster, writer: Cluster) -> None:
    follower, read = cluster.connection.follower, cluster.connection.follower.catch_up

    def fail() -> object:
        raise StoreUnavailable("the store is away")

    def away() -> None:
        follower.catch_up = fail  # type: ignore[method-assign,assignment]

    def back() -> None:
        follower.catch_up = read  # type: ignore[method-assign]
        writer.append("t", ROW)

    tick(cluster, away, lambda: None, back)
    assert wait(cluster)


def test_a_damaged_chain_is_an_error(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged() -> object:
        raise ChainDamaged("entry 2 is cut")

    tick(cluster)
    monkeypatch.setattr(cluster.connection.follower, "catch_up", damaged)
    with pytest.raises(ChainDamaged):
        wait(cluster)


def test_one_look_serves_all_who_wait_in_the_process(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses of a hundred callers begin one in the other: the first one that ends is followed by a look."""
    waiting, clock = cluster.connection.waiting, HandClock()
    cluster.connection.committer.clock = clock
    seen = looks(cluster, monkeypatch)

    def nested(callers: int) -> None:

        def pause(duration_ms: float, bell: object = None) -> None:
            if callers > 1:
                nested(callers - 1)

        monkeypatch.setattr(clock, "pause", pause)
        waiting.look(200)

    nested(100)
    assert len(seen) == 1
    nested(1)
    assert len(seen) == 2, "the next pause has a look of its own"


def test_what_could_not_be_used_does_not_wake_again_at_once(
    cluster: Cluster, writer: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = tick(cluster)
    writer.append("t", ROW)
    wanted = behind_the_end(cluster)
    cluster.connection.follower.catch_up()
    watch = cluster.connection.waiting.watch()
    assert watch.wait(wanted, HOUR_MS)
    assert clock.at_ms == 0
    assert watch.wait(wanted, HOUR_MS)
    assert clock.at_ms > 0


# ---- with one ---------------------------------------------------------------------------------------


# M: P-10
def test_with_a_coordinator_the_chain_is_read_only_when_there_is_something(
    cluster: Cluster, writer: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(cluster)
    clock = tick(cluster)
    asked = Asked(cluster, clock, False, False, True)
    asked.takes_ms = waiting_module.ROUND_MS
    seen = looks(cluster, monkeypatch)
    asked.before = lambda: writer.append("t", ROW) if len(asked.asked) == 3 else None
    assert wait(cluster)
    assert (len(seen), [name for name, _ in asked.asked]) == (1, ["c1"] * 3)
    assert {longest_ms for _, longest_ms in asked.asked} == {waiting_module.ROUND_MS}
    assert clock.at_ms == 3 * waiting_module.ROUND_MS, "no pause in between"


def test_it_asks_for_no_longer_than_it_may_wait(cluster: Cluster) -> None:
    claim(cluster)
    asked = Asked(cluster, tick(cluster))
    asked.takes_ms = HOUR_MS
    assert not wait(cluster, longest_ms=7_000)
    assert [longest_ms for _, longest_ms in asked.asked] == [5_000, 2_000]


# M: P-10 (loses)
@pytest.mark.parametrize("error", [TryAgain("no reply"), NotController("another one leads")], ids=["silent", "away"])
def test_when_its_coordinator_is_gone_it_finds_the_next_one_by_the_chain(
    cluster: Cluster, writer: Cluster, error: Exception
) -> None:
    claim(cluster)
    clock = tick(cluster, lambda: claim(writer, 2))
    asked = Asked(cluster, clock, error, True)
    asked.before = lambda: writer.append("t", ROW) if asked.asked[-1][0] == "c2" else None
    assert wait(cluster)
    assert [name for name, _ in asked.asked] == ["c1", "c2"]


# M: P-10 (loses)
def test_while_no_coordinator_can_be_asked_it_looks_and_asks_again_now_and_then(
    cluster: Cluster, writer: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(cluster)
    clock = tick(cluster)
    asked = Asked(cluster, clock, *[TryAgain("no reply")] * 1_000)
    seen = looks(cluster, monkeypatch)
    assert not wait(cluster, longest_ms=10_000)
    assert 5 <= len(asked.asked) <= 10
    assert len(seen) >= 10_000 // waiting_module.CHAIN_LOOK_MS
    clock.events.append(lambda: writer.append("t", ROW))
    assert wait(cluster)


def test_after_a_resignation_it_looks_itself(cluster: Cluster, writer: Cluster) -> None:
    claim(cluster)
    committer = writer.connection.committer
    clock = tick(cluster, lambda: writer.append("t", ROW))
    asked = Asked(cluster, clock, False)
    asked.before = lambda: committer.commit_here(committer.begin(ResignCoordination(1)))
    assert wait(cluster)
    assert len(asked.asked) == 1


def test_a_coordinator_that_answers_at_once_for_nothing_is_not_asked_without_end(cluster: Cluster) -> None:
    claim(cluster)
    for reply in (True, False):
        asked = Asked(cluster, tick(cluster), *[reply] * 120)
        asked.before = lambda asked=asked: asked.replies[0]  # fails beyond the last one
        assert not wait(cluster, longest_ms=10_000)


@pytest.mark.parametrize("left_ms", [1, 2, 3])
def test_also_in_the_last_milliseconds_it_pauses_between_two_requests(cluster: Cluster, left_ms: int) -> None:
    claim(cluster)
    asked = Asked(cluster, tick(cluster), *[False] * 10)
    asked.before = lambda: asked.replies[0]  # fails beyond the last one
    assert not wait(cluster, longest_ms=left_ms)


def test_the_end_of_the_topic_ends_the_wait(cluster: Cluster, writer: Cluster) -> None:
    tick(cluster, lambda: writer.submit(DeleteTopic(behind_the_end(cluster).positions[0].topic_id)))
    assert wait(cluster)


# M: P-10
def test_a_pulled_write_waits_at_the_coordinator() -> None:
    with new_cluster("abc") as replicated, connect(replicated.connection.url) as follower:
        replicated.create_topic("t", assignment=[["a", "b", "c"]])
        claim(replicated)
        replicated.connection.committer.submit = replicated.connection.committer.commit_here  # type: ignore[method-assign]
        follower.connection.committer.submit = follower.connection.committer.commit_here  # type: ignore[method-assign]
        asked = Asked(replicated, tick(replicated), True, True)

        def fetched() -> None:
            follower.connection.follower.catch_up()
            report(follower, "bc"[len(asked.asked) - 1])

        asked.before = fetched
        result = replicated.append("t", ROW, replication="pull")
        assert (result.records, len(asked.asked)) == (1, 2)
        assert result.ranges[0].end == Offset(1)


def test_threads_that_wait_all_hear_of_it(cluster: Cluster, writer: Cluster) -> None:
    done: list[bool] = []
    wanted = behind_the_end(cluster)

    def wait_for_it() -> None:
        done.append(cluster.connection.waiting.watch().wait(wanted, 60_000))

    threads = [threading.Thread(target=wait_for_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    writer.append("t", ROW)
    for thread in threads:
        thread.join(60)
    assert done == [True] * 8
