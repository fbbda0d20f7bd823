"""What becomes of the options of Spark's Kafka connector, and of Spark, that are not sparklog's own.

Source: Spark's `KafkaSourceProvider` (`validateGeneralOptions`, `kafkaParamsForProducer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sparklog.options.registry import Side

_READ_ALIASES: Final = {"kafka.bootstrap.servers": "cluster", "kafka.client.rack": "zone"}
_WRITE_ALIASES: Final = {"kafka.bootstrap.servers": "cluster", "kafka.compression.type": "compression"}

# Kafka client configs that stand for an option, per side.
KAFKA_ALIASES: Final[Mapping[Side, Mapping[str, str]]] = {
    Side.BATCH_READ: _READ_ALIASES,
    Side.BATCH_WRITE: {**_WRITE_ALIASES, "kafka.acks": "acks"},
    Side.STREAM_READ: _READ_ALIASES,
    Side.STREAM_WRITE: _WRITE_ALIASES,
}

_REFUSED_IN_READS: Final = {
    "kafka.auto.offset.reset": "say where to start with startingOffsets",
    "kafka.key.deserializer": "keys are read as binary: cast the column",
    "kafka.value.deserializer": "values are read as binary: cast the column",
    "kafka.interceptor.classes": "records are read as they were written",
}
_REFUSED_IN_WRITES: Final = {
    "kafka.key.serializer": "keys are written as they are: cast the column to string or binary",
    "kafka.value.serializer": "values are written as they are: cast the column to string or binary",
}

# Kafka client configs that Spark's connector refuses, per side, and what to do instead.
KAFKA_REFUSED: Final[Mapping[Side, Mapping[str, str]]] = {
    Side.BATCH_READ: {**_REFUSED_IN_READS, "kafka.enable.auto.commit": "a batch read commits no offsets"},
    Side.BATCH_WRITE: _REFUSED_IN_WRITES,
    Side.STREAM_READ: {
        **_REFUSED_IN_READS,
        "kafka.enable.auto.commit": "a stream keeps its offsets in its checkpoint",
    },
    Side.STREAM_WRITE: _REFUSED_IN_WRITES,
}

# Values of those configs that are replaced: the value used instead (None: the default), and the reason.
KAFKA_VALUES: Final[Mapping[str, Mapping[str, tuple[str | None, str]]]] = {
    "kafka.acks": {
        "0": ("all", "a Spark write is one commit, so acks=all is used"),
        "1": ("all", "a Spark write is one commit, so acks=all is used"),
    },
    "kafka.compression.type": {
        "gzip": (None, "no codec of sparklog: the default, zstd, is used"),
        "snappy": (None, "no codec of sparklog: the default, zstd, is used"),
    },
}

# Options of Spark's Kafka connector, and of Spark, that have no effect. They are accepted, so that a job can move over
# unchanged.
CONNECTOR_IGNORED: Final[Mapping[str, str]] = {
    "groupIdPrefix": "a read joins no consumer group; with groupId a stream commits its position to one",
    "kafkaConsumer.pollTimeoutMs": "no consumer polls: tasks read the stores",
    "fetchOffset.numRetries": "offsets come from the metadata chain",
    "fetchOffset.retryIntervalMs": "offsets come from the metadata chain",
    "checkpointLocation": "a batch has no checkpoint",
    "queryName": "a batch is not a streaming query",
    "asyncProgressTrackingEnabled": "a batch is not a streaming query",
    "asyncProgressTrackingCheckpointIntervalMs": "a batch is not a streaming query",
    "path": "the option cluster says where the log is",
    "paths": "the option cluster says where the log is",
}

# Those of them that Spark itself uses in a streaming query: there is nothing to warn of.
SPARKS_OWN_IN_STREAMS: Final = frozenset(
    {
        "checkpointLocation",
        "queryName",
        "asyncProgressTrackingEnabled",
        "asyncProgressTrackingCheckpointIntervalMs",
    }
)
