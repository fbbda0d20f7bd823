"""Applied commands by id: what is known equals a plain dict, in every version, wherever tail and blocks meet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.core.tables import column_blocks, result_table
from sparklog.core.tables.result_table import AppliedBy, ResultTable, label_hash
from sparklog.core.types import CommandId, EntryNumber


def command_id(number: int) -> CommandId:
    """Ids in no order; of every three in a row, two share their first half."""
    return CommandId(f"{number // 3 * 0x9E3779B97F4A7C15 % 2**64:016x}{number * 0xD1B54A32D192ED03 % 2**64:016x}")


def entry(n: int) -> EntryNumber:
    return EntryNumber(n)


class Plain:
    """The slow twin: a dict of what was applied, and FLOOR."""

    def __init__(self, applied: dict[CommandId, AppliedBy], floor: int) -> None:
        self.applied, self.floor = applied, floor

    def drop_below(self, floor: int) -> None:
        self.floor = floor
        self.applied = {key: each for key, each in self.applied.items() if each.n0 >= floor}


STEPS = st.lists(
    st.tuples(st.sampled_from(["add"] * 6 + ["fork", "fork", "floor", "seal", "store"]), st.integers(0, 9)), max_size=60
)


@settings(max_examples=60)
@given(steps=STEPS, tail_rows=st.integers(1, 5), block_rows=st.integers(4, 20))
def test_every_version_knows_what_a_plain_dict_knows(
    steps: list[tuple[str, int]], tail_rows: int, block_rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(result_table.ResultTable, "TAIL_ROWS", tail_rows)
        patch.setattr(column_blocks, "MAX_BLOCK_ROWS", block_rows)
        versions = [(ResultTable(), Plain({}, 0))]
        for n, (what, value) in enumerate(steps):
            table, model = versions[-1 - value % min(3, len(versions))]
            if what == "add":
                n0 = max(model.floor, n - value)
                applied = AppliedBy(command_id(n), entry(n), entry(n0), label_hash(f"label {value}"))
                table.add(applied)
                model.applied[command_id(n)] = applied
            elif what == "fork":
                versions.append((table.fork(), Plain(dict(model.applied), model.floor)))
            elif what == "floor":
                floor = max(model.floor, n - 4 * value)
                table.drop_below(entry(floor))
                model.drop_below(floor)
            elif what == "seal":
                table.seal()
            else:
                stored = ResultTable(table.in_blocks().blocks, table.floor)
                versions.append((stored, Plain(dict(model.applied), model.floor)))
        for table, model in versions:
            assert sorted(table) == sorted(model.applied.values())
            assert len(table) == len(model.applied)
            for value in range(10):
                wanted = [each for each in model.applied.values() if each.label == label_hash(f"label {value}")]
                assert table.labelled(f"label {value}") == sorted(wanted, key=lambda each: each.n)
            for n in range(len(steps) + 2):
                known = model.applied.get(command_id(n))
                assert table.get(command_id(n)) == known


def test_the_smallest_and_the_largest_ids_are_found() -> None:
    close = [f"{(1 << 63) + step:016x}" + "0" * 16 for step in range(3)]  # one and the same as a float
    ids = [CommandId(each) for each in ("0" * 32, "0" * 31 + "1", "7" + "f" * 31, *close, "f" * 32)]
    table = ResultTable()
    for n, each in enumerate(ids):
        table.add(AppliedBy(each, entry(n), entry(n)))
    for found in (table, table.in_blocks()):
        assert [found.get(each) for each in ids] == [AppliedBy(each, entry(n), entry(n)) for n, each in enumerate(ids)]
        assert found.get(CommandId("0" * 16 + "f" * 16)) is None
        assert {each.command_id for each in found} == set(ids)


def test_a_block_that_lies_wholly_below_floor_goes_and_one_across_it_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(result_table.ResultTable, "TAIL_ROWS", 3)
    monkeypatch.setattr(column_blocks, "MAX_BLOCK_ROWS", 4)
    table = ResultTable()
    for n in range(12):
        table.add(AppliedBy(command_id(n), entry(n), entry(n)))
    assert [each.rows for each in table.blocks] == [4, 4, 4]
    fork = table.fork()
    fork.drop_below(entry(6))
    assert len(fork.blocks) == 2
    assert all(kept is before for kept, before in zip(fork.blocks, table.blocks[1:], strict=True))
    for known, first in ((table, 0), (fork, 6), (fork.fork(), 6), (fork.in_blocks(), 6)):
        assert {each.n for each in known} == set(range(first, 12))
        assert len(known) == 12 - first
        assert [n for n in range(12) if known.get(command_id(n)) is not None] == list(range(first, 12))


def test_a_command_is_found_behind_another_one_of_its_id_that_floor_has_passed() -> None:
    again, other = CommandId("a" * 32), CommandId("b" * 32)
    table = ResultTable()
    for applied in (
        AppliedBy(again, EntryNumber(5), EntryNumber(5)),
        AppliedBy(other, EntryNumber(50), EntryNumber(50)),
    ):
        table.add(applied)
    table.seal()
    table.drop_below(EntryNumber(20))
    newer = AppliedBy(again, EntryNumber(60), EntryNumber(60))
    table.add(newer)
    assert table.get(again) == newer
    table.seal()
    assert table.get(again) == newer


def test_floor_drops_from_the_tail_too() -> None:
    table = ResultTable()
    for n in range(4):
        table.add(AppliedBy(command_id(n), entry(n), entry(n)))
    table.drop_below(entry(2))
    assert [n for n in range(4) if table.get(command_id(n)) is not None] == [2, 3]
    assert (len(table), {each.n for each in table}) == (2, {2, 3})


def test_what_is_added_below_floor_is_unknown_in_the_tail_as_in_a_block() -> None:
    table = ResultTable((), entry(5))
    for n0 in (4, 5):
        table.add(AppliedBy(command_id(n0), entry(6), entry(n0)))
    for found in (table, table.in_blocks()):
        assert [each.n0 for each in found] == [5]


def test_a_row_costs_48_bytes() -> None:
    assert sum(np.dtype(dtype).itemsize for dtype in ResultTable.DTYPES.values()) == 48
