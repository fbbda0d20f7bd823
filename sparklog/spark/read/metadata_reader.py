"""Reads the log's own state as a DataFrame.

Like a DataFrame of records, it stays at the chain position of its first plan. The planner builds the tables of the
state and sends them to the tasks as compressed Arrow. For `chain` and `writes`, tasks themselves read the entries of
the chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from sparklog.chain.entry import Entry
from sparklog.chain.follow.ignored_entries import ignored_entries
from sparklog.chain.follow.stored_entries import stored_entries, stored_entry
from sparklog.client.connection import shared
from sparklog.core.coordination import Coordinator
from sparklog.log.cluster_stores import StoreAddresses, open_metadata
from sparklog.options.typed import ReadOptions
from sparklog.spark.read.metadata_tables import batch_of, entry_rows, metadata_schema, state_rows
from sparklog.spark.read.metadata_writes import WritesToRead, plan_writes, rows_of_writes
from sparklog.spark.schema import columns_of
from sparklog.spark.spark_versions import plan_of
from sparklog.storage.config_file import settings_here
from sparklog.storage.keys import LOG, block_entries, entry_block, parse_entry_key
from sparklog.storage.object_store import ObjectStore

ROWS_PER_TASK: Final = 50_000
ENTRIES_PER_TASK: Final = 1_024


class EntriesToRead(msgspec.Struct, frozen=True):
    """The work of one task: to read the entries [first, end) of the chain, those that still exist.

    `newest`: the newest coordinator when the read was planned.
    """

    addresses: StoreAddresses
    first: int
    end: int
    newest: Coordinator


class MetadataReader(DataSourceReader):
    """Reads one metadata table. Spark pickles it to the tasks."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if options.metadata is None:
            raise AssertionError("a reader of metadata needs the name of its table")
        self.table = options.metadata
        self.options = options.for_tasks()
        self.columns = columns_of(schema, metadata_schema(self.table))

    def partitions(self) -> list[InputPartition]:
        """Plan the read. Return a partition for each ROWS_PER_TASK rows of the state, or ENTRIES_PER_TASK entries."""
        connection = shared(self.options.cluster, self.options.storage)
        state = connection.newest_state()
        if self.table == "writes":
            tasks = plan_writes(state, connection.addresses(state))
            return [InputPartition(msgspec.msgpack.encode(task)) for task in tasks]
        if self.table != "chain":
            rows = state_rows(self.table, state)
            chunks = iter(lambda: list(islice(rows, ROWS_PER_TASK)), [])
            return [InputPartition(_encoded(batch_of(self.table, chunk).select(self.columns))) for chunk in chunks]
        end, addresses, newest = state.n + 1, connection.addresses(state), state.coordinator
        store = connection.follower.store
        ranges = [
            EntriesToRead(addresses, first, min(first + ENTRIES_PER_TASK, numbers.stop, end), newest)
            for block in range(_oldest_block(store), entry_block(end - 1) + 1)
            for numbers in [block_entries(block)]
            for first in range(numbers.start, min(numbers.stop, end), ENTRIES_PER_TASK)
        ]
        return [InputPartition(msgspec.msgpack.encode(range_)) for range_ in ranges]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Raises ChainDamaged, StoreUnavailable."""
        plan = plan_of(partition)
        if plan is None:
            return
        if self.table == "writes":
            writes = rows_of_writes(msgspec.msgpack.decode(plan, type=WritesToRead))
            while chunk := list(islice(writes, ROWS_PER_TASK)):
                yield batch_of(self.table, chunk).select(self.columns)
            return
        if self.table != "chain":
            yield from pa.ipc.open_stream(plan)
            return
        wanted = msgspec.msgpack.decode(plan, type=EntriesToRead)
        yield _entries(wanted).select(self.columns)


def _encoded(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _oldest_block(store: ObjectStore) -> int:
    """Return the number of the block with the oldest entry that has not been deleted; 0 if there is no entry."""
    first = store.first_key_after(LOG, LOG)
    return 0 if first is None else entry_block(parse_entry_key(first))


def _entries(wanted: EntriesToRead) -> pa.RecordBatch:
    store = open_metadata(wanted.addresses.cluster, settings_here(wanted.addresses.settings))
    stored = list(stored_entries(store, wanted.first, wanted.end))  # a block may have been deleted since the plan
    entries = [item.entry for item in stored]
    ignored = ignored_entries(entries, wanted.newest, partial(_entry, store)) if entries else frozenset()
    rows = (row for item in stored for row in entry_rows(item.entry, item.size_bytes, item.entry.n in ignored))
    return batch_of("chain", rows)


def _entry(store: ObjectStore, n: int) -> Entry | None:
    stored = stored_entry(store, n)
    return None if stored is None else stored.entry
