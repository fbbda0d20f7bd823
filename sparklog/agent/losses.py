"""Checks whether a store is still the one that was registered, and searches for the objects that it has lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sparklog.agent.agent_requests import AgentMachine, AllOf, LookForObject
from sparklog.core.errors import DuplicateBrokerRegistration, InconsistentClusterId
from sparklog.core.machine import Ended, resume
from sparklog.core.placement.loss_search import LookFor, Search
from sparklog.core.state import ClusterState, Store
from sparklog.log.incarnation import Incarnation
from sparklog.storage.keys import INCARNATION

T = TypeVar("T")


def is_another_incarnation(store: Store, mark: Incarnation | None, state: ClusterState) -> bool:
    """True if the store was wiped or swapped. `mark`: the INCARNATION that it has; None if it has none.

    Raises InconsistentClusterId if the mark is that of another cluster, and DuplicateBrokerRegistration if it is that
    of another store in this cluster.
    """
    if mark is None:
        return True
    if mark.chain_id not in state.lineage:
        raise InconsistentClusterId(
            f"wanted store {store.store} of cluster {state.chain_id}, found {INCARNATION} of cluster "
            f"{mark.chain_id} at {store.url}: the agent stops and touches nothing"
        )
    for other in state.stores.values():
        if other.incarnation == mark.incarnation and other.store != store.store:
            raise DuplicateBrokerRegistration(
                f"wanted store {store.store} at {store.url}, found the {INCARNATION} of store {other.store} there: "
                "two stores can't share one address"
            )
    return mark.incarnation != store.incarnation


def searched(search: Search[T], follow: Callable[[], AgentMachine[ClusterState]]) -> AgentMachine[T]:
    """Run the machine `search`, which looks for lost objects, as a part of the agent's machine.

    `follow` catches up with the chain and returns the state. Returns the outcome of the search, and raises its errors.
    """
    wanted = resume(search, None)
    while not isinstance(wanted, Ended):
        reply: object
        if isinstance(wanted, LookFor):
            reply = yield AllOf([LookForObject(held) for held in wanted.objects])
        else:
            reply = yield from follow()
        wanted = resume(search, reply)
    return wanted.outcome
