"""An object on its way to several stores: slow, dead, full and swapped ones do not keep it from the others."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator

import pytest

from sparklog.core.errors import (
    InvalidInput,
    KeyExists,
    OutcomeUnknown,
    SparklogError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from sparklog.core.types import StoreId
from sparklog.log.write.replicated_upload import ReplicatedUpload
from sparklog.log.write.store_lanes import STALLED_MS, StoreLanes, StoreWork
from sparklog.storage.keys import INCARNATION, append_key, index_key
from tests.kit.faulty_store import ALWAYS, Fault, Hanging
from tests.log.scripted_stores import LAG_MS, ScriptedStores, let_end

A, B, C = (StoreId(name) for name in "abc")
ABC = (A, B, C)
KEY = append_key(0, "ab" * 16)
OTHER = append_key(0, "cd" * 16)


@pytest.fixture
def stores() -> ScriptedStores:
    return ScriptedStores()


def upload(
    lanes: StoreLanes, *names: StoreId, key: str = KEY, here: bool = False, backlog: int | None = None
) -> ReplicatedUpload:
    made = ReplicatedUpload(lanes, names, key, here=here, backlog_bytes=backlog)
    for body in (b"one", b"two"):
        made.write(body)
    made.publish(b"index")
    return made


def others_are_done(made: ReplicatedUpload, *slow: StoreId) -> bool:
    return all(copy.done for copy in made._copies if copy.lane.store not in slow)


# ---- all is well --------------------------------------------------------------------------------------


def test_every_store_gets_the_same_bytes_and_the_index_behind_them(stores: ScriptedStores) -> None:
    lanes = stores.lanes()
    assert upload(lanes, *ABC).holders() == set(ABC)
    for name in "abc":
        assert (bytes(stores[name].get(KEY)), bytes(stores[name].get(index_key(KEY)))) == (b"onetwo", b"index")
        assert stores[name].calls[:6] == [
            ("upload", KEY),
            ("write", KEY),
            ("write", KEY),
            ("publish", KEY),
            ("put_if_absent", index_key(KEY)),
            ("get", INCARNATION),
        ]
    assert lanes.failures() == {}
    let_end()


def test_a_single_store_needs_no_other_thread(stores: ScriptedStores) -> None:
    here = threading.current_thread()
    threads = []
    stores["a"].before = lambda call, key: threads.append(threading.current_thread())
    assert upload(stores.lanes(), A, here=True).holders() == {A}
    assert set(threads) == {here}


# ---- slow and hung stores -----------------------------------------------------------------------------


def test_a_store_that_holds_the_others_up_for_too_long_is_given_up(stores: ScriptedStores) -> None:
    hanging = Hanging()
    stores["b"].plan(hanging, "write", times=ALWAYS)
    lanes = stores.lanes()
    made = upload(lanes, *ABC)
    assert hanging.reached.wait(60)
    stores.clock.ready = lambda: others_are_done(made, B)
    assert made.holders() == {A, C}
    assert stores.clock.at_ms == LAG_MS
    assert lanes.failures() == {
        B: "REQUEST_TIMED_OUT: the write waited 30 seconds for this store, the limit is 30 seconds "
        "(replica.lag.time.max.ms)"
    }
    let_end(hanging)
    assert stores.keys("b") == []
    assert stores["b"].aborted == [KEY], "in the background, once the call that hung has ended"


def test_a_store_that_answers_after_it_was_given_up_is_no_holder(stores: ScriptedStores) -> None:
    """Its answer comes before anybody looks who holds the object."""
    hanging = Hanging()
    stores["b"].plan(hanging, "get", INCARNATION, times=ALWAYS)
    lanes = stores.lanes()
    made = upload(lanes, A, B)
    assert hanging.reached.wait(60)
    (_, lane) = lanes.of((A, B))
    lanes.give_up(lane, StoreUnavailable("it is too late"))
    let_end(hanging)
    assert made.holders() == {A}


def test_the_time_that_a_store_may_hold_a_task_up_is_counted_over_all_its_objects(stores: ScriptedStores) -> None:
    first, second = Hanging(), Hanging()
    stores["b"].plan(first, "publish", KEY)
    stores["b"].plan(second, "publish", OTHER)
    lanes = stores.lanes()
    made = upload(lanes, A, B)

    def slow_but_not_too_slow() -> bool:
        if stores.clock.at_ms < 20_000:
            return True
        first.go_on.set()
        return False

    stores.clock.step_ms, stores.clock.ready = 20_000, slow_but_not_too_slow
    assert made.holders() == {A, B}
    stores.clock.ready = lambda: True
    assert upload(lanes, A, B, key=OTHER).holders() == {A}
    assert stores.clock.at_ms == LAG_MS
    let_end(second)


def test_stores_that_are_equally_slow_hold_nobody_up(stores: ScriptedStores) -> None:
    """No time counts while no store is ahead of the others, as long as they take something now and then."""
    lanes = stores.lanes()

    def take_something_at_last() -> bool:
        with lanes.lock:
            if len(stores.clock.waits) % 3 == 0:
                lanes.note_progress()
        return True

    stores.clock.ready = stores.clock.stalled = take_something_at_last
    works = [_Late(lanes, lane) for lane in lanes.of((A, B))]
    lanes.wait(works, lambda work: stores.clock.at_ms >= 10 * STALLED_MS, lambda work: False)
    assert lanes.failures() == {}
    assert {lane.held_up_ms for lane in lanes.of((A, B))} == {0}


class _Late(StoreWork):
    def perform(self) -> Generator[None]:
        yield


@pytest.mark.timeout(60)
def test_stores_that_all_hang_do_not_hold_a_write_up_for_ever(stores: ScriptedStores) -> None:
    hanging = Hanging(), Hanging()
    stores["a"].plan(StoreUnavailable("no answer"), "upload")
    for name, hung in zip("bc", hanging, strict=True):
        stores[name].plan(hung, "write", times=ALWAYS)
    lanes = stores.lanes()
    made = upload(lanes, *ABC)
    assert all(hung.reached.wait(60) for hung in hanging)
    while A not in lanes.failures():
        time.sleep(0.001)
    stores.clock.ready = stores.clock.stalled = lambda: True
    with pytest.raises(StoreUnavailable) as raised:
        made.holders()
    assert stores.clock.at_ms == STALLED_MS
    assert "none of the stores of this write took anything for 5 minutes" in raised.value.message
    let_end(*hanging)


def test_a_store_in_doubt_does_not_hurry_one_that_works(stores: ScriptedStores) -> None:
    """Its object may not be there, so the other one may be the only holder."""
    slow = Hanging()
    stores["a"].plan(OutcomeUnknown("no reply"), "publish")
    stores["b"].plan(slow, "publish")
    lanes = stores.lanes()
    made = upload(lanes, A, B)
    assert slow.reached.wait(60)
    while made._copies[0].doubt is None:
        time.sleep(0.001)
    passing = iter(range(12))  # each a look of 5 seconds, twice the limit in all

    def goes_on_at_last() -> bool:
        if next(passing, None) is None:
            slow.go_on.set()
            return False
        return True

    stores.clock.ready = stores.clock.stalled = goes_on_at_last
    assert made.holders() == {B}
    let_end()


def test_a_store_that_hangs_is_given_up_if_another_one_is_in_doubt(stores: ScriptedStores) -> None:
    hanging = Hanging()
    stores["a"].plan(OutcomeUnknown("no reply"), "publish")
    stores["b"].plan(hanging, "write", times=ALWAYS)
    lanes = stores.lanes()
    made = upload(lanes, A, B)
    assert hanging.reached.wait(60)
    while made._copies[0].doubt is None:
        time.sleep(0.001)
    stores.clock.ready = stores.clock.stalled = lambda: True
    with pytest.raises(OutcomeUnknown):
        made.holders()
    assert (stores.clock.at_ms, list(lanes.errors())) == (STALLED_MS, [B])
    let_end(hanging)


def test_a_store_that_was_given_up_is_asked_for_nothing_more(stores: ScriptedStores) -> None:
    stores["b"].plan(StoreFull("no space left"), "write", times=ALWAYS)
    lanes = stores.lanes()
    for key in (KEY, OTHER):
        assert upload(lanes, A, B, key=key).holders() == {A}
    assert [call for call, key in stores["b"].calls if key != INCARNATION] == ["upload", "write"]
    let_end()


def test_a_fast_store_is_ahead_of_a_slow_one_by_no_more_than_the_backlog(stores: ScriptedStores) -> None:
    hanging = Hanging()
    stores["b"].plan(hanging, "write", times=ALWAYS)
    lanes = stores.lanes()
    made = ReplicatedUpload(lanes, (A, B), KEY, here=False, backlog_bytes=10)
    made.write(b"12345")
    made.write(b"67890")

    def went_on() -> None:
        made.write(b"12345")
        made.publish(b"index")

    writing = threading.Thread(target=went_on)
    writing.start()
    assert hanging.reached.wait(60)
    assert stores.keys("a") == [], "the writer waits, so the object is not published yet"
    hanging.go_on.set()
    writing.join(60)
    assert made.holders() == {A, B}
    let_end()


def test_the_bytes_that_only_a_store_that_was_given_up_lacks_are_dropped(stores: ScriptedStores) -> None:
    """Its thread may hang for ever, and must not keep the object in memory."""
    hanging = Hanging()
    stores["b"].plan(hanging, "write", times=ALWAYS)
    lanes = stores.lanes()
    kept = upload(lanes, A, B)
    another = bytes([1, 2, 3])
    users = sys.getrefcount(another)
    waiting = ReplicatedUpload(lanes, (A, B), append_key(0, "ef" * 16), here=False, backlog_bytes=10)
    waiting.write(another)
    assert hanging.reached.wait(60)
    assert kept.held_bytes == 6
    stores.clock.ready = lambda: others_are_done(kept, B)
    assert kept.holders() == {A}
    assert kept.held_bytes == 0
    waiting.publish(b"index")
    assert waiting.holders() == {A}
    assert sys.getrefcount(another) == users
    streamed = ReplicatedUpload(lanes, (A, B), OTHER, here=False, backlog_bytes=3)
    for _ in range(10):
        streamed.write(b"one")
        assert streamed.held_bytes <= 6
    streamed.publish(b"index")
    assert streamed.holders() == {A}
    let_end(hanging)


# ---- stores that fail ---------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["write", "publish", "put_if_absent", "get"])
@pytest.mark.parametrize(
    "error",
    [StoreUnavailable("no answer"), StoreFull("no space left"), StoreReadOnly("read-only"), InvalidInput("no bucket")],
    ids=lambda each: each.code,
)
def test_the_object_is_named_without_a_store_that_fails(
    stores: ScriptedStores, call: str, error: SparklogError
) -> None:
    stores["b"].plan(error, call, times=ALWAYS)
    lanes = stores.lanes()
    made = upload(lanes, *ABC)
    assert made.holders() == {A, C}
    assert lanes.failures() == {B: str(error)}
    let_end()
    assert stores["b"].aborted == ([KEY] if call in ("write", "publish") else [])


def test_if_every_store_fails_the_most_hopeful_error_names_all(stores: ScriptedStores) -> None:
    stores["a"].plan(StoreFull("no space left"), "write", times=ALWAYS)
    stores["b"].plan(StoreUnavailable("no answer"), "publish", times=ALWAYS)
    stores["c"].before = lambda call, key: 1 // 0
    lanes = stores.lanes()
    with pytest.raises(StoreUnavailable) as raised:
        upload(lanes, *ABC).holders()
    assert raised.value.message == (
        "wanted to write to 3 stores, found none that takes it (store a: STORE_FULL: no space left; "
        "store b: KAFKA_STORAGE_ERROR: no answer; store c: ZeroDivisionError('integer division or modulo by zero'))"
    )
    let_end()


def test_a_single_stores_error_is_its_own(stores: ScriptedStores) -> None:
    error = StoreFull("no space left")
    stores["a"].plan(error, "write", times=ALWAYS)
    with pytest.raises(StoreFull) as raised:
        upload(stores.lanes(), A, here=True)
    assert raised.value is error
    assert stores["a"].aborted == [KEY]


@pytest.mark.parametrize("error", [OutcomeUnknown("no reply"), KeyExists("it is there")], ids=lambda each: each.code)
def test_a_store_that_may_have_the_object_is_no_holder(stores: ScriptedStores, error: SparklogError) -> None:
    stores["b"].plan(error, "publish", times=ALWAYS)
    lanes = stores.lanes()
    made = upload(lanes, A, B)
    assert made.holders() == {A}
    assert lanes.failures() == {B: str(error)}
    alone = stores.lanes()
    with pytest.raises(type(error)):
        upload(alone, B).holders()
    let_end()


# M: P-07
@pytest.mark.parametrize("life", [None, "another life"])
def test_a_store_that_was_wiped_or_swapped_holds_nothing(stores: ScriptedStores, life: str | None) -> None:
    stores["b"].delete(INCARNATION)
    if life is not None:
        stores.mark("b", life)
    lanes = stores.lanes()
    made = upload(lanes, A, B)
    assert made.holders() == {A}
    assert lanes.of_another_incarnation() == {B}
    found = (
        "none: the store was wiped, or is not mounted" if life is None else f"{life}: the store was wiped or swapped"
    )
    assert lanes.failures() == {
        B: f"KAFKA_STORAGE_ERROR: wanted INCARNATION life of b at {stores['b'].url}, found {found}"
    }
    let_end()


# M: P-07
def test_a_store_that_misses_its_incarnation_once_is_asked_again(stores: ScriptedStores) -> None:
    stores["b"].plan(Fault.STALE_404, "get", INCARNATION)
    lanes = stores.lanes()
    assert upload(lanes, A, B).holders() == {A, B}
    assert (stores["b"].count("get", INCARNATION), lanes.failures()) == (2, {})
    let_end()


# ---- the end of a task --------------------------------------------------------------------------------


def test_an_abort_waits_for_no_store(stores: ScriptedStores) -> None:
    hanging = Hanging()
    stores["b"].plan(hanging, "write", times=ALWAYS)
    lanes = stores.lanes()
    made = ReplicatedUpload(lanes, (A, B), KEY, here=False)
    made.write(b"one")
    assert hanging.reached.wait(60)
    made.abort()
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("sparklog-store-"))
    let_end(hanging)
    assert stores.keys("a") == stores.keys("b") == []
    assert stores["b"].aborted == [KEY]


def test_an_upload_that_is_dropped_does_not_end_the_others(stores: ScriptedStores) -> None:
    lanes = stores.lanes()
    dropped = ReplicatedUpload(lanes, (A, B), OTHER, here=False, backlog_bytes=0)
    dropped.write(b"one")
    dropped.abort()
    assert upload(lanes, A, B).holders() == {A, B}
    let_end()
    assert stores["a"].aborted == stores["b"].aborted == [OTHER]
    assert lanes.failures() == {}


def test_a_store_that_hangs_keeps_one_thread_however_many_objects_wait(stores: ScriptedStores) -> None:
    hanging = Hanging()
    stores["b"].plan(hanging, "write", times=ALWAYS)
    with stores.lanes() as lanes:
        made = [upload(lanes, A, B, key=append_key(0, f"{n:02}" * 16)) for n in range(20)]
        assert hanging.reached.wait(60)
        assert lane_threads().count("sparklog-store-b") == 1
        stores.clock.ready = lambda: others_are_done(made[0], B)
        assert {each.holders() for each in made} == {frozenset((A,))}
    let_end(hanging)
    assert stores["b"].count("upload") == 1


def test_an_object_streamed_here_is_dropped_though_its_store_failed_at_another_one(stores: ScriptedStores) -> None:
    with stores.lanes() as lanes:
        streamed = ReplicatedUpload(lanes, (A,), KEY, here=True, backlog_bytes=10)
        streamed.write(b"one")
        stores["a"].plan(StoreFull("no space left"), "write", OTHER)
        with pytest.raises(StoreFull):
            upload(lanes, A, key=OTHER, here=True)
    assert sorted(stores["a"].aborted) == sorted([KEY, OTHER])


@pytest.mark.parametrize("here", [False, True])
def test_an_interrupt_while_an_upload_begins_leaves_no_thread(
    stores: ScriptedStores, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    start, started = threading.Thread.start, 0

    def interrupted(thread: threading.Thread) -> None:
        nonlocal started
        start(thread)
        started += 1
        if started == (1 if here else 2):
            raise KeyboardInterrupt

    def uploads() -> None:
        with stores.lanes() as lanes:
            of_one = ReplicatedUpload(lanes, (A,), OTHER, here=True, backlog_bytes=10)
            of_one.write(b"one")
            monkeypatch.setattr(threading.Thread, "start", interrupted)
            if here:
                of_one.continue_in_background()
            else:
                ReplicatedUpload(lanes, ABC, KEY, here=False, backlog_bytes=10)

    with pytest.raises(KeyboardInterrupt):
        uploads()
    monkeypatch.undo()
    let_end()
    assert lane_threads() == []
    assert stores["a"].aborted == [OTHER]


def test_a_thread_that_cant_start_is_an_error_of_that_object_alone(
    stores: ScriptedStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name == "sparklog-store-c":
            raise RuntimeError("can't start new thread")
        start(thread)

    with stores.lanes() as lanes:
        monkeypatch.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError):
            upload(lanes, *ABC)
        monkeypatch.undo()
        assert upload(lanes, *ABC, key=OTHER).holders() == set(ABC)
    let_end()
    assert lane_threads() == []


def lane_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("sparklog-store-")]
