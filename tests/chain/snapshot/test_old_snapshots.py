"""Old snapshots, chunks and bodies are deleted, and nobody who reads or writes meanwhile loses anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparklog.chain.commit import command_group
from sparklog.chain.snapshot import snapshot
from sparklog.chain.snapshot.old_snapshots import KEPT, Found, FoundSnapshot, Old, decide_old, delete_old, find
from sparklog.core.commands import AlterTopic, RaiseFloor
from sparklog.core.errors import ChainDamaged, StoreUnavailable
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import CHUNKS, COMMANDS, SNAPSHOTS, chunk_key, command_key, entry_key, snapshot_key
from sparklog.storage.object_store import ObjectStore, StoredKey
from tests.chain.chain_kit import TIMEOUT_MS, TOPIC, Member, append, member, new_chain
from tests.core.state_contents import contents
from tests.faults.inline_pool import Inline
from tests.kit.faulty_store import Fault, FaultyStore


def stored(key: str) -> StoredKey:
    return StoredKey(key, 1, 0)


def taken(n: int, *chunks: str, floor: int = 0) -> FoundSnapshot:
    return FoundSnapshot(stored(snapshot_key(n)), frozenset(chunks), EntryNumber(floor))


def found(*snapshots: FoundSnapshot, chunks: str = "", bodies: tuple[int, ...] = ()) -> Found:
    keys = tuple(stored(command_key(n0, "c" * 32)) for n0 in bodies)
    return Found(snapshots, tuple(stored(each) for each in chunks), keys)


def names(old: Old) -> tuple[list[str], str, list[str]]:
    keys = [[each.key for each in part] for part in (old.manifests, old.chunks, old.bodies)]
    return keys[0], "".join(keys[1]), keys[2]


# ---- what goes ----------------------------------------------------------------------------------


def test_three_snapshots_stay_and_chunks_that_one_of_them_names() -> None:
    snapshots = [taken(n, "s", name) for n, name in ((5, "e"), (4, "d"), (3, "c"), (2, "b"), (1, "a"))]
    old = decide_old(found(*snapshots, chunks="sedcbax"))
    assert names(old) == ([snapshot_key(2), snapshot_key(1)], "bax", [])
    assert old.in_order()[0].key == snapshot_key(2)


@pytest.mark.parametrize("count", range(KEPT))
def test_nothing_goes_before_there_are_three(count: int) -> None:
    snapshots = [taken(9 - at, "s", floor=9) for at in range(count)]
    assert decide_old(found(*snapshots, chunks="sx", bodies=(1,))) == Old()


def test_a_snapshot_that_lacks_a_chunk_is_not_one_of_the_three_and_stays_above_them() -> None:
    snapshots = [taken(5, "s", "lost"), taken(4, "s"), taken(3, "s"), taken(2, "s", "b"), taken(1, "a")]
    assert names(decide_old(found(*snapshots, chunks="sbax"))) == ([snapshot_key(1)], "ax", [])
    broken_below = [taken(5, "s"), taken(4, "s"), taken(3, "s"), taken(2, "lost", "b")]
    assert names(decide_old(found(*broken_below, chunks="sb"))) == ([snapshot_key(2)], "b", [])


def test_chunks_stay_while_nobody_knows_what_a_damaged_manifest_above_the_three_names() -> None:
    damaged = FoundSnapshot(stored(snapshot_key(5)), None, None)
    snapshots = [damaged, taken(4, "s"), taken(3, "s"), taken(2, "s"), taken(1, "a")]
    assert names(decide_old(found(*snapshots, chunks="sax"))) == ([snapshot_key(1)], "", [])
    below = [*snapshots[1:4], FoundSnapshot(stored(snapshot_key(1)), None, None)]
    assert names(decide_old(found(*below, chunks="sax"))) == ([snapshot_key(1)], "ax", [])


def test_a_body_goes_when_floor_had_passed_it_in_the_oldest_snapshot_that_stays() -> None:
    snapshots = [taken(50, floor=40), taken(40, floor=30), taken(30, floor=20), taken(20, floor=10)]
    old = decide_old(found(*snapshots, bodies=(5, 19, 20, 35)))
    assert old.bodies == (stored(command_key(5, "c" * 32)), stored(command_key(19, "c" * 32)))
    foreign = Found(tuple(snapshots), (), (stored(f"{COMMANDS}0"),))
    assert decide_old(foreign).bodies == ()


# ---- on a chain ---------------------------------------------------------------------------------


@pytest.fixture
def chain() -> Member:
    return new_chain()


def grown(chain: Member, snapshots: int) -> None:
    for _ in range(snapshots):
        chain.append()
        chain.committer.snapshots.write()


def keys(store: ObjectStore, prefix: str) -> set[str]:
    return {each.key for each in store.list_keys(prefix)}


def vacuumed(store: ObjectStore) -> None:
    here = find(store)
    assert delete_old(store, here, decide_old(here)).errors == ()


def test_what_stays_opens_to_the_same_state_from_each_of_the_three(chain: Member) -> None:
    grown(chain, 6)
    store = chain.store.inner
    wanted = contents(chain.follower.state)
    vacuumed(store)
    assert keys(store, SNAPSHOTS) == {snapshot_key(n) for n in (5, 6, 7)}
    named: set[str] = set()
    for n in (7, 6, 5):
        manifest = snapshot.read_manifest(store, snapshot_key(n))
        assert snapshot.missing_chunks(store, manifest) == []
        named |= {chunk_key(each) for each in snapshot.known_chunks(manifest)}
        assert contents(member(store).follower.state) == wanted
        store.delete(snapshot_key(n))
    assert keys(store, CHUNKS) == named
    assert find(store).snapshots == ()


def test_a_second_run_finds_nothing_to_do_and_the_next_snapshot_is_whole(chain: Member) -> None:
    grown(chain, 5)
    vacuumed(chain.store)
    again = find(chain.store)
    assert decide_old(again) == Old()
    grown(chain, 1)
    assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)
    newest = snapshot.newest(chain.store)
    assert newest is not None
    assert snapshot.missing_chunks(chain.store, newest) == []


@pytest.mark.parametrize("where", [SNAPSHOTS, CHUNKS])
def test_a_failed_deletion_is_told_and_tried_again(chain: Member, where: str) -> None:
    grown(chain, 5)
    chain.store.plan(Fault.UNAVAILABLE, "delete", where)
    here = find(chain.store)
    done = delete_old(chain.store, here, decide_old(here))
    assert (done.failed, len(done.errors)) == (1, 1)
    if where == SNAPSHOTS:  # then its chunks stay
        assert keys(chain.store, CHUNKS) == {each.key for each in here.chunks}
    vacuumed(chain.store)
    assert decide_old(find(chain.store)) == Old()


def test_a_reader_whose_snapshot_goes_while_it_reads_takes_a_newer_one(
    chain: Member, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot it found was the newest. Three more have come since, and vacuum has run."""
    monkeypatch.setattr(snapshot, "ThreadPoolExecutor", Inline)
    grown(chain, 1)
    other = member(chain.store.inner)
    late = Member(FaultyStore(chain.store.inner))

    def meanwhile() -> None:
        grown(other, 3)
        vacuumed(other.store)

    late.store.plan(meanwhile, "get", CHUNKS)
    late.store.plan(Fault.UNAVAILABLE, "get", entry_key(0))  # it does not read all entries instead
    late.follower.open()
    assert contents(late.follower.state) == contents(other.follower.state)
    assert late.follower.snapshot_n == other.follower.snapshot_n
    assert not caplog.text


@pytest.mark.parametrize("look", [snapshot.newest, snapshot.load_newest])
def test_a_manifest_that_goes_between_being_found_and_read_is_passed_over(
    chain: Member, look: Callable[[ObjectStore], object]
) -> None:
    grown(chain, 1)
    other = member(chain.store.inner)

    def meanwhile() -> None:
        grown(other, 3)
        vacuumed(other.store)

    chain.store.plan(meanwhile, "get", SNAPSHOTS)
    first = look(chain.store)
    manifest = first[0] if isinstance(first, tuple) else first
    assert isinstance(manifest, snapshot.Manifest)
    assert manifest.n == other.follower.snapshot_n


@pytest.mark.parametrize("again", [False, True])
def test_a_writer_whose_chunk_went_before_its_manifest_came_takes_it_back_and_writes_all_anew(
    chain: Member, again: bool
) -> None:
    """Also if the manifest is refused as taken because of an earlier try of the same put."""
    grown(chain, 1)
    chain.append()
    before = snapshot.newest(chain.store)
    assert before is not None
    chunk = chunk_key(before.topics.sha256)  # which the next snapshot names again
    chain.store.plan(lambda: chain.store.inner.delete(chunk), "put_if_absent", SNAPSHOTS)
    if again:
        chain.store.plan(Fault.OWN_KEY_EXISTS, "put_if_absent", SNAPSHOTS)
    with pytest.raises(StoreUnavailable, match=f"{chunk} at .* was deleted as old while a snapshot that names it"):
        chain.committer.snapshots.write()
    assert keys(chain.store, SNAPSHOTS) == {snapshot_key(2)}
    chain.committer.snapshots.write()
    newest = snapshot.newest(chain.store)
    assert newest is not None
    assert (newest.n, snapshot.missing_chunks(chain.store, newest)) == (3, [])


def test_a_chunk_that_a_manifest_names_which_came_before_it_went_is_put_back_by_who_deletes(chain: Member) -> None:
    """The writer has looked for its chunks already, and believes that all of them are there."""
    grown(chain, 5)
    late = member(chain.store.inner)
    late.append()
    head = late.follower.head
    prepared = snapshot.prepare(head.state, head.entry_hash, {})
    *chunks, manifest = snapshot.objects_of(prepared)
    for key, body in chunks:
        if key not in keys(chain.store, CHUNKS):
            chain.store.inner.put_if_absent(key, body)
    chain.store.plan(lambda: chain.store.inner.put_if_absent(*manifest), "delete", CHUNKS)
    vacuumed(chain.store)
    newest = snapshot.newest(chain.store)
    assert newest is not None
    assert (snapshot_key(newest.n), snapshot.missing_chunks(chain.store, newest)) == (manifest[0], [])


def retention_is(chain: Member, *changed: tuple[str, str]) -> None:
    command = AlterTopic(TOPIC, dict(changed), () if changed else ("retention.ms",))
    chain.committer.submit(chain.committer.begin(command), TIMEOUT_MS)


@pytest.mark.parametrize("late", [False, True])
def test_a_slow_run_breaks_no_snapshots_that_a_faster_one_kept(chain: Member, late: bool) -> None:
    """What was old when the slow run looked is named again by the only snapshots that the other one left."""
    store, first = chain.store, chain.follower.state.n + 1
    grown(chain, 1)
    retention_is(chain, ("retention.ms", "5"))
    grown(chain, 3)
    seen = find(store)
    topics = chunk_key(snapshot.read_manifest(store, snapshot_key(first)).topics.sha256)

    def meanwhile() -> None:
        retention_is(chain)
        grown(chain, 3)
        vacuumed(chain.store.inner)

    if late:  # just before the chunk goes
        store.plan(meanwhile, "delete", topics)
    else:
        meanwhile()
    assert topics in {each.key for each in decide_old(seen).chunks}
    assert delete_old(store, seen, decide_old(seen)).errors == ()
    assert late or store.count("delete", topics) == 0
    newest = find(store).snapshots
    assert len(newest) == KEPT
    for each in newest:
        assert snapshot.missing_chunks(store, snapshot.read_manifest(store, each.stored.key)) == []


@pytest.mark.parametrize("damaged", [False, True])
def test_a_chunk_is_put_back_if_nobody_knows_who_names_it(chain: Member, damaged: bool) -> None:
    """The look for new manifests fails, or one of them is damaged, just after the chunk went."""
    grown(chain, 5)
    here = find(chain.store)
    old = decide_old(here)
    if damaged:
        chain.store.plan(lambda: chain.store.inner.put_if_absent(snapshot_key(90), b"?"), "delete", CHUNKS)
    else:
        chain.store.plan(Fault.UNAVAILABLE, "list_keys", SNAPSHOTS, skip=1)
    done = delete_old(chain.store, here, old)
    left = {each.key for each in old.chunks} & keys(chain.store, CHUNKS)
    assert (done.failed, len(left)) == ((0, len(old.chunks)) if damaged else (1, 1))


# ---- bodies -------------------------------------------------------------------------------------


def with_a_large_command(chain: Member, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(command_group, "SLICES_INLINE", 1)
    chain.submit(chain.begin(append(slices=[0, 1, 0])))
    (body,) = keys(chain.store, COMMANDS)
    return body


def floor_passes(chain: Member) -> None:
    floor = EntryNumber(chain.follower.state.n)
    chain.committer.submit(chain.committer.begin(RaiseFloor(floor)), TIMEOUT_MS)


def test_a_reader_that_is_behind_when_a_body_goes_begins_again_at_a_snapshot(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = member(chain.store.inner)
    body = with_a_large_command(chain, monkeypatch)
    floor_passes(chain)
    grown(chain, KEPT)
    assert [each.key for each in find(chain.store).bodies] == [body]
    vacuumed(chain.store)
    assert keys(chain.store, COMMANDS) == set()
    behind.follower.catch_up()
    assert contents(behind.follower.state) == contents(chain.follower.state)
    assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)


def test_a_body_stays_until_three_snapshots_cover_it(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    body = with_a_large_command(chain, monkeypatch)
    grown(chain, 1)
    floor_passes(chain)
    grown(chain, KEPT - 1)
    vacuumed(chain.store)
    assert keys(chain.store, COMMANDS) == {body}


@pytest.mark.parametrize("snapshots", [0, 1])
def test_a_body_that_is_gone_without_a_snapshot_that_covers_it_is_damage(
    chain: Member, monkeypatch: pytest.MonkeyPatch, snapshots: int
) -> None:
    grown(chain, snapshots)
    behind = member(chain.store.inner)
    before = contents(behind.follower.state)
    body = with_a_large_command(chain, monkeypatch)
    chain.store.inner.delete(body)
    with pytest.raises(ChainDamaged, match=f"{body} at .*: entry {chain.follower.state.n} names it, it is not there"):
        behind.follower.catch_up()
    assert contents(behind.follower.state) == before
