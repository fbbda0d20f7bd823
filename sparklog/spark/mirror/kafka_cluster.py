"""Asks a Kafka cluster for its topics, by the Admin of Kafka's Java client in the driver's JVM.

So the same `kafka.*` settings serve the driver and the tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sparklog.core.errors import AccessRefused, InvalidInput, NotFound, RequestTimedOut, SparklogError, classes_by_code
from sparklog.core.types import KafkaTopic, Offset
from sparklog.spark.mirror.mirror_plan import FoundTopic, KafkaPartition

_CODE: Final = re.compile(r"Kafka's ([A-Z_]+): ([^\n]*)")
_TIMEOUT_S: Final = 60
_OWN: Final = "DYNAMIC_TOPIC_CONFIG"  # the source of a value that was set for the topic itself


def kafka_error(text: str) -> SparklogError | None:
    """Return the error in a text of Kafka's clients (`KafkaErrors.java`), of the class that has its code.

    None if the text has no such error.
    """
    match = _CODE.search(text)
    if match is None:
        return None
    code, reason = match.groups()
    kind = classes_by_code().get(code) or (RequestTimedOut if "TIMEOUT" in code else SparklogError)
    return kind(f"Kafka: {code}: {reason}" if kind is SparklogError else f"Kafka: {reason}")


class KafkaCluster:
    """A Kafka cluster, for one thread. Close it, or use it as a context manager.

    `jvm`: the JVM of the driver, with Kafka's clients. `config`: that of Kafka's clients; it may have secrets, and is
    never shown. Raises InvalidInput without Kafka's clients, and Kafka's error if they reject the config.
    """

    def __init__(self, jvm: Any, config: Mapping[str, str]) -> None:
        self._jvm = jvm
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        if loader.getResource("org/apache/kafka/clients/admin/Admin.class") is None:
            raise InvalidInput(
                "wanted Kafka's Java client in Spark, found none: give spark-submit --packages "
                "org.apache.kafka:kafka-clients:3.9.1; for sparklog job mirror, set "
                'PYSPARK_SUBMIT_ARGS="--packages org.apache.kafka:kafka-clients:3.9.1 pyspark-shell"'
            )
        settings = jvm.java.util.HashMap()
        for key, value in config.items():
            settings.put(key, value)
        with self._errors():
            self._admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)

    def __enter__(self) -> KafkaCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. May be called twice."""
        self._admin.close()

    def chosen_names(self, names: Sequence[str], pattern: str | None) -> list[str]:
        """Return these names, and those of all topics whose whole name matches the pattern, sorted.

        Kafka's internal topics match no pattern. Raises NotFound if there are no names, and Kafka's errors.
        """
        wanted = set(names)
        if pattern is not None:
            with self._errors():
                listed = self._list(self._get(self._admin.listTopics().names()))
            wanted |= {name for name in listed if re.fullmatch(pattern, name)}
            if not wanted:
                raise NotFound(
                    f"no topic in Kafka matches {pattern!r}, found {', '.join(sorted(listed)[:10]) or 'none'}"
                )
        return sorted(wanted)

    def identity(self, name: str) -> KafkaTopic:
        """Return the topic that has this name now. Raises UnknownTopicOrPartition if there is none, Kafka's errors."""
        with self._errors():
            described = self._get(self._admin.describeTopics([name]).allTopicNames())
            return KafkaTopic(self._cluster_id(), name, str(described[name].topicId()))

    def _cluster_id(self) -> str:
        return str(self._get(self._admin.describeCluster().clusterId()))

    def topics(self, names: Sequence[str]) -> list[FoundTopic]:
        """Return the topics with these names. Raises UnknownTopicOrPartition if one is missing, and Kafka's errors."""
        with self._errors():
            cluster_id = self._cluster_id()
            described = self._get(self._admin.describeTopics(names).allTopicNames())
            sizes = {name: described[name].partitions().size() for name in names}
            starts, ends = self._offsets(sizes)
            configs = self._configs(names)
        return [
            FoundTopic(
                KafkaTopic(cluster_id, name, str(described[name].topicId())),
                tuple(KafkaPartition(starts[name, number], ends[name, number]) for number in range(size)),
                *configs[name],
            )
            for name, size in sizes.items()
        ]

    def found(self, names: Sequence[str], fail: Callable[[str, SparklogError], None]) -> list[FoundTopic]:
        """Return the topics with these names. An error that is about one of them is handed to `fail`, with its name.

        Raises Kafka's other errors.
        """
        try:
            return self.topics(names)
        except (NotFound, AccessRefused) as error:
            if len(names) > 1:
                half = len(names) // 2
                return self.found(names[:half], fail) + self.found(names[half:], fail)
            fail(names[0], error)
            return []

    def _offsets(self, sizes: Mapping[str, int]) -> tuple[dict[tuple[str, int], Offset], dict[tuple[str, int], Offset]]:
        """The log starts and the last stable offsets of the partitions of topics, given with their numbers."""
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        partitions = {
            (name, number): self._jvm.org.apache.kafka.common.TopicPartition(name, number)
            for name, size in sizes.items()
            for number in range(size)
        }
        levels = self._jvm.org.apache.kafka.common.IsolationLevel
        options = self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(levels.READ_COMMITTED)

        def asked(which: Callable[[], Any]) -> dict[tuple[str, int], Offset]:
            wanted = self._jvm.java.util.HashMap()
            for partition in partitions.values():
                wanted.put(partition, which())
            listed = self._get(self._admin.listOffsets(wanted, options).all())
            return {key: Offset(listed.get(partition).offset()) for key, partition in partitions.items()}

        ends = asked(spec.latest)
        return asked(spec.earliest), ends

    def _configs(self, names: Sequence[str]) -> dict[str, tuple[dict[str, str], frozenset[str]]]:
        """For each topic, the effective values of its keys, and the keys that were set for the topic itself."""
        resource = self._jvm.org.apache.kafka.common.config.ConfigResource
        kind = resource.Type.TOPIC
        described = self._get(self._admin.describeConfigs([resource(kind, name) for name in names]).all())
        configs = {}
        for pair in self._list(described.entrySet()):
            entries = [
                (str(entry.name()), entry.value(), str(entry.source()))
                for entry in self._list(pair.getValue().entries())
            ]
            values = {key: str(value) for key, value, _ in entries if value is not None}
            configs[str(pair.getKey().name())] = values, frozenset(key for key, _, source in entries if source == _OWN)
        return configs

    def _list(self, collection: Any) -> list[Any]:
        """The elements of a Java collection, which Python may be unable to iterate over."""
        return list(self._jvm.java.util.ArrayList(collection))

    def _get(self, future: Any) -> Any:
        return future.get(_TIMEOUT_S, self._jvm.java.util.concurrent.TimeUnit.SECONDS)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of Kafka's clients into sparklog's."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        try:
            yield
        except Py4JJavaError as error:
            text = str(self._jvm.io.sparklog.mirror.KafkaErrors.text(error.java_exception))
            explained = kafka_error(text)
            assert explained is not None, text
            raise explained from None  # the traceback of Py4J says less, and shows the arguments
