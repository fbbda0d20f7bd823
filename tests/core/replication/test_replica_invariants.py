"""Each invariant is seen when it is broken."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sparklog.core.replication.partition import Replication
from sparklog.core.replication.promotion import promoted
from sparklog.core.replication.replica_invariants import broken, check, check_step, violations
from sparklog.core.types import LeaderEpoch, Offset
from tests.core.replication.example_partition import offsets, partition, stores

SOUND = partition({"a": 9, "b": 7, "c": 5}, "ab", hw=7, start=2, epochs=((1, 2), (3, 6)), lost=((3, 4), (5, 6)))


def with_changes(value: Replication, **changes: Any) -> Replication:
    return msgspec.structs.replace(value, **changes)


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (1, {"replicas": stores("a", "b", "b")}),
        (1, {"replicas": ()}),
        (1, {"log_ends": (9, 7)}),
        (1, {"isr": stores("b", "a")}),
        (1, {"elr": stores("b")}),
        (1, {"elr": stores("d")}),
        (1, {"adding": stores("c"), "removing": stores("c")}),
        (1, {"removing": stores("d")}),
        (1, {"arrived": (("d", 9),)}),
        (1, {"arrived": (("c", 5),)}),
        (2, {"leader": "c"}),
        (2, {"leader": "b"}),
        (3, {"log_start": 8}),
        (3, {"log_start": 6}),
        (3, {"next_offset": 8}),
        (3, {"high_watermark": 10}),
        (4, {"high_watermark": 8}),
        (5, {"elr": stores("c"), "log_ends": (9, 7, 7)}),
        (6, {"high_watermark": 6}),
        (7, {"leader_epoch": 4}),
        (7, {"epochs": ((1, 2), (3, 10))}),
        (7, {"epochs": ((1, 2), (2, 2), (3, 6))}),
        (7, {"epochs": ((3, 2), (3, 6))}),
        (7, {"epochs": ()}),
        (8, {"lost": (offsets(3, 5), offsets(5, 6))}),
        (8, {"lost": (offsets(3, 3),)}),
        (8, {"lost": (offsets(1, 3),)}),
        (8, {"lost": (offsets(5, 8),)}),
    ],
)
def test_a_broken_value_is_seen(number: int, changes: dict[str, Any]) -> None:
    check(SOUND, 2)
    value = with_changes(SOUND, **changes)
    assert any(line.startswith(f"{number}:") for line in broken(value, 2))
    with pytest.raises(AssertionError, match=f"{number}: "):
        check(value, 2)


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (9, {"high_watermark": 6}),
        (9, {"high_watermark": 8, "isr": stores("a"), "version": 8}),
        (9, {"next_offset": 8}),
        (9, {"log_start": 1}),
        (9, {"version": 6}),
        (9, {"leader_epoch": 2}),
        (10, {"leader": "b"}),
        (10, {"leader_epoch": 5, "epochs": ((1, 2), (3, 6), (5, 9))}),
        (10, {"leader_epoch": 4, "epochs": ((1, 2), (3, 6), (4, 8))}),
        (10, {"leader_epoch": 4, "epochs": ((1, 2), (3, 6), (4, 9)), "leader": None}),
        (10, {"leader_epoch": 4, "epochs": ((1, 2), (3, 6), (4, 12)), "leader": "b", "next_offset": 12}),
        (10, {"leader_epoch": 4, "epochs": ((1, 2), (3, 6), (4, 11)), "next_offset": 12}),
        (11, {"isr": stores("a")}),
        (11, {"adding": stores("c")}),
        (11, {"log_ends": (9, 7, 4)}),
        (11, {"version": 9}),
        (12, {"epochs": ((1, 2), (2, 4), (3, 6))}),
    ],
)
def test_a_wrong_step_is_seen(number: int, changes: dict[str, Any]) -> None:
    check_step(SOUND, SOUND, 2)
    after = with_changes(SOUND, **changes)
    assert any(line.startswith(f"{number}:") for line in violations(SOUND, after, 2))
    with pytest.raises(AssertionError, match=f"{number}: "):
        check_step(SOUND, after, 2)


def test_a_step_may_open_the_next_epoch_and_the_next_version() -> None:
    epochs = ((LeaderEpoch(1), 2), (LeaderEpoch(4), 9))
    check_step(SOUND, with_changes(SOUND, leader="b", leader_epoch=4, epochs=epochs, isr=stores("b"), version=8), 2)


def test_a_promotion_may_open_its_epoch_behind_a_gap() -> None:
    check_step(SOUND, promoted(SOUND, Offset(12), 2), 2)
    check(promoted(SOUND, Offset(12), 2), 2)
