"""The guards of `tests/guards/` that the simulation misses when they are gone, each with a seed that shows it soon.

What it does not see, of those that were tried, and why:

- Two guards for one thing, of which one is enough: replica-epoch-older and -newer, replica-report-registration,
  replica-elect-hw, replica-elect-eligible. void-after-claim: without it the claim asks on until its time is over.
- No promise is broken, something is only refused or slower: replica-drop-caught-up, replica-elect-unclean-last,
  replica-min-isr-factor and -adding, replica-join-removing, replica-move-in-sync, -min-isr and -back-isr, roll-gap,
  copy-there, copy-length (a copy here is never short), read-back, nonce (ids here are never drawn twice).
- It happens too rarely in a few worlds: replica-elr-kept, replica-append-each-object, replica-pull-forgotten,
  replica-report-late, replica-join-epoch, replica-take-over-equal, replica-loss-lowers, replica-swap-min-isr,
  replica-holder-registration and -arrived, swap-digest, loss-registration, forget-results, forget-sequences,
  forget-versions, forgotten-orphans, found-behind-snapshot, copy-crc.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Seen(NamedTuple):
    """The world of `seed` breaks a promise within `steps` steps."""

    seed: int
    steps: int


# If the simulation changes, look for other seeds: `python -m tests.sim --seeds 0-12 --guards NAME`.
SEEN: Final = {
    "floor": Seen(2, 5_385),
    "producer-sequence": Seen(10, 3_951),
    "topic-id": Seen(1, 5_994),
    "append-producer": Seen(9, 8_836),
    "level-replicas": Seen(0, 658),
    "level-holders": Seen(0, 598),
    "shared-slices": Seen(5, 6_019),
    "replica-hw-min-isr": Seen(2, 6_998),
    "replica-hw-smallest": Seen(0, 598),
    "replica-elr-loss": Seen(2, 5_638),
    "replica-version-isr": Seen(0, 2_247),
    "replica-version-check": Seen(1, 6_498),
    "replica-append-leader": Seen(1, 5_940),
    "replica-append-leaves": Seen(0, 675),
    "replica-append-min-isr": Seen(0, 675),
    "replica-append-contiguous": Seen(0, 658),
    "replica-join-hw": Seen(0, 3_389),
    "replica-elect-unclean": Seen(2, 5_638),
    "replica-elect-forgets": Seen(3, 5_757),
    "replica-elect-behind": Seen(0, 8_023),
    "replica-elect-epoch-start": Seen(3, 5_757),
    "replica-elect-lives": Seen(0, 7_451),
    "replica-loss-version": Seen(0, 3_221),
    "replica-move-new-empty": Seen(0, 6_584),
    "replica-swap-log-end": Seen(1, 3_125),
    "replica-swap-elr": Seen(7, 5_234),
    "fence-leaves": Seen(4, 4_398),
    "agent-other-life": Seen(0, 7_545),
    "report-contiguous": Seen(2, 6_146),
    "copy-unknown": Seen(6, 7_487),
    "void-after-read": Seen(9, 8_713),
    "void-after-404": Seen(0, 5_057),
    "orphan-floor": Seen(0, 9_080),
    "orphan-named": Seen(0, 2_349),
}
