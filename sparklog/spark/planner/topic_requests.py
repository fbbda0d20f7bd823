"""Answers the requests of Spark's catalog of topics: list, describe, create, alter and drop them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from sparklog.client.admin import Admin
from sparklog.core.commands import DeleteTopic
from sparklog.core.config.key import ConfigKey, ValueType
from sparklog.core.errors import InvalidConfig, PolicyViolation, TopicAlreadyExists
from sparklog.options.given import GivenOptions
from sparklog.options.registry import Side
from sparklog.spark.lazy_connection import default_cluster, shared

_PARTITIONS: Final = ConfigKey("partitions", ValueType.INT, None, "Partitions of the topic.", minimum=1)
_REPLICATION: Final = ConfigKey("replication.factor", ValueType.INT, None, "Replicas of each partition.", minimum=1)


class _TopicRequest(msgspec.Struct):
    """A request of the catalog. `options` are the catalog's own, such as the address of the cluster.

    `properties`: properties of the topic to set. `removed`: names of properties to remove. `with_records`: drop the
    topic even if it has had records.
    """

    options: dict[str, str]
    topic: str = ""
    properties: dict[str, str] = {}
    removed: list[str] = []
    with_records: bool = False


def _topics(admin: Admin, request: _TopicRequest) -> list[str]:
    """The names of all topics, in ascending order."""
    return admin.topics()


def _topic(admin: Admin, request: _TopicRequest) -> dict[str, str] | None:
    """The properties of a topic: partitions, replication factor and its own config; None if there is no such topic."""
    state = admin.connection.newest_state()
    topic = state.topic_named(request.topic)
    if topic is None:
        return None
    replicas = max(len(partition.replication.replicas) for partition in state.partitions_of(topic))
    return {_PARTITIONS.name: str(topic.partitions), _REPLICATION.name: str(replicas), **topic.config}


def _create_topic(admin: Admin, request: _TopicRequest) -> bool:
    """Create a topic with the request's properties. Return False if it already exists.

    Raises InvalidTopic, InvalidPartitions, InvalidReplicationFactor, InvalidConfig.
    """
    config, partitions, replicas = _divided(request.properties)
    try:
        admin.create_topic(request.topic, partitions=partitions, replication_factor=replicas, config=config)
    except TopicAlreadyExists:
        return False
    return True


def _alter_topic(admin: Admin, request: _TopicRequest) -> None:
    """Set and remove config keys of a topic, or raise its number of partitions.

    Raises InvalidConfig for a wrong key or value. Raises it too if the request sets or removes the replication factor,
    removes the number of partitions, or changes that number together with config keys (that can't be one commit). Also
    raises InvalidPartitions, InvalidReplicationFactor, UnknownTopicOrPartition.
    """
    config, partitions, replicas = _divided(request.properties)
    fixed = {_PARTITIONS.name, _REPLICATION.name}.intersection(request.removed)
    if replicas is not None or fixed:
        raise InvalidConfig(
            f"{_REPLICATION.name if replicas is not None else min(fixed)}: wanted a key of a topic's config; replicas "
            "are moved by `sparklog replica move`, and a topic always has partitions"
        )
    if partitions is not None and (config or request.removed):
        raise InvalidConfig(f"{_PARTITIONS.name}: wanted a statement of its own, found others in it")
    if partitions is not None:
        admin.add_partitions(request.topic, partitions)
    else:
        admin.alter(request.topic, config={**config, **dict.fromkeys(request.removed)})


def _drop_topic(admin: Admin, request: _TopicRequest) -> bool:
    """Delete a topic. Return False if there is no topic of this name.

    Raises PolicyViolation if the topic has had records, unless `with_records` is set. A record that is written after
    this check is deleted with the topic.
    """
    state = admin.connection.newest_state()
    topic = state.topic_named(request.topic)
    if topic is None:
        return False
    if not request.with_records and any(partition.next_offset for partition in state.partitions_of(topic)):
        raise PolicyViolation(
            f"{topic.name}: wanted a topic without records, found some: a log can't be replaced or overwritten; DROP "
            "TABLE … PURGE deletes a topic with its records"
        )
    admin.submit(DeleteTopic(topic.topic_id))  # this one, not another that has got its name meanwhile
    return True


def _divided(properties: dict[str, str]) -> tuple[dict[str, object], int | None, int | None]:
    """Split properties into config, number of partitions and replication factor. A number not given is None.

    Raises InvalidConfig for a number that is not valid.
    """
    config: dict[str, object] = dict(properties)
    numbers = []
    for key in (_PARTITIONS, _REPLICATION):
        text = config.pop(key.name, None)
        number = None if text is None else key.parse(text)
        assert number is None or isinstance(number, int)
        numbers.append(number)
    return config, numbers[0], numbers[1]


_ANSWERS: Final[dict[str, Callable[[Admin, _TopicRequest], object]]] = {
    "topics": _topics,
    "topic": _topic,
    "create_topic": _create_topic,
    "alter_topic": _alter_topic,
    "drop_topic": _drop_topic,
}


def _answer(answer: Callable[[Admin, _TopicRequest], object], payload: bytes) -> bytes:
    request = msgspec.json.decode(payload, type=_TopicRequest)
    given = GivenOptions(request.options, Side.BATCH_READ)
    connection = shared(given.cluster(default_cluster()), given.storage())
    return msgspec.json.encode(answer(Admin(connection), request))


TOPIC_REQUESTS: Final[dict[str, Callable[[bytes], bytes]]] = {
    name: partial(_answer, answer) for name, answer in _ANSWERS.items()
}
