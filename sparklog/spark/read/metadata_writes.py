"""The rows of `metadata=writes`: the writes that the chain still keeps. Tasks read them from entries of the chain.

The state names the entries to read: those of all commands that began at FLOOR or later. The last write of an
application may be in none of these entries. The state itself keeps that write, so no entry is read for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import astuple

from sparklog.chain.follow.follower import Follower
from sparklog.chain.follow.read_entries import results_in
from sparklog.core.records import CommandResult
from sparklog.core.state import ClusterState
from sparklog.core.types import CommandId, EntryNumber
from sparklog.log.cluster_stores import StoreAddresses, open_metadata
from sparklog.spark.read.metadata_tables import WriteRow
from sparklog.spark.read.row_columns import Row
from sparklog.storage.config_file import settings_here

ENTRIES_PER_TASK: Final = 1_024


class WritesToRead(msgspec.Struct, frozen=True):
    """The work of one task: the entries to read, and writes that the state itself has.

    `commands`: for each entry to read, the ids of its commands that the state keeps. `applications`: (app id, version)
    of the last writes of applications in these entries. `others`: the last writes of applications that are in none of
    the entries that tasks read; the state has kept these writes. `topics`: the names of topics, by id.
    """

    addresses: StoreAddresses
    topics: dict[int, str]
    commands: dict[EntryNumber, list[CommandId]] = {}
    applications: frozenset[tuple[str, int]] = frozenset()
    others: tuple[CommandResult, ...] = ()


def plan_writes(state: ClusterState, addresses: StoreAddresses) -> list[WritesToRead]:
    """Return tasks that together yield each write once. `addresses`: of the stores.

    The tasks divide the entries to read, in the order of the chain. The last write of an application may be in none of
    these entries. The state has kept such writes, so one more task at the end yields them without reading an entry.
    """
    commands: dict[EntryNumber, list[CommandId]] = defaultdict(list)
    for applied in sorted(state.results, key=lambda applied: applied.n):
        commands[applied.n].append(applied.command_id)
    topics = {int(topic.topic_id): topic.name for topic in state.topics.values()}
    last: dict[EntryNumber, list[tuple[str, int]]] = defaultdict(list)
    others = []
    for app_id, application in state.applications.items():
        if application.result.n in commands:
            last[application.result.n].append((app_id, application.version))
        else:
            others.append(application.result)
    tasks = []
    entries = iter(commands.items())
    while chunk := dict(islice(entries, ENTRIES_PER_TASK)):
        applications = frozenset(write for n in chunk for write in last.get(n, ()))
        tasks.append(WritesToRead(addresses, topics, chunk, applications))
    return [*tasks, WritesToRead(addresses, topics, others=tuple(others))] if others else tasks


def rows_of_writes(wanted: WritesToRead) -> Iterator[Row]:
    """The rows of one task. Raises ChainDamaged, StoreUnavailable."""
    remembered = {command_id for commands in wanted.commands.values() for command_id in commands}
    follower = Follower(open_metadata(wanted.addresses.cluster, settings_here(wanted.addresses.settings)))
    for command, result in results_in(follower.entries(wanted.commands)):
        written = result.application
        is_last = written is not None and (written.app_id, written.version) in wanted.applications
        if command.command_id in remembered or is_last:
            yield from _rows(command.command_id, result, wanted.topics)
    for result in wanted.others:
        yield from _rows(None, result, wanted.topics)


def _rows(command_id: CommandId | None, result: CommandResult, topics: Mapping[int, str]) -> Iterator[Row]:
    application = result.application
    for range_ in result.ranges:
        row = WriteRow(
            write_id=result.label or None,
            command_id=command_id,
            app_id=None if application is None else application.app_id,
            app_version=None if application is None else application.version,
            topic=topics.get(range_.topic_id),
            topic_id=range_.topic_id,
            partition=range_.partition,
            start=range_.start,
            end=range_.end,
            records=range_.records,
            size_bytes=range_.size_bytes,
            time_ms=result.time_ms,
            entry=result.n,
        )
        yield astuple(row)
