"""Invariants of the replicas of a partition, and of every step from one value to the next. Tests check them.

 1. Replicas are different stores, and each has a LEO. ISR and ELR are disjoint subsets of them, in their order.
    `adding` and `removing` are disjoint subsets, too. `arrived` are replicas that lack something from before the move
    that added them.
 2. A leader is in the ISR, and its LEO is the next offset.
 3. Log start <= HW <= next offset, and log start <= LEO <= next offset for every replica.
 4. Every member of the ISR and of the ELR has LEO >= HW.
 5. The ELR is empty unless the ISR is smaller than min ISR.
 6. HW = min(LEO over ISR) unless the ISR is smaller than min ISR.
 7. The epoch history ascends in epoch and in offset, and ends with the leader epoch, at the next offset or below.
 8. Lost ranges ascend, are disjoint, and lie between log start and HW.

Steps:

 9. HW, next offset, log start, version and leader epoch never go back. HW moves only if the ISR is as large as min ISR.
10. A new leader opens exactly the next epoch, at the next offset that the partition had before. If the leader stays,
    the epoch may begin above that: a mirror topic was promoted.
11. The version rises by one if the replicas, the ISR, `adding` or `removing` changed or a LEO fell; never by more.
12. The history has no epoch that it did not have before, except the one that a new leader opened.

Rewrites:

13. After a rewrite, at least min ISR replicas have everything committed, or no fewer than before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sparklog.core.replication.partition import Replication
from sparklog.core.types import StoreId


def check(value: Replication, min_isr: int) -> None:
    """Raise AssertionError if `value` breaks any of the invariants 1 to 8. The message lists the numbers of these."""
    _raise_if_any(broken(value, min_isr), str(value))


def check_step(before: Replication, after: Replication, min_isr: int) -> None:
    """Raise AssertionError if the step from `before` to `after` breaks any of the invariants 9 to 12.

    The message lists the numbers of these. The two values themselves are not checked.
    """
    _raise_if_any(violations(before, after, min_isr), f"{before}\n{after}")


def check_rewrite(before: Replication, after: Replication, min_isr: int) -> None:
    """Raise an AssertionError unless enough whole replicas are left after a rewrite (invariant 13)."""
    wanted = min(len(before.whole), before.required_isr(min_isr))
    messages = [f"13: whole are {after.whole} after {before.whole}"] if len(after.whole) < wanted else []
    _raise_if_any(iter(messages), f"{before}\n{after}")


def broken(value: Replication, min_isr: int) -> Iterator[str]:
    """Yield each broken invariant of `value` as "number: text", where the text says what was found."""
    replicas = value.replicas
    if not replicas or len(set(replicas)) != len(replicas) or len(value.log_ends) != len(replicas):
        yield f"1: replicas {replicas} with LEOs {value.log_ends}"
        return
    if not {*value.isr, *value.elr} | ({value.leader} - {None}) <= set(replicas):
        yield f"1: leader {value.leader}, ISR {value.isr} and ELR {value.elr} of replicas {replicas}"
        return
    for name, stores in (("ISR", value.isr), ("ELR", value.elr)):
        if stores != tuple(store for store in replicas if store in stores):
            yield f"1: {name} {stores} of replicas {replicas}"
    for first, second in ((value.isr, value.elr), (value.adding, value.removing)):
        if set(first) & set(second) or not {*first, *second} <= set(replicas):
            yield f"1: {first} and {second} of replicas {replicas}"
    if any(store not in replicas or value.log_end(store) >= end for store, end in value.arrived):
        yield f"1: arrived {value.arrived}, LEOs {value.log_ends} of replicas {replicas}"
    if value.leader is not None and (value.leader not in value.isr or value.log_end(value.leader) != value.next_offset):
        yield f"2: leader {value.leader}, ISR {value.isr}, LEOs {value.log_ends}, next offset {value.next_offset}"
    ends = (value.high_watermark, *value.log_ends)
    if not 0 <= value.log_start <= min(ends) or max(ends) > value.next_offset:
        yield f"3: log start {value.log_start}, HW and LEOs {ends}, next offset {value.next_offset}"
    for store in {*value.isr, *value.elr} & set(replicas):
        if value.log_end(store) < value.high_watermark:
            yield f"4: {store} in ISR or ELR ends at {value.log_end(store)}, HW is {value.high_watermark}"
    if len(value.isr) >= value.required_isr(min_isr):
        if value.elr:
            yield f"5: ELR {value.elr} beside the ISR {value.isr}"
        if value.high_watermark != min(_log_ends(value, value.isr)):
            yield f"6: HW {value.high_watermark}, ISR {value.isr}, LEOs {value.log_ends} of {replicas}"
    yield from _history(value)
    if any(lower.end >= upper.start for lower, upper in pairwise(value.lost)) or any(
        not value.log_start <= range_.start < range_.end <= value.high_watermark for range_ in value.lost
    ):
        yield f"8: lost {value.lost} between {value.log_start} and {value.high_watermark}"


def violations(before: Replication, after: Replication, min_isr: int) -> Iterator[str]:
    """Yield each broken invariant of the step from `before` to `after`, as `broken` does."""
    for name in ("high_watermark", "next_offset", "log_start", "version", "leader_epoch"):
        if getattr(after, name) < getattr(before, name):
            yield f"9: {name} went from {getattr(before, name)} to {getattr(after, name)}"
    if after.high_watermark > before.high_watermark and len(after.isr) < after.required_isr(min_isr):
        yield f"9: HW went from {before.high_watermark} to {after.high_watermark} in sync on {after.isr} alone"
    opened = after.epochs[-1] if after.leader_epoch != before.leader_epoch else None
    if opened is None:
        if after.leader is not None and after.leader != before.leader:
            yield f"10: {after.leader} follows {before.leader} in the same epoch {after.leader_epoch}"
    elif after.leader is None or opened not in (
        (before.leader_epoch + 1, before.next_offset),
        (before.leader_epoch + 1, after.next_offset if after.leader == before.leader else before.next_offset),
    ):
        yield f"10: {after.leader} opens {opened}, before was {before.leader_epoch} up to {before.next_offset}"
    fell = any(after.log_end(store) < before.log_end(store) for store in set(before.replicas) & set(after.replicas))
    changed = fell or _stores(before) != _stores(after)
    if after.version > before.version + 1 or (changed and after.version == before.version):
        yield f"11: version {before.version} became {after.version}: {_stores(before)}, {_stores(after)}"
    epochs = {epoch for epoch, _ in after.epochs} - {epoch for epoch, _ in before.epochs}
    if epochs - ({opened[0]} if opened else set()):
        yield f"12: epochs {epochs} are new in {after.epochs}, before {before.epochs}"


def _history(value: Replication) -> Iterator[str]:
    epochs = value.epochs
    ascends = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(epochs))
    if not epochs or epochs[-1][0] != value.leader_epoch or not ascends or epochs[-1][1] > value.next_offset:
        yield f"7: epoch {value.leader_epoch}, next offset {value.next_offset}, history {epochs}"


def _log_ends(value: Replication, stores: Sequence[StoreId]) -> list[int]:
    return [value.log_end(store) for store in stores]


def _stores(value: Replication) -> tuple[object, ...]:
    return value.replicas, value.isr, value.adding, value.removing


def _raise_if_any(messages: Iterator[str], where: str) -> None:
    lines = list(messages)
    if lines:
        raise AssertionError("\n".join([*lines, where]))
