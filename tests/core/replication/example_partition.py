"""Partitions of examples, written shortly: stores have letters as names, and the ISR is a string of them."""

from __future__ import annotations

from collections.abc import Mapping

from sparklog.core.replication.partition import Replication
from sparklog.core.replication.replica_append import HeldSlice
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, StoreId

REGISTRATIONS = {StoreId(store): number for number, store in enumerate("abcdef")}


def partition(
    log_ends: Mapping[str, int],
    isr: str,
    *,
    leader: str | None = "a",
    hw: int,
    end: int | None = None,
    start: int = 0,
    elr: str = "",
    epochs: tuple[tuple[int, int], ...] = ((0, 0),),
    adding: str = "",
    removing: str = "",
    lost: tuple[tuple[int, int], ...] = (),
    version: int = 7,
) -> Replication:
    """Replicas in the order of `log_ends`; the next offset is the largest of them unless `end` says otherwise."""
    return Replication(
        stores(*log_ends),
        None if leader is None else StoreId(leader),
        LeaderEpoch(epochs[-1][0]),
        version,
        stores(*isr),
        tuple(Offset(each) for each in log_ends.values()),
        Offset(max(log_ends.values()) if end is None else end),
        Offset(hw),
        Offset(start),
        tuple((LeaderEpoch(epoch), Offset(at)) for epoch, at in epochs),
        stores(*elr),
        stores(*adding),
        stores(*removing),
        tuple(OffsetRange(Offset(low), Offset(high)) for low, high in lost),
    )


def stores(*names: str) -> tuple[StoreId, ...]:
    return tuple(StoreId(name) for name in names)


def held(offsets: int, by: str) -> HeldSlice:
    return HeldSlice(offsets, frozenset(stores(*by)))


def ends(value: Replication) -> str:
    """LEOs, as a9 b5 c7."""
    return " ".join(f"{store}{end}" for store, end in zip(value.replicas, value.log_ends, strict=True))


def roles(value: Replication) -> str:
    """Leader, ISR and ELR, as a:abc+d."""
    eligible = f"+{''.join(value.elr)}" if value.elr else ""
    return f"{value.leader or '-'}:{''.join(value.isr)}{eligible}"


def offsets(start: int, end: int) -> OffsetRange:
    return OffsetRange(Offset(start), Offset(end))
