"""Runs tasks on Spark that read ranges of Kafka in Java (jvm/src/io/sparklog/mirror)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from sparklog.core.errors import SparklogError
from sparklog.spark.mirror.kafka_cluster import kafka_error
from sparklog.spark.mirror.mirror_plan import KafkaRange
from sparklog.spark.spark_errors import explained

T = TypeVar("T")


class _TaskError(msgspec.Struct, forbid_unknown_fields=True):
    error: str


def run_tasks(
    session: Any, plans: Mapping[str, object], ranges: Sequence[KafkaRange], kafka: Mapping[str, str], result: type[T]
) -> list[T | SparklogError]:
    """Run a task for each range, and return their results, or their errors, in order.

    `plans`: by the names that the ranges give them. `kafka`: the config of Kafka's clients. `result`: the type of a
    task's result. If Spark fails, every range gets its error.
    """
    if not ranges:
        return []
    texts = {name: base64.b64encode(msgspec.msgpack.encode(plan)).decode() for name, plan in plans.items()}
    sent = [msgspec.json.encode(range_).decode() for range_ in ranges]
    try:
        said = list(session._jvm.io.sparklog.mirror.KafkaCopy.run(session._jsc, texts, sent, dict(kafka)))
    except Exception as error:  # Spark raises many kinds
        return [_error(error)] * len(ranges)
    return [_result(text, result) for text in said]


def _result(text: str, result: type[T]) -> T | SparklogError:
    try:
        return _error(Exception(msgspec.json.decode(text, type=_TaskError).error))
    except msgspec.ValidationError:
        return msgspec.json.decode(text, type=result)


def _error(error: Exception) -> SparklogError:
    return kafka_error(str(error)) or explained(error, "mirror")
