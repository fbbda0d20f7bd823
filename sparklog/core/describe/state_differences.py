"""Compares two states of one chain by content. Their tables may consist of different blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sparklog.core.state import ClusterState
from sparklog.core.tables.block_table import BlockTable


def differing_parts(first: ClusterState, second: ClusterState) -> list[str]:
    """The names of the fields in which two states differ. Reads both states whole, and copies their tables."""
    names = (field.name for field in fields(ClusterState))
    return [name for name in names if not _same(getattr(first, name), getattr(second, name))]


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, BlockTable):
        return first.same(second)
    return bool(dict(first) == dict(second)) if isinstance(first, Mapping) else bool(first == second)
