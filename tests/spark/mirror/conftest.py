"""A Kafka broker, whose cleaner is fast, and a Spark with Kafka's Java client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from pyspark.sql import SparkSession

from tests.jar import jar
from tests.servers.kafka_broker import KafkaBroker, kafka_jars
from tests.servers.made_once import CannotFetch
from tests.spark.conftest import OneSpark
from tests.spark.mirror.kafka_topics import KafkaTopics

CLEANER = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "500",
    "transaction.state.log.num.partitions": "1",  # 50 take seconds to begin
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Skips if this machine can't get Kafka."""
    try:
        with KafkaBroker(tmp_path_factory.mktemp("kafka"), settings=CLEANER) as started:
            yield started
    except CannotFetch as error:
        pytest.skip(f"Kafka: {error}")


@pytest.fixture
def kafka(broker: KafkaBroker) -> KafkaTopics:
    return KafkaTopics(broker.bootstrap)


@pytest.fixture(scope="package")
def kafka_settings(broker: KafkaBroker) -> Mapping[str, str]:
    """Of a session whose JVM has Kafka's client and sparklog's JAR."""
    clients = [str(file) for file in kafka_jars() if file.name.startswith("kafka-clients")]
    return {"spark.jars": ",".join([*clients, str(jar())])}


@pytest.fixture
def kafka_spark(one_spark: OneSpark, kafka_settings: Mapping[str, str]) -> SparkSession:
    """local[2]."""
    return one_spark.session("local[2]", **kafka_settings)
