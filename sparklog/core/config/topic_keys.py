"""The config keys of a topic: Kafka's keys with Kafka's defaults, and sparklog's own.

Source of names, defaults and ranges: Kafka 4.x `TopicConfig` and `LogConfig`. Kafka's lower limit of `segment.bytes` is
left out, because small values help to show how rolling works.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sparklog.core.config.key import LONG_MAX, ConfigKey, ConfigValue, ValueType, did_you_mean
from sparklog.core.errors import InvalidConfig

_DAY_MS: Final = 86_400_000
_STORES_ONLY: Final = "all data is in the stores of the cluster, there is no local tier"
_NOT_THROTTLED: Final = "copies between stores are not throttled"
_ONLY_PRODUCERS: Final = (
    "Other writers hold nothing back, so it has no effect on them: a Spark task's write ends with its upload. All "
    "acknowledged records are durable."
)

_INT, _LONG, _BOOL, _DOUBLE = ValueType.INT, ValueType.LONG, ValueType.BOOL, ValueType.DOUBLE
_STRING, _LIST = ValueType.STRING, ValueType.LIST

_DECLARED: Final = (
    ConfigKey(
        "cleanup.policy",
        _LIST,
        ("delete",),
        "Policy for old segments: `delete` removes them by time and size; `compact` keeps the last record of each "
        "key, and every record needs a key. With both, the log is compacted and still loses its old segments.",
        choices=("delete", "compact"),
    ),
    ConfigKey(
        "compression.type",
        _STRING,
        "producer",
        "Compression of record batches. `producer` leaves it to the writer (zstd by default); the other values bind "
        "every writer. `uncompressed` is Kafka's name for `none`. Arrow IPC supports neither gzip nor snappy.",
        choices=("producer", "zstd", "lz4", "none", "uncompressed"),
    ),
    ConfigKey(
        "delete.retention.ms",
        _LONG,
        _DAY_MS,
        "Time for which compaction keeps a tombstone (a record without a value) after the first run that passed it. "
        "The next run after that time drops it.",
        minimum=0,
    ),
    ConfigKey(
        "file.delete.delay.ms",
        _LONG,
        60_000,
        "Time for which objects stay in the store after retention has dropped them, so that reads planned before can "
        "finish.",
        minimum=0,
    ),
    ConfigKey(
        "flush.messages",
        _LONG,
        LONG_MAX,
        "Once this many records of a topic wait in a Python producer or in `sparklog produce` (so at most this many of "
        f"each partition), they are sent, even if its linger time is not over. {_ONLY_PRODUCERS}",
        minimum=1,
    ),
    ConfigKey(
        "flush.ms",
        _LONG,
        LONG_MAX,
        "Once a record of a topic has waited this long in a Python producer or in `sparklog produce`, it is sent, "
        f"even if its linger time is not over. {_ONLY_PRODUCERS}",
        minimum=0,
    ),
    ConfigKey(
        "max.compaction.lag.ms",
        _LONG,
        LONG_MAX,
        "Age of a record from which its partition is compacted regardless of `min.cleanable.dirty.ratio`. A "
        "compacted topic's segments are closed at that age, too.",
        minimum=1,
    ),
    ConfigKey(
        "max.message.bytes",
        _INT,
        1_048_588,
        "The largest record: key + value + headers of one record, uncompressed (Kafka limits a compressed batch).",
        minimum=0,
    ),
    ConfigKey(
        "message.timestamp.after.max.ms",
        _LONG,
        3_600_000,
        "Maximum time by which a record's timestamp may be ahead of the writer's clock; ignored with `LogAppendTime`. "
        "9223372036854775807: no limit.",
        minimum=0,
    ),
    ConfigKey(
        "message.timestamp.before.max.ms",
        _LONG,
        LONG_MAX,
        "Maximum time by which a record's timestamp may be behind the writer's clock; ignored with `LogAppendTime`. "
        "9223372036854775807: no limit.",
        minimum=0,
    ),
    ConfigKey(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        "Source of a record's timestamp: its producer, or the time of the commit that appended it.",
        choices=("CreateTime", "LogAppendTime"),
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        0.5,
        "The fraction of a log's sealed segments that must be new since the last compaction before it is compacted "
        "again.",
        minimum=0,
        maximum=1,
    ),
    ConfigKey(
        "min.compaction.lag.ms",
        _LONG,
        0,
        "Minimum time a record stays uncompacted, by the largest timestamp of its segment.",
        minimum=0,
    ),
    ConfigKey(
        "min.insync.replicas",
        _INT,
        1,
        "Number of replicas that must be in sync for a write with `acks=all`. With fewer, the write fails with "
        "`NOT_ENOUGH_REPLICAS` and nothing is written. A number greater than the topic's replicas counts as all of "
        "them, with a warning.",
        minimum=1,
    ),
    ConfigKey(
        "retention.bytes",
        _LONG,
        -1,
        "Stored batch bytes of a partition above which the oldest segments are deleted; -1: no limit.",
        minimum=-1,
    ),
    ConfigKey(
        "retention.ms",
        _LONG,
        7 * _DAY_MS,
        "Segments whose largest record timestamp is older than this are deleted; -1: no limit.",
        minimum=-1,
    ),
    ConfigKey(
        "rewrite.delete.delay.ms",
        _LONG,
        3_600_000,
        "Time for which objects stay in the store after roll or compaction has replaced them (sparklog's own key).",
        minimum=0,
    ),
    ConfigKey(
        "segment.bytes",
        _INT,
        1_073_741_824,
        "Stored batch bytes after which roll begins a new segment. Small values are legal.",
        minimum=1,
    ),
    ConfigKey(
        "segment.ms",
        _LONG,
        7 * _DAY_MS,
        "Time after which a segment is closed even if it is not full; an empty one is never closed.",
        minimum=1,
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        _BOOL,
        False,
        "If true, a replica that may lack acknowledged records may lead when no other can. The records it lacks are "
        "lost, and read as `DATA_LOSS`. If false, the partition has no leader until a replica with all of them is "
        "back, or an operator runs `sparklog replica elect TOPIC --unclean`.",
    ),
)

# Kafka's keys that change nothing: name, type, default, minimum, maximum, and the reason.
_WITHOUT_EFFECT: Final = (
    ("compression.gzip.level", _INT, -1, -1, 9, "objects are not written with gzip"),
    ("compression.lz4.level", _INT, 9, 1, 17, "lz4 is written with its own default level"),
    ("compression.zstd.level", _INT, 3, -131_072, 22, "zstd is written with its own default level"),
    ("follower.replication.throttled.replicas", _STRING, "", None, None, _NOT_THROTTLED),
    ("index.interval.bytes", _INT, 4_096, 0, None, "the index has one entry per record batch"),
    ("leader.replication.throttled.replicas", _STRING, "", None, None, _NOT_THROTTLED),
    ("local.retention.bytes", _LONG, -2, -2, None, _STORES_ONLY),
    ("local.retention.ms", _LONG, -2, -2, None, _STORES_ONLY),
    ("preallocate", _BOOL, False, None, None, "objects are written once, whole"),
    ("remote.copy.lag.bytes", _LONG, 0, -1, None, _STORES_ONLY),
    ("remote.copy.lag.ms", _LONG, 0, -1, None, _STORES_ONLY),
    ("remote.log.copy.disable", _BOOL, False, None, None, _STORES_ONLY),
    ("remote.log.delete.on.disable", _BOOL, False, None, None, _STORES_ONLY),
    ("remote.storage.enable", _BOOL, False, None, None, _STORES_ONLY),
    ("segment.index.bytes", _INT, 10_485_760, 4, None, "an index is as large as its object needs"),
    ("segment.jitter.ms", _LONG, 0, 0, None, "segments are rolled by one job, not by all brokers at once"),
)


def _without_effect(
    name: str, type_: ValueType, default: ConfigValue, minimum: float | None, maximum: float | None, reason: str
) -> ConfigKey:
    return ConfigKey(name, type_, default, f"Without effect: {reason}.", minimum, maximum, effect=False)


TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in sorted((*_DECLARED, *(_without_effect(*row) for row in _WITHOUT_EFFECT)), key=lambda key: key.name)
}

# Kafka names some cluster-wide defaults differently, and users try those names on a topic.
_BROKER_NAMES: Final = {
    "message.max.bytes": "max.message.bytes",
    "log.roll.ms": "segment.ms",
    "log.segment.delete.delay.ms": "file.delete.delay.ms",
}


def topic_key(name: str) -> ConfigKey:
    """The key of this name. Raises `InvalidConfig` if there is none; the error suggests the most similar key."""
    key = TOPIC_KEYS.get(name)
    if key is None:
        meant = _BROKER_NAMES.get(name) or next((key for key in TOPIC_KEYS if name == f"log.{key}"), None)
        hint = f"; did you mean {meant}?" if meant else did_you_mean(name, TOPIC_KEYS)
        raise InvalidConfig(f"wanted a config key of a topic, found {name!r}{hint}")
    return key
