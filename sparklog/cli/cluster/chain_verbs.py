"""`sparklog chain …`: show the metadata chain, and write snapshots of its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from msgspec import to_builtins

from sparklog.cli.common_options import settings
from sparklog.cli.output import (
    connect,
    done,
    ending,
    print_json,
    print_values,
    print_warning,
    show_document,
)
from sparklog.core.describe.readable import text_table

if TYPE_CHECKING:
    from sparklog.core.records import CommandResult
    from sparklog.core.state import ClusterState

app = typer.Typer(help="Inspect the metadata chain.", no_args_is_help=True)


@app.command(
    epilog=ending("sparklog chain tail -n 5", "sparklog chain tail --all", "sparklog chain tail --format json")
)
def tail(
    num: int = typer.Option(20, "--num", "-n", min=1, metavar="N", help="The number of entries."),
    show_all: bool = typer.Option(
        False,
        "--all",
        help="Show each entry in a row of its own. Default: successive heartbeats share a row, and so do "
        "successive recovery points.",
    ),
) -> None:
    """Show the newest entries: author, time and effect. JSON has one complete entry per line.

    An entry that a fenced coordinator wrote is marked as ignored: it has no effect. Exit 5 if an entry is damaged; the
    others are still shown.
    """
    from sparklog.client.describe.chain_tail import QuietEntries, chain_tail, folded

    with connect() as cluster:
        follower = cluster.connection.follower
        state = follower.newest_state()
        read = chain_tail(follower.store, state, num)
    if settings.json:
        for shown in read.entries:
            print_json({**to_builtins(shown.entry), "ignored": shown.ignored})
    elif read.entries:
        rows: list[dict[str, Any]] = []
        for row in read.entries if show_all else folded(read.entries):
            if isinstance(row, QuietEntries):
                rows.append(
                    {"n": f"{row.first}-{row.last}", "time_ms": row.time_ms, "author": row.author, "what": row.what}
                )
                continue
            what = f"ignored, its coordinator was fenced: {row.what}" if row.ignored else row.what
            rows.append({"n": row.n, "time_ms": row.time_ms, "author": row.author, "what": what})
        print(text_table(rows))
    if read.deleted_before is not None:
        print_warning(
            f"older entries were deleted, up to {read.deleted_before - 1}: FLOOR and snapshots have passed them"
        )
    if read.damaged:
        raise read.damaged[0]


def _names(state: ClusterState) -> dict[int, str]:
    return {topic.topic_id: topic.name for topic in state.topics.values()}


@app.command(epilog=ending("sparklog chain state", "sparklog chain state --format json"))
def state() -> None:
    """Show the newest entry of the chain, FLOOR, the newest snapshot, and counts of what the state consists of."""
    with connect() as cluster:
        state = cluster.connection.newest_state()
        follower = cluster.connection.follower
        show_document(
            {
                "chain_id": state.chain_id,
                "n": state.n,
                "time_ms": state.time_ms,
                "entry_hash": follower.entry_hash,
                "floor": state.floor,
                "snapshot": follower.snapshot_n if follower.snapshot_n >= 0 else None,
                "topics": len(state.topics),
                "partitions": len(state.partitions),
                "slices": len(state.slices),
                "objects": len(state.objects),
                "retired_objects": len(state.retired),
                "producers": len(state.producers),
                "applications": len(state.applications),
                "results_kept": len(state.results),
            }
        )


@app.command(epilog=ending("sparklog chain snapshot"))
def snapshot() -> None:
    """Write a snapshot of the current state. Opening the cluster then reads fewer entries."""
    with connect() as cluster:
        n = cluster.connection.committer.snapshots.write()
    done(f"the newest snapshot is that of entry {n}", {"snapshot": n})


@app.command(
    epilog=ending("sparklog chain write 0f8b6a1c2d3e4f5061728394a5b6c7d8", "sparklog chain write nightly-import")
)
def write(
    write_id: str = typer.Argument(
        metavar="ID", help="A command id (an error with an unknown outcome names it), a writeId, or a txnAppId."
    ),
) -> None:
    """Show the outcome of a write. Exit 3 if the chain has none: the write did not land, or its outcome was dropped.

    The last version of a txnAppId is kept until `sparklog cluster forget-applications`. Other outcomes are dropped when
    FLOOR passes the chain position at which the write began. Until then, a write that is not found has not landed.
    """
    from sparklog.core.errors import InvalidOption, NotFound
    from sparklog.core.tables.result_table import COMMAND_ID
    from sparklog.core.types import CommandId

    if not write_id:
        raise InvalidOption("ID: wanted a command id, a writeId or a txnAppId, found an empty one")
    with connect() as cluster:
        state = cluster.connection.newest_state()
        applied = state.results.labelled(write_id)
        if COMMAND_ID.fullmatch(write_id) and (by_id := state.results.get(CommandId(write_id))) is not None:
            applied.append(by_id)
        rows = [
            _write(state, command_id, result)
            for command_id, result in cluster.connection.follower.results(applied)
            if write_id in (str(command_id), result.label)
        ]
        application = state.applications.get(write_id)
        if application is not None and not rows:
            rows = [_write(state, None, application.result)]
        if not rows:
            raise NotFound(
                f"wanted the write {write_id!r}, found no command, writeId or txnAppId of that name in the chain up to "
                f"entry {state.n} at {cluster.connection.url}: it did not land, or FLOOR ({state.floor}) has passed it"
            )
    if settings.json:
        print_json(rows)
        return
    for at, row in enumerate(rows):
        if at:
            print()
        print_values(row)


def _write(state: ClusterState, command_id: str | None, result: CommandResult) -> dict[str, Any]:
    names = _names(state)
    ranges = [
        {"topic": names.get(range_.topic_id), "partition": range_.partition, "start": range_.start, "end": range_.end}
        for range_ in result.ranges
    ]
    return {
        "command_id": command_id,
        "n": result.n,
        "time_ms": result.time_ms,
        "write_id": result.label or None,
        "txn_app_id": None if result.application is None else result.application.app_id,
        "txn_version": None if result.application is None else result.application.version,
        "records": result.records,
        "lost": None if result.lost is None else [str(lost) for lost in result.lost.records],
        "ranges": ranges
        if settings.json
        else [f"{range_['topic']}-{range_['partition']} [{range_['start']}, {range_['end']})" for range_ in ranges],
    }
