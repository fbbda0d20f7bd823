"""Old blocks of entries are deleted behind marks, and nobody who reads or writes meanwhile loses anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count, zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.chain import old_entries
from sparklog.chain.floor import newest_older_than
from sparklog.chain.follow.same_chain import IDLE_MS
from sparklog.chain.follow.stored_entries import stored_entries
from sparklog.chain.old_entries import OldBlocks, PutMark, blocks_found, decide_blocks, delete_blocks, deletion
from sparklog.chain.snapshot.old_snapshots import KEPT, Found, FoundSnapshot, find
from sparklog.client.describe.chain_tail import chain_tail
from sparklog.core.commands import RaiseFloor
from sparklog.core.errors import ChainDamaged, InconsistentClusterId, KeyExists, StoreUnavailable, WriteExpired
from sparklog.core.types import EntryNumber
from sparklog.storage import keys
from sparklog.storage.keys import ENTRIES_PER_BLOCK, LOG, VOID, entry_key, parse_entry_key, snapshot_key, void_key
from sparklog.storage.object_store import ObjectStore, StoredKey
from tests.chain.chain_kit import SMALL_BLOCK, TIMEOUT_MS, Member, append, member, new_chain, small_blocks
from tests.core.state_contents import contents
from tests.kit.faulty_store import Fault, FaultyStore

# ---- which blocks -----------------------------------------------------------------------------------


def found(*snapshots: tuple[int, int]) -> Found:
    """Whole snapshots, newest first: of entry n, with FLOOR."""
    return Found(
        tuple(
            FoundSnapshot(StoredKey(snapshot_key(n), 1, 0), frozenset(), EntryNumber(floor)) for n, floor in snapshots
        ),
        (),
        (),
    )


@given(st.integers(0, 6 * ENTRIES_PER_BLOCK), st.integers(0, 6 * ENTRIES_PER_BLOCK))
def test_a_block_goes_if_floor_has_passed_it_and_the_oldest_snapshot_covers_the_block_after_it(
    n: int, floor: int
) -> None:
    newer = [(n + at, 10**9) for at in range(KEPT - 1, 0, -1)]
    end = decide_blocks(found(*newer, (n, floor), (0, 0))).end
    for block in range(8):
        is_below_floor = (block + 1) * ENTRIES_PER_BLOCK <= floor
        next_is_covered = (block + 2) * ENTRIES_PER_BLOCK - 1 <= n
        assert (block < end) == (is_below_floor and next_is_covered)


@pytest.mark.parametrize("number", range(KEPT))
def test_no_block_goes_before_there_are_three_snapshots(number: int) -> None:
    far = 10 * ENTRIES_PER_BLOCK
    assert decide_blocks(found(*[(far - at, far) for at in range(number)])) == OldBlocks()


# ---- on a chain -------------------------------------------------------------------------------------


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Member:
    small_blocks(monkeypatch)
    return new_chain()


def grown(chain: Member, blocks: int = 4, *, floor: bool = True) -> OldBlocks:
    """Fill so many blocks, raise FLOOR to the end and write the snapshots that stay. Gives what may go then."""
    while chain.follower.state.n < blocks * SMALL_BLOCK - 1:
        chain.append()
    if floor:
        raised = RaiseFloor(EntryNumber(chain.follower.state.n))
        chain.committer.submit(chain.committer.begin(raised), TIMEOUT_MS)
    for _ in range(KEPT):
        chain.append()
        chain.committer.snapshots.write()
    return decide_blocks(find(chain.store))


def entries(store: ObjectStore) -> list[int]:
    return [parse_entry_key(each.key) for each in store.list_keys(LOG)]


def marks(store: ObjectStore) -> list[str]:
    return [each.key for each in store.list_keys(VOID)]


def deleted(store: ObjectStore, old: OldBlocks) -> int:
    return sum(len(part.entries) for part in delete_blocks(store, old))


def test_each_mark_is_put_before_the_entries_of_its_block_go_and_the_oldest_block_goes_first(  # M: S-03
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = grown(chain)
    assert old.end == 3
    monkeypatch.setattr(old_entries, "DELETED_AT_ONCE", 3)
    chain.store.calls.clear()
    parts = list(delete_blocks(chain.store, old))
    assert [(part.block, len(part.entries)) for part in parts] == [
        (block, size) for block in range(3) for size in (3, 3, 2)
    ]
    changes = [key for method, key in chain.store.calls if method in ("put_if_absent", "delete")]
    wanted = []
    for block in range(3):
        wanted += [void_key(block), *(entry_key(n) for n in range(block * SMALL_BLOCK, (block + 1) * SMALL_BLOCK))]
    assert changes == wanted
    assert bytes(chain.store.inner.get(void_key(1))) == b"entries 8 to 15 are being deleted, or are gone\n"
    assert entries(chain.store.inner) == list(range(24, chain.follower.state.n + 1))


def test_a_block_above_floor_stays_and_a_result_in_doubt_is_read_back(chain: Member) -> None:
    for _ in range(2 * SMALL_BLOCK - 2 - 3):
        chain.append()
    writer = member(chain.store.inner)
    submission = writer.begin(append(n0=writer.committer.follower.state.n0))
    result = writer.submit(submission)
    floor = RaiseFloor(submission.n0)
    chain.append()
    chain.committer.submit(chain.committer.begin(floor), TIMEOUT_MS)
    assert deleted(chain.store, grown(chain, 5, floor=False)) == SMALL_BLOCK
    assert submission.n0 // SMALL_BLOCK == 1
    assert member(chain.store.inner).submit(submission) == result


def test_what_stays_opens_to_the_same_state_from_each_of_the_snapshots_and_costs_no_more(chain: Member) -> None:
    old = grown(chain)
    store = chain.store.inner
    wanted, before = contents(chain.follower.state), requests_of_opening(store)
    deleted(store, old)
    assert requests_of_opening(store) == before
    for n in range(chain.follower.state.n, chain.follower.state.n - KEPT, -1):
        assert contents(member(store).follower.state) == wanted
        store.delete(snapshot_key(n))
    with pytest.raises(ChainDamaged, match="block 0 is marked as deleted, but no snapshot covers it"):
        member(store)


def requests_of_opening(store: ObjectStore) -> int:
    opening = Member(FaultyStore(store))
    opening.follower.open()
    return len(opening.store.calls)


def test_a_run_that_dies_at_any_change_is_finished_by_the_next(chain: Member) -> None:  # M: C-05
    old = grown(chain)
    wanted, all_ = contents(chain.follower.state), list(range(chain.follower.state.n + 1))
    bodies = {n: bytes(chain.store.get(entry_key(n))) for n in all_}
    for steps in count():
        changes = one_by_one(chain.store.inner, old)
        done = sum(1 for _, _ in zip(range(steps), changes, strict=False))
        assert contents(member(chain.store.inner).follower.state) == wanted
        again = sum(len(each.entries) for each in blocks_found(chain.store.inner, old.end))
        assert deleted(chain.store.inner, old) == again
        assert entries(chain.store.inner) == all_[old.end * SMALL_BLOCK :]
        assert marks(chain.store.inner) == [void_key(block) for block in range(old.end)]
        assert deleted(chain.store.inner, decide_blocks(find(chain.store.inner))) == 0
        if done < steps:
            return
        for block in range(old.end):
            chain.store.inner.delete(void_key(block))
        for n in all_[: old.end * SMALL_BLOCK]:
            chain.store.inner.put_if_absent(entry_key(n), bodies[n])
    raise AssertionError


def one_by_one(store: ObjectStore, old: OldBlocks) -> Iterator[None]:
    """A deleter's changes, one entry at a time."""
    for change in deletion(store, old):
        if isinstance(change, PutMark):
            with suppress(KeyExists):
                store.put_if_absent(change.key, change.body)
            yield
        else:
            for stored in change.entries:
                store.delete(stored.key)
                yield


def test_what_a_stalled_writer_puts_into_a_block_that_is_gone_goes_with_the_next_run(chain: Member) -> None:
    stalled = member(chain.store.inner)
    first = bytes(chain.store.get(entry_key(1)))
    old = grown(chain)
    deleted(chain.store.inner, old)
    chain.store.inner.put_if_absent(entry_key(1), first)
    chain.store.inner.put_if_absent(entry_key(9), first)
    assert deleted(chain.store.inner, old) == 2
    assert entries(chain.store.inner)[0] == 24
    stalled.follower.catch_up()
    assert contents(stalled.follower.state) == contents(chain.follower.state)


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST])
def test_while_it_is_not_sure_that_the_mark_is_there_no_entry_goes(chain: Member, fault: Fault) -> None:
    old = grown(chain)
    before = entries(chain.store.inner)
    chain.store.plan(fault, "put_if_absent", VOID)
    with pytest.raises(StoreUnavailable):
        deleted(chain.store, old)
    assert entries(chain.store.inner) == before


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.OWN_KEY_EXISTS])
def test_a_mark_whose_reply_was_lost_is_found_and_the_entries_go(chain: Member, fault: Fault) -> None:
    old = grown(chain)
    chain.store.plan(fault, "put_if_absent", VOID)
    assert deleted(chain.store, old) == 24


def test_without_the_snapshot_that_covers_them_no_more_blocks_go(chain: Member) -> None:
    """A faster run has kept newer ones; or the place was cleared, and another cluster is there."""
    old = grown(chain)
    n = keys.parse_snapshot_key(old.covered_by)
    parts = delete_blocks(chain.store, old)
    assert next(parts).block == 0
    chain.store.inner.delete(snapshot_key(n))
    assert list(parts) == []
    assert marks(chain.store.inner) == [void_key(0)]


def test_a_chain_of_another_owner_loses_no_more_blocks(chain: Member) -> None:
    old = grown(chain)
    owners = iter([None, InconsistentClusterId("restored elsewhere")])

    def check() -> None:
        error = next(owners)
        if error:
            raise error

    with pytest.raises(InconsistentClusterId):
        list(delete_blocks(chain.store, old, check))
    assert marks(chain.store.inner) == [void_key(0)]


def test_two_runs_at_once_delete_everything_and_break_nothing(chain: Member) -> None:
    old = grown(chain)
    wanted = contents(chain.follower.state)
    for _ in zip_longest(one_by_one(chain.store.inner, old), one_by_one(chain.store.inner, old)):
        assert contents(member(chain.store.inner).follower.state) == wanted
    assert entries(chain.store.inner)[0] == 24


def test_a_name_that_is_not_sparklogs_stays_and_the_next_run_asks_to_move_it_away(chain: Member) -> None:
    old = grown(chain)
    foreign = f"{entry_key(3)}.bak"
    chain.store.inner.put_if_absent(foreign, b"mine")
    assert deleted(chain.store.inner, OldBlocks(1, old.covered_by)) == SMALL_BLOCK
    with pytest.raises(ChainDamaged, match="if it is not sparklog's, move it away"):
        deleted(chain.store.inner, old)
    assert bytes(chain.store.inner.get(foreign)) == b"mine"


# ---- others, at the border --------------------------------------------------------------------------


def test_a_process_far_behind_goes_on_from_a_snapshot(chain: Member) -> None:
    reader, writer = member(chain.store.inner), member(chain.store.inner)
    below = writer.begin(append(n0=writer.committer.follower.state.n0))
    deleted(chain.store.inner, grown(chain))
    reader.follower.catch_up()
    assert contents(reader.follower.state) == contents(chain.follower.state)
    with pytest.raises(WriteExpired):
        writer.submit(below)
    assert writer.append().n == chain.follower.state.n + 1


def test_the_process_is_still_at_its_own_chain_when_its_newest_entry_was_deleted(chain: Member) -> None:
    reader = member(chain.store.inner)
    ghost = bytes(chain.store.get(entry_key(0)))
    deleted(chain.store.inner, grown(chain))
    assert reader.follower.is_same_chain()
    chain.store.inner.put_if_absent(entry_key(reader.follower.state.n), ghost)
    assert reader.follower.is_same_chain()


def test_a_process_that_slept_while_its_newest_entry_was_deleted_writes_on(chain: Member) -> None:
    """After a silence it has caught up and reads that entry once more: just then it stops, and the others go on."""
    late = member(chain.store.inner)
    late.clock.pause(IDLE_MS)

    def sleep() -> None:
        deleted(chain.store.inner, grown(chain))

    late.store.plan(sleep, "get", entry_key(late.follower.head.n))
    with pytest.raises(WriteExpired):  # FLOOR has passed what it began
        late.append()
    result = late.append()
    chain.follower.catch_up()
    assert result.n == chain.follower.state.n
    assert late.uploads() == chain.uploads()


def test_entries_that_a_stalled_writer_put_back_are_not_shown(chain: Member) -> None:
    ghost = bytes(chain.store.get(entry_key(1)))
    deleted(chain.store.inner, grown(chain))
    chain.store.inner.put_if_absent(entry_key(1), ghost)
    state = chain.follower.state
    assert [each.entry.n for each in stored_entries(chain.store.inner, 0, state.n + 1)] == list(range(24, state.n + 1))
    tail = chain_tail(chain.store.inner, state, state.n + 1)
    assert [shown.n for shown in tail.entries] == list(range(24, state.n + 1))
    assert tail.deleted_before == 24
    assert chain_tail(chain.store.inner, state, 5).deleted_before is None


def test_floor_is_found_above_what_was_deleted(chain: Member) -> None:
    deleted(chain.store.inner, grown(chain))
    state = chain.follower.state
    assert newest_older_than(chain.store.inner, state.floor, state.n + 1, 2**62) == state.n
