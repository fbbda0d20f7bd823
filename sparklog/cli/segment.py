"""`sparklog segment …`: the objects of a partition."""

from __future__ import annotations

import typer

from sparklog.cli.output import connect, human, print_json, settings, show_rows

app = typer.Typer(help="Look at the objects that hold a topic.", no_args_is_help=True)

NAME = typer.Argument(metavar="TOPIC", help="The topic.")


@app.command("list")
def list_segments(
    topic: str = NAME,
    partition: int = typer.Option(-1, "--partition", "-p", help="Only this partition; default: all."),
) -> None:
    """Every slice of a topic in offset order, and the object it lies in."""
    from sparklog.core.plan import named_object, partition_of, topic_of
    from sparklog.core.types import OffsetRange, TopicPartition
    from sparklog.storage.keys import data_key

    rows = []
    with connect() as cluster, cluster.connection.follower.current() as state:
        found_topic = topic_of(state, topic)
        for index in range(found_topic.partitions) if partition < 0 else [partition]:
            found = partition_of(state, found_topic, index)
            key = TopicPartition(found_topic.topic_id, found.partition)
            for each in state.slices.find(key, OffsetRange(found.log_start, found.next_offset)):
                named = named_object(state, each).object
                rows.append(
                    {
                        "partition": index,
                        "start": each.start,
                        "end": each.end,
                        "records": each.records,
                        "batches": each.batches,
                        "size_bytes": each.length,
                        "oldest_ms": each.min_timestamp_us // 1000,
                        "newest_ms": each.max_timestamp_us // 1000,
                        "kind": named.kind.name.lower(),
                        "stores": [holder.store for holder in named.holders],
                        "object": data_key(named, topic),
                    }
                )
    show_rows(rows, tuple(rows[0]) if rows else (), empty=f"topic {topic} holds no records")


@app.command()
def dump(
    topic: str = NAME,
    partition: int = typer.Option(0, "--partition", "-p", min=0, help="The partition."),
    offset: int = typer.Option(0, "--offset", min=0, help="Begin with the slice that holds this offset."),
    num: int = typer.Option(1, "--num", "-n", min=1, help="How many slices."),
    records: bool = typer.Option(False, "--records", help="Show the records too."),
) -> None:
    """The batches of slices: offsets, positions, sizes, times, checksums; every checksum is verified."""
    import pyarrow as pa

    from sparklog.cli.records import record_lines
    from sparklog.core.plan import named_object, partition_of, topic_of
    from sparklog.core.types import Offset, OffsetRange, TopicPartition
    from sparklog.log.batch import verify
    from sparklog.log.object_reader import read_index
    from sparklog.storage.keys import data_key

    with connect() as cluster:
        with cluster.connection.follower.current() as state:
            found_topic = topic_of(state, topic)
            found = partition_of(state, found_topic, partition)
            key = TopicPartition(found_topic.topic_id, found.partition)
            start = max(Offset(offset), found.log_start)
            slices = list(state.slices.find(key, OffsetRange(start, max(start, found.next_offset))).rows(0, num))
            parts = [(each, named_object(state, each)) for each in slices]
            stores = cluster.connection.stores(state)
        rows = []
        for each, named in parts:
            object_key = data_key(named.object, topic)
            store = stores.holding(named)[0]
            index = read_index(store, object_key, named)
            base = int(index.first_record[each.first_batch])
            for at in range(each.first_batch, each.first_batch + each.batches):
                position, length = int(index.position[at]), int(index.length[at])
                (body,) = store.get_ranges(object_key, [(position, position + length)])
                verify(pa.py_buffer(body), int(index.crc32c[at]), "a batch", object_key, position)
                first = each.start + int(index.first_record[at]) - base
                rows.append(
                    {
                        "start": first,
                        "end": first + int(index.records[at]),
                        "records": int(index.records[at]),
                        "position": position,
                        "size_bytes": length,
                        "oldest_ms": int(index.min_timestamp_us[at]) // 1000,
                        "newest_ms": int(index.max_timestamp_us[at]) // 1000,
                        "crc32c": f"{int(index.crc32c[at]):08x}",
                        "object": object_key,
                    }
                )
        if settings.json and not records:
            print_json(rows)
            return
        if not settings.json:
            show_rows(rows, tuple(rows[0]) if rows else (), empty=f"{topic}-{partition} holds nothing from {start} on")
        if records and slices:
            end = min(slices[-1].end, found.high_watermark)
            reader = cluster.scan(topic, partition=partition, start=start, end=end, include_headers=True)
            for batch in reader:
                for line in record_lines(batch, base64=False):
                    print(line if settings.json else human("record", line))
