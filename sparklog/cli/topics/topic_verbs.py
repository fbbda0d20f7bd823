"""`sparklog topic …`: topics with their partitions, config and offsets by time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from sparklog.cli.changing import changed_by, show_change
from sparklog.cli.common_options import DRY_RUN, settings
from sparklog.cli.completion import completed_topics
from sparklog.cli.output import (
    connect,
    ending,
    json_row,
    now_ms,
    print_json,
    print_values,
    show_rows,
)
from sparklog.cli.times import time_us
from sparklog.core.describe.readable import text_table
from sparklog.core.errors import InvalidOption
from sparklog.options.key_value import assignment_of, config_changes, key_values

if TYPE_CHECKING:
    from sparklog.client.cluster import Cluster
    from sparklog.core.describe.topic_rows import PartitionRow
    from sparklog.core.state import Topic

app = typer.Typer(help="Create, describe, change and delete topics.", no_args_is_help=True)

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
NAME = typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completed_topics)
ASSIGNMENT = typer.Option(
    None,
    "--assignment",
    metavar="A:B,B:C,…",
    help="Choose the stores of each new partition, the preferred leader first. Separate partitions with commas and "
    "stores with colons.",
)


@app.command(
    epilog=ending(
        "sparklog topic create orders --partitions 6",
        "sparklog topic create orders -p 6 -c retention.ms=86400000 -c segment.bytes=134217728",
        "sparklog topic create orders --assignment a:b,b:c,c:a",
    )
)
def create(
    topic: str = NAME,
    partitions: int | None = typer.Option(
        None, "--partitions", "-p", metavar="N", help="Number of partitions. Default: the cluster's num.partitions."
    ),
    replication_factor: int | None = typer.Option(
        None,
        "--replication-factor",
        "-r",
        metavar="N",
        help="Number of stores that hold each partition. Default: the cluster's default.replication.factor.",
    ),
    topic_config: list[str] = typer.Option(
        [],
        "--topic-config",
        "-c",
        metavar="KEY=VALUE",
        help="A config key (docs/config.md); may be given several times.",
    ),
    assignment: str | None = ASSIGNMENT,
    dry_run: bool = DRY_RUN,
) -> None:
    """Create a topic. Its replicas are spread first over the zones, then evenly over the stores."""
    from sparklog.client.admin import by_hand
    from sparklog.core.commands import CreateTopic
    from sparklog.core.config.topic_config import parse_topic_config

    config = parse_topic_config(key_values(topic_config, "--topic-config"))
    stores = by_hand(assignment_of(assignment, "--assignment"))
    with connect() as cluster:
        change = changed_by(
            cluster, CreateTopic(topic, partitions, replication_factor, config, stores), dry_run=dry_run
        )
        placed, topic_id = [row["stores"] for row in change.rows], None
        if not dry_run:
            created = cluster.describe(topic)
            placed = [[on.store for on in partition.replicas] for partition in created.partitions]
            topic_id = created.topic_id
    document = {
        "topic": topic,
        "topic_id": topic_id,
        "partitions": len(placed),
        "assignment": placed,
        "config": config,
    }
    show_change(change, document, dry_run=dry_run)


@app.command("list", epilog=ending("sparklog topic list", "sparklog topic list --format json"))
def list_topics() -> None:
    """List all topics with their sizes."""
    from sparklog.core.describe.topic_rows import topic_row
    from sparklog.core.lookup import topic_of

    with connect() as cluster:
        state = cluster.connection.newest_state()
        rows = [json_row(topic_row(state, topic_of(state, name))) for name in sorted(state.topic_ids)]
    show_rows(rows, empty="no topics")


@app.command(epilog=ending("sparklog topic describe orders"))
def describe(topic: str = NAME) -> None:
    """Show the config, size and partitions of a topic.

    Each partition is shown with its offsets, bytes, oldest and newest time, and next cut: the earliest time at which
    retention removes some of its present records. If that time has passed, the next run of retention removes them. The
    table shows only the config keys that are set on the topic or the cluster; JSON has all of them.
    """
    from sparklog.core.describe.next_cut import next_cuts_ms
    from sparklog.core.describe.topic_rows import describe_topic
    from sparklog.core.lookup import topic_of

    with connect() as cluster:
        state = cluster.connection.newest_state()
        described = describe_topic(state, topic)
        cuts_ms = next_cuts_ms(state, topic_of(state, topic), now_ms())
    partitions = [
        {**json_row(row), "next_cut_ms": cut_ms} for row, cut_ms in zip(described.partitions, cuts_ms, strict=True)
    ]
    config = {key: of.value for key, of in described.config.items()}
    sources = {key: of.origin for key, of in described.config.items() if of.origin != "default"}
    document = {**json_row(described), "config": config, "config_set_by": sources, "partitions": partitions}
    if settings.json:
        print_json(document)
        return
    shown = [f"{key}={config[key]}{' (cluster)' if source == 'cluster' else ''}" for key, source in sources.items()]
    summary = {name: value for name, value in document.items() if name not in ("config_set_by", "partitions")}
    print_values({**summary, "config": shown or "only defaults"})
    print()
    print(text_table([_shown(row) for row in partitions]))


_COLUMNS: Final = (
    "partition",
    "leader",
    "leader_epoch",
    "replicas",
    "isr",
    "lag_records",
    "log_start",
    "high_watermark",
    "log_end",
    "records",
    "size_bytes",
    "segments",
    "oldest_ms",
    "newest_ms",
    "next_cut_ms",
)  # of the table of partitions


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a partition as the table shows it: with the stores of its replicas, and the lag of those that lag."""
    replicas = row["replicas"]
    behind = [f"{replica.store} {replica.lag_records}" for replica in replicas if replica.lag_records]
    shown = {**row, "replicas": [replica.store for replica in replicas], "lag_records": behind}
    return {name: shown[name] for name in _COLUMNS}


@app.command(
    epilog=ending(
        "sparklog topic alter orders --set retention.ms=604800000",
        "sparklog topic alter orders --delete retention.ms --dry-run",
    )
)
def alter(
    topic: str = NAME,
    set_: list[str] = typer.Option(
        [], "--set", "-s", metavar="KEY=VALUE", help="Set a config key; may be given several times."
    ),
    delete: list[str] = typer.Option(
        [], "--delete", "-d", metavar="KEY", help="Remove a config key, so that its default applies."
    ),
    dry_run: bool = DRY_RUN,
) -> None:
    """Change the config of a topic."""
    from sparklog.core.commands import AlterTopic
    from sparklog.core.config.topic_config import merge_topic_config, parse_topic_config

    changed = config_changes(set_, delete, parse_topic_config)
    with connect() as cluster:
        before = _topic(cluster, topic)
        change = changed_by(cluster, AlterTopic(before.topic_id, changed, tuple(delete)), dry_run=dry_run)
        config = (
            merge_topic_config(before.config, {**changed, **dict.fromkeys(delete)})
            if dry_run
            else _topic(cluster, topic).config
        )
    show_change(change, {"topic": topic, "config": config, "before": before.config}, dry_run=dry_run)


@app.command(
    "add-partitions",
    epilog=ending(
        "sparklog topic add-partitions orders --total 12 --dry-run",
        "sparklog topic add-partitions orders --total 8 --assignment a:b,b:c",
    ),
)
def add_partitions(
    topic: str = NAME,
    total: int = typer.Option(..., "--total", metavar="N", help="The new number of partitions."),
    assignment: str | None = ASSIGNMENT,
    dry_run: bool = DRY_RUN,
) -> None:
    """Add partitions. Existing records stay in place, but new records of a key may go to another partition."""
    from sparklog.client.admin import by_hand
    from sparklog.core.commands import AddPartitions

    stores = by_hand(assignment_of(assignment, "--assignment"))
    with connect() as cluster:
        before = _topic(cluster, topic)
        change = changed_by(cluster, AddPartitions(before.topic_id, total, stores), dry_run=dry_run)
    added = [row["stores"] for row in change.rows]
    document = {"topic": topic, "partitions": total, "before": before.partitions, "added": added}
    show_change(change, document, dry_run=dry_run)


@app.command(
    epilog=ending(
        "sparklog topic promote orders --dry-run",
        "sparklog topic promote orders --end 0=1200 --end 1=1187",
    )
)
def promote(
    topic: str = NAME,
    end: list[str] = typer.Option(
        [],
        "--end",
        metavar="PARTITION=OFFSET",
        help="The offset of the next record of this partition: Kafka's end offset. Default: where the log ends now. "
        "May be given several times.",
    ),
    dry_run: bool = DRY_RUN,
) -> None:
    """Turn a mirror topic into an ordinary one, permanently. The mirror job is fenced, and other writers may write.

    Each partition continues at its end in a new leader epoch. The offsets between its log end and a higher --end stay
    empty.
    """
    from sparklog.client.admin import promotion_of
    from sparklog.core.lookup import topic_of

    ends = _ends(end)
    with connect() as cluster:
        state = cluster.connection.newest_state()
        change = changed_by(cluster, promotion_of(state, topic_of(state, topic), ends), dry_run=dry_run)
    show_change(change, {"topic": topic, "partitions": change.rows}, dry_run=dry_run)


def _ends(given: Sequence[str]) -> dict[int, int]:
    """Parse PARTITION=OFFSET arguments. Raises InvalidOption."""
    ends: dict[int, int] = {}
    for partition, offset in key_values(given, "--end").items():
        if not (_NUMBER.fullmatch(partition) and _NUMBER.fullmatch(offset)) or int(partition) in ends:
            raise InvalidOption(f"--end: wanted PARTITION=OFFSET once for each partition, found {partition}={offset}")
        ends[int(partition)] = int(offset)
    return ends


@app.command(epilog=ending("sparklog topic delete orders --dry-run"))
def delete(topic: str = NAME, dry_run: bool = DRY_RUN) -> None:
    """Delete a topic. Its records are gone at once.

    Its objects are deleted by the first maintenance job, except verify, that runs after file.delete.delay.ms.
    """
    from sparklog.core.commands import DeleteTopic

    with connect() as cluster:
        deleted = cluster.describe(topic)
        change = changed_by(cluster, DeleteTopic(deleted.topic_id), dry_run=dry_run)
    document = {"topic": topic, "records": deleted.records, "size_bytes": deleted.size_bytes}
    show_change(change, document, dry_run=dry_run)


@app.command(
    epilog=ending(
        "sparklog topic offsets orders",
        "sparklog topic offsets orders --time earliest",
        "sparklog topic offsets orders --leader-epoch 3",
        "sparklog topic offsets orders --time 2026-01-31T00:00:00Z --format json",
    )
)
def offsets(
    topic: str = NAME,
    time: str = typer.Option(
        "latest",
        "--time",
        metavar="earliest|latest|max-timestamp|TIME",
        help="The first record, by offset, at or after TIME: ISO 8601 with a zone, ms since the epoch, or before now "
        "like -1h.",
    ),
    leader_epoch: int | None = typer.Option(
        None,
        min=0,
        metavar="N",
        help="Show the end of this leader epoch instead: the start of the next greater epoch, or the log end.",
    ),
) -> None:
    """Show one offset for each partition of a topic: at an end, at a time, or at the end of a leader epoch.

    --time earliest is the log start, latest the high watermark, max-timestamp the first record with the largest
    timestamp. The offset is empty if there is no such record, or if the leader epoch has not begun.
    """
    with connect() as cluster:
        partitions = cluster.describe(topic).partitions
        if leader_epoch is not None:
            show_rows(_epoch_ends(cluster, topic, len(partitions), leader_epoch), empty="no partitions")
            return
        match time:
            case "earliest":
                offsets: list[int | None] = [partition.log_start for partition in partitions]
            case "latest":
                offsets = [partition.high_watermark for partition in partitions]
            case "max-timestamp":
                offsets = [_at_newest(cluster, topic, partition) for partition in partitions]
            case _:
                at_us = time_us("--time (or earliest, latest, max-timestamp)", time)
                offsets = [cluster.offset_for_time(topic, partition.partition, at_us) for partition in partitions]
    rows = [
        {"topic": topic, "partition": partition.partition, "offset": offset}
        for partition, offset in zip(partitions, offsets, strict=True)
    ]
    show_rows(rows, empty="no partitions")


def _epoch_ends(cluster: Cluster, topic: str, partitions: int, leader_epoch: int) -> list[dict[str, object]]:
    """Return a row for each partition: an epoch and its end offset, from `Cluster.offsets_for_leader_epoch`.

    Both are None if the epoch `leader_epoch` has not begun in the partition.
    """
    rows: list[dict[str, object]] = []
    for partition in range(partitions):
        written = cluster.offsets_for_leader_epoch(topic, partition, leader_epoch)
        epoch, end = (None, None) if written is None else (written.leader_epoch, written.end)
        rows.append({"topic": topic, "partition": partition, "leader_epoch": epoch, "offset": end})
    return rows


def _at_newest(cluster: Cluster, topic: str, partition: PartitionRow) -> int | None:
    """Return the offset of the first record with the largest timestamp; None in an empty partition.

    Also None if the largest timestamp of a slice is that of a record below the log start or above the high watermark.
    """
    from sparklog.core.types import OffsetRange, TopicPartition

    state = cluster.connection.newest_state()
    key = TopicPartition(state.topic_ids[topic], partition.partition)
    readable = OffsetRange(partition.log_start, partition.high_watermark)
    newest = state.slices.find(key, readable).columns["max_timestamp_us"]
    newest_us = int(newest.max()) if len(newest) else None
    return None if newest_us is None else cluster.offset_for_time(topic, partition.partition, newest_us)


def _topic(cluster: Cluster, name: str) -> Topic:
    from sparklog.core.lookup import topic_of

    state = cluster.connection.newest_state()
    return topic_of(state, name)
