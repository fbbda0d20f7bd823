"""Offsets of Spark's Kafka source become positions in the topics that mirror those of Kafka, or are refused."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.core.errors import InvalidInput, OffsetOutOfRange, UnknownTopicOrPartition
from sparklog.core.reading.kafka_checkpoint import from_kafka, is_of_kafka
from sparklog.core.reading.stream_positions import to_json
from sparklog.core.types import KafkaTopic


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic t mirrors one of Kafka's, up to offset 3 of partition 0."""
    url = f"memory://{uuid.uuid4().hex}"
    init_cluster(url)
    with connect(url) as connected:
        connected.create_topic("t", partitions=2, mirror_of=KafkaTopic("k", "t", "id"))
        connected.create_topic("own", partitions=1)
        rows = pa.table({"partition": [0] * 3, "offset": [0, 1, 2], "value": [b"v"] * 3})
        connected.append("t", rows, keep_offsets=True)
        yield connected


def test_offsets_become_positions_also_after_the_promotion(cluster: Cluster) -> None:
    for _ in range(2):
        state = cluster.connection.newest_state()
        positions = from_kafka(state, {"t": {"0": 3, "1": 0}})
        assert {place: position.offset for place, position in positions.at.items()} == {("t", 0): 3, ("t", 1): 0}
        assert positions.chain_id == state.chain_id
        assert not is_of_kafka(to_json(positions))
        if state.topics[state.topic_ids["t"]].mirror_of is not None:
            cluster.promote_topic("t")


def test_what_cannot_be_taken_is_refused(cluster: Cluster) -> None:
    state = cluster.connection.newest_state()
    with pytest.raises(OffsetOutOfRange, match="is at offset 4 of Kafka, and the log here ends at 3: run the mirror"):
        from_kafka(state, {"t": {"0": 4}})
    with pytest.raises(OffsetOutOfRange):
        from_kafka(state, {"t": {"0": -1}})
    with pytest.raises(InvalidInput, match="topic own here is no mirror of it"):
        from_kafka(state, {"own": {"0": 0}})
    with pytest.raises(UnknownTopicOrPartition, match="mirror the topic first"):
        from_kafka(state, {"missing": {"0": 0}})
    with pytest.raises(UnknownTopicOrPartition):
        from_kafka(state, {"t": {"7": 0}})


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"version": 1},
        {"t": 3},
        {"t": {"a": 3}},
        {"t": {"0": "3"}},
        {"t": {"0": None}},
        [],
        "t",
        None,
        {"t": {"-1": 3}},
    ],
)
def test_other_offsets_are_not_of_kafka(stored: object) -> None:
    assert not is_of_kafka(stored)


def test_offsets_of_kafka_are_known_by_their_form() -> None:
    assert is_of_kafka({"t": {"0": 3, "12": 4}, "u": {}})
