"""Options of Spark's Kafka connector, and of Spark itself, that sparklog takes as its own, refuses, or ignores.

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

# Kafka client configs that Spark's connector refuses, per side, with the advice.
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

# Options of Spark's Kafka connector, and of Spark, that have no effect. They are accepted, so that a job can switch
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

# Those that Spark itself uses in a streaming query: there is nothing to warn about.
SPARKS_OWN_IN_STREAMS: Final = frozenset(
    {
        "checkpointLocation",
        "queryName",
        "asyncProgressTrackingEnabled",
        "asyncProgressTrackingCheckpointIntervalMs",
    }
)

# Differences of streaming queries beyond the options: the subject, Spark's Kafka connector, sparklog, and the test that
# proves it. Source: Spark's `KafkaMicroBatchStream`, `KafkaOffsetReaderAdmin` and `ConsumerStrategy`.
STREAM_DIFFERENCES: Final[tuple[tuple[str, str, str, str], ...]] = (
    (
        "A topic that is written to and does not exist (`auto.create.topics.enable`)",
        "the broker creates it, as its settings say",
        "an error before any row is written, in batches and streams, which names `sparklog topic create`",
        "test_a_write_creates_no_topic_and_says_how",
    ),
    (
        "Output mode `update`",
        "appends the rows that changed",
        "the same with sparklog's JAR ([columns.md](columns.md)). Without it, Spark refuses the mode for every sink in "
        "Python: in `foreachBatch`, write with `txnAppId` and `txnVersion`",
        "test_output_mode_complete_appends_all_rows_and_update_those_that_changed",
    ),
    (
        "Streaming listeners, `lastProgress`",
        "the source has metrics, and is described as `KafkaV2[Subscribe[orders]]`",
        "listeners are called with the same rows, durations and offsets, which are JSON. With sparklog's JAR the "
        "source has the same metrics, and is described as `Sparklog[Subscribe[orders]]` ([columns.md](columns.md)). "
        "Without it, Spark takes neither metrics nor a description from a source or a sink in Python, and shows the "
        "name of its own class: the offsets name the topics, `queryName` the query",
        "test_a_listener_sees_rows_offsets_and_descriptions",
    ),
    (
        "Tasks of a micro-batch",
        "one for each partition with something new; `minPartitions` and `maxRecordsPerPartition` split them",
        "small ranges share a task, so a small micro-batch is one task; `minPartitions` and `maxRecordsPerPartition` "
        "split them in the same way",
        "test_a_small_micro_batch_is_one_task_unless_options_split_it",
    ),
    (
        "A topic of `subscribe` or `assign` is deleted while the query runs, with `failOnDataLoss=false`",
        "the query fails, because the topic can't be described; only with `subscribePattern` it continues",
        "the query continues without the topic, with a warning, and reads it from its start once it is back",
        "test_a_query_goes_on_without_a_topic_that_is_deleted_while_it_runs",
    ),
    (
        "`Trigger.Continuous`, `Trigger.RealTime`",
        "supported",
        "refused by Spark for every source that is written in Python",
        "test_spark_has_no_continuous_trigger_for_sources_in_python",
    ),
    (
        "`readStream.table`, `FROM STREAM`",
        "no tables",
        "a table on a log is read as a stream; `toTable` is refused ([compat.md](compat.md#tables-in-sql))",
        "test_a_table_of_a_log_is_read_as_a_stream",
    ),
    (
        "The first query of a session",
        "runs in Spark's JVM",
        "with sparklog's JAR, asks one Python process, which all queries share; without it, takes longer, because "
        "Spark starts a Python process for each thing that it asks of a source or a sink in Python: "
        "[streams.md](streams.md#how-long-a-query-takes-to-begin)",
        "test_planning_and_reading_import_only_what_they_need",
    ),
)
