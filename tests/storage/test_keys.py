"""Keys: every builder has a parser, the order of keys is the order of what they name, nothing else is taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.errors import ChainDamaged, InvalidInput
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    LeaderEpoch,
    NewObject,
    ObjectKind,
    Offset,
    PartitionIndex,
    TopicId,
    UploadId,
)
from sparklog.storage import keys
from sparklog.storage.memory import MemoryStore

LAST_ENTRY = 4096 * 10**16 - 1  # the last one whose block has 16 digits
UPLOAD = "0123456789abcdef0123456789abcdef"
SHA256 = "ab" * 32

entry_numbers = st.integers(0, LAST_ENTRY) | st.integers(0, 10_000)
hex_32 = st.text("0123456789abcdef", min_size=32, max_size=32)
topics = st.text("ab-._Z0", min_size=1, max_size=249)


def new_object(kind: ObjectKind, **fields: object) -> NewObject:
    values: dict[str, object] = {
        "kind": kind,
        "n0": EntryNumber(7),
        "upload_id": UploadId(UPLOAD),
        "topic_id": TopicId(3),
        "size_bytes": 1,
        "crc32c": 0,
        "index_size_bytes": 1,
        "index_crc32c": 0,
        "holders": (),
    }
    if kind is ObjectKind.SEGMENT:
        values |= {"partition": PartitionIndex(0), "base_offset": Offset(0), "leader_epoch": LeaderEpoch(0)}
    return NewObject(**(values | fields))  # type: ignore[arg-type]


def test_the_layout_is_the_one_of_the_format() -> None:
    segment = new_object(
        ObjectKind.SEGMENT,
        partition=PartitionIndex(12),
        base_offset=Offset(8_000),
        leader_epoch=LeaderEpoch(5),
    )
    assert keys.entry_key(4096) == "meta/log/0000000000000001/00000000000000004096"
    assert keys.snapshot_key(1_000) == "meta/snapshot/99999999999999998999"
    assert keys.chunk_key(SHA256) == f"meta/chunks/{SHA256}"
    assert keys.command_key(7, UPLOAD) == f"meta/commands/00000000000000000007-{UPLOAD}"
    assert keys.command_key(7, UPLOAD, 2) == f"meta/commands/00000000000000000007-{UPLOAD}-2"
    assert keys.void_key(1) == "meta/void/0000000000000001"
    assert keys.INCARNATION == "INCARNATION"
    assert keys.data_key(new_object(ObjectKind.APPEND), "flights") == f"append/01/00000000000000000007-{UPLOAD}.arrow"
    assert keys.data_key(segment, "flights") == (
        f"topics/3-flights/12/00000000000000008000-5-00000000000000000007-{UPLOAD}.arrow"
    )
    assert keys.index_key("append/01/x.arrow") == "append/01/x.index"


# ---- round trips --------------------------------------------------------------------------------


@given(n=entry_numbers)
def test_chain_keys_read_back(n: int) -> None:
    assert keys.parse_entry_key(keys.entry_key(n)) == n
    assert keys.entry_key(n).startswith(keys.entry_block_prefix(keys.entry_block(n)))
    assert keys.parse_snapshot_key(keys.snapshot_key(n)) == n


@given(n0=entry_numbers, command_id=hex_32)
def test_command_keys_read_back(n0: int, command_id: str) -> None:
    for body in (0, 1, 12):
        assert keys.parse_command_key(keys.command_key(n0, command_id, body)) == (n0, CommandId(command_id), body)


@given(n0=entry_numbers, upload_id=hex_32)
def test_append_keys_read_back_with_their_index(n0: int, upload_id: str) -> None:
    obj = new_object(ObjectKind.APPEND, n0=EntryNumber(n0), upload_id=UploadId(upload_id))
    key = keys.check_key(keys.data_key(obj, "any"))
    name = keys.DataName(ObjectKind.APPEND, EntryNumber(n0), UploadId(upload_id), is_index=False)
    assert keys.parse_data_key(key) == name
    found = keys.parse_data_key(keys.index_key(key))
    assert found is not None
    assert found.is_index
    assert (found.n0, found.upload_id) == (n0, upload_id)


@given(
    n0=entry_numbers,
    upload_id=hex_32,
    topic_id=st.integers(0, 99_999),
    topic=topics,
    partition=st.integers(0, 2**31 - 1),
    base_offset=st.integers(0, 2**63 - 1),
    leader_epoch=st.integers(0, 2**31 - 1),
    is_index=st.booleans(),
)
def test_segment_keys_read_back_with_their_index(
    n0: int,
    upload_id: str,
    topic_id: int,
    topic: str,
    partition: int,
    base_offset: int,
    leader_epoch: int,
    is_index: bool,
) -> None:
    name = keys.DataName(
        ObjectKind.SEGMENT,
        EntryNumber(n0),
        UploadId(upload_id),
        is_index,
        TopicId(topic_id),
        topic,
        PartitionIndex(partition),
        Offset(base_offset),
        LeaderEpoch(leader_epoch),
    )
    obj = new_object(
        ObjectKind.SEGMENT,
        n0=name.n0,
        upload_id=name.upload_id,
        topic_id=name.topic_id,
        partition=name.partition,
        base_offset=name.base_offset,
        leader_epoch=name.leader_epoch,
    )
    key = keys.check_key(keys.data_key(obj, topic))
    assert keys.parse_data_key(keys.index_key(key) if is_index else key) == name


def test_a_topic_name_too_long_for_a_directory_is_cut_and_the_id_stays() -> None:
    obj = new_object(ObjectKind.SEGMENT, topic_id=TopicId(10**9))
    key = keys.check_key(keys.data_key(obj, "t" * 249))
    found = keys.parse_data_key(key)
    assert found is not None
    assert found.topic_id == 10**9
    assert found.topic == "t" * 244
    assert max(map(len, key.split("/"))) == 255


# ---- order --------------------------------------------------------------------------------------


@given(numbers=st.lists(entry_numbers, min_size=2, max_size=20))
def test_entries_list_oldest_first_and_snapshots_newest_first(numbers: list[int]) -> None:
    in_order = sorted(set(numbers))
    assert sorted(keys.entry_key(n) for n in in_order) == [keys.entry_key(n) for n in in_order]
    assert sorted(keys.snapshot_key(n) for n in in_order) == [keys.snapshot_key(n) for n in reversed(in_order)]
    blocks = sorted({keys.entry_block(n) for n in in_order})
    assert sorted(map(keys.void_key, blocks)) == [keys.void_key(block) for block in blocks]


# M: S-02
def test_the_segments_of_a_partition_list_in_offset_order() -> None:
    store = MemoryStore("memory://segments-in-offset-order")
    for base_offset, epoch in ((10, 11), (0, 2), (8, 9), (100, 0), (99, 12)):
        obj = new_object(ObjectKind.SEGMENT, base_offset=Offset(base_offset), leader_epoch=LeaderEpoch(epoch))
        store.put_if_absent(keys.data_key(obj, "log"), b"")
    names = [keys.parse_data_key(each.key) for each in store.list_keys("topics/3-log/0/")]
    assert [name.base_offset for name in names if name is not None] == [0, 8, 10, 99, 100]


# ---- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda: keys.entry_key(-1),
        lambda: keys.entry_key(LAST_ENTRY + 1),
        lambda: keys.snapshot_key(10**20),
        lambda: keys.void_key(10**16),
        lambda: keys.void_key(-1),
        lambda: keys.chunk_key("ab"),
        lambda: keys.chunk_key(SHA256.upper()),
        lambda: keys.command_key(0, "../" * 10 + "aa"),
        lambda: keys.index_key("append/01/x.index"),
        lambda: keys.data_key(new_object(ObjectKind.APPEND, upload_id=UploadId(UPLOAD.upper())), "t"),
        lambda: keys.data_key(new_object(ObjectKind.APPEND, n0=EntryNumber(-1)), "t"),
        lambda: keys.data_key(new_object(ObjectKind.SEGMENT, base_offset=None), "t"),
        lambda: keys.data_key(new_object(ObjectKind.SEGMENT, partition=None), "t"),
        lambda: keys.data_key(new_object(ObjectKind.SEGMENT, leader_epoch=LeaderEpoch(-1)), "t"),
        lambda: keys.data_key(new_object(ObjectKind.SEGMENT), "a/b"),
        lambda: keys.data_key(new_object(ObjectKind.SEGMENT), ""),
    ],
)
def test_no_key_is_built_from_what_has_none(build: Callable[[], str]) -> None:
    with pytest.raises(InvalidInput):
        build()


@pytest.mark.parametrize(
    ("parse", "key"),
    [
        (keys.parse_entry_key, "meta/log/0000000000000000/00000000000000004096"),  # of block 1
        (keys.parse_entry_key, "meta/log/0000000000000000/0000000000000000001"),
        (keys.parse_entry_key, "meta/log/0000000000000000/00000000000000000001\n"),
        (keys.parse_entry_key, "meta/snapshot/00000000000000000001"),
        (keys.parse_snapshot_key, "meta/snapshot/1"),
    ],
)
def test_a_foreign_name_in_the_chain_is_damage_and_is_named(parse: Callable[[str], int], key: str) -> None:
    with pytest.raises(ChainDamaged) as found:
        parse(key)
    assert repr(key) in str(found.value)


@pytest.mark.parametrize(
    "key",
    [
        "INCARNATION",
        f"append/02/00000000000000000007-{UPLOAD}.arrow",  # the folder is not the id's
        f"append/01/7-{UPLOAD}.arrow",
        f"append/01/00000000000000000007-{UPLOAD}.parquet",
        f"append/01/00000000000000000007-{UPLOAD}.arrow\n",
        f"topics/03-log/0/00000000000000000000-0-00000000000000000007-{UPLOAD}.arrow",
        f"topics/3-log/0/0-0-00000000000000000007-{UPLOAD}.arrow",
        "topics/3-log/0/x",
    ],
)
def test_a_foreign_name_among_the_data_is_none_of_ours(key: str) -> None:
    assert keys.parse_data_key(key) is None
    assert keys.parse_command_key(key) is None


@given(key=st.text("a-._/ä\n\\", max_size=8) | st.text(max_size=6))
def test_a_legal_key_stays_inside_any_store(key: str) -> None:
    try:
        keys.check_key(key)
    except InvalidInput:
        return
    assert key.isascii()
    assert all(part and not part.startswith(".") for part in key.split("/"))
    assert all(keys.is_key_part(part) for part in key.split("/"))
    assert all(keys.check_prefix(key[:length]) == key[:length] for length in range(len(key) + 1))
