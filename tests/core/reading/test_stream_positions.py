"""What a checkpoint keeps of a stream: it can be read by people, comes back, and nothing else is taken for it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.errors import InvalidInput, SparklogError, UnsupportedVersion
from sparklog.core.reading.positions import Position
from sparklog.core.reading.stream_positions import StreamPositions, from_json, to_json
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex, TopicId


def at(topic_id: int, partition: int, offset: int, epoch: int = 0) -> Position:
    return Position("c" * 32, TopicId(topic_id), PartitionIndex(partition), Offset(offset), LeaderEpoch(epoch))


EXAMPLE = StreamPositions(
    "c" * 32,
    {
        ("orders", PartitionIndex(10)): at(3, 10, 2**60),
        ("orders", PartitionIndex(9)): at(3, 9, 7, 2),
        ("bills", PartitionIndex(0)): at(1, 0, 0),
    },
)


def test_the_json_is_as_it_has_always_been() -> None:
    assert json.dumps(to_json(EXAMPLE)) == (
        '{"version": 1, "cluster": "cccccccccccccccccccccccccccccccc", '
        '"offsets": {"bills": {"0": 0}, "orders": {"9": 7, "10": 1152921504606846976}}, '
        '"topic_ids": {"bills": 1, "orders": 3}, "leader_epochs": {"orders": {"9": 2}}}'
    )


@given(st.dictionaries(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), st.tuples(*[st.integers(0, 2**62)] * 2)))
def test_positions_come_back_and_the_text_does_not_depend_on_their_order(
    drawn: dict[tuple[str, int], tuple[int, int]],
) -> None:
    places = {
        (topic, PartitionIndex(partition)): at(ord(topic), partition, offset, epoch)
        for (topic, partition), (offset, epoch) in drawn.items()
    }
    positions = StreamPositions("c" * 32, places)
    assert from_json(json.loads(json.dumps(to_json(positions)))) == positions
    turned = StreamPositions("c" * 32, dict(reversed(places.items())))
    assert json.dumps(to_json(turned)) == json.dumps(to_json(positions))


@pytest.mark.parametrize(
    ("stored", "kind", "said"),
    [
        ({"orders": {"0": 23}}, InvalidInput, "wanted the offsets of a sparklog stream, found {'orders': {'0': 23}}"),
        ({**to_json(EXAMPLE), "version": 2, "more": 1}, UnsupportedVersion, "of version 2, wanted at most 1: a newer"),
        ({**to_json(EXAMPLE), "version": 0}, InvalidInput, "begins with a new checkpointLocation"),
        ({**to_json(EXAMPLE), "topic_ids": {"orders": 3}}, InvalidInput, "the id of each topic"),
        ({**to_json(EXAMPLE), "offsets": {"orders": {"0": "x"}}}, InvalidInput, "sparklog stream"),
        ({**to_json(EXAMPLE), "more": 1}, InvalidInput, "sparklog stream"),
        (None, InvalidInput, "found None"),
        ([1], InvalidInput, "found"),
    ],
)
def test_anything_else_is_refused_and_says_what_to_do(stored: object, kind: type[SparklogError], said: str) -> None:
    with pytest.raises(kind) as raised:
        from_json(stored)
    assert said in str(raised.value)
