"""The newest entries of the chain, as `sparklog chain tail` and the page of a coordinator show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sparklog.chain.entry import Entry
from sparklog.chain.follow.ignored_entries import ignored_entries
from sparklog.chain.follow.stored_entries import deleted_blocks, stored_entry
from sparklog.core.describe.readable import counted
from sparklog.core.describe.record_summary import summary
from sparklog.core.errors import ChainDamaged
from sparklog.core.records import CoordinationClaimed, OffsetsCommitted, Record, RecoveryPointMoved
from sparklog.core.state import ClusterState
from sparklog.storage.keys import block_entries, entry_block
from sparklog.storage.object_store import ObjectStore

_Kind = tuple[str, str]  # a noun, and the words after it


@dataclass(frozen=True, slots=True)
class TailEntry:
    """An entry, and a text for each of its records. `ignored`: a fenced coordinator wrote it, so it has no effect."""

    entry: Entry
    records: tuple[str, ...]
    ignored: bool

    @property
    def n(self) -> int:
        """The number of the entry."""
        return self.entry.n

    @property
    def time_ms(self) -> int:
        """Time at which the entry was written, by its author's clock, in ms."""
        return self.entry.time_ms

    @property
    def what(self) -> str:
        """The texts of all records of the entry, joined by "; "."""
        return "; ".join(self.records)

    @property
    def author(self) -> str:
        """The kind and the name of the entry's author, with a space in between."""
        return f"{self.entry.author.kind} {self.entry.author.name}"


@dataclass(frozen=True, slots=True)
class ChainTail:
    """The newest entries, in ascending order. `damaged`: the errors of entries that can't be read.

    A snapshot covers the unreadable entries, so the state is right without them.
    `deleted_before`: all requested entries below this number were deleted as old; None if none was deleted.
    """

    entries: list[TailEntry]
    damaged: list[ChainDamaged]
    deleted_before: int | None = None


@dataclass(frozen=True, slots=True)
class QuietEntries:
    """The quiet entries (see `folded`) from `first` to `last`, of one author, as one row. `time_ms`: time of `last`.

    `what`: a text that counts the records of these entries by kind.
    """

    first: int
    last: int
    time_ms: int
    author: str
    what: str


def folded(entries: Sequence[TailEntry]) -> list[TailEntry | QuietEntries]:
    """Return the entries, with two or more consecutive quiet entries of one author folded into one row.

    A quiet entry only says that a coordinator still leads, that members of groups are alive, or that recovery points
    have moved.
    """
    leading: set[tuple[str, int]] = set()
    rows: list[TailEntry | QuietEntries] = []
    run: list[TailEntry] = []
    kinds: Counter[_Kind] = Counter()  # of the records of the run
    for shown in entries:
        records = [record for command in shown.entry.commands for record in command.records]
        own = [_quiet_kind(record, leading) for record in records]
        leading.update((record.name, record.epoch) for record in records if isinstance(record, CoordinationClaimed))
        is_quiet = bool(own) and None not in own and not shown.ignored
        if not is_quiet or (run and run[-1].author != shown.author):
            rows += _folded_run(run, kinds)
            run, kinds = [], Counter()
        if is_quiet:
            run.append(shown)
            kinds.update(kind for kind in own if kind is not None)
        else:
            rows.append(shown)
    return [*rows, *_folded_run(run, kinds)]


def _quiet_kind(record: Record, leading: Collection[tuple[str, int]]) -> _Kind | None:
    """Return the kind of a quiet record (see `folded`), to be counted by; None for any other record.

    `leading`: name and epoch of each coordinator that has a CLAIM in an earlier entry. A first CLAIM is not quiet.
    """
    match record:
        case CoordinationClaimed() if (record.name, record.epoch) in leading:
            return "heartbeat", " of the coordinator"
        case OffsetsCommitted(offsets=()):
            return "heartbeat", " of members of groups"
        case RecoveryPointMoved():
            return "move", " of recovery points"
    return None


def _folded_run(run: Sequence[TailEntry], kinds: Counter[_Kind]) -> list[TailEntry | QuietEntries]:
    if len(run) < 2:
        return list(run)
    what = ", ".join(f"{counted(number, noun)}{of}" for (noun, of), number in kinds.most_common())
    return [QuietEntries(run[0].n, run[-1].n, run[-1].time_ms, run[-1].author, what)]


def chain_tail(
    store: ObjectStore, state: ClusterState, num: int, known: Mapping[int, Entry] | None = None
) -> ChainTail:
    """The last `num` entries up to entry `state.n`, without those that were deleted as old.

    `known`: entries that were read before, by number; they are not read again. Raises StoreUnavailable.
    """
    names: dict[int, str] = {topic.topic_id: topic.name for topic in state.topics.values()}
    entries: list[Entry] = []
    damaged: list[ChainDamaged] = []
    numbers = range(max(0, state.n - num + 1), state.n + 1)
    for n in numbers:
        try:
            entry = _entry(store, known or {}, n)
        except ChainDamaged as error:  # a snapshot covers the entry: the state was built without it
            damaged.append(error)
        else:
            if entry is not None:
                entries.append(entry)
    deleted = deleted_blocks(store, (n for n in numbers if n not in (known or {})))
    entries = [entry for entry in entries if entry_block(entry.n) not in deleted]
    deleted_before = block_entries(max(deleted)).stop if deleted else None
    ignored = ignored_entries(entries, state.coordinator, partial(_readable, store)) if entries else frozenset()
    return ChainTail(
        [TailEntry(entry, _records(entry, names), entry.n in ignored) for entry in entries], damaged, deleted_before
    )


def _entry(store: ObjectStore, known: Mapping[int, Entry], n: int) -> Entry | None:
    entry = known.get(n)
    if entry is None:
        stored = stored_entry(store, n)
        entry = None if stored is None else stored.entry
    return entry


def _readable(store: ObjectStore, n: int) -> Entry | None:
    try:
        return _entry(store, {}, n)
    except ChainDamaged:
        return None


def _records(entry: Entry, names: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(summary(record, names) for command in entry.commands for record in command.records)
