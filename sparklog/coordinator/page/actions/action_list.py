"""All actions of the pages: each with its form, and with the right that a user needs to see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlencode

import msgspec

from sparklog.client.groups.offsets import committed
from sparklog.coordinator.access.submitting import refusal_of
from sparklog.coordinator.page.actions.action import Action, Field
from sparklog.coordinator.page.actions.group_actions import TARGETS, plan_delete_group, plan_reset
from sparklog.coordinator.page.actions.job_actions import PLANNED, plan_job
from sparklog.coordinator.page.actions.topic_actions import (
    plan_alter,
    plan_create,
    plan_delete,
    plan_delete_records,
)
from sparklog.coordinator.watching.observation import Observation
from sparklog.core.access import Need, Principal, Verb
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.state import ClusterState

PATH: Final = "/actions/{action}"
ON_TOPICS: Final = ("create-topic",)
ON_TOPIC: Final = ("alter-topic", "delete-records", "delete-topic")
ON_GROUP: Final = ("reset-group", "delete-group")


class FormLink(msgspec.Struct, frozen=True):
    """A link to the form of an action, or to its plan if the form has no fields."""

    title: str
    address: str


def _on_topic(verb: Verb) -> Callable[[Principal, ClusterState, str], bool]:
    return lambda principal, state, name: refusal_of(principal, Need(verb, (name,)), state) is None


def _may_create(principal: Principal, state: ClusterState, name: str) -> bool:
    return refusal_of(principal, Need(Verb.ALTER, any_topic=True), state) is None


def _may_reset(principal: Principal, state: ClusterState, name: str) -> bool:
    """True if the principal may read at least one topic in which the group `name` has committed an offset.

    If the group has committed none, the right to read at least one topic, no matter which, is enough.
    """
    topics = {topic for topic, _ in committed(state, name)}
    if topics:
        return any(principal.may(Verb.READ, topic) for topic in topics)
    return refusal_of(principal, Need(Verb.READ, any_topic=True), state) is None


def _may_delete_group(principal: Principal, state: ClusterState, name: str) -> bool:
    return refusal_of(principal, Need(Verb.ALTER), state) is None


_CONFIG_HINT: Final = "retention.ms=604800000"
_ACTIONS: Final = (
    Action(
        "create-topic",
        "Create a topic",
        "Its replicas are spread over the zones, then evenly over the stores. The first store of a partition is its "
        "preferred leader.",
        "",
        (
            Field("topic", "Name"),
            Field("partitions", "Partitions", "the cluster's num.partitions"),
            Field("replication_factor", "Replication factor", "the cluster's default.replication.factor"),
            Field("config", "Config, KEY=VALUE in lines", _CONFIG_HINT, is_long=True),
        ),
        plan_create,
        _may_create,
    ),
    Action(
        "alter-topic",
        "Change the config",
        "A key that is removed has its default again.",
        "topic",
        (
            Field("set", "Set, KEY=VALUE in lines", _CONFIG_HINT, is_long=True),
            Field("remove", "Remove, a KEY in each line", is_long=True),
        ),
        plan_alter,
        _on_topic(Verb.ALTER),
    ),
    Action(
        "delete-records",
        "Delete records",
        "The oldest records of partitions, up to an offset. A log start that is higher already stays.",
        "topic",
        (
            Field("offset", "Below this offset, or end", "end"),
            Field("partition", "Partition", "all"),
        ),
        plan_delete_records,
        _on_topic(Verb.MAINTAIN),
    ),
    Action(
        "delete-topic",
        "Delete the topic",
        "With all its records.",
        "topic",
        (),
        plan_delete,
        _on_topic(Verb.ALTER),
    ),
    Action(
        "reset-group",
        "Reset offsets",
        "The offsets where the group continues; it must have no active members. An offset outside the log becomes its "
        "nearer end.",
        "group",
        (
            Field("to", "Where to", choices=TARGETS),
            Field("value", "Offset, time, or number", "2026-01-31T00:00:00Z"),
            Field("topic", "Only in topic", "wherever it has committed"),
            Field("partition", "Only partition", "all"),
        ),
        plan_reset,
        _may_reset,
    ),
    Action(
        "delete-group",
        "Delete the group",
        "With all its offsets; it must have no active members.",
        "group",
        (),
        plan_delete_group,
        _may_delete_group,
    ),
    Action(
        "plan-job",
        "What is due",
        "The work that a run would do now, by the state of the chain alone. This page starts no job: the process that "
        "leads runs the scheduled ones, and the command runs one where you see its output.",
        "",
        (Field("job", "Job", choices=PLANNED), Field("topic", "Only topic", "all")),
        plan_job,
        lambda principal, state, name: True,
        changes=False,
    ),
)
ACTIONS: Final = {action.name: action for action in _ACTIONS}


def address_of(action: str, given: Mapping[str, str]) -> str:
    """The address of the form of this action, with these values filled in."""
    path = PATH.replace("{action}", action)
    return f"{path}?{urlencode(given)}" if given else path


def writes_are_on(state: ClusterState) -> bool:
    """True if `page.writes` allows changes on the pages of this cluster."""
    return effective_cluster(state.config).page_writes


def links(seen: Observation, principal: Principal, *names: str, of: str = "") -> list[FormLink]:
    """Links to those of the actions `names` that the principal may perform.

    `of` is the name of the topic or group that the actions are for. [] if this process does not lead, or if
    `page.writes` is false.
    """
    if not seen.leads or not writes_are_on(seen.state):
        return []
    return [
        FormLink(action.title, address_of(name, _given(action, of)))
        for name in names
        if (action := ACTIONS[name]).may(principal, seen.state, of)
    ]


def _given(action: Action, of: str) -> dict[str, str]:
    """The parameters of the link to an action for the topic or group `of`.

    The link leads to the form of the action, or directly to its plan if the form has no fields.
    """
    return {**({action.of: of} if action.of else {}), **({} if action.fields else {"plan": "1"})}
