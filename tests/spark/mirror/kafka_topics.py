"""Topics of a real Kafka, written and read by librdkafka: nothing of the mirror's own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

Headers = Sequence[tuple[str, bytes | None]] | None


class KafkaRecord(NamedTuple):
    """A record as Kafka's consumers get it. `timestamp_type`: 0 of its creation, 1 of its append."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    timestamp_type: int
    headers: Headers


def client_config(bootstrap: str) -> dict[str, Any]:
    """Of a client that writes nothing to stderr, at any time: other tests look at what is written there."""
    return {"bootstrap.servers": bootstrap, "log_level": 0}


@dataclass
class KafkaTopics:
    """A client of a broker at this address."""

    bootstrap: str

    def __post_init__(self) -> None:
        self._servers = client_config(self.bootstrap)
        self.admin = AdminClient(self._servers)

    @cached_property
    def _transactional(self) -> Producer:
        """Its start takes Kafka a second, on a busy machine many."""
        producer = Producer({**self._servers, "transactional.id": uuid.uuid4().hex, "linger.ms": 5})
        producer.init_transactions()
        return producer

    def create(self, partitions: int = 1, config: Mapping[str, str] | None = None, name: str | None = None) -> str:
        """Create a topic, by default with a name of its own. Returns the name."""
        topic = name or f"topic-{uuid.uuid4().hex[:12]}"
        wait(self.admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))]))
        return topic

    def delete(self, topic: str) -> None:
        wait(self.admin.delete_topics([topic]))

    def create_again(self, topic: str) -> None:
        """Create a topic that was deleted just now: Kafka needs a moment to forget the name."""
        deadline = time.monotonic() + 30
        while True:
            try:
                self.create(name=topic)
            except KafkaException:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            else:
                return

    def alter(self, topic: str, config: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        wait(self.admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=entries)]))

    def add_partitions(self, topic: str, total: int) -> None:
        wait(self.admin.create_partitions([NewPartitions(topic, total)]))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        wait(self.admin.delete_records([TopicPartition(topic, partition, before)]))

    def write(self, topic: str, records: Iterable[Mapping[str, Any]], transactional: bool = False) -> None:
        """Write records, which are arguments of librdkafka's `produce`: all in one transaction, if it is to be one."""
        self._write(topic, records, transactional, "commit_transaction")

    def abort(self, topic: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Write records in a transaction, and abort it."""
        self._write(topic, records, True, "abort_transaction")

    def _write(self, topic: str, records: Iterable[Mapping[str, Any]], transactional: bool, end: str) -> None:
        producer = self._transactional if transactional else Producer({**self._servers, "linger.ms": 5})
        if transactional:
            producer.begin_transaction()
        for record in records:
            try:
                producer.produce(topic, **record)
            except BufferError:
                producer.poll(5)
                producer.produce(topic, **record)
        assert producer.flush(120) == 0
        if transactional:
            getattr(producer, end)()

    def read(self, topic: str, partition: int | None = None) -> list[KafkaRecord]:
        """All committed records of a topic, or of one partition, ordered by partition and offset."""
        config = {"group.id": "none", "enable.partition.eof": True, "isolation.level": "read_committed"}
        consumer = Consumer({**self._servers, **config, "auto.offset.reset": "earliest"})
        partitions = list(consumer.list_topics(topic).topics[topic].partitions) if partition is None else [partition]
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        open_partitions, records = set(partitions), []
        while open_partitions:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is not None:
                open_partitions.remove(message.partition())
                continue
            kind, timestamp_ms = message.timestamp()
            records.append(
                KafkaRecord(
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    timestamp_ms,
                    kind - 1,
                    message.headers(),
                )
            )
        consumer.close()
        return sorted(records, key=lambda record: record[:2])

    def ends(self, topic: str) -> dict[int, int]:
        """The offset after the last one of each partition, be it of a record or of a marker."""
        consumer = Consumer({**self._servers, "group.id": "none"})
        partitions = list(consumer.list_topics(topic).topics[topic].partitions)
        ends = {number: consumer.get_watermark_offsets(TopicPartition(topic, number))[1] for number in partitions}
        consumer.close()
        return ends

    def wait_until(self, topic: str, is_there: Callable[[list[KafkaRecord]], bool]) -> list[KafkaRecord]:
        """Read a topic again and again, for up to a minute, until this is true of its records."""
        deadline = time.monotonic() + 60
        while not is_there(records := self.read(topic)):
            assert time.monotonic() < deadline, f"{len(records)} records"
            time.sleep(0.2)
        return records


def wait(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(30)
