"""`sparklog topic …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sparklog.cli.output import connect, done, key_values, settings, show_document, show_rows

if TYPE_CHECKING:
    from sparklog.client.cluster import Cluster

app = typer.Typer(help="Create, look at, change and delete topics.", no_args_is_help=True)

NAME = typer.Argument(metavar="TOPIC", help="The topic.")
DRY_RUN = typer.Option(False, "--dry-run", help="Say what would be done, change nothing.")


@app.command()
def create(
    topic: str = NAME,
    partitions: int = typer.Option(0, "--partitions", "-p", help="Default: num.partitions of the cluster."),
    replication_factor: int = typer.Option(0, "--replication-factor", "-r", help="Default: that of the cluster."),
    topic_config: list[str] = typer.Option(
        [], "--topic-config", "-c", metavar="KEY=VALUE", help="A config key, as retention.ms=86400000; docs/config.md."
    ),
) -> None:
    """Create a topic."""
    config = key_values(topic_config, "--topic-config")
    with connect() as cluster:
        made = cluster.create_topic(
            topic, partitions=partitions or None, replication_factor=replication_factor or None, config=config
        )
    count = len(made.partitions)
    done(f"created topic {topic} with {count} partitions", {"topic": topic, "id": made.topic_id, "partitions": count})


@app.command("list")
def list_topics() -> None:
    """All topics with their size."""
    with connect() as cluster:
        found = [cluster.describe(name) for name in cluster.topics()]
    rows = [
        {
            "topic": each.name,
            "id": each.topic_id,
            "partitions": len(each.partitions),
            "records": each.records,
            "size_bytes": each.size_bytes,
        }
        for each in found
    ]
    show_rows(rows, ("topic", "id", "partitions", "records", "size_bytes"), empty="no topics")


@app.command()
def describe(topic: str = NAME) -> None:
    """A topic: its config, and each partition with its offsets, bytes, oldest and newest time, next retention cut."""
    with connect() as cluster:
        found = cluster.describe(topic)
        rows = _partition_rows(cluster, topic)
    document = {
        "topic": topic,
        "id": found.topic_id,
        "created_ms": found.created_ms,
        "records": found.records,
        "size_bytes": found.size_bytes,
        "config": [f"{key}={value}" for key, (value, origin) in found.config.items() if origin == "topic"],
    }
    if settings.json:
        config = {key: value for key, (value, _) in found.config.items()}
        show_document({**document, "config": config, "partitions": rows})
        return
    show_document(document)
    print()
    show_rows(rows, tuple(rows[0]))


def _partition_rows(cluster: Cluster, name: str) -> list[dict[str, object]]:
    from sparklog.core.plan import topic_of
    from sparklog.core.types import OffsetRange, TopicPartition

    rows: list[dict[str, object]] = []
    with cluster.connection.follower.current() as state:
        topic = topic_of(state, name)
        retention_ms = state.topic_config(topic).retention_ms
        for index in range(topic.partitions):
            found = state.partition(topic.topic_id, index)
            if found is None:
                raise AssertionError(f"{name} has no partition {index}")
            key = TopicPartition(topic.topic_id, found.partition)
            slices = state.slices.find(key, OffsetRange(found.log_start, found.next_offset)).columns
            any_left = len(slices["start"]) > 0
            cut_ms = int(slices["max_timestamp_us"][0]) // 1000 + retention_ms if any_left and retention_ms else None
            rows.append(
                {
                    "partition": index,
                    "leader": found.leader,
                    "epoch": found.leader_epoch,
                    "isr": list(found.isr),
                    "log_start": found.log_start,
                    "high_watermark": found.high_watermark,
                    "log_end": found.next_offset,
                    "size_bytes": found.size_bytes,
                    "segments": len(slices["start"]),
                    "oldest_ms": int(slices["min_timestamp_us"].min()) // 1000 if any_left else None,
                    "newest_ms": int(slices["max_timestamp_us"].max()) // 1000 if any_left else None,
                    "next_retention_cut_ms": cut_ms,
                }
            )
    return rows


@app.command()
def alter(
    topic: str = NAME,
    set_: list[str] = typer.Option([], "--set", "-s", metavar="KEY=VALUE", help="Set a config key."),
    delete: list[str] = typer.Option([], "--delete", "-d", metavar="KEY", help="Take a key away: its default holds."),
    dry_run: bool = DRY_RUN,
) -> None:
    """Change the config of a topic."""
    from sparklog.core.errors import InvalidOption
    from sparklog.core.topic_config import merge_topic_config

    changes: dict[str, object] = {**key_values(set_, "--set"), **dict.fromkeys(delete)}
    if not changes:
        raise InvalidOption("what is to change? give --set KEY=VALUE or --delete KEY")
    with connect() as cluster:
        before = {key: value for key, (value, origin) in cluster.describe(topic).config.items() if origin == "topic"}
        after = merge_topic_config(before, changes)
        if not dry_run:
            cluster.alter(topic, config=changes)
    shown = ", ".join(f"{key}={value}" for key, value in after.items()) or "only defaults"
    done(
        f"{'would set' if dry_run else 'set'} topic {topic} to {shown}",
        {"topic": topic, "config": after, "dry_run": dry_run},
    )


@app.command("add-partitions")
def add_partitions(
    topic: str = NAME,
    total: int = typer.Option(..., "--total", help="How many partitions there are to be."),
    dry_run: bool = DRY_RUN,
) -> None:
    """Raise the number of partitions. Records stay where they are; keys may go elsewhere from now on."""
    with connect() as cluster:
        before = len(cluster.describe(topic).partitions)
        if not dry_run:
            cluster.add_partitions(topic, total)
    done(
        f"topic {topic} {'would have' if dry_run else 'has'} {total} partitions, it had {before}",
        {"topic": topic, "partitions": total, "before": before, "dry_run": dry_run},
    )


@app.command()
def delete(topic: str = NAME, dry_run: bool = DRY_RUN) -> None:
    """Delete a topic. Its records are gone at once; its objects go with a retention run after file.delete.delay.ms."""
    with connect() as cluster:
        found = cluster.describe(topic)
        if not dry_run:
            cluster.delete_topic(topic)
    done(
        f"{'would delete' if dry_run else 'deleted'} topic {topic} with {found.records} records",
        {"topic": topic, "records": found.records, "size_bytes": found.size_bytes, "dry_run": dry_run},
    )


@app.command()
def offsets(
    topic: str = NAME,
    time: str = typer.Option(
        "latest", "--time", metavar="TIME", help="earliest, latest, max-timestamp, or ISO 8601 with a zone, or ms."
    ),
) -> None:
    """The offset of each partition at a time: the first record at or after it."""
    from sparklog.core.starting_offsets import parse_timestamp_us

    found: dict[int, int | None]
    with connect() as cluster:
        partitions = cluster.describe(topic).partitions
        match time:
            case "earliest":
                found = {each.partition: each.log_start for each in partitions}
            case "latest":
                found = {each.partition: each.high_watermark for each in partitions}
            case "max-timestamp":
                found = {each.partition: _at_max(cluster, topic, each.partition) for each in partitions}
            case _:
                at_us = parse_timestamp_us("--time", time)
                found = {each.partition: cluster.offset_for_time(topic, each.partition, at_us) for each in partitions}
    rows = [{"topic": topic, "partition": partition, "offset": offset} for partition, offset in found.items()]
    show_rows(rows, ("topic", "partition", "offset"))


def _at_max(cluster: Cluster, topic: str, partition: int) -> int | None:
    from sparklog.core.plan import partition_of, topic_of
    from sparklog.core.types import OffsetRange, TopicPartition

    with cluster.connection.follower.current() as state:
        found_topic = topic_of(state, topic)
        found = partition_of(state, found_topic, partition)
        key = TopicPartition(found_topic.topic_id, found.partition)
        stamps = state.slices.find(key, OffsetRange(found.log_start, found.high_watermark)).columns["max_timestamp_us"]
        newest = int(stamps.max()) if len(stamps) else None
    return None if newest is None else cluster.offset_for_time(topic, partition, newest)
