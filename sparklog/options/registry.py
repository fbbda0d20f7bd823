"""The options of `format("sparklog")`. Each is declared once, for parsing, checks and docs.

Names and rules come from Spark's `KafkaSourceProvider` (`validateGeneralOptions`, `validateBatchOptions`,
`kafkaParamsForProducer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from sparklog.core.config.key import ConfigKey, ConfigValue, ValueType, shown
from sparklog.core.errors import InvalidOption
from sparklog.options.starting_offsets import (
    ANY_WORD,
    FROM_EARLIEST,
    PARTITIONS_EXAMPLE,
    TIMESTAMPS_EXAMPLE,
    TO_LATEST,
    offsets_form,
)

READ_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
METADATA_TABLES: Final = ("topics", "partitions", "replicas", "segments", "groups", "writes", "chain")


class Side(StrEnum):
    """A kind of operation. Each option names the kinds that use it."""

    BATCH_READ = "batch read"
    BATCH_WRITE = "batch write"
    STREAM_READ = "stream read"
    STREAM_WRITE = "stream write"

    @property
    def is_write(self) -> bool:
        """True for a write into the log, batch or stream."""
        return self in (Side.BATCH_WRITE, Side.STREAM_WRITE)

    @property
    def is_stream(self) -> bool:
        """True for the reads and writes of a streaming query."""
        return self in (Side.STREAM_READ, Side.STREAM_WRITE)


class Option(msgspec.Struct, frozen=True):
    """An option: its key (name, type, default, legal values, doc), the sides that use it, and Kafka's counterpart.

    `form` describes the legal values, "" if the type says enough. `kafka_equivalent` is the option of Spark's Kafka
    connector, or the config of a Kafka client, that this option replaces; "" if there is none. If a stream has another
    default or other legal values, `stream_default` (for the docs only) and `stream_form` say so; otherwise they are "".
    """

    key: ConfigKey
    sides: tuple[Side, ...]
    kafka_equivalent: str = ""
    form: str = ""
    stream_default: str = ""
    stream_form: str = ""

    @property
    def name(self) -> str:
        """The name, in the upper and lower case of the docs."""
        return self.key.name

    def legal(self, side: Side | None = None) -> str:
        """Return words for the legal values, to follow "wanted" in an error. If `side` is None, those for a batch."""
        if side is not None and side.is_stream and self.stream_form:
            return self.stream_form
        return self.form or self.key.legal()

    def parse(self, raw: str, given_as: str = "", side: Side | None = None) -> ConfigValue:
        """Parse `raw` to the option's type. Raises `InvalidOption` if it is not legal.

        For the error: `given_as` is the name that the user wrote, such as an alias, and `side` is as in `legal`.
        """
        value = self.key.read(raw)
        if value is None or value == "":
            via = f" (from {given_as})" if given_as and given_as.lower() != self.name.lower() else ""
            raise InvalidOption(f"{self.name}{via}: wanted {self.legal(side)}, found {shown(raw)}")
        return value


_BATCH_READ, _BATCH_WRITE, _STREAM_READ = (Side.BATCH_READ,), (Side.BATCH_WRITE,), (Side.STREAM_READ,)
_READ, _WRITE = (Side.BATCH_READ, Side.STREAM_READ), (Side.BATCH_WRITE, Side.STREAM_WRITE)
_BOTH = tuple(Side)
_INT, _LONG, _BOOL, _BYTES = ValueType.INT, ValueType.LONG, ValueType.BOOL, ValueType.BYTES
_STRING, _LIST = ValueType.STRING, ValueType.LIST

_DECLARED: Final = (
    Option(
        ConfigKey(
            "cluster",
            _STRING,
            None,
            "Where the metadata chain lives: a path, file://, s3://, gs://, abfs:// or hdfs://. Default: the "
            "environment variable `SPARKLOG_CLUSTER` of the driver.",
        ),
        _BOTH,
        "kafka.bootstrap.servers",
        "the address of a cluster: a path, file://, s3://, gs://, abfs://, hdfs:// or http://",
    ),
    Option(
        ConfigKey(
            "cluster.token",
            _STRING,
            None,
            "The token that coordinators ask for. Default: the environment variable `SPARKLOG_TOKEN` of the driver. "
            "Secret: never logged or stored.",
        ),
        _BOTH,
    ),
    Option(
        ConfigKey(
            "cluster.ca",
            _STRING,
            None,
            "A file with the certificates (PEM) to trust for coordinators, in place of the system's. Default: the "
            "environment variable `SPARKLOG_CA` of the driver.",
        ),
        _BOTH,
    ),
    Option(
        ConfigKey("subscribe", _LIST, None, "The topics to read."),
        _READ,
        "subscribe",
        "topics separated by commas",
    ),
    Option(
        ConfigKey("subscribePattern", _STRING, None, "All topics whose whole name matches."),
        _READ,
        "subscribePattern",
        "a regular expression (Python's)",
    ),
    Option(
        ConfigKey("assign", _STRING, None, "The partitions to read."),
        _READ,
        "assign",
        f"partitions by topic like {PARTITIONS_EXAMPLE}",
    ),
    Option(
        ConfigKey(
            "topicId",
            _LONG,
            None,
            "Read one topic, and only if this is its id (`metadata=topics` shows it). A topic that was deleted and "
            "created again has another id: offsets that were kept from the earlier topic would name other records.",
            minimum=0,
        ),
        _READ,
    ),
    Option(
        ConfigKey(
            "startingOffsets",
            _STRING,
            "earliest",
            "Where to start. By partition, every partition to read must be named: -2 means earliest, and -1 latest. "
            "A batch can't start at latest. A stream starts there only in its first run, and new partitions start at "
            "earliest.",
        ),
        _READ,
        "startingOffsets",
        offsets_form(FROM_EARLIEST),
        "latest",
        offsets_form(ANY_WORD),
    ),
    Option(
        ConfigKey(
            "maxOffsetsPerTrigger",
            _LONG,
            None,
            "The most offsets in a micro-batch. Partitions share them in proportion to what is new in each, and each "
            "with something new gets at least one. Offsets without a record (of compacted or mirror topics) don't "
            "count; inside a slice that has such offsets, its records count as evenly spread.",
            minimum=1,
        ),
        _STREAM_READ,
        "maxOffsetsPerTrigger",
    ),
    Option(
        ConfigKey(
            "minOffsetsPerTrigger",
            _LONG,
            None,
            "Wait until there are this many new offsets, but not longer than `maxTriggerDelay`. A run does not wait "
            "when it begins; `Trigger.AvailableNow` and `Trigger.Once` never do.",
            minimum=1,
        ),
        _STREAM_READ,
        "minOffsetsPerTrigger",
    ),
    Option(
        ConfigKey(
            "maxTriggerDelay",
            _STRING,
            "15m",
            "The longest time that `minOffsetsPerTrigger` may hold records back, since it last held none back.",
        ),
        _STREAM_READ,
        "maxTriggerDelay",
        "a duration like 500ms, 30s, 15m, 1h or 1d (a number alone is in milliseconds)",
    ),
    Option(
        ConfigKey(
            "maxBytesPerTrigger",
            _BYTES,
            None,
            "About the most stored bytes in a micro-batch, shared like `maxOffsetsPerTrigger`. If both are given, both "
            "hold.",
            minimum=1,
        ),
        _STREAM_READ,
    ),
    Option(
        ConfigKey(
            "endingOffsets",
            _STRING,
            "latest",
            "Where to end; the offset itself is not read. By partition, every partition to read must be named, and "
            "-1 means latest. A batch can't end at earliest, and a stream has no end.",
        ),
        _BATCH_READ,
        "endingOffsets",
        offsets_form(TO_LATEST),
    ),
    Option(
        ConfigKey(
            "startingTimestamp",
            _STRING,
            None,
            "Start each partition at its first record with this timestamp or a later one. Takes precedence "
            "over `startingOffsetsByTimestamp`, which takes precedence over `startingOffsets`.",
        ),
        _READ,
        "startingTimestamp",
        "milliseconds since the epoch, or ISO 8601 with a zone like 2025-01-01T00:00:00Z",
    ),
    Option(
        ConfigKey(
            "endingTimestamp",
            _STRING,
            None,
            "End each partition before its first record with this timestamp or a later one; if it has none, at latest. "
            "Takes precedence over `endingOffsetsByTimestamp`, which takes precedence over `endingOffsets`.",
        ),
        _BATCH_READ,
        "endingTimestamp",
        "milliseconds since the epoch, or ISO 8601 with a zone like 2025-01-01T00:00:00Z",
    ),
    Option(
        ConfigKey("startingOffsetsByTimestamp", _STRING, None, "`startingTimestamp`, by partition."),
        _READ,
        "startingOffsetsByTimestamp",
        f"timestamps by partition like {TIMESTAMPS_EXAMPLE}",
    ),
    Option(
        ConfigKey("endingOffsetsByTimestamp", _STRING, None, "`endingTimestamp`, by partition."),
        _BATCH_READ,
        "endingOffsetsByTimestamp",
        f"timestamps by partition like {TIMESTAMPS_EXAMPLE}",
    ),
    Option(
        ConfigKey(
            "startingOffsetsByTimestampStrategy",
            _STRING,
            "error",
            "Behaviour if a partition has no record at or after the starting timestamp: fail, or start at latest.",
            choices=("error", "latest"),
        ),
        _READ,
        "startingOffsetsByTimestampStrategy",
    ),
    Option(
        ConfigKey(
            "failOnDataLoss",
            _BOOL,
            True,
            "Whether to fail if records of the requested range are gone. If false, the rest is read.",
        ),
        _READ,
        "failOnDataLoss",
    ),
    Option(
        ConfigKey("minPartitions", _INT, None, "Split the ranges into about this many tasks or more.", minimum=1),
        _READ,
        "minPartitions",
    ),
    Option(
        ConfigKey(
            "maxRecordsPerPartition",
            _LONG,
            1_000_000,
            "The most records in one task, cut at batches, so that a bulk read of small records uses all cores. Small "
            "ranges share a task up to this limit.",
            minimum=1,
        ),
        _READ,
        "maxRecordsPerPartition",
    ),
    Option(
        ConfigKey(
            "maxBytesPerPartition",
            _BYTES,
            134_217_728,
            "The most stored bytes in one task, cut at batches. Small ranges share a task up to this limit.",
            minimum=1,
        ),
        _READ,
    ),
    Option(
        ConfigKey("includeHeaders", _BOOL, False, "Whether the DataFrame has the column `headers`."),
        _READ,
        "includeHeaders",
    ),
    Option(
        ConfigKey(
            "zone",
            _STRING,
            None,
            "The zone of the tasks: stores there are read before others. The environment variable `SPARKLOG_ZONE` of a "
            "task's process takes precedence, for jobs whose executors run in several zones.",
        ),
        _READ,
        "kafka.client.rack",
        "the zone of a store",
    ),
    Option(
        ConfigKey(
            "columns",
            _LIST,
            None,
            "The columns of the DataFrame, in this order. Columns that are not named are not read: `columns=offset` "
            "reads no record bodies. (A `select` alone does not reach the source.)",
            choices=READ_COLUMNS,
        ),
        _READ,
    ),
    Option(
        ConfigKey(
            "metadata",
            _STRING,
            None,
            "Read the log's own state instead of records. Can't be combined with options that choose records.",
            choices=METADATA_TABLES,
        ),
        _BATCH_READ,
    ),
    Option(
        ConfigKey("topic", _STRING, None, "The topic of all rows; takes precedence over a column `topic`."),
        _WRITE,
        "topic",
        "a topic name",
    ),
    Option(
        ConfigKey(
            "acks",
            _STRING,
            "all",
            "When a write counts as done. `all` (or `-1`): on every in-sync replica. `1`: on the leader's store, only "
            "for a write to one partition without `txnAppId`. With one replica both are the same. `0` means `1`: a "
            "Spark job ends with its commit, so it always learns whether it wrote.",
            choices=("all", "-1", "1", "0"),
        ),
        _BATCH_WRITE,
        "kafka.acks",
    ),
    Option(
        ConfigKey(
            "replication",
            _STRING,
            "push",
            "Where tasks upload. `push`: to all in-sync stores at once. `pull`: to the leader's store, from which the "
            "others fetch; only for a write to one partition without `txnAppId`. With `acks=all` the write then waits "
            "for the others, up to `timeoutMs`.",
            choices=("push", "pull"),
        ),
        _BATCH_WRITE,
    ),
    Option(
        ConfigKey(
            "reader",
            _STRING,
            "auto",
            "The code that reads the records. columns: Java, which needs sparklog's JAR on the class path "
            "(docs/columns.md). rows: Python. auto: Java if the JAR is there. Both give the same rows and errors.",
            choices=("auto", "columns", "rows"),
        ),
        _READ,
    ),
    Option(
        ConfigKey(
            "compression",
            _STRING,
            None,
            "The codec of record batches; by default zstd. A topic's `compression.type` takes precedence over it.",
            choices=("zstd", "lz4", "none"),
        ),
        _WRITE,
        "kafka.compression.type",
    ),
    Option(
        ConfigKey(
            "timeoutMs",
            _LONG,
            120_000,
            "The longest time for the commit. It is tried again while a partition has no leader or too few replicas in "
            "sync.",
            minimum=1,
        ),
        _WRITE,
        "kafka.delivery.timeout.ms",
    ),
    Option(
        ConfigKey(
            "writeId", _STRING, None, 'A label for this write, shown by `metadata = "writes"`. It need not be unique.'
        ),
        _BATCH_WRITE,
        form="a label",
    ),
    Option(
        ConfigKey(
            "txnAppId",
            _STRING,
            None,
            "With `txnVersion`: a write whose version is not above this application's last one succeeds and adds "
            "nothing, as in Delta.",
        ),
        _BATCH_WRITE,
        form="the id of an application",
    ),
    Option(
        ConfigKey("txnVersion", _LONG, None, "The version of this write. Needs `txnAppId`, and vice versa.", minimum=0),
        _BATCH_WRITE,
    ),
    Option(
        ConfigKey(
            "txnDigest",
            _STRING,
            None,
            "With `txnAppId`: identifies the contents of this version, as a digest or in your own words. If the last "
            "version is repeated with another digest, it is refused, and so is an older version: neither is left out "
            "as a repeat. `sparklog.spark.exactly_once` sets it.",
        ),
        _BATCH_WRITE,
        form="the digest of what is written",
    ),
    Option(
        ConfigKey(
            "groupId",
            _STRING,
            None,
            "A consumer group without members. A stream that is read commits its position to the group with the next "
            "micro-batch, so that the lag is visible. A write commits, together with its rows, the offsets that they "
            "were made from: a batch `consumedOffsets`, a stream the position of its sources.",
        ),
        (Side.STREAM_READ, *_WRITE),
        "groupId",
        "the name of a group",
    ),
    Option(
        ConfigKey(
            "consumedOffsets",
            _STRING,
            None,
            "With `groupId`: the group's offsets after this write. Needs `groupId`, and vice versa.",
        ),
        _BATCH_WRITE,
        form='offsets by partition like {"orders":{"0":23,"1":7}}',
    ),
)

OPTIONS: Final[Mapping[str, Option]] = {option.name: option for option in _DECLARED}
