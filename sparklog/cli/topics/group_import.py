"""`sparklog group import`: takes over the committed offsets of groups of a Kafka cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sparklog.cli.common_options import settings
from sparklog.cli.output import connect, done, ending, json_row
from sparklog.cli.properties_file import read_properties
from sparklog.core.describe.readable import counted, text_table
from sparklog.core.errors import InvalidOption, NonEmptyGroup

if TYPE_CHECKING:
    from sparklog.client.groups.kafka_groups import ImportedOffset

EPILOG = ending(
    "sparklog group import billing --from-kafka kafka:9092",
    "sparklog group import --all --from-kafka kafka:9092 --kafka-config librdkafka.properties --execute",
)


def import_groups(
    group: list[str] = typer.Argument(None, metavar="[GROUP]...", help="The groups, by their ids in Kafka."),
    from_kafka: str = typer.Option(..., "--from-kafka", metavar="HOST:PORT[,…]", help="The addresses of brokers."),
    everything: bool = typer.Option(False, "--all", help="All groups that have committed offsets of mirror topics."),
    topic: list[str] = typer.Option(
        [],
        "--topic",
        "-t",
        metavar="T",
        help="Only this topic; may be given several times. Default: all topics that are mirrors, or were.",
    ),
    kafka_config: str | None = typer.Option(
        None,
        metavar="FILE",
        help="A file of lines key=value with settings of librdkafka, such as security.protocol and sasl.password. They "
        "are never shown.",
    ),
    back: bool = typer.Option(False, "--back", help="Also take offsets that are lower than those here."),
    execute: bool = typer.Option(False, "--execute", help="Commit the offsets. Default: only show the plan."),
) -> None:
    """Take over the committed offsets of groups of Kafka. Without --execute, only show the plan.

    A group must have no members here; with --all, those that have some are left alone: they have moved already. An
    offset beyond the mirror becomes the end here: import again once the mirror has caught up, as often as needed, and a
    last time when the consumers in Kafka have stopped.
    """
    from sparklog.client.groups.kafka_groups import KafkaGroups, import_commands, planned_import

    groups = group or []
    if everything == bool(groups):
        raise InvalidOption("wanted GROUP or --all, found " + ("both" if everything else "neither"))
    given = {} if kafka_config is None else read_properties("--kafka-config", kafka_config)
    kafka = KafkaGroups({**given, "bootstrap.servers": from_kafka})
    with connect() as cluster:
        cluster_id = kafka.cluster_id()
        by_group = kafka.offsets(groups)
        state = cluster.connection.newest_state()
        rows: list[ImportedOffset] = []
        active: list[str] = []
        for name, offsets in by_group.items():
            try:
                of_group = planned_import(state, cluster_id, name, offsets, topic, back=back)
            except NonEmptyGroup:
                if not everything:
                    raise
                active.append(name)
                continue
            if not everything or any(row.taken for row in of_group):
                rows += of_group
        if execute:
            for command in import_commands(state, rows):
                cluster.submit(command)
    changed = sum(row.after is not None for row in rows)
    table = [json_row(row) for row in rows]
    if not settings.json and table:
        print(text_table(table))
    if not settings.json and active:
        print(f"left alone, because they have members here: {', '.join(active)}")
    what = f"{counted(changed, 'offset')} of {counted(len({row.group for row in rows}), 'group')}"
    sentence = f"imported {what}" if execute else f"would import {what}" + (": add --execute" if changed else "")
    done(sentence, {"rows": table, "active": active, "executed": execute})
