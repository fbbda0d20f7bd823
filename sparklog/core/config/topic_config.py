"""The config of a topic: its stored text, and its effective values.

A topic's config is stored as the keys that were set, each as canonical text. `effective` puts it on top of the
defaults and returns typed values. `topic_keys.py` declares the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from sparklog.core.config.key import LONG_MAX, ConfigValue, typed
from sparklog.core.config.topic_keys import TOPIC_KEYS, topic_key
from sparklog.core.errors import InvalidConfig
from sparklog.core.types import TimestampSource

_NO_LIMIT: Final[Mapping[str, int]] = {  # the value of a key that means "no limit", which is None in TopicConfig
    **dict.fromkeys(("flush.messages", "flush.ms", "max.compaction.lag.ms"), LONG_MAX),
    **dict.fromkeys(("message.timestamp.after.max.ms", "message.timestamp.before.max.ms"), LONG_MAX),
    **dict.fromkeys(("retention.bytes", "retention.ms"), -1),
}


class TopicConfig(msgspec.Struct, frozen=True):
    """The effective values of a topic's config, for those keys that the code reads.

    `flush_messages`, `flush_ms`, `retention_ms`, `retention_bytes`, `max_compaction_lag_ms` and the two timestamp
    limits are None for "no limit". `compression_type` is None for `producer` (the writer chooses), otherwise "zstd",
    "lz4" or "none".
    """

    delete: bool
    compact: bool
    compression_type: str | None
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int | None
    flush_ms: int | None
    max_compaction_lag_ms: int | None
    max_message_bytes: int
    message_timestamp_after_max_ms: int | None
    message_timestamp_before_max_ms: int | None
    message_timestamp_type: TimestampSource
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    retention_bytes: int | None
    retention_ms: int | None
    rewrite_delete_delay_ms: int
    segment_bytes: int
    segment_ms: int
    unclean_leader_election_enable: bool


def parse_topic_config(raw: Mapping[str, object]) -> dict[str, str]:
    """A topic's config in canonical form: the keys that were set, each with its canonical text.

    Raises `InvalidConfig`, which names the key, the legal values and the value found.
    """
    return merge_topic_config({}, raw)


def merge_topic_config(current: Mapping[str, str], changes: Mapping[str, object]) -> dict[str, str]:
    """Apply `changes` to the canonical config `current`. A change to None removes the key, so that its default counts.

    Raises `InvalidConfig`, also if two values contradict each other.
    """
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
    """The effective value of each key, and its origin: "topic", "cluster" or "default". Keys without value are left
    out.
    """
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

    `defaults` come from `cluster_config.topic_defaults`. Both arguments are in canonical form. Results are cached, so
    this is cheap enough for every append.
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
    without_limit = {name.replace(".", "_"): None for name, none in _NO_LIMIT.items() if values[name] == none}
    return typed(
        values,
        TopicConfig,
        delete="delete" in policy,
        compact="compact" in policy,
        **without_limit,
        compression_type={"producer": None, "uncompressed": "none"}.get(codec, codec),
        message_timestamp_type=TimestampSource.APPEND_TIME if append_time else TimestampSource.CREATE_TIME,
    )


def _check_together(config: Mapping[str, str]) -> None:
    """Raise InvalidConfig if `min.compaction.lag.ms` is greater than `max.compaction.lag.ms`.

    Source: Kafka's `LogConfig.validateValues`.
    """
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
