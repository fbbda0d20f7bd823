"""A commit over two partitions gets no answer, and one of them loses its leader: the other one goes on at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from sparklog.client.cluster import Cluster
from sparklog.client.producer import sending
from sparklog.client.producer.producer import Producer
from sparklog.core.commands import AllocateProducer, Append, Submission
from sparklog.core.errors import InvalidProducerEpoch, OutcomeUnknown
from sparklog.core.records import CommandResult
from sparklog.core.types import ProducerId
from tests.client.producer.test_producer import sent
from tests.client.replicated_cluster import come_back
from tests.kit.log import new_cluster

AT_ONCE_S = 10.0  # of a delivery_timeout_ms of half a minute
LINGER_MS = 1_000  # long enough for a busy machine to send to both partitions


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Partition 0 is on store a, partition 1 on store b."""
    with new_cluster("ab") as made:
        made.create_topic("t", assignment=["a", "b"])
        yield made


class DoubtfulCommit:
    """The first commit over both partitions gets no answer, and store a is lost. If not `landed`, it may still arrive.

    `renewals`: the epochs that were asked for. `meanwhile` happens before the first of them.
    """

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, landed: bool) -> None:
        self.stray: Callable[[], CommandResult] | None = None
        self.renewals: list[AllocateProducer] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self._cluster = cluster
        self._landed = landed
        self._commit, self._submit = sending.commit_append, cluster.connection.committer.submit
        monkeypatch.setattr(sending, "commit_append", self)
        monkeypatch.setattr(cluster.connection.committer, "submit", self.submit)

    def __call__(self, connection: Any, plan: Any, written: Any, command: Append, *more: Any, **options: int) -> Any:
        arrive = partial(self._commit, connection, plan, written, command, *more, **options)
        if self.stray is not None or len({slice_.partition for slice_ in command.slices}) < 2:
            return arrive()
        self.stray = arrive
        if self._landed:
            arrive()
        self._cluster.fence_store("a")
        raise OutcomeUnknown("no answer")

    def submit(self, submission: Submission, *more: Any) -> CommandResult:
        if isinstance(submission.command, AllocateProducer):
            if not self.renewals:
                self.meanwhile()
            self.renewals.append(submission.command)
        return self._submit(submission, *more)

    def arrives(self) -> CommandResult:
        assert self.stray is not None
        return self.stray()


def epoch(cluster: Cluster, producer: Producer) -> int:
    return cluster.connection.follower.catch_up().state.producers[ProducerId(producer.producer_id)].producer_epoch


def test_a_commit_in_doubt_is_shut_out_and_holds_up_only_the_partition_without_a_leader(  # M: I-01 P-09 (loses)
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster.producer(linger_ms=LINGER_MS, delivery_timeout_ms=30_000) as producer:
        doubtful = DoubtfulCommit(cluster, monkeypatch, landed=False)
        waits, beside = (producer.send("t", "0", partition=partition) for partition in (0, 1))
        later = [producer.send("t", f"{n}", partition=1) for n in (1, 2)]
        assert beside.result(AT_ONCE_S).offset == 0
        assert [future.result(AT_ONCE_S).offset for future in later] == [1, 2]
        assert not waits.done()
        assert epoch(cluster, producer) == 1
        come_back(cluster, "a")
        with pytest.raises(InvalidProducerEpoch):
            doubtful.arrives()
        assert waits.result(AT_ONCE_S).offset == 0
        assert doubtful.renewals[0].in_doubt
    assert sent(cluster, "t") == {0: ["0"], 1: ["0", "1", "2"]}


def test_a_commit_in_doubt_that_has_landed_is_found_though_a_partition_has_no_leader(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster.producer(linger_ms=LINGER_MS, delivery_timeout_ms=30_000) as producer:
        doubtful = DoubtfulCommit(cluster, monkeypatch, landed=True)
        futures = [producer.send("t", "0", partition=partition) for partition in (0, 1)]
        assert [future.result(AT_ONCE_S).offset for future in futures] == [0, 0]
        assert (doubtful.renewals, epoch(cluster, producer)) == ([], 0)
    assert sent(cluster, "t")[1] == ["0"]


def test_a_commit_that_lands_just_before_it_would_be_shut_out_is_not_written_twice(  # M: I-01 (loses)
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain refused it, then took it, and then the producer asks for the epoch that would shut it out."""

    def lands() -> None:
        come_back(cluster, "a")
        assert doubtful.arrives().records == 2
        cluster.fence_store("a")

    with cluster.producer(linger_ms=LINGER_MS, delivery_timeout_ms=30_000) as producer:
        doubtful = DoubtfulCommit(cluster, monkeypatch, landed=False)
        doubtful.meanwhile = lands
        futures = [producer.send("t", "0", partition=partition) for partition in (0, 1)]
        assert [future.result(AT_ONCE_S).offset for future in futures] == [0, 0]
        assert producer.send("t", "1", partition=1).result(AT_ONCE_S).offset == 1
        assert [len(renewal.in_doubt) for renewal in doubtful.renewals] == [2, 0], "the first one was refused"
        come_back(cluster, "a")
        assert producer.send("t", "1", partition=0).result(AT_ONCE_S).offset == 1
    assert sent(cluster, "t") == {0: ["0", "1"], 1: ["0", "1"]}
