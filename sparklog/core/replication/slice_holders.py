"""The rule that says which stores hold a slice."""

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
    """Return the stores that hold a slice of the partition, in the order in which a reader tries them.

    A replica holds the slice if its LEO is at or above `slice_end`. If its LEO is lower, it holds the slice only if its
    store is one of the holders in `named`, the holders of the slice's object, under its present registration. A store
    without a replica holds nothing, because its copies may be deleted at any time. For the same reason, a holder does
    not count if the object was named before a move brought the replica to that store.

    `registrations`: the present numbers of all registered stores. The leader comes first, then the ISR, then the
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
