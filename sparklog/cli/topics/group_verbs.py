"""`sparklog group`: consumer groups, their progress, and resets of their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from sparklog.cli.changing import changed_by, show_change
from sparklog.cli.command_line import STYLE
from sparklog.cli.common_options import DRY_RUN, settings
from sparklog.cli.completion import completed_groups
from sparklog.cli.output import connect, done, ending, json_row, print_json, print_values, show_rows
from sparklog.cli.times import period_ago_us, time_us
from sparklog.cli.topics import group_import
from sparklog.core.describe.readable import counted, text_table
from sparklog.core.errors import InvalidOption

if TYPE_CHECKING:
    from sparklog.client.groups.resets import ResetTarget
    from sparklog.core.describe.group_rows import MemberRow

app = typer.Typer(help="Show, reset and delete consumer groups: committed offsets, lag and members.", **STYLE)
_TARGETS: Final = (
    "--to-earliest, --to-latest, --to-current, --to-offset N, --to-datetime TIME, --by-duration PERIOD, --shift-by N"
)


@app.command("list", epilog=ending("sparklog group list"))
def list_groups() -> None:
    """List the consumer groups, with their members and lag."""
    from sparklog.core.describe.group_rows import group_row
    from sparklog.core.groups.lag import group_lags

    with connect() as cluster:
        state = cluster.connection.newest_state()
    lags = group_lags(state)
    show_rows([json_row(group_row(lags.of(state.groups[name]))) for name in sorted(state.groups)], empty="no groups")


@app.command(epilog=ending("sparklog group describe billing", "sparklog group describe billing --format json"))
def describe(group: str = typer.Argument(metavar="GROUP", help="The group.", autocompletion=completed_groups)) -> None:
    """Show a group: committed offset, end and lag of each partition, and its members.

    The end of a partition is its high watermark; the lag is the number of offsets from the committed offset to the end.
    No lag is shown for a partition without a committed offset, even if a member reads it.
    """
    with connect() as cluster:
        described = cluster.describe_group(group)
    members, partitions = map(json_row, described.members), map(json_row, described.partitions)
    document = {**json_row(described), "members": list(members), "partitions": list(partitions)}
    if settings.json:
        print_json(document)
        return
    counts = {"members": len(described.members), "partitions": len(described.partitions)}
    print_values({**document, **counts})
    if described.partitions:
        print(f"\n{text_table(document['partitions'])}")
    if described.members:
        print(f"\n{text_table([_member(member) for member in described.members])}")


@app.command(
    epilog=ending(
        "sparklog group reset billing --to-earliest",
        "sparklog group reset billing --topic orders --partition 0 --to-offset 1200 --execute",
        "sparklog group reset billing --to-datetime 2026-01-31T00:00:00Z --execute",
        "sparklog group reset billing --by-duration PT1H30M --execute",
        "sparklog group reset billing --shift-by=-100 --execute",
    )
)
def reset(
    group: str = typer.Argument(
        metavar="GROUP", help="The group. It must have no active members.", autocompletion=completed_groups
    ),
    to_earliest: bool = typer.Option(False, "--to-earliest", help="To the log start: read all records again."),
    to_latest: bool = typer.Option(False, "--to-latest", help="To the end: skip all existing records."),
    to_current: bool = typer.Option(
        False,
        "--to-current",
        help="To the committed offset, or to the end where none is committed: for a group that gets more topics.",
    ),
    to_offset: int | None = typer.Option(None, min=0, metavar="N", help="To this offset."),
    to_datetime: str | None = typer.Option(
        None,
        metavar="TIME",
        help="To the first record at or after a time: ISO 8601 with a zone, ms, or before now like -1h.",
    ),
    by_duration: str | None = typer.Option(
        None, metavar="PERIOD", help="To the first record of the last period, as in P7D or PT1H30M (ISO 8601)."
    ),
    shift_by: int | None = typer.Option(None, metavar="N", help="Forward by N offsets, or back by -N."),
    topic: list[str] = typer.Option(
        [],
        "--topic",
        metavar="TOPIC",
        help="Only this topic, with all its partitions; may be given several times. Default: all partitions with "
        "committed offsets.",
    ),
    partition: list[int] = typer.Option(
        [],
        "--partition",
        "-p",
        min=0,
        metavar="P",
        help="Only this partition of the topic; may be given several times.",
    ),
    execute: bool = typer.Option(False, "--execute", help="Reset the offsets. Default: only show the plan."),
) -> None:
    """Set the offsets at which a group continues. Without --execute, only show the plan.

    An offset outside the log becomes the log start or the end. All partitions are set in one commit.
    """
    from sparklog.client.groups.resets import reset_command
    from sparklog.core.describe.planned_changes import planned_change

    target = _target(to_earliest, to_latest, to_current, to_offset, to_datetime, by_duration, shift_by)
    if partition and len(topic) != 1:
        raise InvalidOption("--partition needs exactly one --topic")
    with connect() as cluster:
        state = cluster.connection.newest_state()
        change = planned_change(
            state, reset_command(state, cluster.offset_for_time, group, target, topic, partition), ()
        )
        if execute:
            for command in change.commands:
                cluster.submit(command)
    if not settings.json and change.rows:
        print(text_table(change.rows))
    sentence = change.done if execute else f"{change.would}: add --execute"
    done(sentence, {"group": group, "partitions": change.rows, "executed": execute})


app.command("import", epilog=group_import.EPILOG)(group_import.import_groups)


@app.command(epilog=ending("sparklog group delete billing --dry-run", "sparklog group delete billing audit"))
def delete(
    groups: list[str] = typer.Argument(
        metavar="GROUP…", help="Groups without active members.", autocompletion=completed_groups
    ),
    dry_run: bool = DRY_RUN,
) -> None:
    """Delete groups and all their offsets. If one of the groups can't be deleted, none is."""
    from sparklog.core.commands import DeleteGroups

    with connect() as cluster:
        change = changed_by(cluster, DeleteGroups(tuple(groups)), dry_run=dry_run)
    show_change(change, {"deleted": groups}, dry_run=dry_run)


@app.command(epilog=ending("sparklog group evict billing consumer-0f3a"))
def evict(
    group: str = typer.Argument(metavar="GROUP", help="The group.", autocompletion=completed_groups),
    member: str = typer.Argument(metavar="MEMBER", help="The member's id, which describe shows."),
) -> None:
    """Remove a member from its group at once. Use this if the member's process is gone.

    Usually the other members or a coordinator evict such a member after its session timeout. If the group has no other
    member and no coordinator is in force, use this command. If the member still works, its next commit is refused, and
    it joins again.
    """
    from sparklog.core.commands import LeaveGroup

    with connect() as cluster:
        cluster.submit(LeaveGroup(group, member))
        left = len(cluster.describe_group(group).members)
    done(f"evicted {member}, {counted(left, 'member')} left", {"group": group, "evicted": member, "members": left})


def _member(member: MemberRow) -> dict[str, Any]:
    """Return a member as the table shows it."""
    shown = {**json_row(member), "session_timeout": f"{member.session_timeout_ms / 1000:g} s"}
    del shown["session_timeout_ms"]
    return shown


def _target(
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
) -> ResetTarget:
    """Return the target that the options give.

    Raises InvalidOption unless exactly one of them is given, or if `to_datetime` or `by_duration` is malformed.
    """
    from sparklog.client.groups.resets import ResetKind, ResetTarget

    given = []
    if to_earliest:
        given.append(ResetTarget(ResetKind.EARLIEST))
    if to_latest:
        given.append(ResetTarget(ResetKind.LATEST))
    if to_current:
        given.append(ResetTarget(ResetKind.CURRENT))
    if to_offset is not None:
        given.append(ResetTarget(ResetKind.OFFSET, to_offset))
    if to_datetime is not None:
        given.append(ResetTarget(ResetKind.DATETIME, time_us("--to-datetime", to_datetime)))
    if by_duration is not None:
        given.append(ResetTarget(ResetKind.DATETIME, period_ago_us("--by-duration", by_duration)))
    if shift_by is not None:
        given.append(ResetTarget(ResetKind.SHIFT, shift_by))
    if len(given) != 1:
        raise InvalidOption(f"wanted exactly one of {_TARGETS}, found {len(given)}")
    return given[0]
