"""KEY=VALUE arguments of a command line or a job, and the addresses of stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sparklog.core.errors import InvalidOption


class StoreAddress(NamedTuple):
    """A store as named on a command line. `zone` is None if the address has none."""

    store: str
    url: str
    zone: str | None


def key_values(given: Sequence[str], option: str) -> dict[str, str]:
    """Return KEY=VALUE arguments as a map. Raises InvalidOption for any other form, or if a key is given twice."""
    values: dict[str, str] = {}
    for argument in given:
        key, equals, value = argument.partition("=")
        if not equals or not key:
            raise InvalidOption(f"{option}: wanted KEY=VALUE, found {argument!r}")
        if key in values:
            raise InvalidOption(f"{option}: {key} is given twice")
        values[key] = value
    return values


def config_changes(
    given: Sequence[str],
    removed: Sequence[str],
    parse: Callable[[Mapping[str, object]], dict[str, str]],
    options: tuple[str, str] = ("--set", "--delete"),
) -> dict[str, str]:
    """Parse KEY=VALUE arguments (`given`), and return the values by key, as `parse` returns them.

    `removed`: the keys to remove. `options`: the options of both, as errors name them. Raises InvalidOption if a key is
    in both, or if both are empty, and the errors of `key_values` and `parse`.
    """
    set_, delete = options
    changed = parse(key_values(given, set_))
    if both := sorted(changed.keys() & set(removed)):
        raise InvalidOption(f"{set_} and {delete}: {', '.join(both)} is in both")
    if not changed and not removed:
        raise InvalidOption(f"nothing to change: give {set_} KEY=VALUE or {delete} KEY")
    return changed


def store_address(given: str, option: str) -> StoreAddress:
    """Parse a store's ID[@ZONE]=URL. Raises InvalidOption, whose message begins with `option`, for any other form."""
    name, equals, url = given.partition("=")
    store, at, zone = name.partition("@")
    if not equals or not store or (at and not zone):
        raise InvalidOption(f"{option}: wanted ID=URL or ID@ZONE=URL, found {given!r}")
    return StoreAddress(store, url, zone if at else None)


def store_addresses(given: Sequence[str], option: str) -> list[StoreAddress]:
    """Parse the addresses of several stores. Raises InvalidOption, also if an id is given twice."""
    addresses = [store_address(argument, option) for argument in given]
    seen: set[str] = set()
    for address in addresses:
        if address.store in seen:
            raise InvalidOption(f"{option}: {address.store} is given twice")
        seen.add(address.store)
    return addresses


def assignment_of(given: str | None, option: str) -> tuple[tuple[str, ...], ...] | None:
    """Parse a manual assignment: for `a:b,b:a`, partition 0 on stores a and b, and partition 1 on b and a.

    Return None if `given` is None. Raises InvalidOption if a store has no name.
    """
    if given is None:
        return None
    partitions = tuple(tuple(partition.split(":")) for partition in given.split(","))
    if not all(store for partition in partitions for store in partition):
        raise InvalidOption(f"{option}: wanted stores of each partition, as a:b,b:a, found {given!r}")
    return partitions
