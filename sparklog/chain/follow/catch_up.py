"""Catching up: from one head to the newest head at the time of the call, or a newer one.

A round reads the entries after the head, then looks for the void marks of their blocks, then fetches the bodies that
the entries name by reference. Only then do the entries take effect. If a block has a void mark, or a body was deleted
as old, a newer snapshot is loaded. A failed round changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparklog.chain.chain_requests import ChainMachine, Get, LoadSnapshot, check_answered, many
from sparklog.chain.commit.command_body import append_of
from sparklog.chain.damaged_chain import PUT_BACK, damage
from sparklog.chain.entry import Entry, decode_entry
from sparklog.chain.head import Draft, Head
from sparklog.core.commands import Append
from sparklog.core.errors import ChainDamaged, InconsistentClusterId, SparklogError
from sparklog.core.records import AppendedByReference, AppliedCommand
from sparklog.core.types import CommandId
from sparklog.storage.keys import command_key, entry_block, entry_key, void_key

READ_WIDTH = 32  # entries requested at once while there is a backlog
ROUND_ENTRIES = 2_048  # a round ends after this many entries,
ROUND_BYTES = 64 << 20  # or when they have this many bytes together


def caught_up(head: Head, url: str, *, next_body: bytes | None = None, reload: bool = False) -> ChainMachine[Head]:
    """Return a head that includes everything written before the call. `url` is for messages.

    `next_body`: the body of the next entry, if it is already known. `reload`: the block after the head has a void mark,
    so begin with a newer snapshot. Raises ChainDamaged, InconsistentClusterId (another cluster is at the address),
    UnsupportedVersion, and the store's errors.
    """
    bodies = [] if next_body is None else [next_body]
    if reload or head.n < 0:
        newer = yield from _snapshot(head, url, _uncovered(head, url) if reload else None)
        if newer is not head:
            head, bodies = newer, []  # the known body is older than the snapshot
    while True:
        is_at_end = yield from _read(head, bodies)
        ahead = yield from _applied(head, bodies, url)
        if isinstance(ahead, ChainDamaged):
            head = yield from _snapshot(head, url, ahead)
        elif is_at_end:
            return ahead
        else:
            head = ahead  # read only up to the end seen at the start: chasing a faster writer would never finish
        bodies.clear()


def _snapshot(head: Head, url: str, unless: ChainDamaged | None) -> ChainMachine[Head]:
    """Load the newest snapshot, and return its head if that is newer than `head`.

    Otherwise raise `unless`, or return `head` if `unless` is None. Raises InconsistentClusterId if the snapshot is of
    another cluster.
    """
    loaded, _ = yield LoadSnapshot()
    if isinstance(loaded, SparklogError):
        raise loaded
    if isinstance(loaded, Head):
        if head.n >= 0 and loaded.state.chain_id != head.state.chain_id:
            raise InconsistentClusterId(
                f"cluster {head.state.chain_id} is no longer at {url}, found cluster {loaded.state.chain_id}: it was "
                "deleted and created again; connect again"
            )
        if loaded.n > head.n:
            return loaded
    if unless is not None:
        raise unless
    return head


def _read(head: Head, bodies: list[bytes]) -> ChainMachine[bool]:
    """Append the bodies of the next entries to `bodies`, which may already have the first ones after `head`.

    The first two entries are read one by one, later ones READ_WIDTH at once. Returns True at the end of the chain,
    False if the round has enough entries or bytes.
    """
    while True:
        first = head.n + 1 + len(bodies)
        width = 1 if len(bodies) < 2 else READ_WIDTH
        for body in (yield from many([entry_key(n) for n in range(first, first + width)])):
            if body is None:
                return True
            bodies.append(body)
        if len(bodies) >= ROUND_ENTRIES or sum(map(len, bodies)) >= ROUND_BYTES:
            return False


def _applied(head: Head, bodies: Sequence[bytes], url: str) -> ChainMachine[Head | ChainDamaged]:
    """Return the head after these entries, or an error if their block, or a body that one names, was deleted as old.

    The caller then loads a newer snapshot, and raises the error if there is none. Raises ChainDamaged if an entry does
    not follow the one before it.

    Looks for the void mark of every block that was read, including the block of the first empty slot. A void mark is
    put before the entries of its block are deleted, so if it is absent now, no entry had been deleted during the reads.
    """
    first = head.n + 1
    blocks = range(entry_block(first), entry_block(first + len(bodies)) + 1)
    marks = yield from many([void_key(block) for block in blocks])
    if any(mark is not None for mark in marks):
        return _uncovered(head, url)
    entries = [decode_entry(n, body, url) for n, body in enumerate(bodies, first)]
    appends: dict[CommandId, Append] = {}
    named = _by_reference(entries)
    if named:
        keys = [command_key(command.n0, command.command_id, record.body) for _, command, record in named]
        for (entry, command, record), key, body in zip(named, keys, (yield from many(keys)), strict=True):
            if body is None:  # vacuum deletes it when FLOOR has passed it in the kept snapshots
                return damage(key, f"entry {entry.n} names it, it is not there", url)
            appends[command.command_id] = append_of(body, command.command_id, command.n0, record, entry.n, url)
    draft = Draft(head)
    for entry, body in zip(entries, bodies, strict=True):
        if not draft.follows(entry):
            return (yield from _doubted(entry, draft, head, url))
        draft.apply(entry, body, appends)
    return draft.head()


def _by_reference(entries: Sequence[Entry]) -> list[tuple[Entry, AppliedCommand, AppendedByReference]]:
    return [
        (entry, command, record)
        for entry in entries
        for command in entry.commands
        for record in command.records
        if isinstance(record, AppendedByReference)
    ]


def _doubted(entry: Entry, draft: Draft, head: Head, url: str) -> ChainMachine[ChainDamaged]:
    """Raise ChainDamaged for an entry that does not follow the one before it, unless its block has a void mark by now.

    If it has one, a newer snapshot may help. Then return the error that is to be raised if there is no newer snapshot.
    """
    mark, _ = yield Get(void_key(entry_block(entry.n)))
    check_answered(mark)
    if isinstance(mark, bytes | memoryview):
        return _uncovered(head, url)
    raise damage(
        entry_key(entry.n),
        f"wanted chain {draft.state.chain_id} after hash {draft.entry_hash}, "
        f"found chain {entry.chain_id} after {entry.previous}",
        url,
    )


def _uncovered(head: Head, url: str) -> ChainDamaged:
    return ChainDamaged(
        f"{url}: block {entry_block(head.n + 1)} is marked as deleted, but no snapshot covers it: the snapshot behind "
        f"it is missing; {PUT_BACK}"
    )
