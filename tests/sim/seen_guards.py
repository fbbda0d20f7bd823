"""The guards of `tests/guards/` that the simulation misses when they are gone, each with a seed that shows it soon.

What it does not see, of those that were tried, and why:

- Two guards for one thing, of which one is enough: replica-epoch-older and -newer, replica-report-registration,
  replica-elect-hw, replica-elect-eligible. void-after-claim: without it the claim asks on until its time is over.
- No promise is broken, something is only refused or slower: replica-drop-caught-up, replica-elect-unclean-last,
  replica-min-isr-factor and -adding, replica-join-removing, replica-move-in-sync, -min-isr and -back-isr, roll-gap,
  copy-there, copy-length (a copy here is never short), read-back, nonce (ids here are never drawn twice).
  coordinator-seen: a refusal is decided on the newest state anyhow.
- It happens too rarely in a few worlds: producer-sequence, append-producer, void-after-read, replica-elr-kept,
  replica-append-each-object, replica-pull-forgotten, replica-report-late, replica-join-epoch,
  replica-take-over-equal, replica-loss-lowers, replica-swap-away, replica-holder-registration and -arrived,
  swap-digest, loss-registration, forget-results, forget-sequences, forget-versions, forgotten-orphans,
  found-behind-snapshot, copy-crc, agent-other-life, watch-again, heartbeat-session.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Seen(NamedTuple):
    """The world of `seed` breaks a promise within `steps` steps."""

    seed: int
    steps: int


# If the simulation changes, look for other seeds: `python -m tests.sim --seeds 0-12 --guards NAME`.
SEEN: Final = {
    "floor": Seen(0, 7_354),
    "topic-id": Seen(3, 1_874),
    "level-replicas": Seen(0, 837),
    "level-holders": Seen(0, 671),
    "shared-slices": Seen(13, 4_184),
    "replica-hw-min-isr": Seen(3, 4_640),
    "replica-hw-smallest": Seen(0, 671),
    "replica-elr-loss": Seen(32, 7_742),
    "replica-version-isr": Seen(0, 1_829),
    "replica-version-check": Seen(3, 4_078),
    "replica-append-leader": Seen(1, 7_842),
    "replica-append-leaves": Seen(0, 859),
    "replica-append-min-isr": Seen(0, 859),
    "replica-append-contiguous": Seen(0, 837),
    "replica-join-hw": Seen(0, 4_219),
    "replica-elect-unclean": Seen(13, 2_015),
    "replica-elect-forgets": Seen(10, 2_666),
    "replica-elect-behind": Seen(0, 3_391),
    "replica-elect-epoch-start": Seen(10, 2_666),
    "replica-elect-lives": Seen(1, 3_048),
    "replica-loss-version": Seen(2, 6_428),
    "replica-move-new-empty": Seen(0, 4_701),
    "replica-swap-log-end": Seen(0, 6_756),
    "replica-swap-min-isr": Seen(0, 4_797),
    "replica-swap-eligible": Seen(13, 6_446),
    "fence-leaves": Seen(13, 7_529),
    "report-contiguous": Seen(5, 7_868),
    "copy-unknown": Seen(22, 6_004),
    "void-after-404": Seen(0, 3_817),
    "orphan-floor": Seen(0, 1_946),
    "orphan-named": Seen(0, 6_148),
    "coordinator-fenced": Seen(25, 4_595),
    "coordinator-ignored": Seen(49, 10_880),
    "claim-epoch": Seen(14, 966),
    "claim-again": Seen(8, 17_464),
    "watch-write": Seen(58, 8_400),
    "watch-paused": Seen(254, 10_086),
    "watch-session": Seen(4, 639),
    "old-floor": Seen(0, 2_603),
    "upload-named-again": Seen(17, 934),
    "clock-decided": Seen(16, 2_013),
    "clock-shown": Seen(16, 2_013),
    "clock-of-the-coordinator": Seen(15, 3_989),
}
