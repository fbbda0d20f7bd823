"""`sparklog replica …`: lists replicas with their stores and lag, moves them, and elects leaders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from sparklog.cli.common_options import DRY_RUN, settings
from sparklog.cli.completion import completed_topics
from sparklog.cli.output import connect, done, ending, json_row, print_json, show_rows
from sparklog.core.describe.readable import counted, text_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparklog.core.commands import Move
    from sparklog.core.describe.topic_rows import PartitionRow, ReplicaRow
    from sparklog.core.placement.replica_plans import PartitionOutcome

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
    from sparklog.core.describe.log_contents import log_contents
    from sparklog.core.describe.topic_rows import partition_rows
    from sparklog.core.lookup import topic_of
    from sparklog.core.placement.replica_health import is_offline, is_under_replicated

    with connect() as cluster:
        state = cluster.connection.newest_state()
        rows: list[PartitionRow] = []
        for of in [topic_of(state, name) for name in (sorted(state.topic_ids) if topic is None else [topic])]:
            wanted = [
                partition
                for partition in state.partitions_of(of)
                if (not offline or is_offline(partition.replication))
                and (not under_replicated or is_under_replicated(partition.replication))
            ]
            rows += partition_rows(state, of, wanted, log_contents(state, of))
        if settings.json:
            print_json([json_row(row) for row in rows])
            return
    shown = [_shown(row, replica) for row in rows for replica in row.replicas]
    show_rows(shown, empty="no such partitions" if topic or offline or under_replicated else "no topics")


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
        state = cluster.connection.newest_state()
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
        state = cluster.connection.newest_state()
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
        print(text_table(rows))
    done(message, document)


def _shown(row: PartitionRow, replica: ReplicaRow) -> dict[str, Any]:
    """Return a replica as the table shows it: the columns that fit on a line."""
    return {
        "topic": row.topic,
        "partition": row.partition,
        "leader_epoch": row.leader_epoch,
        "high_watermark": row.high_watermark,
        "store": replica.store,
        "zone": replica.zone,
        "role": replica.role,
        "log_end": replica.log_end,
        "lag_records": replica.lag_records,
        "lag_bytes": replica.lag_bytes,
    }


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
        "leader_epoch": outcome.after.leader_epoch,
        "lost_records": outcome.lost_records,
        "refused": None if outcome.refused is None else str(outcome.refused),
    }
