"""Stores that hold a slice: the single answer for readers, rewrites, deletion and the metadata tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sparklog.core.replication.partition import Replication
from sparklog.core.types import Holder, Offset, StoreId


def stores_holding(
    slice_end: Offset,
    named: Sequence[Holder],
    value: Replication,
    registrations: Mapping[StoreId, int],
    *,
    unreachable: Collection[StoreId] = (),
) -> tuple[StoreId, ...]:
    """The stores that hold a slice of the partition, in the order in which a reader tries them.

    A replica holds the slice if its LEO is at or above the slice's end, no matter how the bytes got there. Above its
    LEO, it holds the slice if the slice's object names it (`named`), under the registration that it still has. A store
    without a replica holds nothing, because its copies may be deleted at any time. For the same reason, an object that
    named a store before its replica arrived there does not count.

    `registrations` are the present numbers of all registered stores. The leader comes first, then the ISR, then the
    others; `unreachable` stores come last. A reader that knows its zone asks the stores there before the others.
    """
    arrived = dict(value.arrived)
    by_name = {
        holder.store
        for holder in named
        if registrations.get(holder.store) == holder.registration and slice_end > arrived.get(holder.store, 0)
    }
    holding = [
        store
        for store, log_end in zip(value.replicas, value.log_ends, strict=True)
        if store in registrations and (log_end >= slice_end or store in by_name)
    ]
    return tuple(
        sorted(
            holding,
            key=lambda store: (
                store in unreachable,
                store != value.leader,
                store not in value.isr,
            ),
        )
    )
