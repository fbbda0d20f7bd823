"""`sparklog segment verify`: the objects of a topic compared with the chain, in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterator
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
from sparklog.log.check.replica_check import ReplicaCheck, check_replicas, differences_of, is_repairable
from sparklog.storage.keys import data_key


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
        checks = check_replicas(object_, opened)
        for replica in checks:
            row = _row(cluster, object_, checks, replica)
            if row is not None:
                yield row


def _row(
    cluster: Cluster, object_: ObjectToVerify, checks: list[ReplicaCheck], replica: ReplicaCheck
) -> dict[str, Any] | None:
    """Return the row of an object on a store.

    None if the copy there is missing or damaged, but the store no longer has to hold it.
    """
    slices, result, kinds, advice = object_.slices, "ok", [], ""
    if replica.check is None:
        result = replica.error
    elif not replica.check.is_whole:
        now = cluster.connection.newest_state()
        slices = slices_still_held(now, object_, replica.store)
        if not slices:
            return None
        repairable = is_repairable(object_, checks, replica)
        differences = differences_of(object_, replica.store, replica.check.findings, slices, repairable)
        kinds = sorted({str(difference.kind) for difference in differences})
        result = "; ".join(f"{row.kind}: wanted {row.wanted}, found {row.found}" for row in differences)
        advice = differences[0].advice
    return {
        "object": data_key(object_.named.object, object_.topic),
        "store": replica.store,
        "partitions": len({slice_.partition for slice_ in slices}),
        "records": sum(slice_.records for slice_ in slices),
        "size_bytes": object_.named.object.size_bytes,
        "kinds": kinds,
        "result": result,
        "advice": advice,
    }
