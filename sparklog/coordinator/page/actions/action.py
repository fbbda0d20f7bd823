"""The parts of an action: its form, and its plan: a change, and an equivalent command line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

import msgspec

from sparklog.chain.commit.committer import new_command_id
from sparklog.core.access import Principal
from sparklog.core.commands import Command, Submission
from sparklog.core.decide.command import decide
from sparklog.core.describe.planned_changes import Described, PlannedChange, planned_change
from sparklog.core.errors import InvalidOption
from sparklog.core.records import At, Record
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber

_DIGITS = 19


class Field(msgspec.Struct, frozen=True):
    """An input of a form, for one parameter of the address.

    `choices`: the values to choose from; `is_long`: an input of several lines.
    """

    name: str
    label: str
    hint: str = ""
    choices: tuple[str, ...] = ()
    is_long: bool = False


class Plan(msgspec.Struct, frozen=True):
    """The change that an action would make to the present state, and the command line that does the same."""

    change: PlannedChange
    command_line: str


class Planning(msgspec.Struct, frozen=True):
    """The input of a plan. `given`: the parameters of the page's address, with a value for each field of the form.

    `offset_for_time(topic, partition, time_us)` returns the offset of the first record with a timestamp at or after
    that time, or None if there is none. It reads objects.
    """

    state: ClusterState
    now_ms: int
    given: Mapping[str, str]
    offset_for_time: Callable[[str, int, int], int | None]

    def text(self, name: str) -> str:
        """The parameter `name`, without the blanks around it; "" if it is absent."""
        return self.given.get(name, "").strip()

    def wanted(self, name: str) -> str:
        """The parameter `name`, without the blanks around it. Raises InvalidOption if it is absent or empty."""
        text = self.text(name)
        if not text:
            raise InvalidOption(f"{name}: wanted a value, found none")
        return text

    def number(self, name: str) -> int | None:
        """The parameter `name` as a number, which may be negative; None if it is absent or empty.

        Raises InvalidOption if it is not a number.
        """
        text = self.text(name)
        digits = text.removeprefix("-")
        if not text:
            return None
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS):
            raise InvalidOption(f"{name}: wanted a number, found {text[:30]!r}")
        return int(text)

    def lines(self, name: str) -> list[str]:
        """The lines of the parameter `name`, except blank ones, without the blanks around each."""
        return [line.strip() for line in self.text(name).splitlines() if line.strip()]

    def decided(self, command: Command) -> tuple[Record, ...]:
        """The records that the chain would get if the command were committed now.

        Raises the errors that the commit would raise.
        """
        submission = Submission(new_command_id(), self.state.n0, command)
        return decide(self.state, submission, At(EntryNumber(self.state.n + 1), self.now_ms)).records

    def changed_by(self, command: Described) -> PlannedChange:
        """The change that a commit of the command would make now. Raises the errors that the commit would raise."""
        return planned_change(self.state, command, self.decided(command))


class Action(msgspec.Struct, frozen=True):
    """An action on the web pages. `of` is "topic" or "group", or "" for an action on neither.

    `may(principal, state, name)` is a first check of the right to perform the action on the topic or group `name`. More
    rights are checked once there is a plan. If `changes` is false, the action only shows a plan.
    """

    name: str
    title: str
    text: str
    of: str
    fields: tuple[Field, ...]
    plan: Callable[[Planning], Plan]
    may: Callable[[Principal, ClusterState, str], bool]
    changes: bool = True

    @property
    def listed(self) -> str:
        """The section of the pages that the action belongs to: groups, topics or jobs."""
        return "groups" if self.of == "group" else "topics" if self.changes else "jobs"


def command_line(words: str, name: str = "", *options: str) -> str:
    """The command line `sparklog WORDS NAME OPTIONS`, quoted for a shell.

    If the name begins with a dash, it comes last, after `--`.
    """
    if name.startswith("-"):
        return f"sparklog {words} {shlex.join([*options, '--', name])}"
    return f"sparklog {words} {shlex.join([*([name] if name else []), *options])}".rstrip()
