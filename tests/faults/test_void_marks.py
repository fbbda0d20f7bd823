"""Stalled writers and paused readers whose block of entries is marked and deleted meanwhile.

Each scenario is repeated without its guard: there an acknowledged write is lost, or a reader is misled.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparklog.chain.entry import Entry, encode_entry
from sparklog.core.commands import RaiseFloor
from sparklog.core.errors import ChainDamaged, Landed, OutcomeUnknown, WriteExpired
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import entry_key, void_key
from sparklog.storage.open_store import open_store
from tests.chain.chain_kit import (
    AUTHOR,
    SMALL_BLOCK,
    TIMEOUT_MS,
    Member,
    append,
    let_block_go,
    member,
    new_chain,
    small_blocks,
    upload_of,
)
from tests.faults.crash_places import Place
from tests.kit.faulty_store import Fault

LOG = "meta/log/"


pytestmark = pytest.mark.parametrize(
    "place",
    ["memory", *(pytest.param(store, marks=[pytest.mark.slow, pytest.mark.campaign]) for store in ("s3", "hdfs"))],
    indirect=True,
)


@pytest.fixture
def chain(place: Place, monkeypatch: pytest.MonkeyPatch) -> Member:
    small_blocks(monkeypatch)
    return new_chain(store=open_store(place.new_url()))


def stalled(chain: Member, moment: str) -> tuple[Member, Callable[[], None]]:
    """Let a writer fall asleep before or after its next put of an entry, while something else happens."""
    writer = member(chain.store.inner)
    asleep: Callable[[], None] = lambda: let_block_go(member(chain.store.inner), 0)  # noqa: E731
    if moment == "before the put":
        writer.store.plan(asleep, "put_if_absent", LOG)
    elif moment == "after the put":
        writer.store.plan(asleep, "get", "meta/void/")
    else:  # its reply was lost; it tries again when it wakes
        writer.store.plan(Fault.REPLY_LOST, "put_if_absent", LOG)
        writer.store.plan(asleep, "put_if_absent", LOG)
    return writer, asleep


def sees_no_mark(blind: Member) -> None:
    """Act as if it never looked for a mark."""
    blind.store.plan(Fault.STALE_404, "get", "meta/void/", times=1_000)


@pytest.mark.parametrize("moment", ["before the put", "after the put", "after a lost reply"])
def test_a_stalled_writer_whose_block_went_loses_nothing_and_says_so(chain: Member, moment: str) -> None:
    writer, _ = stalled(chain, moment)
    submission = writer.begin(append(records=3))
    if moment == "before the put":
        result = writer.submit(submission)
        assert result.n >= SMALL_BLOCK
    else:  # it landed before the stall, in an entry that is gone: a deleter keeps those above FLOOR
        with pytest.raises(ChainDamaged, match=f"entry 2, .* it applied command {submission.command_id}") as caught:
            writer.submit(submission)
        assert caught.value.landed is Landed.YES
    reader = member(chain.store.inner)
    assert reader.uploads().count(upload_of(submission)) == 1
    if moment == "before the put":
        at = reader.uploads().index(upload_of(submission))
        assert (result.ranges[0].end - result.ranges[0].start, result.ranges[0].start) == (3, at)
    assert writer.uploads() == reader.uploads()


@pytest.mark.parametrize("moment", ["before the put", "after a lost reply"])
def test_without_the_mark_check_after_a_win_its_ack_or_its_state_would_be_wrong(chain: Member, moment: str) -> None:
    writer, _ = stalled(chain, moment)
    sees_no_mark(writer)
    submission = writer.begin(append(records=3))
    writer.submit(submission)  # acknowledged
    reader = member(chain.store.inner)
    if moment == "before the put":
        assert upload_of(submission) not in reader.uploads()
    assert writer.uploads() != reader.uploads()


def test_a_stalled_writer_below_floor_says_that_its_outcome_is_unknown(chain: Member) -> None:
    writer = member(chain.store.inner)
    other = member(chain.store.inner)

    def asleep() -> None:
        let_block_go(other, 0)
        floor = EntryNumber(other.follower.state.n)
        other.committer.submit(other.committer.begin(RaiseFloor(floor)), TIMEOUT_MS)

    writer.store.plan(asleep, "put_if_absent", LOG)
    submission = writer.begin(append(n0=writer.committer.follower.state.n0))
    with pytest.raises(WriteExpired) as caught:
        writer.submit(submission)
    assert caught.value.landed is Landed.UNKNOWN
    assert upload_of(submission) not in member(chain.store.inner).uploads()


@pytest.mark.parametrize("reading", ["meta/snapshot/", "meta/chunks/", LOG])
def test_a_stalled_writer_that_can_not_read_what_came_after_does_not_say_that_nothing_landed(
    chain: Member, reading: str
) -> None:
    writer, asleep = stalled(chain, "after the put")
    writer.store.planned.clear()

    def asleep_then_cut_off() -> None:
        asleep()
        writer.store.plan(Fault.UNAVAILABLE, "", reading, times=1_000)

    writer.store.plan(asleep_then_cut_off, "get", "meta/void/")
    submission = writer.begin(append())
    with pytest.raises(OutcomeUnknown) as caught:
        writer.submit(submission)
    assert caught.value.landed is Landed.UNKNOWN
    assert upload_of(submission) in member(chain.store.inner).uploads()
    writer.store.planned.clear()
    with pytest.raises(ChainDamaged, match="entry 2, ") as known:  # a deleter keeps entries above FLOOR
        writer.submit(submission)
    assert known.value.landed is Landed.YES


def test_a_slot_lost_in_a_marked_block_is_not_followed(chain: Member) -> None:
    """Another stalled writer was here first: its entry is as void as this writer's would have been."""
    first, second = member(chain.store.inner), member(chain.store.inner)
    lost = second.begin(append())
    first.store.plan(lambda: let_block_go(member(chain.store.inner), 0), "put_if_absent", LOG)
    second.store.plan(lambda: first.append(), "put_if_absent", LOG)
    second.submit(lost)
    reader = member(chain.store.inner)
    assert upload_of(lost) in reader.uploads()
    assert first.uploads() == reader.uploads()[:-1]
    assert second.uploads() == reader.uploads()


@pytest.mark.parametrize("delete", [True, False])
def test_a_paused_reader_whose_block_went_begins_again_at_the_snapshot(chain: Member, delete: bool) -> None:
    chain.append()
    reader = member(chain.store.inner)
    let_block_go(chain, 0, delete=delete)
    chain.append(partition=1)
    reader.follower.catch_up()
    assert (reader.follower.state.n, reader.uploads()) == (chain.follower.state.n, chain.uploads())


def test_without_the_mark_check_a_paused_reader_would_take_a_deleted_block_for_the_end(chain: Member) -> None:
    reader = member(chain.store.inner)
    let_block_go(chain, 0)
    sees_no_mark(reader)
    reader.follower.catch_up()
    assert reader.follower.state.n < chain.follower.state.n


def test_a_reader_does_not_follow_a_slot_that_a_stalled_writer_re_created(chain: Member) -> None:
    reader, writer = member(chain.store.inner), member(chain.store.inner)
    ghost: list[str] = []

    def asleep() -> None:
        let_block_go(member(chain.store.inner), 0)

    def interrupt() -> None:
        raise KeyboardInterrupt  # it dies between its put and its mark look-up

    writer.store.plan(asleep, "put_if_absent", LOG)
    writer.store.plan(interrupt, "get", "meta/void/")
    submission = writer.begin(append())
    with pytest.raises(KeyboardInterrupt):
        writer.submit(submission)
    ghost.append(upload_of(submission))
    assert chain.store.inner.get(entry_key(2))  # re-created
    reader.follower.catch_up()
    assert ghost[0] not in reader.uploads()
    assert reader.uploads() == member(chain.store.inner).uploads()


def test_without_the_mark_check_a_reader_would_follow_a_re_created_slot(chain: Member) -> None:
    reader, writer = member(chain.store.inner), member(chain.store.inner)
    writer.store.plan(lambda: let_block_go(member(chain.store.inner), 0), "put_if_absent", LOG)
    sees_no_mark(writer)
    submission = writer.begin(append())
    writer.submit(submission)
    sees_no_mark(reader)
    reader.follower.catch_up()
    assert upload_of(submission) in reader.uploads()
    assert upload_of(submission) not in member(chain.store.inner).uploads()


@pytest.mark.parametrize("who", ["reader", "writer"])
def test_a_hash_mismatch_in_a_marked_block_is_no_damage(chain: Member, who: str) -> None:
    """The mark is put after the first look for it: only its hash shows that the entry does not fit."""
    late = member(chain.store.inner)
    let_block_go(chain, 0)
    chain.store.inner.delete(void_key(0))
    ghost = Entry("c" * 32, EntryNumber(2), AUTHOR, "f" * 32, "e" * 64, 1, ())
    chain.store.inner.put_if_absent(entry_key(2), encode_entry(ghost))
    late.store.plan(lambda: chain.store.inner.put_if_absent(void_key(0), b""), "get", "meta/void/", skip=1)
    if who == "reader":
        late.follower.catch_up()
    else:
        assert late.append().n == chain.follower.state.n + 1
        chain.follower.catch_up()
    assert late.uploads() == chain.uploads()


def test_a_block_that_is_marked_without_a_snapshot_over_it_is_damage(chain: Member) -> None:
    reader = member(chain.store.inner)
    chain.store.put_if_absent(void_key(0), b"")
    with pytest.raises(ChainDamaged, match="block 0 is marked as deleted, but no snapshot covers it"):
        reader.follower.catch_up()
    with pytest.raises(OutcomeUnknown, match=r"CHAIN_DAMAGED.*no snapshot covers it"):
        reader.append()


def test_a_mark_that_can_not_be_read_stops_a_reader(chain: Member) -> None:
    reader = member(chain.store.inner)
    chain.append()
    reader.store.plan(Fault.UNAVAILABLE, "get", "meta/void/")
    with pytest.raises(Exception, match="planned to be unavailable"):
        reader.follower.catch_up()
    assert reader.follower.state.n == 1
    reader.follower.catch_up()
    assert reader.follower.state.n == 2


def test_marks_of_every_block_that_was_read_are_looked_at(chain: Member) -> None:
    while chain.follower.state.n < 3 * SMALL_BLOCK:
        chain.append()
    reader = Member(chain.store)
    chain.store.calls.clear()
    reader.follower.open()
    asked = {key for method, key in chain.store.calls if method == "get" and key.startswith("meta/void/")}
    assert asked == {void_key(block) for block in range(4)}
