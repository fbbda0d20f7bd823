"""Subscriptions of a consumer, to topics by name or by a pattern, and assignments of explicitly chosen partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparklog.core.config.key import shown
from sparklog.core.errors import InvalidInput, UnknownTopicOrPartition
from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.purgatory import KnownTopic
from sparklog.core.state import ClusterState
from sparklog.core.types import Place, TopicId, TopicPartition

Share = dict[TopicPartition, str]  # the names of topics, by partition


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription to `topics`, or to all topics whose whole names match `pattern`, even those created later."""

    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None = None

    def names(self, state: ClusterState) -> tuple[str, ...]:
        """The names of the subscribed topics, ascending, even of deleted ones; with a pattern, those that exist now."""
        if self.pattern is None:
            return self.topics
        return tuple(sorted(name for name in state.topic_ids if self.pattern.fullmatch(name)))

    def share(self, state: ClusterState) -> Share:
        """All partitions of those subscribed topics that exist, each with its topic's name."""
        topics = filter(None, map(state.topic_named, self.names(state)))
        return {
            TopicPartition(topic.topic_id, partition.partition): topic.name
            for topic in topics
            for partition in state.partitions_of(topic)
        }

    def sizes(self, state: ClusterState) -> dict[TopicId, int]:
        """Number of partitions of each subscribed topic that exists in `state`."""
        topics = filter(None, map(state.topic_named, self.names(state)))
        return {topic.topic_id: topic.partitions for topic in topics}

    def known(self, state: ClusterState) -> tuple[KnownTopic, ...]:
        """The subscribed topics that exist, each with its number of partitions: a change ends a wait for records."""
        return tuple(KnownTopic(topic_id, partitions) for topic_id, partitions in self.sizes(state).items())


@dataclass(frozen=True, slots=True)
class Assignment:
    """Partitions that the caller chose. They have topic ids, so a topic that is created again is not read."""

    chosen: Share

    def share(self, state: ClusterState) -> Share:
        """The chosen partitions with their topics' names. Raises UnknownTopicOrPartition if one no longer exists."""
        for key, topic in self.chosen.items():
            if key not in state.partitions:
                again = "and created again" if topic in state.topic_ids else "while this consumer was reading"
                raise UnknownTopicOrPartition(f"{topic}-{key.partition}: the topic was deleted {again}")
        return self.chosen

    def sizes(self, state: ClusterState) -> dict[TopicId, int]:
        """Number of all partitions, chosen or not, of each topic with a chosen partition."""
        return {key.topic_id: state.topics[key.topic_id].partitions for key in self.chosen}

    def known(self, state: ClusterState) -> tuple[KnownTopic, ...]:
        """Return no topics, because changes of topics don't change an explicit assignment."""
        return ()


def subscription(state: ClusterState, topics: Sequence[str] | str, pattern: str | None) -> Subscription:
    """Make a subscription to `topics` or to a pattern.

    Raises InvalidInput (both, neither, or an invalid pattern), UnknownTopicOrPartition (a topic in `topics` that does
    not exist).
    """
    listed = [topics] if isinstance(topics, str) else list(topics)
    wrong = [name for name in listed if not isinstance(name, str)]
    if wrong:
        raise InvalidInput(
            f'topics: wanted names, found {shown(wrong[0])}: consumer("a", "b") takes names one by one, '
            'subscribe(["a", "b"]) takes a list'
        )
    names = tuple(dict.fromkeys(listed))
    if bool(names) == (pattern is not None):
        raise InvalidInput(
            f"a subscription is to topics or to a pattern, found {', '.join(names) or 'no topic'} and "
            f"{'no pattern' if pattern is None else pattern!r}"
        )
    for name in names:
        topic_of(state, name)
    if pattern is None:
        return Subscription(tuple(sorted(names)))
    try:
        return Subscription((), re.compile(pattern))
    except re.error as error:
        raise InvalidInput(f"pattern: wanted a regular expression, found {pattern!r}: {error}") from None


def assignment(state: ClusterState, places: Iterable[Place]) -> Assignment:
    """Make an assignment of these partitions.

    Raises InvalidInput if `places` is empty, and UnknownTopicOrPartition if one of the partitions does not exist.
    """
    chosen = {}
    for name, index in map(checked_place, places):
        topic = topic_of(state, name)
        chosen[TopicPartition(topic.topic_id, partition_of(state, topic, index).partition)] = name
    if not chosen:
        raise InvalidInput("assign: wanted at least one partition, found none; unsubscribe gives up all")
    return Assignment(chosen)


def checked_place(given: object) -> Place:
    """Return `given` as (topic name, partition index). Raises InvalidInput unless it is such a pair.

    A TopicPartition of kafka-python is such a pair; one of confluent-kafka is not.
    """
    if isinstance(given, tuple | list) and len(given) == 2:
        topic, index = given
        if isinstance(topic, str) and isinstance(index, int):
            return topic, index
    raise InvalidInput(f"a partition: wanted a pair of a topic's name and a number, found {given!r}")


def places(share: Mapping[TopicPartition, str]) -> list[Place]:
    """The partitions of a share as (topic name, partition index), the form that users see."""
    return [(topic, int(key.partition)) for key, topic in share.items()]
