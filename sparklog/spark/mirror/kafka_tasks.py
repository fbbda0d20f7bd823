"""Runs tasks on Spark that read ranges of Kafka in Java (jvm/src/io/sparklog/mirror)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from sparklog.spark.mirror.kafka_cluster import kafka_error
from sparklog.spark.mirror.mirror_plan import KafkaRange
from sparklog.spark.spark_errors import explained

T = TypeVar("T")


def run_tasks(
    session: Any, plans: Mapping[str, object], ranges: Sequence[KafkaRange], kafka: Mapping[str, str], result: type[T]
) -> list[T]:
    """Run a task for each range, and return what they say, in order.

    `plans`: by the names that the ranges give them. `kafka`: the config of Kafka's clients. `result`: the type of what
    a task says. Raises the error of a task, which may be one of Kafka's, and SparklogError for those of Spark.
    """
    texts = {name: base64.b64encode(msgspec.msgpack.encode(plan)).decode() for name, plan in plans.items()}
    sent = [msgspec.json.encode(range_).decode() for range_ in ranges]
    try:
        said = list(session._jvm.io.sparklog.mirror.KafkaCopy.run(session._jsc, texts, sent, dict(kafka)))
    except Exception as error:  # Spark raises many kinds
        raise (kafka_error(str(error)) or explained(error, "mirror")) from error
    return [msgspec.json.decode(text, type=result) for text in said]
