"""Somebody who sees every entry of the chain the moment it lands, knows what is really on the stores, and checks both.

Numbers of the checks, here and in `history.py`, `readers.py` and `world.py`:

 1. The state keeps the invariants of `core/state_invariants.py` (looked at now and then, and at the end), and every
    step of a partition those of `core/replication/replica_invariants.py`: HW, log start and epochs never go back.
 2. An offset has one value, for ever.
 3. No value is there twice.
 4. The records of a producer are in its order.
 5. What is acknowledged with acks=all is never forgotten but by an unclean election that says so; with acks=1 only by
    an election. What is acknowledged is where the answer says, with acks=all below HW.
 6. A leader epoch of a partition has one leader.
 7. A store that the chain says holds a slice has its object and index, whole, unless a fault took them since.
 8. A rewrite has the records that it replaces, but for those of which a later one with the same key is in the log.
 9. No object is deleted that a replica is said to hold, or that can still be committed.
10. What was refused for good is never there.
11. The chain has no gap; what is put into a slot that was deleted changes nothing, and its block is marked. An entry is
    deleted after the mark of its block, if FLOOR has passed the block and a snapshot covers it and the next one.
12. A write over several partitions is visible in all of them or in none.
13. A reader sees what was written, at its offsets, up to an end that never goes back.
14. In the end, with no more faults, writes are answered again, every replica reaches the end of its log, and every
    reader reads all.
15. Whoever has read the chain up to an entry knows what the observer knows there.
20. An upload is named once, for the partitions that it was made for (`thief.py`).
21. Nothing expires earlier than by the chain's time, though a clock is ahead: no idle producer, no offset of a group
    (`expiry.py`), and, under a coordinator, no retired object (`upkeep.py`).

With coordinators also (`terms.py`):

16. In an epoch one process leads: its entries count, and none that another one followed or that has resigned.
17. A command is applied once. What a coordinator acknowledges is in an entry that counts, and its answer is no older
    than what its client has seen.
18. A coordinator takes no agent for silent that it has heard of in a session, nor before it has listened for one.
19. Soon after the faults nobody takes over from a coordinator that leads; it writes at least three entries in a
    session, and commands have their answers soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c
from msgspec import UNSET

from sparklog.chain.commit.command_body import append_of
from sparklog.chain.entry import Entry, decode_entry
from sparklog.chain.head import Draft, Head
from sparklog.core.commands import Append
from sparklog.core.placement.held_slices import Holding
from sparklog.core.records import (
    Appended,
    AppendedByReference,
    AppliedCommand,
    ObjectsDeleted,
    PartitionsChanged,
    SlicesSwapped,
    StoreRegistered,
)
from sparklog.core.replication import replica_invariants
from sparklog.core.replication.partition_change import PartitionChange
from sparklog.core.state import ClusterState
from sparklog.core.state_invariants import check as check_state
from sparklog.core.types import (
    CommandId,
    NamedObject,
    NewObject,
    ObjectNumber,
    Offset,
    OffsetRange,
    Slice,
    StoreId,
    TopicPartition,
    UploadId,
)
from sparklog.log.read.object_reader import read_slice
from sparklog.storage.keys import (
    LOG,
    SNAPSHOTS,
    block_entries,
    command_key,
    data_key,
    entry_block,
    index_key,
    parse_data_key,
    parse_entry_key,
    parse_snapshot_key,
    void_key,
)
from tests.kit.dict_store import DictStore
from tests.sim.expiry import expired
from tests.sim.process import URL
from tests.sim.stores import META
from tests.sim.uploads import key_of

if TYPE_CHECKING:
    from tests.sim.world import World

CHECK_EVERY = 40  # entries


class Observer:
    """Follows the chain without faults, entry by entry."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.history = world.history
        self.head = Head()
        self.marks: dict[int, object] = {}  # of the states after the entries
        self._leaders: dict[tuple[TopicPartition, int], StoreId | None] = {}
        self._claimed: set[tuple[StoreId, ObjectNumber]] = set()  # seen on the store after the chain said so
        self._registered_n: dict[StoreId, int] = {}
        self._times_ms: list[int] = []  # of all entries
        self._keys: dict[UploadId, ObjectNumber] = {}
        world.stores[META].put_hook = self._on_put
        world.stores[META].delete_hook = self._on_delete_of_chain
        for name in world.stores:
            self.watch(name)

    def watch(self, store: StoreId) -> None:
        """Look at what is deleted from this store."""
        if store != META:
            self.world.stores[store].delete_hook = lambda key: self._on_delete(store, key)

    # ---- the chain ------------------------------------------------------------------------------

    def _on_put(self, key: str, body: bytes) -> None:
        if not key.startswith(LOG):
            return
        n = parse_entry_key(key)
        assert n <= self.head.n + 1, f"11: entry {n} is put, the chain ends at {self.head.n}"
        if n <= self.head.n:
            assert void_key(entry_block(n)) in self.world.stores[META].bodies, f"11: slot {n} was deleted without mark"
            self.world.faults.count("put-into-deleted-block")
            return
        entry = decode_entry(n, body, URL)
        draft = Draft(self.head)
        if not draft.follows(entry):
            raise AssertionError(f"11: entry {n} does not follow the one before")
        self._times_ms.append(entry.time_ms)
        appends = self._by_reference(entry)
        fenced = self.world.terms.is_fenced(entry.author)
        self.world.terms.entry(entry, fenced=fenced)
        for command in () if fenced else entry.commands:
            before = draft.state.fork()
            draft.apply_command(command, entry.at, appends.get(command.command_id))
            self._command(before, draft.state, command, n)
        draft.end_entry(entry.at, entry.author, body)
        self.head = draft.head()
        self.marks[n] = mark_of(self.head.state)
        self.world.entry_landed(entry)
        if n % CHECK_EVERY == 0:
            check_state(self.head.state)

    def _by_reference(self, entry: Entry) -> dict[CommandId, Append]:
        appends = {}
        for command in entry.commands:
            for record in command.records:
                if isinstance(record, AppendedByReference):
                    body = self.world.stores[META].bodies[command_key(command.n0, command.command_id, record.body)]
                    appends[command.command_id] = append_of(body, command.command_id, command.n0, record, entry.n, URL)
        return appends

    # ---- one command ----------------------------------------------------------------------------

    def _command(self, before: ClusterState, after: ClusterState, command: AppliedCommand, n: int) -> None:
        self.world.expired += expired(before, command, self._times_ms)
        for record in command.records:
            if isinstance(record, StoreRegistered):
                self._registered_n[record.store] = n
        relisted = {record.store for record in command.records if isinstance(record, StoreRegistered)}
        self._claimed = {each for each in self._claimed if each[0] not in relisted} if relisted else self._claimed
        swaps = {
            TopicPartition(record.topic_id, record.partition): record
            for record in command.records
            if isinstance(record, SlicesSwapped)
        }
        for record in command.records:
            if isinstance(record, Appended | PartitionsChanged):
                for change in record.changes:
                    self._change(before, after, change)
            elif isinstance(record, ObjectsDeleted):
                for number in record.numbers:
                    gone = before.objects.get(number)
                    assert gone is not None
                    self.history.confirmed.add(gone.upload_id)
        for key, partition in after.partitions.items():
            known = before.partitions.get(key)
            if known is not partition or relisted:
                self._partition(before, after, key, command, swaps.get(key), strict=not relisted)
        for key, partition in before.partitions.items():
            if key not in after.partitions:
                self.history.retain(key, partition.log_start, partition.next_offset)
        if any(isinstance(record, Appended | AppendedByReference) for record in command.records):
            self._atomic(before, after, command)

    def _partition(
        self,
        before: ClusterState,
        after: ClusterState,
        key: TopicPartition,
        command: AppliedCommand,
        swapped: SlicesSwapped | None,
        *,
        strict: bool,
    ) -> None:
        known, partition = before.partitions.get(key), after.partitions[key]
        now = partition.replication
        min_isr = after.topic_config(after.topics[key.topic_id]).min_insync_replicas
        replica_invariants.check(now, min_isr)
        low = Offset(0)
        if known is not None:
            was = known.replication
            replica_invariants.check_step(was, now, min_isr)
            if swapped is not None:
                replica_invariants.check_rewrite(was, now, min_isr)
            new = after.slices.find(key, OffsetRange(known.next_offset, partition.next_offset))
            if partition.next_offset > known.next_offset:
                for each in new:
                    self._append(before, after, key, each)
            if partition.log_start > known.log_start:
                self.history.retain(key, known.log_start, partition.log_start)
            low = min(*was.log_ends, swapped.start if swapped else was.next_offset)
        if swapped is not None:
            for each in after.slices.find(key, OffsetRange(swapped.start, swapped.end)):
                self._rewritten(after, key, each)
        place = (key, now.leader_epoch)
        if now.leader is not None:
            leader = self._leaders.setdefault(place, now.leader)
            assert leader == now.leader, f"6: {now.leader} and {leader} lead {key} in epoch {now.leader_epoch}"
        slices = after.slices.find(key, OffsetRange(low if strict else partition.log_start, partition.next_offset))
        self._claims(after, key, list(slices), int(command.n0) if strict else None)

    def _append(self, before: ClusterState, after: ClusterState, key: TopicPartition, each: Slice) -> None:
        named = after.objects.get(each.object_number)
        assert named is not None
        upload_id = named.upload_id
        assert upload_id not in self.history.refused, f"10: upload {upload_id} was refused, and is in {key} now"
        assert named.n0 >= before.floor, f"9: upload {upload_id} of {named.n0} is named, FLOOR is {before.floor}"
        uploaded = self.history.uploads.get(upload_id)
        assert uploaded is not None, f"20: upload {upload_id} was made by a rewrite, and is appended to {key}"
        assert key in uploaded.parts, f"20: upload {upload_id} has records of {list(uploaded.parts)}, not of {key}"
        values = uploaded.parts[key]
        assert len(values) == each.records, f"2: {each} has other records than its object"
        self.history.add(key, each.start, values)

    def _rewritten(self, after: ClusterState, key: TopicPartition, each: Slice) -> None:
        named = after.objects.get(each.object_number)
        assert named is not None
        topic = after.topics[key.topic_id].name
        for holder in named.holders:
            store = self.world.stores[holder.store]
            if store.holds(data_key(named, topic)):
                found = values_of(store, topic, NamedObject(each.object_number, named), each)
                wanted = self.history.wanted(key, each.start, each.end)
                dropped = {offset for offset in wanted if offset not in found}
                assert found == {offset: wanted[offset] for offset in wanted if offset in found}, (
                    f"8: the segment {each} has {found}, wanted {wanted}"
                )
                self._dropped(after, key, each, wanted, dropped)
                return

    def _dropped(
        self, after: ClusterState, key: TopicPartition, each: Slice, wanted: dict[int, bytes], dropped: set[int]
    ) -> None:
        """Check 8: a compaction drops a record only if a later one of its key is in the log."""
        if not dropped:
            return
        assert self.world.is_compacted, f"8: the segment {each} lacks {dropped}"
        end = after.partitions[key].high_watermark
        later = self.history.wanted(key, each.start, end)
        last = {key_of(value): offset for offset, value in sorted(later.items())}
        for offset in sorted(dropped):
            assert last[key_of(wanted[offset])] > offset, f"8: {wanted[offset]!r} at {offset} of {key} is the last one"
        self.history.compact(key, dropped)

    def _change(self, before: ClusterState, after: ClusterState, change: PartitionChange) -> None:
        if change.forgotten_from is UNSET:
            return
        key = change.topic_partition
        lost = after.partitions[key].replication.lost
        self.world.faults.count("records-forgotten")
        for offset, value in self.history.forget(key, change.forgotten_from):
            if self.history.acknowledged.get(value) != "ALL":
                continue
            noted = self.world.shape.unclean and any(each.start <= offset < each.end for each in lost)
            assert noted, f"5: {value!r} at {offset} of {key} was acknowledged with acks=all, and is forgotten"
            self.world.faults.count("data-loss-noticed")

    def _atomic(self, before: ClusterState, after: ClusterState, command: AppliedCommand) -> None:
        """A write over several partitions: HW is behind it in all of them from its entry on."""
        for record in command.records:
            if isinstance(record, Appended | AppendedByReference) and len(record.ranges) > 1:
                for each in record.ranges:
                    partition = after.partitions[TopicPartition(each.topic_id, each.partition)]
                    assert partition.high_watermark >= each.end, f"12: {each} is not visible in {partition}"

    # ---- the stores -----------------------------------------------------------------------------

    def _claims(self, state: ClusterState, key: TopicPartition, slices: list[Slice], n0: int | None) -> None:
        """Check 7. With `n0`, what a fault took in another life of the store is no excuse: its agent has said so."""
        if not slices:
            return
        holding = Holding(state, state.partitions[key])
        topic = state.topics[key.topic_id].name
        for each in slices:
            named = state.objects.get(each.object_number)
            assert named is not None
            self._keys[named.upload_id] = each.object_number
            for store in holding.of(each.end, named.holders):
                if (store, each.object_number) not in self._claimed:
                    self._claim(store, topic, named, n0, f"{key} [{each.start}, {each.end})")
                    self._claimed.add((store, each.object_number))

    def _claim(self, store: StoreId, topic: str, named: NewObject, n0: int | None, where: str) -> None:
        place = self.world.stores[store]
        key = data_key(named, topic)
        for name, crc in ((key, named.crc32c), (index_key(key), named.index_crc32c)):
            taken_n = place.destroyed.get(name)
            if taken_n is not None and (n0 is None or taken_n >= min(n0, self._registered_n[store])):
                continue
            body = place.bodies.get(name)
            assert body is not None, f"7: {store} is said to hold {where}, {name} is not there (n0 {n0}, {taken_n})"
            assert google_crc32c.value(body) == crc, f"7: {name} on {store} is damaged (n0 {n0}, {taken_n})"

    def _on_delete(self, store: StoreId, key: str) -> None:
        """Check 9."""
        name = parse_data_key(key)
        if name is None or key not in self.world.stores[store].bodies:
            return
        state = self.head.state
        number = self._keys.get(name.upload_id)
        named = None if number is None else state.objects.get(number)
        if named is None:
            if name.upload_id not in self.history.confirmed:
                assert name.n0 < state.floor, f"9: {key} of {store} can be committed, FLOOR is {state.floor}"
            return
        if number is None or number in state.retired:
            return
        columns = state.slices.everything().columns
        rows = columns["partition_key"][columns["object_number"] == number].tolist()
        for row in rows:
            partition = state.partition(row >> 32, row & 0xFFFFFFFF)
            assert partition is not None
            assert store not in partition.replication.replicas, f"9: {key} is deleted from {store}, and named"

    def _on_delete_of_chain(self, key: str) -> None:
        """Check 11."""
        bodies = self.world.stores[META].bodies
        if not key.startswith(LOG) or key not in bodies:
            return
        block = entry_block(parse_entry_key(key))
        assert void_key(block) in bodies, f"11: {key} is deleted before the mark of its block"
        behind, floor = block_entries(block).stop, self.head.state.floor
        assert floor >= behind, f"11: {key} is deleted, FLOOR is {floor}"
        covered = max((parse_snapshot_key(name) for name in bodies if name.startswith(SNAPSHOTS)), default=0)
        wanted = block_entries(block + 1)[-1]
        assert covered >= wanted, f"11: {key} is deleted, and the newest snapshot is of entry {covered}"

    def sweep(self) -> None:
        """Check everything that is checked in steps otherwise, once more and in full (1, 2, 7)."""
        state = self.head.state
        check_state(state)
        self._claimed.clear()
        count = 0
        for key, partition in state.partitions.items():
            slices = list(state.slices.find(key, OffsetRange(partition.log_start, partition.next_offset)))
            self._claims(state, key, slices, None)
            count += sum(
                len(self.history.wanted(key, max(each.start, partition.log_start), each.end)) for each in slices
            )
        assert count == len(self.history.live), f"2: the log has {count} records, wanted {len(self.history.live)}"


def mark_of(state: ClusterState) -> object:
    """What two states have in common that come from the same entries, shortly."""
    partitions = [(key, each.log_start, each.replication) for key, each in sorted(state.partitions.items())]
    return hash((state.floor, state.next_producer_id, state.coordinator, str(partitions)))


def values_of(store: DictStore, topic: str, named: NamedObject, each: Slice) -> dict[int, bytes]:
    """The records of a slice as they are on a store."""
    offsets = OffsetRange(each.start, each.end)
    batches = read_slice(store, data_key(named.object, topic), named, each, offsets, topic, ("offset", "value"))
    found: dict[int, bytes] = {}
    for _, batch in batches:
        found.update(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
    return found
