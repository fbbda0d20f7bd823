"""Mirrors of entries on other stores: whole on each of them before an answer, whatever stores and writers do."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from sparklog.chain.chain_requests import MirrorEntry
from sparklog.chain.commit.committer import Committer, new_command_id
from sparklog.chain.entry import decode_entry, encode_entry
from sparklog.chain.follow.follower import Follower
from sparklog.chain.head import Head
from sparklog.chain.mirror import mirrors as copies_module
from sparklog.chain.mirror.mirror import NEAR
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.mirror.mirrored_chain import MirroredChain, last_mirrored
from sparklog.chain.mirror.mirrors import Mirrors
from sparklog.chain.owner import Owner, put_owner
from sparklog.chain.snapshot import snapshot
from sparklog.core.apply import apply
from sparklog.core.commands import (
    AgentDown,
    AllocateProducer,
    AlterCluster,
    CreateCluster,
    FenceStore,
    NewStore,
    RegisterStore,
    RemoveStore,
    ReportJob,
    ReportLoss,
    Submission,
)
from sparklog.core.coordination import Author
from sparklog.core.errors import (
    InconsistentClusterId,
    Landed,
    NotEnoughReplicasAfterAppend,
    StoreAccessDenied,
    StoreUnavailable,
)
from sparklog.core.records import At, ClusterAltered, CommandResult
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, StoreId
from sparklog.storage.keys import (
    CHUNKS,
    SNAPSHOTS,
    chunk_key,
    entry_key,
    mirror_key,
    mirror_prefix,
    owner_key,
    parse_snapshot_key,
)
from sparklog.storage.memory import MemoryStore
from tests.kit.faulty_store import ALWAYS, Fault, FaultyStore, Hanging

CHAIN = "c" * 32
OWNER = Owner(chain_id="d" * 32, previous=CHAIN, cluster="file:///new")
AT_ONCE_MS, PATIENT_MS = 1, 60_000


class World:
    """A chain on a store of its own, and other stores beside it: b, c and d. `config` is that of the cluster."""

    def __init__(self, stores: str = "bcd", **config: str) -> None:
        name = uuid.uuid4().hex
        self.meta = FaultyStore(MemoryStore(f"memory://{name}"))
        self.stores = {StoreId(each): FaultyStore(MemoryStore(f"memory://{name}-{each}")) for each in "abcde"}
        self.stores[StoreId("a")] = self.meta
        config = {each.replace("_", "."): value for each, value in config.items()}
        new = tuple(NewStore(StoreId(each), each, each * 32) for each in f"a{stores}")
        self.process().submit(CreateCluster(CHAIN, new, config))

    def process(self) -> Process:
        """A new process that commits."""
        return Process(self)

    def last(self, store: str) -> int:
        """Up to which entry a store has a copy that a restore can begin with."""
        return last_mirrored(MirrorPlace(self.stores[StoreId(store)].inner, CHAIN))

    def whole(self, store: str) -> int:
        """The newest entry of the state that the copy on one store gives by itself."""
        return Follower(MirroredChain([self.stores[StoreId(store)].inner], CHAIN)).catch_up().n


class Process:
    """One process with its own committer."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.mirrors = Mirrors(world.meta, lambda state, store: world.stores[store], lambda store: store.store != "a")
        self.follower = Follower(world.meta, mirrors=self.mirrors)
        self.follower.catch_up()
        self.committer = Committer(self.follower, Author("client", "test"))

    def submit(self, command: object, timeout_ms: int = PATIENT_MS) -> CommandResult:
        return self.committer.submit(self.begun(command), timeout_ms)

    def begun(self, command: object) -> Submission:
        return Submission(new_command_id(), self.follower.state.n0, command)  # type: ignore[arg-type]

    def write(self, times: int = 1, timeout_ms: int = PATIENT_MS) -> CommandResult:
        for _ in range(times):
            result = self.submit(AllocateProducer(), timeout_ms)
        return result


def test_an_entry_is_on_as_many_stores_as_are_wanted_before_the_answer() -> None:
    world = World(metadata_copies="2")
    process = world.process()
    for _ in range(3):
        n = process.write().n
        assert [world.whole(each) for each in "bc"] == [n, n]
    assert not list(world.stores[StoreId("d")].list_keys(""))


def test_what_a_store_does_not_let_a_restore_read_comes_from_the_next() -> None:
    world = World("bc", metadata_copies="2")
    n = world.process().write().n

    def denied() -> None:
        raise StoreAccessDenied("fix the permissions")

    world.stores[StoreId("b")].plan(denied, "get", mirror_key(CHAIN, entry_key(n)))
    stores = [world.stores[StoreId(each)] for each in "bc"]
    assert Follower(MirroredChain(stores, CHAIN)).catch_up().n == n


def test_by_default_there_is_one_copy_less_than_replicas_in_sync() -> None:
    assert World(min_insync_replicas="3").whole("c") == 0
    none = World(min_insync_replicas="1")
    none.process().write()
    assert not [key for each in "bcd" for _, key in none.stores[StoreId(each)].calls]


def test_with_fewer_other_stores_than_copies_each_has_one() -> None:
    world = World("b", metadata_copies="3")
    n = world.process().write().n
    assert world.whole("b") == n


def test_in_a_steady_state_an_entry_costs_three_requests_for_each_copy() -> None:
    """The copy, whether the one before it is still there, and whether the store has a new owner."""
    world = World(metadata_copies="1")
    process = world.process()
    process.write()
    calls = world.stores[StoreId("b")].calls
    calls.clear()
    n = process.write().n
    copies = [mirror_key(CHAIN, entry_key(each)) for each in (n, n - 1)]
    assert calls == [("put_if_absent", copies[0]), ("size", copies[1]), ("get", owner_key(1))]


# M: F-08
def test_an_acknowledged_entry_has_copies_of_all_before_it() -> None:
    """Writers die between the slot and the copy; the next writer makes the copies that they owe."""
    world = World(metadata_copies="1")
    for dead in (1, 3, NEAR + 5):
        for _ in range(dead):
            process = world.process()
            process.follower.mirrors = None  # it dies before it makes a copy
            Committer(process.follower, Author("client", "dies")).submit(process.begun(AllocateProducer()))
        n = world.process().write().n
        assert world.whole("b") == n


def test_the_answer_to_a_repeat_waits_for_copies_too() -> None:
    world = World(metadata_copies="1")
    process = world.process()
    process.follower.mirrors = None
    begun = process.begun(ReportJob("roll", 1, 2, 0, "{}"))
    Committer(process.follower, Author("client", "dies")).submit(begun)
    world.stores[StoreId("b")].plan(Fault.UNAVAILABLE, "put_if_absent", times=1_000)
    for each in "cd":
        world.stores[StoreId(each)].plan(Fault.UNAVAILABLE, "put_if_absent", times=1_000)
    with pytest.raises(NotEnoughReplicasAfterAppend):
        world.process().committer.submit(begun, AT_ONCE_MS)
    for each in "bcd":
        world.stores[StoreId(each)].planned.clear()
    n = world.process().committer.submit(begun).n
    assert world.whole("b") >= n


def test_a_store_that_fails_is_replaced_and_the_other_one_gets_everything() -> None:
    world = World(metadata_copies="1")
    process = world.process()
    process.write(NEAR + 3)
    world.stores[StoreId("b")].plan(Fault.UNAVAILABLE, times=1_000_000)
    n = process.write().n
    assert world.last("b") == n - 1
    assert world.whole("c") == n
    assert process.write().n == world.whole("c")
    assert world.whole("d") == -1


@pytest.mark.parametrize("method", ["put_if_absent", "size", "get"])
def test_a_store_that_failed_is_tried_last_from_then_on(method: str) -> None:
    """It is well again by the next entry, and is only asked once the other store fails."""
    world = World("bc", metadata_copies="1")
    process = world.process()
    process.write(2)
    b, c = world.stores[StoreId("b")], world.stores[StoreId("c")]
    b.plan(Fault.UNAVAILABLE, method, times=1_000_000)
    assert process.write().n == world.whole("c")
    b.planned.clear()
    b.calls.clear()
    assert process.write().n == world.whole("c")
    assert not b.calls
    c.plan(Fault.UNAVAILABLE, times=1_000_000)
    assert process.write().n == world.whole("b")


def test_a_store_whose_agent_is_silent_is_tried_after_the_others() -> None:
    world = World("bc", metadata_copies="1")
    process = world.process()
    process.write()
    process.submit(AgentDown(StoreId("b"), process.follower.state.stores[StoreId("b")].registration))
    world.stores[StoreId("b")].calls.clear()
    assert process.write().n == world.whole("c")
    assert not world.stores[StoreId("b")].calls
    world.stores[StoreId("c")].plan(Fault.UNAVAILABLE, times=ALWAYS)
    assert process.write().n == world.whole("b")


def test_a_store_that_is_back_gets_what_it_lacks() -> None:
    world = World(metadata_copies="1")
    for _ in range(2):
        for times in (2, NEAR + 3):
            world.stores[StoreId("b")].plan(Fault.UNAVAILABLE, times=1_000_000)
            assert world.process().write(times).n == world.whole("c")
            world.stores[StoreId("b")].planned.clear()
            assert world.process().write().n == world.whole("b")


@contextmanager
def hanging(store: FaultyStore, prefix: str = "") -> Iterator[threading.Event]:
    """The store's puts do not return inside the block."""
    hanging = Hanging()
    store.plan(hanging, "put_if_absent", prefix, times=ALWAYS)
    try:
        yield hanging.reached
    finally:
        store.planned.clear()
        hanging.go_on.set()


@pytest.mark.timeout(60)  # it would wait for ever, and most of a guard's time
def test_a_store_that_hangs_holds_nobody_up_for_longer_than_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(metadata_copies="1")
    process = world.process()
    process.write()
    monkeypatch.setattr(copies_module, "PATIENCE_MS", 200)
    with hanging(world.stores[StoreId("b")]) as hangs:
        n = process.write().n
        assert hangs.wait(PATIENT_MS / 1000)
        assert n in (world.whole("c"), world.whole("d"))
        process.write()  # it is not asked again meanwhile
        assert world.stores[StoreId("b")].count("put_if_absent", mirror_prefix(CHAIN)) == 3
    for thread in threading.enumerate():
        if thread.name == "sparklog-mirror-b":
            thread.join()
    world.stores[StoreId("b")].calls.clear()
    process.write()
    assert not world.stores[StoreId("b")].calls, "it is avoided for a while"


def test_a_store_that_cannot_be_opened_is_replaced_and_named() -> None:
    world = World("bc", metadata_copies="1")
    process = world.process()

    def opened(state: ClusterState, store: StoreId) -> FaultyStore:
        if store == "b":
            raise StoreUnavailable("its address leads nowhere")
        return world.stores[store]

    process.mirrors._open = opened
    assert process.write().n == world.whole("c")
    world.stores[StoreId("c")].plan(Fault.UNAVAILABLE, times=ALWAYS)
    with pytest.raises(NotEnoughReplicasAfterAppend, match=r"store b: .*its address leads nowhere; store c: "):
        process.write(timeout_ms=AT_ONCE_MS)


def test_an_interrupt_in_the_thread_of_a_store_ends_the_commit() -> None:
    """It is no failure of the store, which another one could make good."""
    world = World("bc", metadata_copies="1")
    process = world.process()

    def interrupted() -> None:
        raise KeyboardInterrupt

    world.stores[StoreId("b")].plan(interrupted, "put_if_absent")
    with pytest.raises(KeyboardInterrupt):
        process.write()


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.LOST, Fault.UNAVAILABLE, Fault.OWN_KEY_EXISTS])
def test_faults_of_single_calls_leave_whole_copies(fault: Fault) -> None:
    world = World("b", metadata_copies="1")
    for skip in range(4):
        process = world.process()
        world.stores[StoreId("b")].plan(fault, "put_if_absent", skip=skip)
        assert process.write(3).n == world.whole("b")
        world.stores[StoreId("b")].planned.clear()


def test_without_enough_stores_nothing_is_acknowledged_and_a_retry_is_once_they_are_there() -> None:
    world = World("b", metadata_copies="1")
    process = world.process()
    world.stores[StoreId("b")].plan(Fault.UNAVAILABLE, times=1_000_000)
    begun = process.begun(AllocateProducer())
    with pytest.raises(NotEnoughReplicasAfterAppend) as raised:
        process.committer.submit(begun, AT_ONCE_MS)
    assert raised.value.landed is Landed.UNKNOWN
    assert raised.value.retriable
    assert "1 store that must have one (metadata.copies): store b: KAFKA_STORAGE_ERROR" in raised.value.message
    world.stores[StoreId("b")].planned.clear()
    n = process.committer.submit(begun).n
    assert (n, world.whole("b")) == (process.follower.head.n, n)


@pytest.mark.timeout(60)  # it would wait for an hour
def test_a_fenced_store_is_replaced_by_a_new_one_or_removed() -> None:
    world = World("b", metadata_copies="1")
    process = world.process()
    with pytest.raises(NotEnoughReplicasAfterAppend, match="no other store is registered and not fenced"):
        process.submit(FenceStore(StoreId("b")), 3_600_000)
    assert process.submit(RegisterStore(NewStore(StoreId("c"), "c", "c" * 32))).n == world.whole("c")
    removal = RemoveStore(StoreId("b"), process.follower.state.registrations())
    assert process.submit(removal).n == world.whole("c")


def test_a_damaged_copy_of_an_entry_is_read_from_the_next_store() -> None:
    world = World("bc", metadata_copies="2")
    n = world.process().write().n
    store = world.stores[StoreId("b")].inner
    key = mirror_key(CHAIN, entry_key(n))
    body = bytearray(store.get(key))
    body[len(body) // 2] ^= 1
    store.delete(key)
    store.put_if_absent(key, bytes(body))
    stores = [world.stores[StoreId(each)] for each in "bc"]
    assert Follower(MirroredChain(stores, CHAIN)).catch_up().n == n


def test_an_entry_that_the_next_one_does_not_name_is_not_copied() -> None:
    """It has another nonce, and is whole: what is there is not the chain that the process has read."""
    world = World("b", metadata_copies="1")
    dead = world.process()
    dead.follower.mirrors = None
    committer = Committer(dead.follower, Author("client", "dies"))
    n = committer.submit(dead.begun(AllocateProducer())).n
    process = world.process()
    body = bytes(world.meta.inner.get(entry_key(n)))

    def replaced() -> None:
        world.meta.inner.delete(entry_key(n))
        world.meta.inner.put_if_absent(entry_key(n), encode_entry(replace(decode_entry(n, body), nonce="f" * 32)))

    world.meta.plan(replaced, "put_if_absent", entry_key(n + 1))
    with pytest.raises(NotEnoughReplicasAfterAppend, match="is not the entry that the next one names"):
        process.write(timeout_ms=AT_ONCE_MS)
    assert world.last("b") == n - 1


def test_a_mirror_that_is_whole_up_to_an_older_entry_does_not_count() -> None:
    """Another thread has begun the same worker for an older entry, and cleared the error of this one."""
    world = World("b", metadata_copies="1")
    process = world.process()
    process.write()
    (worker,) = process.mirrors._workers.values()
    newer = process.follower.head.state.fork()
    newer.n += 1
    request = MirrorEntry(Head(newer, process.follower.head.entry_hash), b"")
    assert worker.error is None
    assert not process.mirrors._ended(worker, request, {})
    assert process.mirrors._ended(worker, MirrorEntry(process.follower.head, b""), {})


def test_the_entry_that_lowers_the_copies_has_as_many_as_before_and_later_ones_fewer() -> None:
    world = World(metadata_copies="2")
    process = world.process()
    n = process.submit(AlterCluster({"metadata.copies": "0"})).n
    assert [world.whole(each) for each in "bc"] == [n, n]
    process.write(2)
    world.process().write()
    assert [world.whole(each) for each in "bc"] == [n, n]


@pytest.mark.parametrize("snapshot_too", [False, True])
def test_nothing_follows_an_entry_that_lowers_the_copies_until_it_has_its_own(snapshot_too: bool) -> None:
    """The process that wrote it was refused, or died. A restore has put its mark, or will read this entry."""
    world = World("b", metadata_copies="1")
    process = world.process()
    process.write()
    put_owner(world.stores[StoreId("b")].inner, 1, OWNER)
    with pytest.raises(InconsistentClusterId):
        process.submit(AlterCluster({"metadata.copies": "0"}))
    if snapshot_too:
        process.committer.snapshots.write()
    for other in (process, world.process()):
        with pytest.raises(InconsistentClusterId):
            other.write()
    world.stores[StoreId("b")].inner.delete(owner_key(1))
    assert world.process().write().n == process.follower.catch_up().n
    assert world.whole("b") == process.follower.head.n - 1


def test_of_several_changes_in_one_entry_the_most_copies_count() -> None:
    state = ClusterState(config={"metadata.copies": "1"}, n=4)
    at = At(EntryNumber(5), 0)
    for copies in ("3", "2", "0"):
        apply(state, ClusterAltered({"metadata.copies": copies}), at)
    state.n = 5
    assert (state.copies_wanted, state.lowers_copies) == (3, True)
    state.n = 6
    assert (state.copies_wanted, state.lowers_copies) == (0, False)


def test_a_store_that_was_wiped_begins_again_with_everything() -> None:
    world = World("b", metadata_copies="1")
    world.process().write(NEAR + 3)
    world.stores[StoreId("b")] = FaultyStore(MemoryStore(f"memory://{uuid.uuid4().hex}"))
    process = world.process()
    n = process.write().n
    assert world.whole("b") == n
    (first,) = list(world.stores[StoreId("b")].list_keys(mirror_key(CHAIN, "meta/log/")))
    assert first.key == mirror_key(CHAIN, entry_key(n))  # a snapshot stands for the others


@pytest.mark.parametrize("kept", [0, 1, NEAR])
def test_a_writer_that_runs_on_notices_that_the_store_was_wiped_or_set_back(kept: int) -> None:
    world = World("b", metadata_copies="1")
    process = world.process()
    process.write(2 * NEAR)
    store = world.stores[StoreId("b")]
    for stored in list(store.inner.list_keys(""))[kept:]:
        store.inner.delete(stored.key)
    assert process.write().n == world.whole("b")
    assert world.process().write().n == world.whole("b")


def test_after_a_failure_a_writer_that_runs_on_looks_at_everything_on_the_store() -> None:
    """The store was wiped. While the first attempt fails, another process puts the entry before the wanted one."""
    world = World("b", metadata_copies="1")
    process = world.process()
    before = process.write(3).n
    store = world.stores[StoreId("b")]
    key = mirror_key(CHAIN, entry_key(EntryNumber(before)))
    body = bytes(store.inner.get(key))
    for stored in list(store.inner.list_keys("")):
        store.inner.delete(stored.key)

    def other() -> None:
        store.inner.put_if_absent(key, body)
        raise StoreUnavailable("no answer")

    store.plan(other, "first_key_after")
    assert process.write().n == world.whole("b")


@pytest.mark.parametrize("runs_on", [True, False])
@pytest.mark.parametrize("kept", [2, NEAR + 3])
def test_a_new_registration_begins_with_a_snapshot(kept: int, runs_on: bool) -> None:
    """The store was set back since, and got later copies; then its loss was reported, or it was fenced and is back."""
    world = World("b", metadata_copies="1")
    process = world.process()
    process.write(2)
    if kept > 2:
        process.committer.snapshots.write()
        process.write(NEAR + 1)
    store = world.stores[StoreId("b")]
    copied = [stored.key for stored in store.inner.list_keys(mirror_key(CHAIN, "meta/log/"))]
    store.inner.delete(copied[1 if kept == 2 else NEAR])  # a hole
    process.submit(ReportLoss(StoreId("b"), 1, "b" * 32))
    n = (process if runs_on else world.process()).write().n
    newest = MirrorPlace(store.inner, CHAIN).first_key_after(SNAPSHOTS, SNAPSHOTS)
    assert newest is not None
    assert parse_snapshot_key(newest) >= n - 1
    assert world.whole("b") == n


def test_several_processes_keep_each_others_copies_whole() -> None:
    world = World(metadata_copies="2")
    processes = [world.process() for _ in range(3)]
    failures: list[BaseException] = []

    def work(process: Process) -> None:
        try:
            for _ in range(8):
                n = process.write().n
                assert min(world.whole(each) for each in "bc") >= n
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(process,)) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_restored_cluster_is_noticed_by_who_begins_and_by_who_runs() -> None:
    world = World("b", metadata_copies="1")
    running = world.process()
    n = running.write().n
    store = world.stores[StoreId("b")].inner
    put_owner(store, 1, OWNER)
    message = f"cluster {CHAIN} was restored as cluster {OWNER.chain_id} at file:///new"
    with pytest.raises(InconsistentClusterId, match=message):
        world.process().write()
    for _ in range(3):
        with pytest.raises(InconsistentClusterId, match=message):
            running.write()
    assert world.whole("b") == n


def test_copies_that_begin_behind_the_mark_of_a_restore_do_not_count() -> None:
    """The restore has found no copies on the store. Then a process puts a snapshot there, far behind the mark."""
    world = World("bc", metadata_copies="1")
    world.process().write(NEAR + 3)
    world.stores[StoreId("b")].plan(Fault.UNAVAILABLE, times=1_000_000)
    store = world.stores[StoreId("c")]

    def restore() -> None:
        put_owner(store.inner, 1, OWNER)

    store.plan(restore, "put_if_absent", mirror_prefix(CHAIN))
    with pytest.raises(InconsistentClusterId):
        world.process().write()


@pytest.mark.parametrize("puts", range(4))
def test_of_a_copy_and_the_mark_of_a_restore_one_is_first(puts: int) -> None:
    """A restore runs just before a put of a copy. It has read every entry that was or will be acknowledged."""
    world = World("b", metadata_copies="1")
    store = world.stores[StoreId("b")]
    read: list[int] = []

    def restore() -> None:
        put_owner(store.inner, 1, OWNER)
        read.append(world.whole("b"))

    store.plan(restore, "put_if_absent", mirror_prefix(CHAIN), skip=puts)
    acknowledged = -1
    for process in (world.process(), world.process()):
        for _ in range(3):
            try:
                acknowledged = max(acknowledged, process.write().n)
            except InconsistentClusterId:
                break
    assert acknowledged <= read[0] <= world.whole("b")


@pytest.mark.parametrize("is_at_source", [True, False])
def test_a_copied_snapshot_is_whole_if_vacuum_takes_a_chunk_meanwhile(is_at_source: bool) -> None:
    """The chunk is there, so it is not put; nothing names it, so it is deleted; then the manifest comes."""
    world = World(metadata_copies="1")
    process = world.process()
    process.submit(AllocateProducer())
    process.committer.snapshots.write()
    process.submit(AllocateProducer())
    place = MirrorPlace(world.stores[StoreId("b")], CHAIN)
    before = snapshot.newest(place)
    assert before is not None
    chunk = chunk_key(before.topics.sha256)  # which the next snapshot names again

    def meanwhile() -> None:
        world.stores[StoreId("b")].inner.delete(mirror_key(CHAIN, chunk))
        if not is_at_source:
            world.meta.inner.delete(chunk)

    world.stores[StoreId("b")].plan(meanwhile, "put_if_absent", mirror_key(CHAIN, SNAPSHOTS))
    process.committer.snapshots.write()
    newest = snapshot.newest(place)
    assert newest is not None
    assert (newest.n > before.n) == is_at_source
    assert is_at_source == (snapshot.missing_chunks(place, newest) == [])


def test_a_snapshot_is_not_named_on_a_store_that_does_not_take_its_chunks() -> None:
    world = World(metadata_copies="1")
    process = world.process()
    n = process.write().n
    store = world.stores[StoreId("b")]
    store.plan(Fault.UNAVAILABLE, "put_if_absent", mirror_key(CHAIN, CHUNKS), times=ALWAYS)
    process.committer.snapshots.write()
    assert snapshot.newest(MirrorPlace(store.inner, CHAIN)) is None
    assert world.whole("b") == n
