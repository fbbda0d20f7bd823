"""Counts for people."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """1 record, 2 records, 1,000 records; `plural` if it is more than the noun and an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
