"""What a stored batch holds, and that a batch is found whose row of the index says something else."""

from __future__ import annotations

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from sparklog.log.check.batch_content import content_in_index, content_of
from sparklog.log.check.object_check import Problem, StoredPart, check_object
from sparklog.log.index import Index, decode_index, encode_index
from sparklog.storage.keys import index_key
from tests.log.written_log import WrittenLog, empty_store, write


@pytest.fixture
def log() -> WrittenLog:
    """One object with a batch for each of two partitions."""
    values = [f"record {number}".encode() for number in range(60)]
    rows = pa.record_batch({"value": values, "partition": pa.array([number % 2 for number in range(60)], pa.int32())})
    return write(empty_store(), [rows], 2)


def index_of(log: WrittenLog) -> Index:
    key = index_key(log.key(log.slices[0]))
    return decode_index(key, log.store.get(key), log.objects[0].object)


def test_a_batch_says_what_its_index_says(log: WrittenLog) -> None:
    index = index_of(log)
    body = pa.py_buffer(log.store.get(log.key(log.slices[0])))
    for batch in range(len(index)):
        message = body.slice(int(index.position[batch]), int(index.length[batch]))
        assert content_of(message, index.object_schema) == content_in_index(index, batch)
        assert content_of(message.slice(0, 16), index.object_schema) is None
    assert content_of(pa.py_buffer(b"not a message of Arrow at all"), index.object_schema) is None


@pytest.mark.parametrize("column", ["partition", "records", "min_timestamp_us", "max_timestamp_us"])
def test_a_batch_that_its_index_does_not_fit_is_found(log: WrittenLog, column: str) -> None:
    """The chain names exactly this index and this object: both checksums are right."""
    index = index_of(log)
    changed = np.array(getattr(index, column))
    changed[0] += 1
    columns = {name: getattr(index, name) for name in Index.__slots__} | {column: changed}
    body = encode_index(Index(**columns)).to_pybytes()
    key = index_key(log.key(log.slices[0]))
    log.store.delete(key)
    log.store.put_if_absent(key, body)
    named = replace(
        log.objects[0],
        object=replace(log.objects[0].object, index_size_bytes=len(body), index_crc32c=google_crc32c.value(body)),
    )
    assert check_object(log.store, log.key(log.slices[0]), named).is_whole
    found = check_object(log.store, log.key(log.slices[0]), named, content=True)
    assert [(finding.part, finding.problem) for finding in found.findings] == [(StoredPart.OBJECT, Problem.CONTENT)]
