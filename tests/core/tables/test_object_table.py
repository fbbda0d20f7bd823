"""Objects by number: every field comes back from a block as it went in, and what is gone is gone."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from sparklog.core.tables import object_table
from sparklog.core.tables.column_blocks import make_block
from sparklog.core.tables.object_table import ObjectTable
from sparklog.core.types import (
    EntryNumber,
    Holder,
    LeaderEpoch,
    NamedObject,
    NewObject,
    ObjectKind,
    ObjectNumber,
    Offset,
    StoreId,
    UploadId,
)
from tests.core.decided_log import DecidedLog

LOG = DecidedLog()
LARGEST = {"crc32c": (1 << 32) - 1, "index_crc32c": (1 << 32) - 1, "index_size_bytes": (1 << 31) - 1, "n0": 1 << 60}
OBJECTS: dict[int, NewObject] = {
    0: LOG.uploaded(1 << 40, **LARGEST),
    3: LOG.uploaded(upload_id="f" * 32, holders=(Holder(StoreId("a"), 0), Holder(StoreId("ö"), 3))),
    4: LOG.uploaded(sealed=(0, 0)),
    9: LOG.uploaded(sealed=(99_999, 7), base_offset=Offset(1 << 60), leader_epoch=LeaderEpoch((1 << 31) - 1)),
}


def number(value: int) -> ObjectNumber:
    return ObjectNumber(value)


@pytest.fixture(params=["all in the tail", "two in a block", "all in a block"])
def table(request: pytest.FixtureRequest) -> ObjectTable:
    made = ObjectTable()
    sealed_at = {"all in the tail": -1, "two in a block": 3, "all in a block": 9}[request.param]
    for key, each in OBJECTS.items():
        made.add(NamedObject(number(key), each), key + 1)
        if key == sealed_at:
            made.seal()
    return made


def found(table: ObjectTable) -> dict[int, NewObject]:
    return {each.number: each.object for each in table}


def test_every_field_comes_back(table: ObjectTable) -> None:
    assert {key: table.get(number(key)) for key in OBJECTS} == OBJECTS
    assert found(table) == OBJECTS
    assert [table.slices(number(key)) for key in OBJECTS] == [1, 4, 5, 10]
    assert len(table) == 4


@pytest.mark.parametrize("missing", [-1, 1, 8, 10, 1 << 40])
def test_a_number_that_was_never_given_has_nothing(table: ObjectTable, missing: int) -> None:
    assert table.get(number(missing)) is None
    assert table.present([number(missing)]) == []
    with pytest.raises(KeyError):
        table.slices(number(missing))


def test_kinds_of_many_are_looked_up_at_once(table: ObjectTable) -> None:
    table.remove_many([number(3)])
    asked = np.array([9, 0, 3, 5, 4, 0, 77], dtype=np.int64)
    append, segment = int(ObjectKind.APPEND), int(ObjectKind.SEGMENT)
    assert table.kinds(asked).tolist() == [segment, append, -1, -1, segment, append, -1]


def test_bytes_of_all_are_those_of_each(table: ObjectTable) -> None:
    assert table.total_bytes() == sum(each.total_bytes for each in OBJECTS.values())
    table.remove_many([number(0), number(4)])
    assert table.total_bytes() == OBJECTS[3].total_bytes + OBJECTS[9].total_bytes


def test_what_is_removed_is_gone_and_the_rest_stays(table: ObjectTable) -> None:
    table.remove_many([number(key) for key in (9, 3, 50)])
    assert sorted(found(table)) == [0, 4]
    assert table.get(number(3)) is None
    with pytest.raises(KeyError):
        table.slices(number(9))
    assert table.present([number(key) for key in (9, 4, 3, 0)]) == [4, 0]
    table.remove_many([number(3)])  # passed over
    table.seal()
    assert (found(table), len(table)) == ({key: OBJECTS[key] for key in (0, 4)}, 2)


def test_a_fork_starts_equal_and_changes_alone(table: ObjectTable) -> None:
    fork = table.fork()
    assert found(fork) == OBJECTS
    fork.remove_many([number(key) for key in OBJECTS])
    fork.add(NamedObject(number(10), OBJECTS[0]), 1)
    assert sorted(found(fork)) == [10]
    assert found(table) == OBJECTS


def test_the_tail_is_sealed_when_it_is_long_and_a_table_that_shares_it_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(object_table.ObjectTable, "TAIL_ROWS", 2)
    table = ObjectTable()
    table.add(NamedObject(number(0), OBJECTS[3]), 1)
    fork = table.fork()
    for key in range(1, 7):
        fork.add(NamedObject(number(key), OBJECTS[0]), 1)
    assert [len(table.blocks), len(table.holder_sets), len(fork.blocks) > 0] == [0, 0, True]
    assert (sorted(found(table)), found(table)[0]) == ([0], OBJECTS[3])
    assert (sorted(found(fork)), found(fork)[0]) == (list(range(7)), OBJECTS[3])


def test_versions_side_by_side_each_keep_their_own_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks of forks, of which every other is sealed or loses rows: each as a dict that was copied in full."""
    monkeypatch.setattr(object_table.ObjectTable, "TAIL_ROWS", 3)
    versions: list[tuple[ObjectTable, dict[int, NewObject]]] = [(ObjectTable(), {})]
    for key in range(24):
        table, model = versions[key * 7 % len(versions)]
        fork, wanted = table.fork(), dict(model)
        fork.add(NamedObject(number(key), OBJECTS[(0, 3, 4, 9)[key % 4]]), 1)
        wanted[key] = OBJECTS[(0, 3, 4, 9)[key % 4]]
        if key % 5 == 4:
            gone = sorted(wanted)[::2]
            fork.remove_many([number(each) for each in gone])
            wanted = {each: wanted[each] for each in wanted if each not in gone}
        if key % 3 == 2:
            fork.seal()
        versions.append((fork, wanted))
    for table, wanted in versions:
        assert (found(table), len(table)) == (wanted, len(wanted))


def test_a_table_in_blocks_is_equal_and_the_table_itself_stays(table: ObjectTable) -> None:
    blocks = table.blocks
    stored = table.in_blocks()
    assert ObjectTable(stored.blocks, stored.holder_sets).get(number(3)) == OBJECTS[3]
    assert found(ObjectTable(stored.blocks, stored.holder_sets)) == OBJECTS
    assert (table.blocks, found(table)) == (blocks, OBJECTS)
    assert all(again is before for again, before in zip(stored.blocks, blocks, strict=False))


def test_small_blocks_are_merged_when_they_are_stored() -> None:
    small = []
    for key, each in OBJECTS.items():
        table = ObjectTable()
        table.add(NamedObject(number(key), msgspec.structs.replace(each, holders=OBJECTS[0].holders)), 1)
        small.extend(table.in_blocks().blocks)
    assert len(small) == 4
    (merged,) = ObjectTable(small, [OBJECTS[0].holders]).in_blocks().blocks
    assert merged.columns["number"].tolist() == [0, 3, 4, 9]


# ---- by upload ----------------------------------------------------------------------------------------


def test_the_number_of_an_upload_is_found_by_n0_and_id(table: ObjectTable) -> None:
    for key, each in OBJECTS.items():
        assert table.find_upload(each) == key
        assert table.find_upload(msgspec.structs.replace(each, n0=EntryNumber(each.n0 + 1))) is None
    assert table.find_upload(LOG.uploaded()) is None


@pytest.mark.parametrize("other", ["f" * 31 + "e", "e" + "f" * 31, "f" * 16 + "0" * 16, "0" * 16 + "f" * 16])
def test_every_digit_of_the_id_counts(table: ObjectTable, other: str) -> None:
    """Ids above 2^63 too: as floats, many of them would be equal."""
    assert table.find_upload(msgspec.structs.replace(OBJECTS[3], upload_id=UploadId(other))) is None


def test_an_upload_that_was_removed_has_no_number(table: ObjectTable) -> None:
    table.find_upload(OBJECTS[3])  # so that blocks have derived their uploads before
    table.remove_many([number(3), number(9)])
    assert [table.find_upload(each) for each in OBJECTS.values()] == [0, None, 4, None]
    table.add(NamedObject(number(10), OBJECTS[3]), 1)
    assert table.find_upload(OBJECTS[3]) == 10


def test_uploads_of_one_id_half_are_told_apart(table: ObjectTable) -> None:
    """Whoever draws ids may draw them alike."""
    alike = [LOG.uploaded(upload_id=f"{high:016x}{7:016x}", n0=n0) for high in range(5) for n0 in range(4)]
    for at, each in enumerate(alike):
        table.add(NamedObject(number(20 + at), each), 1)
    table.seal()
    assert [table.find_upload(each) for each in alike] == list(range(20, 40))
    table.remove_many([number(25)])
    assert [table.find_upload(each) for each in alike[4:7]] == [24, None, 26]


def test_a_fork_finds_its_own_uploads_only(table: ObjectTable) -> None:
    fork = table.fork()
    new = LOG.uploaded()
    fork.add(NamedObject(number(10), new), 1)
    assert (fork.find_upload(new), table.find_upload(new)) == (10, None)
    fork.seal()
    assert (fork.find_upload(new), fork.find_upload(OBJECTS[9]), table.find_upload(new)) == (10, 9, None)


def test_objects_duplicate_uploads_are_found_in_groups(table: ObjectTable) -> None:
    assert table.duplicate_uploads() == []
    table.add(NamedObject(number(10), OBJECTS[4]), 1)
    table.add(NamedObject(number(11), msgspec.structs.replace(OBJECTS[9], n0=EntryNumber(77))), 1)
    table.seal()
    table.add(NamedObject(number(12), OBJECTS[9]), 1)
    table.add(NamedObject(number(13), OBJECTS[4]), 1)
    assert sorted(table.duplicate_uploads()) == [[4, 10, 13], [9, 12]]
    for group in ([4, 10, 13], [9, 12]):
        for one in group:
            assert group in table.duplicate_uploads(np.array([one])), "among those of some objects, theirs is whole"
    assert table.duplicate_uploads(np.array([11, 99])) == []


def test_a_block_without_rows_has_no_uploads() -> None:
    empty = ObjectTable().columns()
    assert ObjectTable([make_block(empty, ("number",))]).find_upload(OBJECTS[0]) is None
