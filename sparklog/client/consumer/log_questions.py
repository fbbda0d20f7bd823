"""Methods of a consumer that describe the log: topics, partitions, their first and last offsets, offsets by time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager

from sparklog.client.connection import Connection
from sparklog.client.consumer.subscription import checked_place
from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import Place
from sparklog.log.cluster_stores import Stores
from sparklog.log.read.time_lookup import first_at_or_after


class LogQuestions:
    """Methods of `Consumer` that describe any topic or partition, assigned or not, as of the newest state."""

    _connection: Connection

    def _alone(self) -> AbstractContextManager[None]:
        """Guard a call against other threads: see `Consumer._alone`."""
        raise NotImplementedError

    def topics(self) -> list[str]:
        """The names of all topics, in ascending order."""
        with self._alone():
            state = self._connection.newest_state()
            return sorted(state.topic_ids)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The indexes of a topic's partitions; None if there is no such topic."""
        with self._alone():
            state = self._connection.newest_state()
            known = state.topic_named(topic)
            return None if known is None else set(range(known.partitions))

    def beginning_offsets(self, places: Iterable[Place]) -> dict[Place, int]:
        """The log start of each partition. Raises UnknownTopicOrPartition."""
        return {place: int(partition.log_start) for place, partition in self._partitions(places).items()}

    def end_offsets(self, places: Iterable[Place]) -> dict[Place, int]:
        """The high watermark of each partition: the end of its readable records. Raises UnknownTopicOrPartition."""
        return {place: int(partition.high_watermark) for place, partition in self._partitions(places).items()}

    def offsets_for_times(self, timestamps_ms: Mapping[Place, int]) -> dict[Place, int | None]:
        """Return for each partition the lowest offset of a record at or after the partition's time in `timestamps_ms`.

        None if there is no such record.

        Raises UnknownTopicOrPartition, DataLoss, Damaged, and the stores' errors.
        """
        with self._alone():
            return {
                (topic, partition): first_at_or_after(self._now, topic, partition, time_ms * 1000)
                for (topic, partition), time_ms in ((checked_place(place), at) for place, at in timestamps_ms.items())
            }

    def _partitions(self, places: Iterable[Place]) -> dict[Place, Partition]:
        with self._alone():
            state = self._connection.newest_state()
            wanted = [checked_place(place) for place in places]
            return {(topic, index): partition_of(state, topic_of(state, topic), index) for topic, index in wanted}

    def _now(self) -> tuple[ClusterState, Stores]:
        state = self._connection.newest_state()
        return state, self._connection.stores(state)
