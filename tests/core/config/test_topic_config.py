from __future__ import annotations

import pytest

from sparklog.core.config.topic_config import (
    DEFAULTS,
    effective,
    merge_topic_config,
    parse_topic_config,
    topic_values,
)
from sparklog.core.config.topic_keys import TOPIC_KEYS
from sparklog.core.errors import InvalidConfig
from sparklog.core.types import TimestampSource

# Kafka 4.x `LogConfig`, topic by topic; what sparklog adds stands apart.
KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.copy.lag.bytes": "0",
    "remote.copy.lag.ms": "0",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
OWN_DEFAULTS = {"rewrite.delete.delay.ms": "3600000"}


def test_keys_and_defaults_are_kafkas() -> None:
    found = {name: key.canonical(key.default) for name, key in TOPIC_KEYS.items()}
    assert found == KAFKA_DEFAULTS | OWN_DEFAULTS


@pytest.mark.parametrize("name", TOPIC_KEYS)
def test_every_key_has_a_doc_that_says_whether_it_has_an_effect(name: str) -> None:
    key = TOPIC_KEYS[name]
    assert key.doc.endswith(".") or key.doc.endswith(").")
    assert key.effect is ("ithout effect" not in key.doc)


def test_only_set_keys_are_kept_in_canonical_text() -> None:
    raw = {"segment.bytes": 1000, "retention.ms": "-1", "cleanup.policy": "Compact,delete", "preallocate": True}
    assert parse_topic_config(raw) == {
        "cleanup.policy": "compact,delete",
        "preallocate": "true",
        "retention.ms": "-1",
        "segment.bytes": "1000",
    }


# M: S-06
def test_small_values_are_legal() -> None:
    config = effective(parse_topic_config({"segment.bytes": 1, "segment.ms": 1, "retention.ms": 0}))
    assert (config.segment_bytes, config.segment_ms, config.retention_ms) == (1, 1, 0)


@pytest.mark.parametrize("codec", ["gzip", "snappy"])
def test_codecs_that_arrow_lacks_are_refused_with_the_legal_ones_named(codec: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        parse_topic_config({"compression.type": codec})
    assert raised.value.message == (
        f"compression.type: wanted one of producer, zstd, lz4, none, uncompressed, found '{codec}'"
    )


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("retention.mss", "; did you mean retention.ms?"),
        ("message.max.bytes", "; did you mean max.message.bytes?"),
        ("log.roll.ms", "; did you mean segment.ms?"),
        ("log.retention.ms", "; did you mean retention.ms?"),
        ("zzz", ""),
    ],
)
def test_unknown_key_is_refused_and_the_nearest_offered(name: str, offered: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        parse_topic_config({name: "1"})
    assert str(raised.value) == f"INVALID_CONFIG: wanted a config key of a topic, found '{name}'{offered}"


def test_a_change_to_none_brings_the_default_back() -> None:
    current = parse_topic_config({"retention.ms": 1, "segment.ms": 2})
    assert merge_topic_config(current, {"retention.ms": None, "segment.bytes": 3, "flush.ms": None}) == {
        "segment.bytes": "3",
        "segment.ms": "2",
    }
    assert current == {"retention.ms": "1", "segment.ms": "2"}


def test_compaction_lags_must_fit_each_other() -> None:
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms: wanted at most max\.compaction\.lag\.ms"):
        merge_topic_config({"max.compaction.lag.ms": "5"}, {"min.compaction.lag.ms": 6})


def test_no_limit_is_none_in_the_typed_config() -> None:
    assert DEFAULTS.retention_bytes is None
    assert DEFAULTS.message_timestamp_before_max_ms is None
    assert DEFAULTS.message_timestamp_after_max_ms == 3_600_000
    assert effective({"retention.ms": "-1"}).retention_ms is None
    assert effective({"message.timestamp.after.max.ms": str(2**63 - 1)}).message_timestamp_after_max_ms is None


def test_typed_config_lays_topic_over_cluster_over_kafkas_defaults() -> None:
    config = effective({"retention.ms": "5"}, {"retention.ms": "7", "segment.ms": "9"})
    assert (config.retention_ms, config.segment_ms, config.max_message_bytes) == (5, 9, 1_048_588)


def test_policies_codec_and_timestamp_type_are_typed() -> None:
    config = effective(
        {"cleanup.policy": "compact", "compression.type": "uncompressed", "message.timestamp.type": "LogAppendTime"}
    )
    assert (config.compact, config.delete) == (True, False)
    assert config.compression_type == "none"
    assert config.message_timestamp_type is TimestampSource.APPEND_TIME
    assert (DEFAULTS.compact, DEFAULTS.delete, DEFAULTS.compression_type) == (False, True, None)
    assert DEFAULTS.message_timestamp_type is TimestampSource.CREATE_TIME


def test_equal_configs_share_one_typed_object() -> None:
    assert effective({}) is DEFAULTS
    assert effective({"segment.ms": "4"}) is effective({"segment.ms": "4"})


def test_values_tell_where_they_come_from() -> None:
    values = topic_values({"retention.ms": "5"}, {"retention.ms": "7", "segment.ms": "9"})
    assert values["retention.ms"] == (5, "topic")
    assert values["segment.ms"] == (9, "cluster")
    assert values["segment.bytes"] == (1 << 30, "default")
    assert list(values) == sorted(TOPIC_KEYS)
