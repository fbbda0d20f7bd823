"""`sparklog chain …`: the metadata chain itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer
from msgspec import UNSET

from sparklog.cli.output import (
    connect,
    done,
    ending,
    print_json,
    print_values,
    show_document,
    table,
)
from sparklog.cli.settings import settings
from sparklog.core.readable import amount, counted

if TYPE_CHECKING:
    from sparklog.chain.entry import Entry
    from sparklog.core.records import CommandResult, PartitionsChanged, Record
    from sparklog.core.state import ClusterState

app = typer.Typer(help="Look into the metadata chain.", no_args_is_help=True)


@app.command(epilog=ending("sparklog chain tail -n 5", "sparklog chain tail -n 1 --format json"))
def tail(num: int = typer.Option(20, "--num", "-n", min=1, metavar="N", help="How many entries.")) -> None:
    """Show the newest entries: author, time, and what they did. JSON has one whole entry per line.

    Exit 5 if an entry is damaged; the others are still shown.
    """
    from sparklog.chain.stored_entries import stored_entry
    from sparklog.core.errors import ChainDamaged

    rows: list[dict[str, Any]] = []
    damaged: list[ChainDamaged] = []
    with connect() as cluster:
        follower = cluster.connection.follower
        with follower.current() as state:
            last, names = state.n, _names(state)
        for n in range(max(0, last - num + 1), last + 1):
            try:
                stored = stored_entry(follower.store, n)
            except ChainDamaged as error:  # a snapshot covers the entry: the state was built without it
                damaged.append(error)
                continue
            if stored is None:
                continue  # the entry was deleted: a snapshot covers it
            entry = stored.entry
            if settings.json:
                print_json(entry)
                continue
            rows.append(
                {
                    "n": n,
                    "time_ms": entry.time_ms,
                    "author": f"{entry.author.kind} {entry.author.name}",
                    "what": "; ".join(_summaries(entry, names)),
                }
            )
    if rows:
        print(table(rows))
    if damaged:
        raise damaged[0]


def _names(state: ClusterState) -> dict[int, str]:
    return {topic.topic_id: topic.name for topic in state.topics.values()}


def _summaries(entry: Entry, names: Mapping[int, str]) -> Iterator[str]:
    """Each record of the entry in a few words."""
    for command in entry.commands:
        for record in command.records:
            yield _summary(record, names)


def _summary(record: Record, names: Mapping[int, str]) -> str:
    from sparklog.core import records

    def place(topic_id: int, partition: int) -> str:
        return f"{names.get(topic_id, f'topic id {topic_id}')}-{partition}"

    match record:
        case records.ClusterCreated():
            return f"cluster {record.chain_id} created"
        case records.ClusterRestored():
            return f"cluster restored as {record.chain_id} from copies of the lost chain, up to its entry {record.last}"
        case records.StoreRegistered():
            return f"store {record.store} registered at {record.url}"
        case records.StoreFenced():
            return f"store {record.store} fenced"
        case records.StoreRemoved():
            return f"store {record.store} removed"
        case records.AgentChanged():
            if record.up is None:
                return f"agent of store {record.store} down, and the store takes writes"
            return f"agent of store {record.store} {'up' if record.up else 'down'}"
        case records.PartitionsChanged():
            return _changed(record, place)
        case records.TopicCreated():
            return f"topic {record.name} created with {counted(len(record.assignment), 'partition')}"
        case records.TopicAltered():
            return f"config of {names.get(record.topic_id, f'topic id {record.topic_id}')} set"
        case records.PartitionsAdded():
            added = counted(len(record.assignment), "partition")
            return f"{added} added to {names.get(record.topic_id, f'topic id {record.topic_id}')}"
        case records.TopicDeleted():
            return f"topic id {record.topic_id} deleted"
        case records.LossReported():
            lost, app_id = record.lost, record.application.app_id
            return f"{app_id} heard that of its version {lost.version} {', '.join(map(str, lost.records))} was lost"
        case records.Appended(ranges=()) if record.application is not None:
            return f"version {record.application.version} of {record.application.app_id} written, without records"
        case records.Appended() | records.AppendedByReference():
            count = counted(sum(range_.records for range_ in record.ranges), "record")
            first = record.ranges[0]
            more = f" and {len(record.ranges) - 1} more" if len(record.ranges) > 1 else ""
            size = amount(sum(range_.size_bytes for range_ in record.ranges))
            return f"{count}, {size} appended to {place(first.topic_id, first.partition)}{more}"
        case records.SlicesSwapped():
            where = f"{place(record.topic_id, record.partition)} [{record.start}, {record.end})"
            return f"{where} rewritten to {counted(len(record.objects), 'object')}"
        case records.LogStartMoved():
            return f"log start of {place(record.topic_id, record.partition)} moved to {record.to}"
        case records.ObjectsDeleted():
            return f"{counted(len(record.numbers), 'object')} deleted"
        case records.FloorRaised():
            return f"FLOOR raised to {record.floor}"
        case records.ApplicationsForgotten():
            return f"{counted(len(record.app_ids), 'application')} forgotten"
        case records.ProducerAllocated():
            return f"producer {record.producer_id} allocated, epoch {record.producer_epoch}"
        case records.CoordinationClaimed():
            return f"coordinated by {record.name} at {record.address}, epoch {record.epoch}"
        case records.CoordinationResigned():
            return f"the coordinator of epoch {record.epoch} resigned"
        case records.JobRan():
            return f"job {record.job} ran" + (
                f", {record.failed_partitions} failed" if record.failed_partitions else ""
            )


def _changed(record: PartitionsChanged, place: Callable[[int, int], str]) -> str:
    """Which partitions changed: the leader, or else who is in sync, of the first; and how many there are."""
    first, *more = record.changes
    what = ""
    if first.leader is not UNSET:
        what = f": led by {first.leader}" if first.leader is not None else ": without a leader"
    elif first.isr is not UNSET:
        what = f": in sync on {', '.join(first.isr) or 'none'}"
    where = f"{place(first.topic_id, first.partition)}{what}"
    return f"replicas of {where}" + (f" and {counted(len(more), 'more partition')}" if more else "")


@app.command(epilog=ending("sparklog chain state", "sparklog chain state --format json"))
def state() -> None:
    """Show the newest state of the chain in numbers."""
    with connect() as cluster, cluster.connection.follower.current() as state:
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
    """Write a snapshot of the state now. Opening the cluster then reads fewer entries."""
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
    """Show the outcome of a write. Exit 3 if the chain does not know it: it did not land, or is no longer kept.

    For a txnAppId, show its last version, which is kept until `cluster forget-applications`. If a write with an unknown
    outcome is not in the chain and FLOOR has not passed it, it did not land.
    """
    from sparklog.core.errors import InvalidOption, NotFound
    from sparklog.core.result_table import COMMAND_ID
    from sparklog.core.types import CommandId

    if not write_id:
        raise InvalidOption("ID: wanted a command id, a writeId or a txnAppId, found an empty one")
    with connect() as cluster, cluster.connection.follower.current() as state:
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
