"""Functions that make bytes of keys and values, and objects of bytes."""

from __future__ import annotations

import json

import pytest

from sparklog.client.cluster import Cluster
from sparklog.core.errors import InvalidInput, InvalidOption, InvalidRecord
from tests.client.orders import P0, cluster, committed

__all__ = ["cluster"]


def to_json(value: object) -> bytes:
    return json.dumps(value).encode()


def test_objects_come_back_as_they_were_sent(cluster: Cluster) -> None:
    sent = [{"n": 1}, [2], "three", 4.5]
    cluster.create_topic("objects", partitions=1)
    with cluster.producer(key_serializer=lambda key: f"k{key}", value_serializer=to_json) as producer:
        for number, value in enumerate(sent):
            producer.send("objects", value, key=number)
        producer.send("objects", None)
    reader = cluster.consumer(
        "objects", auto_offset_reset="earliest", key_deserializer=bytes.decode, value_deserializer=json.loads
    )
    [records] = reader.poll().values()
    assert [record.value for record in records] == [*sent, None], "a tombstone stays one"
    assert [record.key for record in records] == ["k0", "k1", "k2", "k3", None]
    reader.seek_to_beginning()
    assert reader.poll_table(columns=["value"])["value"][0].as_py() == b'{"n": 1}'


def test_a_record_that_cannot_be_serialized_is_not_sent(cluster: Cluster) -> None:
    with cluster.producer(value_serializer=to_json) as producer:
        with pytest.raises(TypeError, match="not JSON serializable"):
            producer.send("orders", {1, 2}, partition=0)
        assert producer.send("orders", "ok", partition=0).result().offset == 6
    with pytest.raises(InvalidInput, match="value_serializer: wanted a function of one argument, found str"):
        cluster.producer(value_serializer="json")  # type: ignore[arg-type]


def unless_three(value: bytes) -> str:
    if value == b"0-3":
        raise ValueError("three")
    return value.decode()


def test_a_record_that_cannot_be_deserialized_comes_after_those_before_it_and_can_be_passed_over(
    cluster: Cluster,
) -> None:
    reader = cluster.consumer(
        group="billing", auto_offset_reset="earliest", enable_auto_commit=False, value_deserializer=unless_three
    )
    reader.assign([P0])
    assert [record.value for record in reader.poll()[P0]] == ["0-0", "0-1", "0-2"]
    for _ in range(2):
        with pytest.raises(InvalidRecord, match=r"orders-0: the record at offset 3 can't be .* ValueError\('three'\)"):
            reader.poll()
    reader.commit()
    assert committed(cluster)[P0] == 3
    reader.seek(P0, 4)
    assert [record.value for record in reader.poll()[P0]] == ["0-4", "0-5"]


def test_an_iterator_hands_out_what_comes_before_a_record_that_cannot_be_deserialized(cluster: Cluster) -> None:
    reader = cluster.consumer(auto_offset_reset="earliest", consumer_timeout_ms=1, value_deserializer=unless_three)
    reader.assign([P0])
    seen: list[int] = []
    with pytest.raises(InvalidRecord, match="offset 3"):
        seen.extend(record.offset for record in reader)
    assert seen == [0, 1, 2]
    assert reader.position(P0) == 3


def test_a_deserializer_is_a_function(cluster: Cluster) -> None:
    with pytest.raises(InvalidOption, match="value_deserializer: wanted a function of one argument, found 'json'"):
        cluster.consumer("orders", value_deserializer="json")
