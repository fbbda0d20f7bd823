"""Takes over the committed offsets of groups of a Kafka cluster, for topics that are mirrored here.

It may be repeated until the consumers move: each time the offsets are those that Kafka has then. Without the mirror, an
offset would say nothing: here its record has the same offset as in Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from sparklog.client.groups.offsets import committed, rows_to_commit
from sparklog.core.commands import CommitOffsets
from sparklog.core.decide.groups import check_no_members
from sparklog.core.errors import GroupIdNotFound, InvalidOption, RequestTimedOut, SparklogError, classes_by_code
from sparklog.core.groups.membership import OFFSETS_PER_COMMIT
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, Place
from sparklog.host.extras import needed

TIMEOUT_S: Final = 30.0


class ImportedOffset(msgspec.Struct, frozen=True):
    """A row of the plan: the offset in Kafka, and those of the group here before and after. `note`: why they differ.

    `after` is None if nothing changes here. `taken`: the topic is one whose offsets are taken over.
    """

    group: str
    topic: str
    partition: int
    kafka: int
    before: int | None
    after: int | None
    note: str = ""
    taken: bool = True


def planned_import(
    state: ClusterState,
    cluster_id: str,
    group: str,
    offsets: Mapping[Place, int],
    topics: Collection[str],
    *,
    back: bool,
) -> list[ImportedOffset]:
    """Plan the import of a group: a row for each of its offsets, ordered by topic and partition.

    `cluster_id`: that of Kafka. Takes offsets only of topics that mirror this cluster, or did before their promotion;
    if `topics` is not empty, only of these. An offset beyond the mirror becomes the end here. With `back`, an
    offset may be lower than the one here. Raises NonEmptyGroup if the group has members here.
    """
    known = state.groups.get(group)
    if known is not None:
        check_no_members(known)
    here = {place: row.offset for place, row in committed(state, group).items()}
    return [
        _row(state, cluster_id, group, place, offsets[place], here.get(place), topics, back=back)
        for place in sorted(offsets)
    ]


def _row(
    state: ClusterState,
    cluster_id: str,
    group: str,
    place: Place,
    kafka: int,
    before: Offset | None,
    topics: Collection[str],
    *,
    back: bool,
) -> ImportedOffset:
    name, number = place

    def row(after: int | None, note: str = "", *, taken: bool = True) -> ImportedOffset:
        return ImportedOffset(group, name, number, kafka, before, after, note, taken)

    topic_id = state.topic_ids.get(name)
    if topics and name not in topics:
        return row(None, "not asked for", taken=False)
    if topic_id is None:
        return row(None, "no such topic here: mirror it first", taken=False)
    topic = state.topics[topic_id]
    if topic.kafka_topic is None:
        return row(None, "no mirror of a Kafka topic", taken=False)
    if topic.kafka_topic.cluster_id != cluster_id:
        return row(None, f"mirrors Kafka cluster {topic.kafka_topic.cluster_id}, this is {cluster_id}", taken=False)
    if number >= topic.partitions:
        return row(None, "no such partition here: mirror it first")
    partition = state.partitions_of(topic)[number]
    after, note = kafka, ""
    if after > partition.high_watermark:
        after, note = partition.high_watermark, "beyond the end of the mirror: import again after its next run"
    if after < partition.log_start:
        after, note = partition.log_start, "the log starts later"
    if before is not None and after < before and not back:
        return row(None, "kept: the group is further ahead here (--back takes Kafka's offset)")
    return row(None if after == before else after, note)


def import_commands(state: ClusterState, rows: Iterable[ImportedOffset]) -> Iterator[CommitOffsets]:
    """Yield the commands that carry out a plan, each for a part of one group."""
    by_group: dict[str, dict[Place, int]] = {}
    for row in rows:
        if row.after is not None:
            by_group.setdefault(row.group, {})[row.topic, row.partition] = row.after
    for group, offsets in by_group.items():
        places = sorted(offsets)
        for at in range(0, len(places), OFFSETS_PER_COMMIT):
            some = {place: offsets[place] for place in places[at : at + OFFSETS_PER_COMMIT]}
            yield CommitOffsets(state.chain_id, group, rows_to_commit(state, some, ""))


class KafkaGroups:
    """The groups of a Kafka cluster, asked by librdkafka. `config`: its settings, which may have secrets.

    Raises InvalidInput without the extra `kafka`, and InvalidOption for a setting that librdkafka does not know.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        with needed("kafka", "group import"):
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient
        try:
            self._admin: Any = AdminClient({**config, "log_level": "0"})  # its log would show the settings
        except KafkaException as error:
            raise InvalidOption(f"wanted settings of librdkafka, found: {error.args[0].str()}") from error

    def cluster_id(self) -> str:
        """The id of the cluster. Raises RequestTimedOut and Kafka's errors, as all methods do."""
        with _kafka_errors():
            return str(self._admin.list_topics(timeout=TIMEOUT_S).cluster_id)

    def names(self) -> list[str]:
        """The ids of all groups, in ascending order."""
        with _kafka_errors():
            listed = self._admin.list_consumer_groups(request_timeout=TIMEOUT_S).result()
        return sorted(group.group_id for group in listed.valid)

    def offsets(self, groups: Sequence[str]) -> dict[str, dict[Place, int]]:
        """The committed offsets of each group, of all if none is named. Raises GroupIdNotFound if one is not there.

        librdkafka 2.16 crashes if it is asked for the offsets of a group that does not exist.
        """
        with needed("kafka", "group import"):
            from confluent_kafka import ConsumerGroupTopicPartitions
        known = self.names()
        missing = sorted(set(groups) - set(known))
        if missing:
            raise GroupIdNotFound(f"Kafka has no group {', '.join(missing)}")
        offsets: dict[str, dict[Place, int]] = {}
        for group in groups or known:  # a request takes one group
            with _kafka_errors():
                asked = self._admin.list_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group)], request_timeout=TIMEOUT_S
                )
                listed = asked[group].result().topic_partitions or ()
            offsets[group] = {(row.topic, row.partition): row.offset for row in listed if row.offset >= 0}
        return offsets


@contextmanager
def _kafka_errors() -> Iterator[None]:
    """Turn errors of librdkafka into sparklog's, with Kafka's code."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        reason = error.args[0]
        code = reason.name().lstrip("_")  # librdkafka's own begin so
        known = classes_by_code().get(code)
        kind = known or (RequestTimedOut if reason.retriable() else SparklogError)
        raise kind(f"Kafka: {reason.str()}" if known else f"Kafka: {code}: {reason.str()}") from error
