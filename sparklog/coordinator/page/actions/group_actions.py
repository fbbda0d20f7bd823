"""The plans of actions on consumer groups: reset their offsets, delete them."""

from __future__ import annotations

from typing import Final

from sparklog.client.groups.resets import ResetKind, ResetTarget, reset_command
from sparklog.coordinator.page.actions.action import Plan, Planning, command_line
from sparklog.core.commands import DeleteGroups
from sparklog.core.describe.planned_changes import planned_change
from sparklog.core.errors import InvalidOption
from sparklog.options.starting_offsets import parse_timestamp_us

TARGETS: Final = tuple(ResetKind)
_OF_NO_VALUE: Final = (ResetKind.EARLIEST, ResetKind.LATEST, ResetKind.CURRENT)


def plan_reset(planning: Planning) -> Plan:
    """Plan to reset the committed offsets of a group, all in one commit.

    Raises InvalidOption for a malformed field, the errors of `reset_command`, and those that the commit would raise.
    """
    state, group = planning.state, planning.wanted("group")
    topic, partition = planning.text("topic"), planning.number("partition")
    if partition is not None and not topic:
        raise InvalidOption("partition: wanted a topic with it, found none")
    target, option = _target(planning)
    topics, chosen = [topic] if topic else [], [] if partition is None else [partition]
    command = reset_command(state, planning.offset_for_time, group, target, topics, chosen)
    if command.offsets:
        planning.decided(command)
    options = [option, *(["--topic", topic] if topic else [])]
    options += [] if partition is None else ["--partition", str(partition)]
    return Plan(planned_change(state, command, ()), command_line("group reset", group, *options, "--execute"))


def plan_delete_group(planning: Planning) -> Plan:
    """Plan the deletion of a group and its offsets.

    Raises InvalidOption (no name), GroupIdNotFound, NonEmptyGroup.
    """
    name = planning.wanted("group")
    return Plan(planning.changed_by(DeleteGroups((name,))), command_line("group delete", name))


def _target(planning: Planning) -> tuple[ResetTarget, str]:
    """The position to which the form resets offsets, and the option of `sparklog group reset` for this position.

    Raises InvalidOption if a field is malformed.
    """
    text, value = planning.wanted("to"), planning.text("value")
    if text not in TARGETS:
        raise InvalidOption(f"to: wanted one of {', '.join(TARGETS)}, found {text[:30]!r}")
    kind = ResetKind(text)
    if kind in _OF_NO_VALUE:
        if value:
            raise InvalidOption(f"value: {kind} takes none, found {value[:30]!r}")
        return ResetTarget(kind), f"--{kind}"
    if kind is ResetKind.DATETIME:
        return ResetTarget(kind, parse_timestamp_us("value", planning.wanted("value"))), f"--{kind}={value}"
    number = planning.number("value")
    if number is None or (number < 0 and kind is ResetKind.OFFSET):
        least = "an offset from 0" if kind is ResetKind.OFFSET else "the number of offsets to go forward, or back by -N"
        raise InvalidOption(f"value: wanted {least}, found {value[:30]!r}")
    return ResetTarget(kind, number), f"--{kind}={number}"
