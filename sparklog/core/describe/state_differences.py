"""Compares two states of one chain. How their tables are cut into blocks does not count."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from typing import Final, TypeVar

import numpy as np

from sparklog.core.state import ClusterState
from sparklog.core.tables.column_blocks import Block, Column, live_columns, make_block

NONE: Final = -1  # the number of no value in a column of numbers
Columns = Mapping[str, Column]
H = TypeVar("H", bound=Hashable)


def differing_parts(first: ClusterState, second: ClusterState) -> list[str]:
    """The names of the fields in which two states differ. Costs a pass over both, and a copy of the larger tables."""
    return [
        field.name for field in fields(ClusterState) if not _SAME.get(field.name, _equal)(first, second, field.name)
    ]


def _equal(one: ClusterState, other: ClusterState, name: str) -> bool:
    first, second = getattr(one, name), getattr(other, name)
    return bool(dict(first) == dict(second)) if isinstance(first, Mapping) else bool(first == second)


def _same_slices(one: ClusterState, other: ClusterState, name: str) -> bool:
    return _same(one.slices.everything().columns, other.slices.everything().columns)


def _same_objects(one: ClusterState, other: ClusterState, name: str) -> bool:
    tables = one.objects.in_blocks(), other.objects.in_blocks()
    values = {holders: at for at, holders in enumerate({*tables[0].holder_sets, *tables[1].holder_sets})}
    first, second = (
        _with(_rows(table.blocks, ("number",)), "holders", _numbered(table.holder_sets, values)) for table in tables
    )
    return _same(first, second)


def _same_retired(one: ClusterState, other: ClusterState, name: str) -> bool:
    tables = one.retired.in_blocks(), other.retired.in_blocks()
    topics = {topic: at for at, topic in enumerate({*tables[0].topics, *tables[1].topics})}
    sets = {stores: at for at, stores in enumerate({*tables[0].store_sets, *tables[1].store_sets})}
    first, second = (
        _with(
            _with(_rows(table.blocks, ("number",)), "topic", _numbered(table.topics, topics)),
            "stores",
            _numbered(table.store_sets, sets),
        )
        for table in tables
    )
    return _same(first, second)


def _same_results(one: ClusterState, other: ClusterState, name: str) -> bool:
    if one.results.floor != other.results.floor:
        return False
    known = []
    for state in (one, other):
        rows = _rows(state.results.in_blocks().blocks, ("id_high", "id_low"))
        at_floor = rows["n0"] >= state.results.floor if rows else None  # older ones may stay in a block
        known.append({column: values[at_floor] for column, values in rows.items()})
    return _same(known[0], known[1])


def _same_offsets(one: ClusterState, other: ClusterState, name: str) -> bool:
    if dict(one.offsets.metadata) != dict(other.offsets.metadata):
        return False
    return _same(one.offsets.everything(), other.offsets.everything())


_SAME: Final[Mapping[str, Callable[[ClusterState, ClusterState, str], bool]]] = {
    "slices": _same_slices,
    "objects": _same_objects,
    "retired": _same_retired,
    "results": _same_results,
    "offsets": _same_offsets,
}


def _rows(blocks: Sequence[Block], order: Sequence[str]) -> Columns:
    """All live rows, in this order; no columns if there are no blocks."""
    parts = [live_columns(block) for block in blocks]
    if not parts:
        return {}
    return make_block({name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, order).columns


def _numbered(values: Sequence[H], numbers: Mapping[H, int]) -> Column:
    """The number of each row of a table of values. The last element is for -1, which stays."""
    return np.array([*(numbers[value] for value in values), NONE], dtype=np.int64)


def _with(columns: Columns, name: str, numbers: Column) -> Columns:
    """The columns with numbers that have the same meaning in both states."""
    return {**columns, name: numbers[columns[name]]} if columns else columns


def _same(one: Columns, other: Columns) -> bool:
    """True if the columns are equal."""
    if not _length(one) and not _length(other):
        return True
    return _length(one) == _length(other) and all((column == other[name]).all() for name, column in one.items())


def _length(columns: Columns) -> int:
    return len(next(iter(columns.values()))) if columns else 0
