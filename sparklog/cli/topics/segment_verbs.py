"""`sparklog segment …`: the slices of a partition, their objects, and the batches in the objects."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import typer

from sparklog.cli.common_options import settings
from sparklog.cli.completion import completed_topics
from sparklog.cli.output import connect, ending, json_row, print_json, print_warning, show_rows
from sparklog.cli.records.record_lines import JsonLines
from sparklog.core.describe.readable import counted, text_table
from sparklog.core.errors import OffsetOutOfRange, SparklogError

if TYPE_CHECKING:
    from sparklog.client.cluster import Cluster
    from sparklog.core.reading.plan import SliceToRead
    from sparklog.core.state import ClusterState, Partition
    from sparklog.core.tables.slice_table import SliceColumns
    from sparklog.log.index import Index, SliceIndex
    from sparklog.storage.object_store import ObjectStore

app = typer.Typer(help="Inspect the objects that hold a topic.", no_args_is_help=True)

NAME = typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completed_topics)


_COLUMNS: Final = (
    "partition",
    "start",
    "end",
    "records",
    "batches",
    "size_bytes",
    "oldest_ms",
    "newest_ms",
    "kind",
    "stores",
    "object",
)  # of the table of segments


@app.command(
    "list", epilog=ending("sparklog segment list orders", "sparklog segment list orders -p 0 --offset 1000000 -n 5")
)
def list_segments(
    topic: str = NAME,
    partition: list[int] = typer.Option(
        [], "--partition", "-p", metavar="P", help="Only this partition; may be given several times. Default: all."
    ),
    offset: int = typer.Option(0, "--offset", min=0, metavar="N", help="Start with the slice that holds this offset."),
    num: int | None = typer.Option(
        None, "--num", "-n", min=1, metavar="N", help="Maximum number of slices to list per partition."
    ),
) -> None:
    """List the slices of a topic in offset order, each with its object: an append object or a sealed segment."""
    from sparklog.core.describe.segment_rows import segment_rows
    from sparklog.core.lookup import chosen_partitions, topic_of
    from sparklog.storage.keys import data_key

    with connect() as cluster:
        state = cluster.connection.newest_state()
        rows = [
            json_row(row)
            for chosen in chosen_partitions(state, topic_of(state, topic), partition)
            for row in segment_rows(state, chosen, _slices(state, chosen, offset, num), data_key)
        ]
    if not settings.json:
        rows = [{name: row[name] for name in _COLUMNS} for row in rows]
    show_rows(rows, empty=f"topic {topic} has no records there")


@app.command(
    epilog=ending(
        "sparklog segment dump orders -p 0",
        "sparklog segment dump orders -p 0 --offset 1000 --records",
        "sparklog segment dump orders -p 0 -n 1000 --format json | jq '.[] | select(.checksum != \"ok\")'",
    )
)
def dump(
    topic: str = NAME,
    partition: int = typer.Option(0, "--partition", "-p", min=0, metavar="P", help="The partition."),
    offset: int = typer.Option(0, "--offset", min=0, metavar="N", help="Start with the slice that holds this offset."),
    num: int = typer.Option(1, "--num", "-n", min=1, metavar="N", help="Number of slices."),
    records: bool = typer.Option(
        False, "--records", help="Also print the records, as JSON lines (with --format json: only the records)."
    ),
) -> None:
    """List the batches of slices, and check their bytes.

    Batches are listed from the index of each object. The bytes of each batch are compared with its CRC32C.

    If several stores hold an object, each batch is read from the first store that can serve it, and the row names that
    store.

    Exit 5 if a batch is damaged or gone, 1 if a store cannot be read; the other batches are still shown.
    """
    from sparklog.core.lookup import partition_of, topic_of
    from sparklog.core.reading.plan import slices_to_read

    with connect() as cluster:
        state = cluster.connection.newest_state()
        chosen = partition_of(state, topic_of(state, topic), partition)
        parts = slices_to_read(state, chosen, _slices(state, chosen, offset, num))
        failures: dict[int, SparklogError] = {}
        rows = [row for part in parts for row in _batches(cluster, topic, part, failures)]
        if not (settings.json and records):
            if settings.json:
                print_json(rows)
            else:
                print(_shown(rows) if rows else f"{topic}-{partition} has no records there")
        if failures:
            raise _failure(f"{topic}-{partition}", rows, failures)
        if records and parts:
            start = max(parts[0].slice.start, chosen.log_start, offset)
            end = min(parts[-1].slice.end, chosen.high_watermark)
            lines = JsonLines(base64=False)
            for batch in cluster.scan(topic, partition=partition, start=start, end=end, include_headers=True):
                sys.stdout.buffer.write(lines.of(batch))


@app.command(
    epilog=ending("sparklog segment verify orders", "sparklog segment verify orders -p 0 --store zone-b --format json")
)
def verify(
    topic: str = NAME,
    partition: list[int] = typer.Option(
        [], "--partition", "-p", metavar="P", help="Only this partition; may be given several times. Default: all."
    ),
    store: list[str] = typer.Option(
        [], "--store", metavar="ID", help="Only objects on this store; may be given several times. Default: all."
    ),
) -> None:
    """Compare each object of a topic with the chain, byte for byte, on each of its stores. Needs no Spark.

    Each row is an object on a store, with ok or the differences. `sparklog job verify` does the same for a whole
    cluster, in many tasks, and keeps a report. Exit 5 if anything differs or could not be read.
    """
    from sparklog.cli.topics.segment_verify import verified_rows
    from sparklog.core.lookup import chosen_partitions, topic_of

    rows = []
    with connect() as cluster:
        state = cluster.connection.newest_state()
        of = topic_of(state, topic)
        chosen = chosen_partitions(state, of, partition)
        rows = list(verified_rows(cluster, of.topic_id, {part.partition for part in chosen}, store))
    show_rows(rows, empty=f"topic {topic} has no objects there")
    if any(row["result"] != "ok" for row in rows):
        raise typer.Exit(5)


def _shown(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a table, with "ok" or "FAILED" as checksum, and a line with the problem of each bad batch."""
    words = [{**row, "checksum": "ok" if row["checksum"] == "ok" else "FAILED"} for row in rows]
    wrong = [f"[{row['start']}, {row['end']}): {row['checksum']}" for row in rows if row["checksum"] != "ok"]
    return "\n".join([text_table(words), *wrong])


def _failure(place: str, rows: list[dict[str, Any]], failures: Mapping[int, SparklogError]) -> SparklogError:
    """Return the error to raise for batches that can't be used. `failures` maps the first offset of each to its error.

    If a batch is damaged or gone, the error is Damaged or DataLoss. If all of them only could not be read for now, the
    error has the type of the first failure.
    """
    from sparklog.core.errors import Damaged, DataLoss, KeyNotFound

    bad = [error for error in failures.values() if isinstance(error, (Damaged, KeyNotFound))]
    error = bad[0] if bad else next(iter(failures.values()))
    start = next(offset for offset, failure in failures.items() if failure is error)
    row = next(row for row in rows if row["start"] == start)
    share = f"{len(failures)} of {counted(len(rows), 'batch')}"
    message = (
        f"{share} can't be used, the first: {place} offsets [{start}, {row['end']}) on store {row['store']}: "
        f"{error.message}"
    )
    if not bad:
        return type(error)(message)
    what = f"restore {row['object']} from a backup, or continue reading at {row['end']}"
    kind = Damaged if isinstance(error, Damaged) else DataLoss
    return kind(f"{message}; {what}")


def _slices(state: ClusterState, partition: Partition, offset: int, most: int | None) -> SliceColumns:
    """Return at most `most` slices of a partition, beginning with the slice that holds `offset`.

    If the offset is below the log start, begin there. Raises OffsetOutOfRange if it is above the end of the log.
    """
    from sparklog.core.types import Offset, OffsetRange, TopicPartition

    if offset > partition.next_offset:
        raise OffsetOutOfRange(
            f"{state.topics[partition.topic_id].name}-{partition.partition}: wanted offset {offset}, the log ends at "
            f"{partition.next_offset}"
        )
    key = TopicPartition(partition.topic_id, partition.partition)
    start = Offset(min(max(offset, partition.log_start), partition.next_offset))
    slices = state.slices.find(key, OffsetRange(start, partition.next_offset))
    return slices if most is None else slices.rows(0, most)


def _batches(
    cluster: Cluster, topic: str, part: SliceToRead, failures: dict[int, SparklogError]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each batch of a slice, or one row for the slice if neither its index nor its object can be read.

    A batch is read from the first store that can serve it. In the row, `checksum` is "ok", or the text of the error if
    no store can serve the batch or index. Such an error is also added to `failures`, under the row's first offset.
    """
    from sparklog.core.types import Offset
    from sparklog.log.read.first_holder import NoHolderAnswers, first_answer
    from sparklog.storage.keys import data_key

    state = cluster.connection.newest_state()
    stores = cluster.connection.stores(state)
    holders = stores.holding(part)
    last = {"store": holders[-1] if holders else None, "object": data_key(part.object.object, topic)}
    try:
        index = first_answer(stores, part, topic, part.slice.start, partial(_index, part))
    except NoHolderAnswers as unanswered:  # neither index nor object can be read: only the slice is known
        error = failures[part.slice.start] = unanswered.reported_failure.error
        slice = part.slice
        where = (slice.start, slice.end, slice.records, slice.position, slice.length)
        yield _row(*where, slice.min_timestamp_us, slice.max_timestamp_us, None, str(error)) | last
        return
    batches = index.batches
    for at in range(len(batches)):
        start, end = Offset(int(index.offsets.starts[at])), int(index.offsets.ends[at])
        row = (start, end, int(batches.records[at]), int(batches.position[at]), int(batches.length[at]))
        bounds = int(batches.min_timestamp_us[at]), int(batches.max_timestamp_us[at])
        checksum, of = "ok", last
        try:
            read = first_answer(stores, part, topic, start, partial(_verified, batches, at))
            of = last | {"store": stores.id_of(read)}
        except NoHolderAnswers as unanswered:
            failures[start] = unanswered.reported_failure.error
            checksum = str(unanswered.reported_failure.error)
        yield _row(*row, *bounds, int(batches.crc32c[at]), checksum) | of


def _row(
    start: int,
    end: int,
    records: int,
    position: int,
    size_bytes: int,
    oldest_us: int,
    newest_us: int,
    crc32c: int | None,
    checksum: str,
) -> dict[str, Any]:
    return {
        "start": start,
        "end": end,
        "records": records,
        "position": position,
        "size_bytes": size_bytes,
        "oldest_ms": oldest_us // 1000,
        "newest_ms": newest_us // 1000,
        "crc32c": None if crc32c is None else f"{crc32c:08x}",
        "checksum": checksum,
    }


def _index(part: SliceToRead, store: ObjectStore, key: str) -> SliceIndex:
    """Return the entries of the object's index for this slice. Warn if the index had to be rebuilt from the object."""
    from sparklog.core.errors import Damaged, KeyNotFound
    from sparklog.log.index import cut_to_slice, decode_index
    from sparklog.log.read.object_reader import read_index
    from sparklog.storage.keys import index_key

    try:
        index = decode_index(index_key(key), store.get(index_key(key)), part.object.object)
    except (KeyNotFound, Damaged) as error:
        try:
            index = read_index(store, key, part.object)
        except Damaged as whole:
            raise Damaged(
                f"{whole.message}; the checksum of the whole object was compared because its index can't be used "
                f"({error}): the damage may be in records of another slice or partition, and these may be intact"
            ) from error
        print_warning(f"the index was rebuilt from its object: {error}")
    return cut_to_slice(index, part.slice, key)


def _verified(index: Index, at: int, store: ObjectStore, key: str) -> ObjectStore:
    """Return `store` if it can serve batch `at` of the index. Raises Damaged if the bytes do not match the checksum."""
    import pyarrow as pa

    from sparklog.log.batch import verify

    position, length = int(index.position[at]), int(index.length[at])
    (body,) = store.get_ranges(key, [(position, position + length)])
    verify(pa.py_buffer(body), int(index.crc32c[at]), "record batch", key, position)
    return store
