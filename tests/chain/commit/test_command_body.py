"""Appends of many slices: their body is an object beside the chain, and everybody reads the same log."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.chain.commit.command_body import SLICES_INLINE, decode_body, encode_body
from sparklog.chain.entry import decode_entry
from sparklog.core.commands import Append
from sparklog.core.errors import ChainDamaged, RequestTimedOut, StoreFull, StoreUnavailable
from sparklog.core.records import Appended, AppendedByReference
from sparklog.core.types import (
    EntryNumber,
    Holder,
    NewObject,
    NewSlice,
    ObjectKind,
    Offset,
    PartitionIndex,
    ProducerId,
    ProducerSpan,
    StoreId,
    TopicId,
    UploadId,
)
from sparklog.storage.keys import COMMANDS, entry_key
from tests.chain.chain_kit import Member, append, member, new_chain, upload_of
from tests.core.state_contents import contents
from tests.kit.faulty_store import Fault, FaultyStore

LARGE = [0, 1, 1] * (SLICES_INLINE // 3 + 1)  # the partitions of an append that goes by reference


@pytest.fixture
def chain() -> Member:
    return new_chain()


def body_keys(chain: Member) -> list[str]:
    return [each.key for each in chain.store.inner.list_keys(COMMANDS)]


_int64 = st.integers(-(2**63), 2**63 - 1)
_count = st.integers(0, 2**31 - 1)
_spans = st.builds(ProducerSpan, st.integers(0, 2**62).map(ProducerId), _count, _count, _count)
_slices = st.builds(
    NewSlice,
    object_index=_count,
    topic_id=_count.map(TopicId),
    partition=_count.map(PartitionIndex),
    records=st.integers(1, 2**48),
    position=st.integers(0, 2**62),
    length=st.integers(1, 2**62),
    first_batch=_count,
    batches=_count,
    min_timestamp_us=_int64,
    max_timestamp_us=_int64,
    producer=st.none() | _spans,
)
_objects = st.builds(
    NewObject,
    kind=st.just(ObjectKind.APPEND),
    n0=st.integers(0, 2**62).map(EntryNumber),
    upload_id=st.binary(min_size=16, max_size=16).map(lambda each: UploadId(each.hex())),
    topic_id=_count.map(TopicId),
    size_bytes=st.integers(1, 2**62),
    crc32c=st.integers(0, 2**32 - 1),
    index_size_bytes=_count,
    index_crc32c=st.integers(0, 2**32 - 1),
    holders=st.tuples(st.builds(Holder, st.text(max_size=5).map(StoreId), _count)),
)


@given(st.lists(_objects, max_size=4).map(tuple), st.lists(_slices, min_size=1, max_size=8).map(tuple))
def test_objects_and_slices_are_read_as_they_were_written(
    objects: tuple[NewObject, ...], slices: tuple[NewSlice, ...]
) -> None:
    assert decode_body(encode_body(objects, slices)) == (objects, slices)


@pytest.mark.parametrize(("count", "by_reference"), [(SLICES_INLINE, False), (SLICES_INLINE + 1, True)])
def test_more_than_a_thousand_slices_go_by_reference(chain: Member, count: int, by_reference: bool) -> None:
    result = chain.submit(chain.begin(append(slices=[0] * count)))
    (command,) = decode_entry(result.n, chain.store.get(entry_key(result.n))).commands
    assert isinstance(command.records[0], AppendedByReference if by_reference else Appended)
    assert len(body_keys(chain)) == by_reference
    assert (result.ranges[0].start, result.ranges[0].end, result.records) == (0, count, count)


def test_every_follower_expands_it_equally(chain: Member) -> None:
    late = member(chain.store.inner)
    chain.append(records=5)
    result = late.submit(late.begin(append(records=2, slices=LARGE)))
    chain.append(partition=1)
    late.follower.catch_up()
    fresh = member(chain.store.inner)
    assert contents(chain.follower.state) == contents(late.follower.state) == contents(fresh.follower.state)
    ranges = {each.partition: (each.start, each.end) for each in result.ranges}
    assert ranges == {0: (Offset(5), 5 + 2 * LARGE.count(0)), 1: (Offset(0), 2 * LARGE.count(1))}


def test_one_that_lost_its_slot_gets_its_offsets_behind_the_winner_from_the_same_body(chain: Member) -> None:
    other = member(chain.store.inner)
    chain.store.plan(lambda: other.append(records=7), "put_if_absent", "meta/log/")
    result = chain.submit(chain.begin(append(slices=LARGE)))
    assert result.ranges[0].start == 7
    assert len(body_keys(chain)) == 1
    assert contents(chain.follower.state) == contents(member(chain.store.inner).follower.state)


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.LOST, Fault.UNAVAILABLE, Fault.OWN_KEY_EXISTS])
def test_a_body_whose_put_went_wrong_is_put_again(chain: Member, fault: Fault) -> None:
    chain.store.plan(fault, "put_if_absent", COMMANDS)
    chain.store.plan(Fault.STALE_404, "get", COMMANDS)
    submission = chain.begin(append(slices=LARGE))
    chain.submit(submission)
    assert set(member(chain.store.inner).uploads()) == {upload_of(submission)}


def test_a_body_that_can_not_be_put_is_a_time_out_and_nothing_landed(chain: Member) -> None:
    chain.store.plan(Fault.LOST, "put_if_absent", COMMANDS, times=1_000)
    submission = chain.begin(append(slices=LARGE))
    with pytest.raises(RequestTimedOut, match=r"meta/commands/.* could not be written in 10 seconds"):
        chain.submit(submission)
    chain.store.planned.clear()
    assert chain.submit(submission).n == 2


def test_a_body_on_a_full_store_is_the_stores_error(chain: Member) -> None:
    def full() -> None:
        raise StoreFull("no space left")

    chain.store.plan(full, "put_if_absent", COMMANDS, times=2)  # a refusal is also decided on the newest state
    with pytest.raises(StoreFull):
        chain.submit(chain.begin(append(slices=LARGE)))
    assert chain.append().n == 2


def test_a_resubmission_takes_the_body_of_another_version_of_itself(chain: Member) -> None:
    submission = chain.begin(append(slices=LARGE))
    assert isinstance(submission.command, Append)
    chain.store.plan(Fault.UNAVAILABLE, "put_if_absent", "meta/log/", times=1_000)
    with pytest.raises(RequestTimedOut):
        chain.submit(submission)
    chain.store.planned.clear()
    (key,) = body_keys(chain)
    chain.store.inner.delete(key)
    chain.store.inner.put_if_absent(key, _encoded_otherwise(submission.command))
    chain.submit(submission)
    assert contents(chain.follower.state) == contents(member(chain.store.inner).follower.state)


def _encoded_otherwise(command: Append) -> bytes:
    """The same rows in other bytes."""
    import pyarrow as pa

    table = pa.ipc.open_file(encode_body(command.objects, command.slices)).read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("found", [b"", b"something else", encode_body((), ())])
def test_something_else_under_the_commands_key_is_damage(chain: Member, found: bytes) -> None:
    submission = chain.begin(append(slices=LARGE))
    key = f"{COMMANDS}{submission.n0:020d}-{submission.command_id}"
    chain.store.inner.put_if_absent(key, found)
    with pytest.raises(ChainDamaged, match=f"{key}: wanted this command's own {len(LARGE):,} slices"):
        chain.submit(submission)


def damaged_bodies(whole: bytes) -> Iterator[bytes]:
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        flipped = bytearray(whole)
        flipped[at] ^= 16
        yield bytes(flipped)
        yield whole[:at]


def test_any_flipped_bit_or_cut_of_a_body_is_a_named_error_and_changes_nothing(chain: Member) -> None:
    late = member(chain.store.inner)
    chain.submit(chain.begin(append(slices=LARGE)))
    (key,) = body_keys(chain)
    whole = bytes(chain.store.inner.get(key))
    before = contents(late.follower.state)
    for damaged in damaged_bodies(whole):
        chain.store.inner.delete(key)
        chain.store.inner.put_if_absent(key, damaged)
        with pytest.raises(ChainDamaged, match=f"{key} at memory://.*: entry 2 names {len(whole)} bytes with SHA-256"):
            late.follower.catch_up()
        assert contents(late.follower.state) == before
    chain.store.inner.delete(key)
    with pytest.raises(ChainDamaged, match=f"{key} at memory://.*: entry 2 names it, it is not there; put"):
        late.follower.catch_up()


def test_a_body_that_can_not_be_read_now_leaves_the_reader_where_it_was(chain: Member) -> None:
    late = Member(FaultyStore(chain.store.inner))
    late.follower.open()
    chain.append()
    small, large = append(), append(slices=LARGE)
    # an entry with a small append before the large one: neither may take effect without the other
    chain.committer.submit(chain.begin(small))
    chain.submit(chain.begin(large))
    late.store.plan(Fault.UNAVAILABLE, "get", COMMANDS)
    with pytest.raises(StoreUnavailable):
        late.follower.catch_up()
    late.follower.catch_up()
    assert contents(late.follower.state) == contents(chain.follower.state)


def test_an_entry_of_several_commands_takes_effect_whole_or_not_at_all(chain: Member) -> None:
    """A group with a large append after a small one, as another committer may write it."""
    late = member(chain.store.inner)
    chain.append()
    chain.submit(chain.begin(append(slices=LARGE)))
    small = decode_entry(2, chain.store.get(entry_key(2)))
    large = decode_entry(3, chain.store.get(entry_key(3)))
    both = msgspec.structs.replace(small, commands=(*small.commands, *large.commands))
    from sparklog.chain.entry import encode_entry

    for n in (2, 3):
        chain.store.inner.delete(entry_key(n))
    chain.store.inner.put_if_absent(entry_key(2), encode_entry(both))
    before = contents(late.follower.state)
    late.store.plan(Fault.UNAVAILABLE, "get", COMMANDS)
    with pytest.raises(StoreUnavailable):
        late.follower.catch_up()
    assert contents(late.follower.state) == before
    late.follower.catch_up()
    assert contents(late.follower.state)["slices"] == contents(member(chain.store.inner).follower.state)["slices"]
    assert late.follower.state.partition(1, 0).next_offset == 1 + LARGE.count(0)  # type: ignore[union-attr]
