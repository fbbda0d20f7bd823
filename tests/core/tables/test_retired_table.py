"""Retired objects: what is known equals a plain dict, in every version, wherever tail and blocks meet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.core.tables import column_blocks, retired_table
from sparklog.core.tables.retired_table import Retired, RetiredTable
from sparklog.core.types import ObjectNumber, StoreId

STEPS = st.lists(
    st.tuples(st.sampled_from(["add"] * 4 + ["remove", "remove", "fork", "seal", "store"]), st.integers(0, 9)),
    max_size=50,
)


def numbers(first: int, count: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.arange(first, first + count, dtype=np.int64)


@settings(max_examples=60)
@given(steps=STEPS, tail_rows=st.integers(1, 5), block_rows=st.integers(4, 20))
def test_every_version_knows_what_a_plain_dict_knows(
    steps: list[tuple[str, int]], tail_rows: int, block_rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retired_table.RetiredTable, "TAIL_ROWS", tail_rows)
        patch.setattr(retired_table, "MAX_BLOCK_ROWS", block_rows)
        patch.setattr(column_blocks, "MAX_BLOCK_ROWS", block_rows)
        versions: list[tuple[RetiredTable, dict[int, Retired]]] = [(RetiredTable(), {})]
        for at, (what, value) in enumerate(steps):
            table, model = versions[-1 - value % min(3, len(versions))]
            if what == "add":
                added = numbers(100 * at, value)  # a deleted topic's may be more than a tail or a block
                stores = tuple(StoreId(each) for each in "abc"[: value % 4])
                table.add_all(added, value, f"t{value % 3}", stores)
                model |= {each: Retired(ObjectNumber(each), value, f"t{value % 3}", stores) for each in added.tolist()}
            elif what == "remove":
                gone = [ObjectNumber(each) for each in [*list(model)[:value], 7]]
                table.remove_many(gone)
                for each in gone:
                    model.pop(each, None)
            elif what == "fork":
                versions.append((table.fork(), dict(model)))
            elif what == "seal":
                table.seal()
            else:
                found = table.in_blocks()
                versions.append((RetiredTable(found.blocks, found.topics, found.store_sets), dict(model)))
        for table, model in versions:
            assert {each.number: each for each in table} == model
            assert len(table) == len(model)
            assert all(number in table for number in model)
            assert not any(number in table for number in (7, 99, 100 * len(steps)) if number not in model)
            for clock_ms in (-1, 4, 9):
                due = [each for _, each in sorted(model.items()) if each.delete_after_ms <= clock_ms]
                assert table.due(clock_ms).tolist() == [each.number for each in due]
                chosen = [each.number for each in due if each.topic == "t1"]
                assert table.due(clock_ms, {"t1"}).tolist() == chosen
                assert table.of([*(each.number for each in reversed(due)), ObjectNumber(-1)]) == due[::-1]


def test_a_million_objects_of_a_deleted_topic_make_no_object_each(monkeypatch: pytest.MonkeyPatch) -> None:
    table = RetiredTable()
    monkeypatch.setattr(retired_table, "Retired", None)  # it would be called
    table.add_all(numbers(5, 1_000_000), 1, "t")
    assert len(table) == 1_000_000
    assert (ObjectNumber(5) in table, ObjectNumber(4) in table, ObjectNumber(1_000_005) in table) == (
        True,
        False,
        False,
    )
    assert max(block.rows for block in table.blocks) <= column_blocks.MAX_BLOCK_ROWS


def test_names_of_topics_go_with_the_last_object() -> None:
    table = RetiredTable()
    table.add_all(numbers(0, 2), 1, "t")
    table.seal()
    assert table.topics == ("t",)
    table.remove_many([ObjectNumber(0)])
    assert table.topics == ("t",)
    table.remove_many([ObjectNumber(1)])
    assert (table.blocks, table.topics, len(table)) == ((), (), 0)
