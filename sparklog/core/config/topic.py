"""The config keys of a topic: Kafka's keys with Kafka's defaults, and sparklog's own.

A topic's config is stored as the keys that were set, each as canonical text. `effective` puts it on top of the
defaults and returns typed values. Source of names, defaults and ranges: Kafka 4.x `TopicConfig` and `LogConfig`.
Kafka's lower limit of `segment.bytes` is left out, because small values help to show how rolling works.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from sparklog.core.config.key import LONG_MAX, ConfigKey, ConfigValue, ValueType, did_you_mean
from sparklog.core.errors import InvalidConfig
from sparklog.core.types import TimestampSource

_DAY_MS: Final = 86_400_000
_COMPACTION: Final = "Without effect in this version: nothing is compacted yet."
_STORES_ONLY: Final = "Without effect: all data is in the stores of the cluster, there is no local tier."
_ALWAYS_DURABLE: Final = "Without effect: every append is durable before it is acknowledged."

_INT, _LONG, _BOOL, _DOUBLE = ValueType.INT, ValueType.LONG, ValueType.BOOL, ValueType.DOUBLE
_STRING, _LIST = ValueType.STRING, ValueType.LIST

_DECLARED: Final = (
    ConfigKey(
        "cleanup.policy",
        _LIST,
        ("delete",),
        "What happens to old segments: `delete` removes them by time and size; `compact` keeps the last record of each "
        "key, and every record needs a key. In this version nothing is compacted yet.",
        choices=("delete", "compact"),
    ),
    ConfigKey(
        "compression.gzip.level",
        _INT,
        -1,
        "Without effect: objects are not written with gzip.",
        minimum=-1,
        maximum=9,
        effect=False,
    ),
    ConfigKey(
        "compression.lz4.level",
        _INT,
        9,
        "Without effect: lz4 is written with its own default level.",
        minimum=1,
        maximum=17,
        effect=False,
    ),
    ConfigKey(
        "compression.type",
        _STRING,
        "producer",
        "How record batches are stored. `producer` leaves it to the writer (zstd by default); the other values bind "
        "every writer. `uncompressed` is Kafka's name for `none`. Arrow IPC supports neither gzip nor snappy.",
        choices=("producer", "zstd", "lz4", "none", "uncompressed"),
    ),
    ConfigKey(
        "compression.zstd.level",
        _INT,
        3,
        "Without effect: zstd is written with its own default level.",
        minimum=-131_072,
        maximum=22,
        effect=False,
    ),
    ConfigKey(
        "delete.retention.ms",
        _LONG,
        _DAY_MS,
        f"How long compaction keeps tombstones (records without a value). {_COMPACTION}",
        minimum=0,
        effect=False,
    ),
    ConfigKey(
        "file.delete.delay.ms",
        _LONG,
        60_000,
        "How long objects stay in the store after retention has dropped them, so that reads planned before can finish.",
        minimum=0,
    ),
    ConfigKey(
        "flush.messages",
        _LONG,
        LONG_MAX,
        f"Records after which the log is forced to disk. {_ALWAYS_DURABLE}",
        minimum=1,
        effect=False,
    ),
    ConfigKey(
        "flush.ms",
        _LONG,
        LONG_MAX,
        f"Time after which the log is forced to disk. {_ALWAYS_DURABLE}",
        minimum=0,
        effect=False,
    ),
    ConfigKey(
        "follower.replication.throttled.replicas",
        _STRING,
        "",
        "Without effect: copies between stores are not throttled.",
        effect=False,
    ),
    ConfigKey(
        "index.interval.bytes",
        _INT,
        4096,
        "Without effect: the index has one entry per record batch.",
        minimum=0,
        effect=False,
    ),
    ConfigKey(
        "leader.replication.throttled.replicas",
        _STRING,
        "",
        "Without effect: copies between stores are not throttled.",
        effect=False,
    ),
    ConfigKey("local.retention.bytes", _LONG, -2, _STORES_ONLY, minimum=-2, effect=False),
    ConfigKey("local.retention.ms", _LONG, -2, _STORES_ONLY, minimum=-2, effect=False),
    ConfigKey(
        "max.compaction.lag.ms",
        _LONG,
        LONG_MAX,
        f"How long a record may stay exempt from compaction. {_COMPACTION}",
        minimum=1,
        effect=False,
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
        "How far a record's timestamp may be ahead of the writer's clock; ignored with `LogAppendTime`. "
        "9223372036854775807: no limit.",
        minimum=0,
    ),
    ConfigKey(
        "message.timestamp.before.max.ms",
        _LONG,
        LONG_MAX,
        "How far a record's timestamp may be behind the writer's clock; ignored with `LogAppendTime`. "
        "9223372036854775807: no limit.",
        minimum=0,
    ),
    ConfigKey(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        "Whether a record's timestamp is the one from its producer, or the time of the commit that appended it.",
        choices=("CreateTime", "LogAppendTime"),
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        0.5,
        f"The fraction of a log that must be new before it is compacted. {_COMPACTION}",
        minimum=0,
        maximum=1,
        effect=False,
    ),
    ConfigKey(
        "min.compaction.lag.ms",
        _LONG,
        0,
        f"How long a record stays uncompacted at least. {_COMPACTION}",
        minimum=0,
        effect=False,
    ),
    ConfigKey(
        "min.insync.replicas",
        _INT,
        1,
        "How many replicas must be in sync for a write with `acks=all`. With fewer, the write fails with "
        "`NOT_ENOUGH_REPLICAS` and nothing is written.",
        minimum=1,
    ),
    ConfigKey("preallocate", _BOOL, False, "Without effect: objects are written once, whole.", effect=False),
    ConfigKey("remote.copy.lag.bytes", _LONG, 0, _STORES_ONLY, minimum=-1, effect=False),
    ConfigKey("remote.copy.lag.ms", _LONG, 0, _STORES_ONLY, minimum=-1, effect=False),
    ConfigKey("remote.log.copy.disable", _BOOL, False, _STORES_ONLY, effect=False),
    ConfigKey("remote.log.delete.on.disable", _BOOL, False, _STORES_ONLY, effect=False),
    ConfigKey("remote.storage.enable", _BOOL, False, _STORES_ONLY, effect=False),
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
        "How long objects stay in the store after roll or compaction has replaced them (sparklog's own key).",
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
        "segment.index.bytes",
        _INT,
        10_485_760,
        "Without effect: an index is as large as its object needs.",
        minimum=4,
        effect=False,
    ),
    ConfigKey(
        "segment.jitter.ms",
        _LONG,
        0,
        "Without effect: segments are rolled by one job, not by all brokers at once.",
        minimum=0,
        effect=False,
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
        "Whether a replica that may lack acknowledged records may lead when no other can.",
    ),
)

TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in _DECLARED}

# Kafka names some cluster-wide defaults differently, and people try those names on a topic.
_BROKER_NAMES: Final = {
    "message.max.bytes": "max.message.bytes",
    "log.roll.ms": "segment.ms",
    "log.segment.delete.delay.ms": "file.delete.delay.ms",
}


class TopicConfig(msgspec.Struct, frozen=True):
    """The effective values of a topic's config, for those keys that the code reads.

    `retention_ms`, `retention_bytes` and the two timestamp limits are None for "no limit". `compression_type` is None
    for `producer` (the writer chooses), otherwise "zstd", "lz4" or "none".
    """

    delete: bool
    compact: bool
    compression_type: str | None
    file_delete_delay_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int | None
    message_timestamp_before_max_ms: int | None
    message_timestamp_type: TimestampSource
    min_insync_replicas: int
    retention_bytes: int | None
    retention_ms: int | None
    rewrite_delete_delay_ms: int
    segment_bytes: int
    segment_ms: int
    unclean_leader_election_enable: bool


def topic_key(name: str) -> ConfigKey:
    """The key of this name. Raises `InvalidConfig` that offers the nearest key."""
    key = TOPIC_KEYS.get(name)
    if key is None:
        meant = _BROKER_NAMES.get(name) or next((key for key in TOPIC_KEYS if name == f"log.{key}"), None)
        hint = f"; did you mean {meant}?" if meant else did_you_mean(name, TOPIC_KEYS)
        raise InvalidConfig(f"wanted a config key of a topic, found {name!r}{hint}")
    return key


def parse_topic_config(raw: Mapping[str, object]) -> dict[str, str]:
    """A topic's config in canonical form: the keys that were set, each with its canonical text.

    Raises `InvalidConfig` that says which key, what is legal and what was found.
    """
    return merge_topic_config({}, raw)


def merge_topic_config(current: Mapping[str, str], changes: Mapping[str, object]) -> dict[str, str]:
    """`current` (canonical) with `changes` applied. A change to None removes the key, which restores its default."""
    merged = dict(current)
    for name, raw in changes.items():
        key = topic_key(name)
        if raw is None:
            merged.pop(name, None)
        else:
            merged[name] = key.canonical(raw)
    _check_together(merged)
    return dict(sorted(merged.items()))


def topic_values(config: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, tuple[ConfigValue, str]]:
    """Every key with its effective value and the origin of that: "topic", "cluster" or "default" (for people)."""
    values: dict[str, tuple[ConfigValue, str]] = {}
    for name, key in TOPIC_KEYS.items():
        if name in config:
            values[name] = key.parse(config[name]), "topic"
        elif name in defaults:
            values[name] = key.parse(defaults[name]), "cluster"
        elif key.default is not None:
            values[name] = key.default, "default"
    return values


def effective(config: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> TopicConfig:
    """The effective values: the topic's own canonical `config`, then the cluster's `defaults`, then Kafka's.

    `defaults` come from `cluster.topic_defaults`. Both are in canonical form. Results are cached, so this is cheap
    enough for every append.
    """
    if not defaults:
        return _effective(tuple(config.items())) if config else DEFAULTS
    return _effective(tuple({**defaults, **config}.items()))


@lru_cache(maxsize=4096)
def _effective(config: tuple[tuple[str, str], ...]) -> TopicConfig:
    return _typed({**_KEY_DEFAULTS, **{name: topic_key(name).parse(text) for name, text in config}})


def _typed(values: Mapping[str, ConfigValue]) -> TopicConfig:
    policy = values["cleanup.policy"]
    assert isinstance(policy, tuple)
    codec = str(values["compression.type"])
    append_time = values["message.timestamp.type"] == "LogAppendTime"
    return TopicConfig(
        delete="delete" in policy,
        compact="compact" in policy,
        compression_type={"producer": None, "uncompressed": "none"}.get(codec, codec),
        file_delete_delay_ms=_integer(values, "file.delete.delay.ms"),
        max_message_bytes=_integer(values, "max.message.bytes"),
        message_timestamp_after_max_ms=_limit(values, "message.timestamp.after.max.ms", LONG_MAX),
        message_timestamp_before_max_ms=_limit(values, "message.timestamp.before.max.ms", LONG_MAX),
        message_timestamp_type=TimestampSource.APPEND_TIME if append_time else TimestampSource.CREATE_TIME,
        min_insync_replicas=_integer(values, "min.insync.replicas"),
        retention_bytes=_limit(values, "retention.bytes", -1),
        retention_ms=_limit(values, "retention.ms", -1),
        rewrite_delete_delay_ms=_integer(values, "rewrite.delete.delay.ms"),
        segment_bytes=_integer(values, "segment.bytes"),
        segment_ms=_integer(values, "segment.ms"),
        unclean_leader_election_enable=values["unclean.leader.election.enable"] is True,
    )


def _integer(values: Mapping[str, ConfigValue], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value


def _limit(values: Mapping[str, ConfigValue], name: str, no_limit: int) -> int | None:
    value = _integer(values, name)
    return None if value == no_limit else value


def _check_together(config: Mapping[str, str]) -> None:
    """Check the rules that involve more than one key (Kafka's `LogConfig.validateValues`)."""
    least, most = (
        topic_key(name).parse(config[name]) if name in config else TOPIC_KEYS[name].default
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    assert isinstance(least, int)
    assert isinstance(most, int)
    if least > most:
        raise InvalidConfig(
            f"min.compaction.lag.ms: wanted at most max.compaction.lag.ms ({most} milliseconds), found {least}"
        )


_KEY_DEFAULTS: Final[Mapping[str, ConfigValue]] = {
    name: key.default for name, key in TOPIC_KEYS.items() if key.default is not None
}

DEFAULTS: Final = _typed(_KEY_DEFAULTS)
