"""`sparklog replica …`: lists replicas with their stores and lag, moves them, and elects leaders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from sparklog.cli.common_options import DRY_RUN, settings
from sparklog.cli.completion import completed_topics
from sparklog.cli.output import connect, done, ending, print_json, show_rows, table
from sparklog.core.describe.readable import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparklog.core.commands import Move
    from sparklog.core.placement.replica_plans import PartitionOutcome
    from sparklog.core.placement.replica_status import ReplicaStatus
    from sparklog.core.state import ClusterState, Partition

app = typer.Typer(help="Show, move and elect replicas.", no_args_is_help=True)

PARTITION = typer.Option(
    None, "--partition", "-p", metavar="N", help="Only this partition. Default: all partitions of the topic."
)


@app.command(
    "list",
    epilog=ending(
        "sparklog replica list",
        "sparklog replica list --topic orders --under-replicated",
        "sparklog replica list --offline --format json",
    ),
)
def list_replicas(
    topic: str | None = typer.Option(None, "--topic", metavar="TOPIC", help="Only this topic. Default: all."),
    under_replicated: bool = typer.Option(
        False, "--under-replicated", help="Only partitions with a replica that is not in sync."
    ),
    offline: bool = typer.Option(False, "--offline", help="Only partitions without a leader."),
) -> None:
    """List replicas, in order of preference as leader.

    The lag is the number of records and bytes from a replica's end (LEO) to the end of the log. An "eligible" replica
    is not in sync, but it has every committed record, so it may lead. JSON has one object for each partition.
    """
    from sparklog.core.placement.replica_health import is_offline, is_under_replicated
    from sparklog.core.placement.replica_plans import partitions_named

    with connect() as cluster:
        state = cluster.connection.follower.newest_state()
        partitions = [
            partition
            for partition in partitions_named(state, topic)
            if (not offline or is_offline(partition.replication))
            and (not under_replicated or is_under_replicated(partition.replication))
        ]
        if settings.json:
            print_json([_document(state, partition) for partition in partitions])
            return
        rows = [row for partition in partitions for row in _rows(state, partition)]
    show_rows(rows, empty="no such partitions" if topic or offline or under_replicated else "no topics")


@app.command(
    epilog=ending(
        "sparklog replica move orders --to b,c,a",
        "sparklog replica move orders -p 0 --to b,c --dry-run",
        "sparklog replica move --off a",
        "sparklog replica move orders --cancel",
    )
)
def move(
    topic: str | None = typer.Argument(
        None,
        metavar="[TOPIC]",
        help="The topic. Default with --off or --cancel: all.",
        autocompletion=completed_topics,
    ),
    partition: int | None = PARTITION,
    to: str | None = typer.Option(
        None, "--to", metavar="ID,ID,…", help="The new stores of the replicas, the preferred leader first."
    ),
    off: str | None = typer.Option(
        None, "--off", metavar="ID", help="Move all replicas off this store to others, chosen by zone and load."
    ),
    cancel: bool = typer.Option(False, "--cancel", help="Cancel moves in progress and return to the old replicas."),
    dry_run: bool = DRY_RUN,
) -> None:
    """Move replicas to other stores, online.

    The agents of the new stores copy the data. The old replicas stay until all new ones are in sync; "replica list"
    shows the progress. If --to only reorders the stores, the preferred leader changes at once; "replica elect" then
    elects it. --cancel restores the old replicas, but those that the move would have kept come first. So one of these
    is then the preferred leader.
    """
    from sparklog.core.commands import MoveReplicas
    from sparklog.core.errors import InvalidOption
    from sparklog.core.placement.replica_plans import moves_back, moves_off, moves_to, outcomes, partitions_named
    from sparklog.core.types import StoreId

    if (to is not None) + (off is not None) + cancel != 1:
        raise InvalidOption("wanted exactly one of --to ID,ID,…, --off ID and --cancel")
    _check_topic_given(topic, partition, wanted_by="--to" if to is not None else None)
    with connect() as cluster:
        state = cluster.connection.follower.newest_state()
        chosen = partitions_named(state, topic, partition)
        if to is not None:
            moves: tuple[Move, ...] = moves_to(chosen, [StoreId(store) for store in to.split(",")])
        elif off is not None:
            moves = moves_off(state, StoreId(off), chosen)
        else:
            moves = moves_back(chosen)
        planned: list[PartitionOutcome] = []
        if moves:
            planned = outcomes(*cluster.connection.decided(MoveReplicas(moves)))
            if not dry_run:
                cluster.submit(MoveReplicas(moves))
    _show_plan(
        [_move_row(outcome) for outcome in planned],
        f"{'would move' if dry_run else 'moving'} the replicas of {counted(len(planned), 'partition')}",
        {"moves": [_move_row(outcome) for outcome in planned], "dry_run": dry_run},
    )


@app.command(
    epilog=ending(
        "sparklog replica elect",
        "sparklog replica elect orders --store b",
        "sparklog replica elect orders -p 0 --unclean --dry-run",
    )
)
def elect(
    topic: str | None = typer.Argument(
        None, metavar="[TOPIC]", help="The topic. Default: all.", autocompletion=completed_topics
    ),
    partition: int | None = PARTITION,
    store: str | None = typer.Option(
        None,
        "--store",
        metavar="ID",
        help="The store that should lead. Default: the preferred leader, the first replica.",
    ),
    unclean: bool = typer.Option(
        False,
        "--unclean",
        help="If no replica with every acknowledged record can be reached, elect the longest replica. Records that it "
        "lacks are lost.",
    ),
    yes: bool = typer.Option(False, "--yes", "-y", help="Don't ask for confirmation of an unclean election."),
    dry_run: bool = DRY_RUN,
) -> None:
    """Elect leaders: by default, each partition gets its preferred leader back.

    While the present leader can be reached, the new one must be in sync and have all of its records. Without --store, a
    partition whose leader can't be reached gets any replica that may lead. A partition whose election is refused stays
    unchanged and is shown with the reason. If all elections are refused, the command fails.
    """
    from sparklog.core.commands import ElectLeaders
    from sparklog.core.placement.replica_plans import (
        elections_of,
        outcomes_of_elections,
        partitions_named,
        preferred_elections,
    )
    from sparklog.core.types import StoreId

    _check_topic_given(topic, partition, wanted_by="--store" if store is not None else "--unclean" if unclean else None)
    with connect() as cluster:
        state = cluster.connection.follower.newest_state()
        chosen = partitions_named(state, topic, partition)
        elections = preferred_elections(state, chosen) if store is None else elections_of(StoreId(store), chosen)
        planned = outcomes_of_elections(state, elections, unclean=unclean)
        possible = [outcome for outcome in planned if outcome.refused is None]
        if planned and not possible:
            assert planned[0].refused is not None
            raise planned[0].refused
        if possible and not dry_run:
            if unclean and not yes:
                _confirm(possible)
            cluster.submit(ElectLeaders(elections, unclean))
    rows = [_election_row(outcome) for outcome in planned]
    _show_plan(
        rows,
        f"{'would elect' if dry_run else 'elected'} {counted(len(possible), 'leader')}"
        + (f", {len(planned) - len(possible)} refused" if len(possible) < len(planned) else "")
        + ("" if planned else ": every partition has its preferred leader"),
        {"elections": rows, "dry_run": dry_run},
    )


def _check_topic_given(topic: str | None, partition: int | None, wanted_by: str | None) -> None:
    from sparklog.core.errors import InvalidOption

    if topic is None and (partition is not None or wanted_by is not None):
        raise InvalidOption(f"{wanted_by if partition is None else '--partition'} needs TOPIC: give it too")


def _confirm(possible: Iterable[PartitionOutcome]) -> None:
    """Ask on the terminal to confirm an unclean election. Raises InvalidOption if stdin is not a terminal."""
    from sparklog.core.errors import InvalidOption

    lost = sum(outcome.lost_records for outcome in possible)
    if not _at_terminal():
        raise InvalidOption(f"an unclean election that may lose {counted(lost, 'acknowledged record')} needs --yes")
    typer.confirm(f"{counted(lost, 'acknowledged record')} will be lost. Elect anyway?", abort=True, err=True)


def _at_terminal() -> bool:
    return sys.stdin.isatty()


def _show_plan(rows: list[dict[str, Any]], message: str, document: dict[str, Any]) -> None:
    if rows and not settings.json:
        print(table(rows))
    done(message, document)


def _document(state: ClusterState, partition: Partition) -> dict[str, Any]:
    from msgspec import structs

    from sparklog.core.placement.replica_status import replica_statuses

    value = partition.replication
    return {
        "topic": state.topics[partition.topic_id].name,
        "partition": partition.partition,
        "leader": value.leader,
        "leader_epoch": value.leader_epoch,
        "version": value.version,
        "log_start": value.log_start,
        "high_watermark": value.high_watermark,
        "log_end": value.next_offset,
        "isr": value.isr,
        "elr": value.elr,
        "adding": value.adding,
        "removing": value.removing,
        "replicas": [structs.asdict(replica) for replica in replica_statuses(state, partition)],
    }


def _rows(state: ClusterState, partition: Partition) -> list[dict[str, Any]]:
    from sparklog.core.placement.replica_status import replica_statuses

    value = partition.replication
    return [
        {
            "topic": state.topics[partition.topic_id].name,
            "partition": partition.partition,
            "epoch": value.leader_epoch,
            "high_watermark": value.high_watermark,
            "store": replica.store,
            "zone": replica.zone or None,
            "role": _role(state, replica),
            "log_end": replica.log_end,
            "lag_records": replica.lag_records,
            "lag_bytes": replica.lag_bytes,
        }
        for replica in replica_statuses(state, partition)
    ]


def _role(state: ClusterState, replica: ReplicaStatus) -> str:
    """Return the role of a replica: leader, in sync, eligible or lagging.

    Words are appended: adding or removing during a move, and fenced or silent if the store can't be reached.
    """
    part = (
        "leader"
        if replica.is_leader
        else "in sync"
        if replica.in_isr
        else "eligible"
        if replica.may_lead
        else "lagging"
    )
    silent = "fenced" if state.stores[replica.store].fenced else "silent"
    more = {"adding": replica.adding, "removing": replica.removing, silent: not replica.reachable}
    return ", ".join([part, *(word for word, holds in more.items() if holds)])


def _move_row(outcome: PartitionOutcome) -> dict[str, Any]:
    return {
        "topic": outcome.topic,
        "partition": outcome.partition,
        "before": outcome.before.target,
        "after": outcome.after.target,
        "adding": outcome.after.adding,
        "removing": outcome.after.removing,
    }


def _election_row(outcome: PartitionOutcome) -> dict[str, Any]:
    return {
        "topic": outcome.topic,
        "partition": outcome.partition,
        "before": outcome.before.leader,
        "leader": outcome.after.leader,
        "epoch": outcome.after.leader_epoch,
        "lost_records": outcome.lost_records,
        "refused": None if outcome.refused is None else str(outcome.refused),
    }
