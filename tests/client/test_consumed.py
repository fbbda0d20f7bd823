"""Records and the offsets that they were made from, in one commit of a Python process."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparklog.client.cluster import Cluster
from sparklog.client.groups import offsets as group_offsets
from sparklog.client.groups.offsets import advance_group, commit_of_stream
from sparklog.core.commands import CommitOffsets
from sparklog.core.errors import (
    InvalidCommitOffsetSize,
    OffsetOutOfRange,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from sparklog.core.groups import membership
from sparklog.core.reading.positions import Position
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex, TopicId
from tests.kit.log import new_cluster

ROWS = pa.table({"value": ["x", "y"]})


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topics in and out; in has two records."""
    with new_cluster() as made:
        for topic in ("in", "out"):
            made.create_topic(topic, partitions=1)
        made.append("in", ROWS)
        yield made


def at(offset: int, topic_id: int = 1, partition: int = 0) -> Position:
    return Position("", TopicId(topic_id), PartitionIndex(partition), Offset(offset), LeaderEpoch(0))


def consumed(cluster: Cluster) -> dict[tuple[str, int], int]:
    return {place: row.offset for place, row in cluster.committed("billing").items()}


def test_rows_and_offsets_are_one_entry(cluster: Cluster) -> None:  # M: I-05
    before = cluster.connection.follower.state.n
    result = cluster.append("out", ROWS, consumed=("billing", {("in", 0): 2}))
    assert (result.n, result.records) == (before + 1, 2)
    assert consumed(cluster) == {("in", 0): 2}


@pytest.mark.parametrize(
    ("offsets", "error"),
    [({("in", 0): 3}, OffsetOutOfRange), ({("nope", 0): 1}, UnknownTopicOrPartition)],
)
def test_wrong_offsets_write_nothing(
    cluster: Cluster, offsets: dict[tuple[str, int], int], error: type[Exception]
) -> None:
    with pytest.raises(error):
        cluster.append("out", ROWS, consumed=("billing", offsets))
    assert cluster.describe("out").partitions[0].high_watermark == 0
    assert consumed(cluster) == {}


def test_a_group_that_follows_a_stream_never_goes_back_and_leaves_out_what_is_gone(cluster: Cluster) -> None:
    connection = cluster.connection
    command = commit_of_stream(connection.follower.state, "billing", [at(2), at(1), at(5, topic_id=9)])
    assert command is not None
    assert [(row.topic_id, row.offset) for row in command.offsets] == [(1, 1)], "the lowest, where the topic is there"
    advance_group(connection, "billing", [at(2)])
    before = connection.follower.state.n
    advance_group(connection, "billing", [at(1)])
    advance_group(connection, "billing", [at(2)])
    assert consumed(cluster) == {("in", 0): 2}
    assert commit_of_stream(connection.follower.state, "billing", [at(2)]) is None
    assert connection.follower.state.n == before, "and makes no entry for nothing"


@pytest.fixture
def _two_offsets_per_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (membership, group_offsets):
        monkeypatch.setattr(module, "OFFSETS_PER_COMMIT", 2)


@pytest.mark.usefixtures("_two_offsets_per_commit")
def test_a_group_follows_a_stream_of_many_partitions_in_several_commits(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails in between has moved a part, and the next call moves the rest."""
    cluster.add_partitions("in", 5)
    connection = cluster.connection
    rows = {"value": ["x"] * 5, "partition": pa.array(range(5), pa.int32())}
    cluster.append("in", pa.table(rows))
    positions = [at(1, partition=partition) for partition in range(5)]
    with monkeypatch.context() as failing:
        submit, left = connection.submit, [1]

        def lose(command: CommitOffsets) -> object:
            if not left:
                raise RequestTimedOut("the store is slow")
            left.pop()
            return submit(command)

        failing.setattr(connection, "submit", lose)
        with pytest.raises(RequestTimedOut):
            advance_group(connection, "billing", positions)
    assert consumed(cluster) == {("in", 0): 1, ("in", 1): 1}
    before = connection.follower.state.n
    advance_group(connection, "billing", positions)
    assert consumed(cluster) == {("in", partition): 1 for partition in range(5)}
    assert connection.follower.state.n == before + 2


@pytest.mark.usefixtures("_two_offsets_per_commit")
def test_too_many_offsets_are_refused_before_anything_is_uploaded(cluster: Cluster) -> None:
    cluster.add_partitions("in", 3)
    offsets = {("in", partition): 0 for partition in range(3)}
    with pytest.raises(InvalidCommitOffsetSize, match="in several parts"):
        cluster.commit_offsets("billing", offsets)
    store = cluster.connection.follower.store
    before = list(store.list_keys("append/"))
    with pytest.raises(InvalidCommitOffsetSize, match="in the same entry of the chain"):
        cluster.append("out", ROWS, consumed=("billing", offsets))
    assert list(store.list_keys("append/")) == before != []
