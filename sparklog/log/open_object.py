"""A data object being written: batches go in, then object and index become durable on every holder."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from sparklog.core.types import NewObject, NewSlice, PartitionIndex
from sparklog.log.batch import EncodedBatch, crc32c
from sparklog.log.every_upload import EveryUpload
from sparklog.log.index import BatchRow, Index, encode_index, index_of
from sparklog.log.ipc_file import IpcFileWriter
from sparklog.log.records_schema import RAW_SCHEMA
from sparklog.storage.keys import data_key, index_key
from sparklog.storage.object_store import ObjectStore


class OpenObject:
    """Order of calls: `append` any number of times, then `publish` or `abort`. Batches of a partition are contiguous.

    `named` gives the object's name; its sizes and checksums are computed here. `batch_bytes` is what `segment.bytes`
    counts: the batches without the file's header and footer.
    """

    def __init__(self, stores: Sequence[ObjectStore], named: NewObject, topic: str) -> None:
        self.batch_bytes = 0
        self._named = named
        self._key = data_key(named, topic)
        self._stores = stores
        self._upload = EveryUpload([store.upload(self._key) for store in stores])
        self._file = IpcFileWriter(self._upload, RAW_SCHEMA)
        self._rows: list[BatchRow] = []
        self._crcs: list[int] = []

    def append(self, batch: EncodedBatch) -> None:
        """Add a batch after the others. Its message is no longer needed when this returns."""
        position = self._file.append(batch.message)
        size = batch.message.size
        self._rows.append(
            (batch.partition, batch.records, position, size, batch.min_timestamp_us, batch.max_timestamp_us)
        )
        self._crcs.append(batch.crc32c)
        self.batch_bytes += size

    def publish(self) -> tuple[NewObject, Index]:
        """Make object and index durable on every store. Raises what `ObjectStore.put_if_absent` raises."""
        self._file.finish()
        self._upload.publish()
        index = index_of(self._rows, self._crcs)
        body = encode_index(index)
        for store in self._stores:
            store.put_if_absent(index_key(self._key), memoryview(body))
        whole = msgspec.structs.replace(
            self._named,
            size_bytes=self._file.position,
            crc32c=self._file.crc32c,
            index_size_bytes=body.size,
            index_crc32c=crc32c(body),
        )
        return whole, index

    def abort(self) -> None:
        """Drop what was written. Legal at any time, even twice; after `publish` it does nothing."""
        self._upload.abort()


def slices_of(object_index: int, named: NewObject, index: Index) -> list[NewSlice]:
    """The slices of a whole object, by position: one for each partition's run of batches."""
    firsts = np.flatnonzero(np.diff(index.partition, prepend=-1))
    ends = np.append(firsts[1:], len(index))
    slices = []
    for first, end in zip(firsts.tolist(), ends.tolist(), strict=True):
        position = int(index.position[first])
        slices.append(
            NewSlice(
                object_index=object_index,
                topic_id=named.topic_id,
                partition=PartitionIndex(int(index.partition[first])),
                records=int(index.records[first:end].sum()),
                position=position,
                length=int(index.position[end - 1] + index.length[end - 1]) - position,
                first_batch=first,
                batches=end - first,
                min_timestamp_us=int(index.min_timestamp_us[first:end].min()),
                max_timestamp_us=int(index.max_timestamp_us[first:end].max()),
            )
        )
    return slices
