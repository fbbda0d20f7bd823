"""`sparklog segment …`: the slices of a partition, the objects they lie in, and the batches in these."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from sparklog.cli.consume import JsonLines
from sparklog.cli.output import connect, ending, print_json, print_warning, show_rows, table
from sparklog.cli.settings import settings
from sparklog.core.errors import SparklogError
from sparklog.core.readable import counted

if TYPE_CHECKING:
    from sparklog.client.cluster import Cluster
    from sparklog.core.plan import SliceToRead
    from sparklog.core.state import ClusterState, Partition
    from sparklog.log.index import Index, SliceIndex
    from sparklog.storage.object_store import ObjectStore

app = typer.Typer(help="Look at the objects that hold a topic.", no_args_is_help=True)

NAME = typer.Argument(metavar="TOPIC", help="The topic.")


@app.command(
    "list", epilog=ending("sparklog segment list orders", "sparklog segment list orders -p 0 --offset 1000000 -n 5")
)
def list_segments(
    topic: str = NAME,
    partition: list[int] = typer.Option(
        [], "--partition", "-p", metavar="P", help="Only this partition; may be given several times. Default: all."
    ),
    offset: int = typer.Option(0, "--offset", min=0, metavar="N", help="Begin with the slice that holds this offset."),
    num: int | None = typer.Option(None, "--num", "-n", min=1, metavar="N", help="At most so many of a partition."),
) -> None:
    """Every slice of a topic in offset order, and the object it lies in: an append object, or a sealed segment."""
    from sparklog.core.plan import chosen_partitions, topic_of
    from sparklog.storage.keys import data_key

    rows = []
    with connect() as cluster, cluster.connection.follower.current() as state:
        for found in chosen_partitions(state, topic_of(state, topic), partition):
            for each in _slices(state, found, offset, num):
                named = each.object.object
                rows.append(
                    {
                        "partition": found.partition,
                        "start": each.slice.start,
                        "end": each.slice.end,
                        "records": each.slice.records,
                        "batches": each.slice.batches,
                        "size_bytes": each.slice.length,
                        "oldest_ms": each.slice.min_timestamp_us // 1000,
                        "newest_ms": each.slice.max_timestamp_us // 1000,
                        "kind": named.kind.name.lower(),
                        "stores": list(each.stores),
                        "object": data_key(named, topic),
                    }
                )
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
    offset: int = typer.Option(0, "--offset", min=0, metavar="N", help="Begin with the slice that holds this offset."),
    num: int = typer.Option(1, "--num", "-n", min=1, metavar="N", help="How many slices."),
    records: bool = typer.Option(False, "--records", help="Then the records, as lines of JSON (in JSON: only these)."),
) -> None:
    """The batches of slices, as their object's index has them; the bytes of each are read and its CRC32C compared.

    Where several stores hold an object, each batch is read from the first that can, and the row names that store.

    Exit 5 if one is damaged or gone, 1 if a store does not let itself be read; the others are shown all the same.
    """
    from sparklog.core.plan import partition_of, topic_of

    with connect() as cluster:
        with cluster.connection.follower.current() as state:
            found = partition_of(state, topic_of(state, topic), partition)
            parts = list(_slices(state, found, offset, num))
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
            start = max(parts[0].slice.start, found.log_start, offset)
            end = min(parts[-1].slice.end, found.high_watermark)
            lines = JsonLines(base64=False)
            for batch in cluster.scan(topic, partition=partition, start=start, end=end, include_headers=True):
                sys.stdout.buffer.write(lines.of(batch))


def _shown(rows: list[dict[str, Any]]) -> str:
    """A table, in which a checksum is one word, and below it what is wrong, a line for each batch."""
    words = [{**row, "checksum": "ok" if row["checksum"] == "ok" else "FAILED"} for row in rows]
    wrong = [f"[{row['start']}, {row['end']}): {row['checksum']}" for row in rows if row["checksum"] != "ok"]
    return "\n".join([table(words), *wrong])


def _failure(place: str, rows: list[dict[str, Any]], failures: Mapping[int, SparklogError]) -> SparklogError:
    """The error for the batches that can't be used, by their first offsets. What can't be read is not damaged."""
    from sparklog.core.errors import Damaged, DataLoss, KeyNotFound

    bad = [error for error in failures.values() if isinstance(error, (Damaged, KeyNotFound))]
    error = bad[0] if bad else next(iter(failures.values()))
    start = next(each for each, found in failures.items() if found is error)
    row = next(each for each in rows if each["start"] == start)
    share = f"{len(failures)} of {counted(len(rows), 'batch')}"
    message = (
        f"{share} can't be used, the first: {place} offsets [{start}, {row['end']}) on store {row['store']}: "
        f"{error.message}"
    )
    if not bad:
        return type(error)(message)
    what = f"put {row['object']} back from a backup, or read on at {row['end']}"
    kind = Damaged if isinstance(error, Damaged) else DataLoss
    return kind(f"{message}; {what}")


def _slices(state: ClusterState, partition: Partition, offset: int, most: int | None) -> Iterator[SliceToRead]:
    """The slices of a partition from the one on that holds `offset`, with their objects."""
    from sparklog.core.plan import slices_to_read
    from sparklog.core.types import Offset, OffsetRange, TopicPartition

    key = TopicPartition(partition.topic_id, partition.partition)
    start = Offset(min(max(offset, partition.log_start), partition.next_offset))
    found = state.slices.find(key, OffsetRange(start, partition.next_offset))
    yield from slices_to_read(state, partition, found if most is None else found.rows(0, most))


def _batches(
    cluster: Cluster, topic: str, part: SliceToRead, failures: dict[int, SparklogError]
) -> Iterator[dict[str, Any]]:
    """A row for each batch of a slice, read from the first store that can.

    `checksum` is "ok" or says why no store can give the right bytes: see `failures`.
    """
    from sparklog.log.holders import NoHolderAnswers, first_answer
    from sparklog.storage.keys import data_key

    with cluster.connection.follower.current() as state:
        stores = cluster.connection.stores(state)
    holders = stores.holding(part)
    last = {"store": holders[-1] if holders else None, "object": data_key(part.object.object, topic)}
    try:
        index = first_answer(stores, part, topic, part.slice.start, partial(_index, part))
    except NoHolderAnswers as unanswered:  # neither the index nor the object: all that is known is the slice
        error = failures[part.slice.start] = unanswered.telling.error
        slice = part.slice
        where = (slice.start, slice.end, slice.records, slice.position, slice.length)
        yield _row(*where, slice.min_timestamp_us, slice.max_timestamp_us, None, str(error)) | last
        return
    batches = index.batches
    for at in range(len(batches)):
        offsets = index.offsets.of_batch(at)
        start = offsets.start
        row = (start, offsets.behind, offsets.rows, int(batches.position[at]), int(batches.length[at]))
        bounds = int(batches.min_timestamp_us[at]), int(batches.max_timestamp_us[at])
        checksum, of = "ok", last
        try:
            read = first_answer(stores, part, topic, start, partial(_verified, batches, at))
            of = last | {"store": stores.id_of(read)}
        except NoHolderAnswers as unanswered:
            failures[start] = unanswered.telling.error
            checksum = str(unanswered.telling.error)
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
    """The part of the object's index for the slice; a warning says when the index had to be rebuilt."""
    from sparklog.core.errors import Damaged, KeyNotFound
    from sparklog.log.index import cut_to_slice, decode_index
    from sparklog.log.object_reader import read_index
    from sparklog.storage.keys import index_key

    try:
        index = decode_index(index_key(key), store.get(index_key(key)), part.object.object)
    except (KeyNotFound, Damaged) as error:
        try:
            index = read_index(store, key, part.object)
        except Damaged as whole:
            raise Damaged(
                f"{whole.message}; the checksum of the whole object was compared because its index can't be used "
                f"({error}): the damage may lie in records of another slice or partition, and these may be whole"
            ) from error
        print_warning(f"the index was rebuilt from its object: {error}")
    return cut_to_slice(index, part.slice, key)


def _verified(index: Index, at: int, store: ObjectStore, key: str) -> ObjectStore:
    """The store, if a batch can be read there; Damaged if its bytes are not those that its checksum was made of."""
    import pyarrow as pa

    from sparklog.log.batch import verify

    position, length = int(index.position[at]), int(index.length[at])
    (body,) = store.get_ranges(key, [(position, position + length)])
    verify(pa.py_buffer(body), int(index.crc32c[at]), "record batch", key, position)
    return store
