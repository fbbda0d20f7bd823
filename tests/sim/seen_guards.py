"""The guards of `tests/guards/` that the simulation misses when they are gone, each with a seed that shows it soon."""

from __future__ import annotations

from typing import Final, NamedTuple


class Seen(NamedTuple):
    """The world of `seed` breaks a promise within `steps` steps."""

    seed: int
    steps: int


SEEN: Final = {
    "replica-append-contiguous": Seen(0, 1_300),
}
