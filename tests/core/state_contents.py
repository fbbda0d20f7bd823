"""What a state says, as plain values: two states are equal if these are, however their tables are built."""

from __future__ import annotations

from typing import Any

from sparklog.core.state import ClusterState

_MAPS = (
    "stores",
    "topics",
    "topic_ids",
    "partitions",
    "cleaners",
    "released",
    "producers",
    "applications",
    "jobs",
    "groups",
)
_PLAIN = (
    "n",
    "time_ms",
    "chain_id",
    "floor",
    "config",
    "coordinator",
    "next_topic_id",
    "next_object_number",
    "next_producer_id",
    "next_registration",
    "next_group_number",
)


def contents(state: ClusterState) -> dict[str, Any]:
    """Everything in the state; tables as lists in their order."""
    found: dict[str, Any] = {name: getattr(state, name) for name in _PLAIN}
    found |= {name: dict(getattr(state, name)) for name in _MAPS}
    found["slices"] = list(state.slices.everything())
    found["objects"] = sorted((each.number, each.object, state.objects.slices(each.number)) for each in state.objects)
    found["retired"] = {each.number: each for each in state.retired}
    found["offsets"] = {name: column.tolist() for name, column in state.offsets.all_columns().items()}
    found["offset_metadata"] = dict(state.offsets.metadata)
    found["results"] = sorted(state.results)
    return found
