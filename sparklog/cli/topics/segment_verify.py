"""`sparklog segment verify`: the objects of a topic compared with the chain, in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sparklog.client.cluster import Cluster
from sparklog.core.lookup import registered_store
from sparklog.core.maintenance.objects_to_verify import (
    ObjectsWanted,
    ObjectToVerify,
    objects_to_verify,
    slices_still_held,
)
from sparklog.core.types import PartitionIndex, StoreId, TopicId
from sparklog.log.check.sighting import Sighting, differences_of, key_of, look_at


def verified_rows(
    cluster: Cluster, topic: TopicId, partitions: Collection[PartitionIndex], stores: Collection[str]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each object of these partitions on each of its stores, in the order of object numbers.

    `stores`: only objects on these stores; if empty, on all. Raises BrokerIdNotRegistered for a store that the cluster
    does not have.
    """
    state = cluster.connection.newest_state()
    chosen = [registered_store(state, StoreId(store)).store for store in stores]
    opened = cluster.connection.stores(state)
    asked = frozenset(chosen or state.registrations())
    wanted = ObjectsWanted(frozenset({topic}), asked, frozenset(partitions))
    for object_ in objects_to_verify(state, wanted):
        sightings = look_at(object_, opened)
        for of in sightings:
            row = _row(cluster, object_, sightings, of)
            if row is not None:
                yield row


def _row(
    cluster: Cluster, object_: ObjectToVerify, sightings: Sequence[Sighting], of: Sighting
) -> dict[str, Any] | None:
    """Return the row of an object on a store.

    None if the copy there is missing or damaged, but the store no longer has to hold it.
    """
    slices, result, kinds, advice = object_.slices, of.error or "ok", [], ""
    if of.findings:
        now = cluster.connection.newest_state()
        slices = slices_still_held(now, object_, of.store)
        if not slices:
            return None
        differences = differences_of(object_, sightings, of, slices)
        kinds = sorted({str(difference.kind) for difference in differences})
        result = "; ".join(f"{row.kind}: wanted {row.wanted}, found {row.found}" for row in differences)
        advice = differences[0].advice
    return {
        "object": key_of(object_),
        "store": of.store,
        "partitions": len({slice_.partition for slice_ in slices}),
        "records": sum(slice_.records for slice_ in slices),
        "size_bytes": object_.named.object.size_bytes,
        "kinds": kinds,
        "result": result,
        "advice": advice,
    }
