"""Spark's log of offsets in a checkpoint, in both of its versions, and what is no such log."""

from __future__ import annotations

import json
import uuid

import pytest

from sparklog.core.errors import InvalidInput, StoreUnavailable, UnsupportedVersion
from sparklog.core.reading.positions import Position
from sparklog.core.reading.stream_positions import StreamPositions, to_json
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex, TopicId
from sparklog.host.clock import SystemClock
from sparklog.options.streams import parse_stream_read_options
from sparklog.spark.planner.stream_requests import _positions
from sparklog.spark.read.offset_log import (
    digest_of,
    ends_of,
    logged_if_readable,
    logged_offsets,
    open_checkpoint,
    positions_in,
)
from sparklog.spark.read.stream_run import StreamRun
from sparklog.storage.memory import MemoryStore

CHAIN, OTHER = "c" * 32, "d" * 32
QUERY = "11111111-2222-3333-4444-555555555555"
DEEP = '{"a":' * 2000  # more than Python's parser goes into
KAFKAS = '{"orders":{"0":23}}'


def at(offset: int, chain_id: str = CHAIN) -> StreamPositions:
    position = Position(chain_id, TopicId(3), PartitionIndex(1), Offset(offset), LeaderEpoch(2))
    return StreamPositions(chain_id, {("orders", PartitionIndex(1)): position})


def line(offset: int, chain_id: str = CHAIN) -> str:
    return json.dumps(to_json(at(offset, chain_id)))


def checkpoint(*sources: str, query: str = QUERY) -> MemoryStore:
    """The checkpoint of a query at micro-batch 7."""
    store = MemoryStore(f"memory://{uuid.uuid4().hex}")
    store.put_if_absent("metadata", json.dumps({"id": query}).encode())
    store.put_if_absent("offsets/7", "\n".join(["v1", '{"batchWatermarkMs":0}', *sources]).encode())
    return store


def test_the_positions_of_a_streams_sources_are_read_in_both_versions() -> None:
    sources = [line(5), "-", KAFKAS, "17", DEEP, line(9)]
    first = "\n".join(["v1", '{"batchWatermarkMs":0,"conf":{}}', *sources])
    assert list(positions_in(first)) == [at(5), at(9)]
    second = "\n".join(["v2", "{}", *(f"{number}:{source}" for number, source in enumerate(sources))])
    assert list(positions_in(second)) == [at(5), at(9)]
    with pytest.raises(UnsupportedVersion, match="wanted an offset log of version v1 or v2, found 'v3'"):
        list(positions_in("v3\n{}\n"))


def test_a_micro_batch_ends_where_the_sources_of_its_cluster_do() -> None:
    logged = logged_offsets(checkpoint(line(5), line(4, OTHER), line(9)), QUERY, 7)
    assert ends_of(logged, QUERY, CHAIN) == [at(5), at(9)]


def test_the_checkpoint_of_another_query_or_of_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match=f"wanted the checkpoint of query {QUERY}, found"):
        logged_offsets(checkpoint(line(5), query="another"), QUERY, 7)
    with pytest.raises(InvalidInput, match=r"wanted the offsets of micro-batch 8 .* found no offsets/8 in memory://"):
        logged_offsets(checkpoint(line(5)), QUERY, 8)
    with pytest.raises(InvalidInput, match=r"found no metadata in memory://.*: give checkpointLocation"):
        logged_offsets(MemoryStore(f"memory://{uuid.uuid4().hex}"), QUERY, 7)
    with pytest.raises(InvalidInput, match=f"reads no stream of cluster {CHAIN}"):
        ends_of(logged_offsets(checkpoint(KAFKAS, line(5, OTHER)), QUERY, 7), QUERY, CHAIN)


@pytest.mark.parametrize("metadata", [b"", b"[]", b"\xff", b'{"id"', DEEP.encode()])
def test_a_checkpoint_whose_metadata_are_damaged_is_refused(metadata: bytes) -> None:
    store = MemoryStore(f"memory://{uuid.uuid4().hex}")
    store.put_if_absent("metadata", metadata)
    with pytest.raises(InvalidInput, match=f"wanted the checkpoint of query {QUERY}, found"):
        logged_offsets(store, QUERY, 7)


@pytest.mark.parametrize(
    ("logged", "error"), [(b"", UnsupportedVersion), (b"\xff", UnsupportedVersion), (b"v1", InvalidInput)]
)
def test_a_log_of_offsets_that_is_cut_is_refused(logged: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        ends_of(logged, QUERY, CHAIN)


@pytest.mark.parametrize("stored", [DEEP, "{", "17"])
def test_offsets_that_are_no_positions_are_refused_in_a_sentence(stored: str) -> None:
    options = parse_stream_read_options({"cluster": "file:///none", "subscribe": "t"}, None)
    with pytest.raises(InvalidInput, match="wanted the offsets of a sparklog stream, found"):
        _positions(StreamRun(options, SystemClock(), print), stored)


def test_an_address_that_only_spark_can_read_is_refused_before_anything_is_written() -> None:
    with pytest.raises(
        InvalidInput, match=r"groupId: .* not wasbs:// .* other checkpoints, sparklog.spark.exactly_once"
    ):
        open_checkpoint("wasbs://container/checkpoint")
    for url in ("file:/tmp/c", "file:///tmp/c", "/tmp/c"):
        assert open_checkpoint(url).url == "file:///tmp/c"


def test_a_micro_batch_that_is_planned_again_has_another_digest() -> None:
    """Spark writes the time of the plan before the offsets, so this holds even if they are the same."""
    first, again = (b'v1\n{"batchTimestampMs":%d}\n{}' % ms for ms in (1, 2))
    assert digest_of(first) != digest_of(again)


def test_a_checkpoint_whose_store_is_away_is_read_again_and_one_that_is_unreadable_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"memory://{uuid.uuid4().hex}"
    store = open_checkpoint(url)
    store.put_if_absent("metadata", json.dumps({"id": QUERY}).encode())
    store.put_if_absent("offsets/0", b"v1")
    with monkeypatch.context() as patch:

        def away(*_: object) -> bytes:
            raise StoreUnavailable("away")

        patch.setattr(MemoryStore, "get", away)
        assert logged_if_readable(url, QUERY, 0) is None
    assert logged_if_readable(url, QUERY, 0) == b"v1"
    assert logged_if_readable(url, QUERY, 1) is None
    assert logged_if_readable(url, QUERY, 0) is None, "it has no such log: it is not asked for each micro-batch"
