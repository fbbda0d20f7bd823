"""The topics that a run of produce writes to.

    WrittenTopics.check      before Spark starts
    WrittenTopics.created    in a `with` around the write
    WrittenTopics.deleted    only if the write failed because a topic does not exist: returns those deleted since

`check` applies the rules of creation to a new topic, so a dry run refuses everything that the real run would refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from sparklog.client.cluster import Cluster
from sparklog.client.connection import Connection
from sparklog.core.commands import CreateTopic, DeleteTopic
from sparklog.core.config.cluster_config import topic_defaults
from sparklog.core.config.topic_config import TopicConfig, effective, parse_topic_config
from sparklog.core.decide.topics import decide_create_topic
from sparklog.core.describe.readable import counted
from sparklog.core.errors import (
    Conflict,
    InvalidPartitions,
    Landed,
    SparklogError,
    UnknownTopicOrPartition,
)
from sparklog.core.lookup import topic_of
from sparklog.core.names.topic_names import check_no_collision
from sparklog.core.state import ClusterState, Topic
from sparklog.core.types import TopicId


class NewTopic(msgspec.Struct, frozen=True):
    """The topic to create if it does not exist. An existing topic must have these partitions (None: any) and config."""

    partitions: int | None = None
    config: Mapping[str, str] = {}


class WrittenTopics:
    """The topic for good rows and, if given, the topic for bad rows.

    If the constructor's argument `create` is None, each of them must exist.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        dead_letter_topic: str | None,
        create: NewTopic | None,
        say: Callable[[str], None],
    ) -> None:
        self._connection, self._say = connection, say
        self._topic, self._dead_letter_topic, self._create = topic, dead_letter_topic, create
        self._ids: dict[str, TopicId] = {}  # ids of the topics that this run found or created

    def check(self) -> bool:
        """Check both topics, and return True if the topic for good rows exists.

        Raises UnknownTopicOrPartition if a topic is missing and the constructor's argument `create` was None. Raises
        Conflict or InvalidPartitions if the topic for good rows exists but differs from `create`. If a topic is to be
        created, raises every error that its creation would raise.
        """
        state = self._connection.newest_state()
        existing = [checked_topic(state, self._topic, self._create)]
        if self._dead_letter_topic is not None:
            wanted = None if self._create is None else NewTopic()
            existing.append(checked_topic(state, self._dead_letter_topic, wanted))
            check_no_collision(self._dead_letter_topic, [self._topic])
        self._ids = {topic.name: topic.topic_id for topic in existing if topic is not None}
        return self._topic in self._ids

    def config(self) -> TopicConfig:
        """The config of the topic for good rows, or the config that it would get if it does not exist yet."""
        state = self._connection.newest_state()
        topic = state.topic_named(self._topic)
        if topic is not None:
            return state.topic_config(topic)
        given = {} if self._create is None else parse_topic_config(self._create.config)
        return effective(given, topic_defaults(state.config))

    @contextmanager
    def created(self) -> Iterator[None]:
        """Create the missing topics. If the block fails, new topics that never had records are deleted again.

        They stay if the write may still land.
        """
        new: dict[str, TopicId] = {}
        try:
            if self._create is not None:
                if self._topic not in self._ids:
                    new[self._topic] = self._create_topic(self._topic, self._create.partitions, self._create.config)
                if self._dead_letter_topic is not None and not self._exists(self._dead_letter_topic):
                    new[self._dead_letter_topic] = self._create_topic(self._dead_letter_topic, 1, {})
            yield
        except BaseException as error:
            if not isinstance(error, SparklogError) or error.landed is Landed.NO:
                self._delete_empty(new)
            raise

    def deleted(self) -> list[str]:
        """The names of topics that this run found or created, but that have been deleted since.

        A topic that was created again under its name counts as deleted.
        """
        state = self._connection.newest_state()
        return [name for name, topic_id in self._ids.items() if topic_id not in state.topics]

    def _exists(self, name: str) -> bool:
        state = self._connection.newest_state()
        return state.topic_named(name) is not None

    def _create_topic(self, name: str, partitions: int | None, config: Mapping[str, str]) -> TopicId:
        topic = Cluster(self._connection).create_topic(name, partitions=partitions, config=config)
        self._say(f"topic {name} created with {counted(len(topic.partitions), 'partition')}")
        self._ids[name] = TopicId(topic.topic_id)
        return self._ids[name]

    def _delete_empty(self, topics: Mapping[str, TopicId]) -> None:
        for name, topic_id in topics.items():
            try:
                Cluster(self._connection).submit(DeleteTopic(topic_id, if_never_written=True))
                self._say(f"deleted topic {name}, which this run had created")
            except UnknownTopicOrPartition:
                self._say(f"topic {name}, which this run had created, was deleted meanwhile")
            except SparklogError as error:
                self._say(f"topic {name}, which this run had created, stays: {error}")


def checked_topic(state: ClusterState, name: str, wanted: NewTopic | None) -> Topic | None:
    """Return the topic `name`, or None if it does not exist but can be created as `wanted`.

    Raises UnknownTopicOrPartition if the topic does not exist and `wanted` is None. Raises Conflict or
    InvalidPartitions if an existing topic differs from `wanted`, and every error that creating a missing one would
    raise.
    """
    if wanted is None:
        return topic_of(state, name, advice="; add --create to create it")
    config = parse_topic_config(wanted.config)
    topic = state.topic_named(name)
    if topic is None:
        decide_create_topic(state, CreateTopic(name, wanted.partitions, None, config))
        return None
    if wanted.partitions is not None and wanted.partitions != topic.partitions:
        raise InvalidPartitions(f"wanted {wanted.partitions} partitions, found {name} with {topic.partitions}")
    for key, value in config.items():
        if topic.config.get(key) != value:
            raise Conflict(
                f"wanted topic {name} with {key}={value}, found it with {topic.config.get(key, 'the default')}: "
                "alter it, or leave --config out"
            )
    return topic
