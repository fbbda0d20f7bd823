"""The part of a page between two marks, which is made from the code."""

from __future__ import annotations


def replaced(text: str, begin: str, end: str, body: str) -> str:
    """The text with `body` between the marks, each on a line of its own. Raises ValueError if a mark is missing."""
    head, began, rest = text.partition(f"{begin}\n")
    _, ended, tail = rest.partition(end)
    if not began or not ended:
        raise ValueError(f"wanted a line {begin} and then {end}, found no such pair")
    return f"{head}{begin}\n{body}\n{end}{tail}"
