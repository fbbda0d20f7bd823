"""Snapshots: the state that was written is the state that is loaded, and damage has a name."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sparklog.chain import committer as committer_module
from sparklog.chain import snapshot
from sparklog.core import column_blocks, object_table, slice_table
from sparklog.core.commands import AddPartitions, AllocateProducer, Application, ConfirmDeleted, MoveLogStart, ReportJob
from sparklog.core.copy_on_write import CopyOnWriteMap
from sparklog.core.errors import ChainDamaged, KeyExists, SparklogError, StoreUnavailable
from sparklog.core.types import Offset, OffsetRange, PartitionIndex, TopicPartition
from sparklog.storage.keys import CHUNKS, SNAPSHOTS, chunk_key, snapshot_key
from tests.chain.chain_kit import TIMEOUT_MS, TOPIC, Member, append, member, new_chain
from tests.core.state_contents import contents
from tests.faults.faulty_store import Fault, FaultyStore


@pytest.fixture
def chain() -> Member:
    return new_chain()


def submit(chain: Member, command: Any) -> None:
    chain.committer.submit(chain.committer.begin(command), TIMEOUT_MS)


def live(chain: Member) -> None:
    """A bit of everything that a state may hold."""
    submit(chain, AllocateProducer())
    for at in range(12):
        chain.append(records=3, partition=at % 2)
    chain.submit(chain.begin(append(2, producer=(0, 0, 0))))
    chain.submit(chain.begin(append(2, application=Application("app", 3))))
    submit(chain, MoveLogStart(TOPIC, PartitionIndex(0), Offset(7)))
    submit(chain, ConfirmDeleted(tuple(chain.follower.state.retired)[:1]))
    submit(chain, ReportJob("roll", 1, 2, 0, "{}"))


def replayed(chain: Member) -> Member:
    """A process that reads every entry from 0 on, and no snapshot."""
    other = FaultyStore(chain.store.inner)
    other.plan(Fault.STALE_404, "first_key_after", SNAPSHOTS, times=1_000)
    late = Member(other)
    late.follower.open()
    assert late.follower.snapshot_n == -1
    return late


# M: F-06 I-02
@pytest.mark.parametrize("tail_rows", [2, 10_000])
def test_snapshot_and_replay_equal_replay_from_entry_0(
    chain: Member, monkeypatch: pytest.MonkeyPatch, tail_rows: int
) -> None:
    for table in (slice_table, object_table):
        monkeypatch.setattr(table, "TAIL_ROWS", tail_rows)
    monkeypatch.setattr(column_blocks, "MAX_BLOCK_ROWS", 8)
    for _ in range(3):
        live(chain)
        wanted = contents(chain.follower.state)
        chain.committer.write_snapshot()
        assert contents(chain.follower.state) == wanted  # taking one changes no meaning
        late = member(chain.store.inner)
        assert late.follower.snapshot_n == chain.follower.state.n
        assert contents(late.follower.state) == wanted == contents(replayed(chain).follower.state)
        submit(chain, AddPartitions(TOPIC, chain.follower.state.topics[TOPIC].partitions + 1))
        chain.append()
        late.append()
        chain.follower.catch_up()
        assert (
            contents(late.follower.state) == contents(chain.follower.state) == contents(replayed(chain).follower.state)
        )


def test_a_snapshot_of_a_state_leaves_it_as_it_is(chain: Member) -> None:
    chain.append()
    state = chain.follower.state.fork()
    before = contents(state)
    snapshot.prepare(state, "f" * 64, {})
    assert (state.slices.blocks, state.objects.blocks, contents(state)) == ((), (), before)


def test_what_was_encoded_for_a_snapshot_is_not_encoded_for_the_next(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        chain.append()
    state = chain.follower.state.fork()
    state.slices.seal()
    state.objects.seal()
    known: dict[str, snapshot.TableChunk] = {}
    first = snapshot.prepare(state, "f" * 64, known)
    monkeypatch.setattr(snapshot, "_encode_columns", None)  # it would be called
    later = state.fork()
    later.slices.remove(TopicPartition(TOPIC, PartitionIndex(0)), OffsetRange(Offset(0), Offset(1)))
    again = snapshot.prepare(later, "f" * 64, known)
    assert [each.sha256 for each in again.manifest.slices] == [each.sha256 for each in first.manifest.slices]
    assert [each.dead for each in again.manifest.slices] == [((0, 1),)]


def test_equal_states_lead_to_equal_chunks_however_their_maps_came_about(chain: Member) -> None:
    state, other = chain.follower.state.fork(), chain.follower.state.fork()
    other.partitions = CopyOnWriteMap(reversed(list(state.partitions.items())))
    assert list(other.partitions) != list(state.partitions)
    chunks = [snapshot.prepare(each, "f" * 64, {}).manifest.partitions.sha256 for each in (state, other)]
    assert chunks[0] == chunks[1]


def test_the_newest_snapshot_is_the_first_key(chain: Member) -> None:
    for _ in range(3):
        chain.append()
        chain.committer.write_snapshot()
    found = snapshot.newest(chain.store)
    assert found is not None
    assert found.n == 4
    assert [each.key for each in chain.store.list_keys(SNAPSHOTS)] == [snapshot_key(n) for n in (4, 3, 2)]


def test_a_chunk_that_did_not_change_is_not_written_again(chain: Member) -> None:
    chain.append()
    chain.committer.write_snapshot()
    chain.store.calls.clear()
    chain.append()
    chain.committer.write_snapshot()
    written = [key for method, key in chain.store.calls if method == "put_if_absent" and key.startswith(CHUNKS)]
    # one block of slices and one of objects (the small ones were merged), partitions, results
    assert len(written) == 4
    chain.store.calls.clear()
    chain.committer.write_snapshot()
    assert chain.store.count("put_if_absent") == 0


def test_rows_that_died_cost_no_new_chunk(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_table, "TAIL_ROWS", 3)
    for _ in range(8):
        chain.append()
    chain.committer.write_snapshot()
    before = snapshot.newest(chain.store)
    submit(chain, MoveLogStart(TOPIC, PartitionIndex(0), Offset(2)))
    chain.committer.write_snapshot()
    after = snapshot.newest(chain.store)
    assert before is not None
    assert after is not None
    assert [each.sha256 for each in before.slices] == [each.sha256 for each in after.slices]
    assert [each.dead for each in after.slices] == [((0, 2),)]
    assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)


def test_two_members_may_write_the_same_snapshot(chain: Member) -> None:
    chain.append()
    late = member(chain.store.inner)
    assert chain.committer.write_snapshot() == late.committer.write_snapshot() == 2
    assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)


def test_one_is_written_after_a_number_of_entries_and_close_waits_for_it(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer_module, "SNAPSHOT_EVERY", 5)
    for _ in range(4):
        chain.append()
    chain.committer.close()
    found = snapshot.newest(chain.store)
    assert found is not None
    assert found.n == chain.follower.snapshot_n == 4


def test_a_snapshot_that_fails_costs_no_commit_and_is_tried_again(
    chain: Member, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(committer_module, "SNAPSHOT_EVERY", 3)
    chain.store.plan(Fault.UNAVAILABLE, "put_if_absent", CHUNKS)
    chain.append()
    chain.committer.close()
    assert "no snapshot of the metadata chain was written" in caplog.text
    assert snapshot.newest(chain.store) is None
    chain.append()
    chain.committer.close()
    found = snapshot.newest(chain.store)
    assert found is not None
    assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.LOST, Fault.OWN_KEY_EXISTS])
@pytest.mark.parametrize("at", range(7))
def test_a_snapshot_with_a_lost_reply_anywhere_is_whole_or_not_there(chain: Member, fault: Fault, at: int) -> None:
    live(chain)
    chain.store.plan(fault, "put_if_absent", "meta/", skip=at)
    try:
        chain.committer.write_snapshot()
    except SparklogError:
        chain.committer.write_snapshot()
    assert contents(member(chain.store.inner).follower.state) == contents(replayed(chain).follower.state)


def test_any_flipped_bit_or_cut_is_a_named_error(chain: Member) -> None:
    live(chain)
    chain.committer.write_snapshot()
    wanted = contents(chain.follower.state)
    store = chain.store.inner
    files = [each.key for prefix in (SNAPSHOTS, CHUNKS) for each in store.list_keys(prefix)]
    dice = random.Random(20261121)
    for _ in range(200):
        key = dice.choice(files)
        whole = bytes(store.get(key))
        broken = bytearray(whole)
        broken[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
        if dice.random() < 0.3:
            broken = bytearray(whole[: dice.randrange(len(whole))])
        store.delete(key)
        store.put_if_absent(key, bytes(broken))
        with pytest.raises(SparklogError, match=key):
            member(store)
        store.delete(key)
        store.put_if_absent(key, whole)
    assert contents(member(store).follower.state) == wanted


def test_a_missing_chunk_is_damage(chain: Member) -> None:
    chain.append()
    chain.committer.write_snapshot()
    for key in [each.key for each in chain.store.list_keys(CHUNKS)]:
        whole = bytes(chain.store.get(key))
        chain.store.inner.delete(key)
        with pytest.raises(ChainDamaged, match=f"{key} at memory://.*: it is not there; put {key} back from"):
            member(chain.store.inner)
        chain.store.inner.put_if_absent(key, whole)


def test_a_damaged_chunk_that_is_moved_away_with_all_snapshots_is_made_again_from_the_entries(chain: Member) -> None:
    for _ in range(3):
        chain.append()
        chain.committer.write_snapshot()
    store, wanted = chain.store.inner, contents(member(chain.store.inner).follower.state)
    newest = snapshot.newest(store)
    assert newest is not None
    shared = chunk_key(newest.topics.sha256)
    store.delete(shared)
    store.put_if_absent(shared, b"damaged")
    with pytest.raises(ChainDamaged, match=f"or move it and every object under {SNAPSHOTS} away: ") as raised:
        member(store)
    assert shared in raised.value.message
    for key in [shared, *(each.key for each in store.list_keys(SNAPSHOTS))]:
        store.delete(key)
    again = member(store)
    again.committer.write_snapshot()
    assert contents(again.follower.state) == contents(member(store).follower.state) == wanted


def test_a_chunk_that_is_there_already_with_another_size_is_damage_and_is_written_again_when_moved_away(
    chain: Member,
) -> None:
    chain.append()
    chain.committer.write_snapshot()
    store, wanted = chain.store.inner, contents(chain.follower.state)
    for snapshot_object in list(store.list_keys(SNAPSHOTS)):
        store.delete(snapshot_object.key)
    for key in [each.key for each in store.list_keys(CHUNKS)]:
        whole = bytes(store.get(key))
        store.delete(key)
        store.put_if_absent(key, whole[:-1])
        with pytest.raises(ChainDamaged, match=f"{key} .*: wanted {len(whole):,} bytes?.*, found .*; move {key} away"):
            member(store).committer.write_snapshot()
        assert not list(store.list_keys(SNAPSHOTS)), "no snapshot names it"
        store.delete(key)
        store.put_if_absent(key, whole)
    member(store).committer.write_snapshot()
    assert contents(member(store).follower.state) == wanted


def test_a_chunk_that_can_not_be_read_now_is_no_damage(chain: Member) -> None:
    chain.append()
    chain.committer.write_snapshot()
    late = Member(FaultyStore(chain.store.inner))
    late.store.plan(Fault.UNAVAILABLE, "get", CHUNKS)
    with pytest.raises(StoreUnavailable):
        late.follower.open()
    late.follower.open()
    assert contents(late.follower.state) == contents(chain.follower.state)


def test_a_chunk_that_is_refused_as_taken_and_is_not_there_ends_the_snapshot(chain: Member) -> None:
    chain.append()

    def refuse() -> None:
        raise KeyExists("taken, says a proxy")

    chain.store.plan(refuse, "put_if_absent", CHUNKS)
    with pytest.raises(StoreUnavailable, match="is not there"):
        chain.committer.write_snapshot()
    assert not list(chain.store.list_keys(SNAPSHOTS))
    chain.committer.write_snapshot()
    assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)


def test_a_manifest_under_another_number_is_damage(chain: Member) -> None:
    chain.append()
    chain.committer.write_snapshot()
    chain.store.inner.put_if_absent(snapshot_key(9), bytes(chain.store.get(snapshot_key(2))))
    with pytest.raises(ChainDamaged, match="wanted the snapshot of entry 9, found 2"):
        member(chain.store.inner)
