"""How far a stream is behind, as OffsetsBehind.java counts it."""

from __future__ import annotations

import json

import pytest

from sparklog.core.reading.positions import Position
from sparklog.core.reading.stream_positions import StreamPositions, to_json
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex, TopicId
from tests.jvm.java_program import run_java


def at(topic_id: int, offset: int) -> str:
    partition = PartitionIndex(0)
    position = Position("c" * 32, TopicId(topic_id), partition, Offset(offset), LeaderEpoch(0))
    return json.dumps(to_json(StreamPositions("c" * 32, {("t", partition): position})))


@pytest.mark.parametrize(("topic_id", "behind"), [(3, "-15"), (4, "5")])
def test_a_topic_that_was_created_again_is_read_from_its_beginning(topic_id: int, behind: str) -> None:
    done = run_java("read.Behind", at(3, 20), at(topic_id, 5))
    assert done.stdout == behind, done.stderr[-3000:]
