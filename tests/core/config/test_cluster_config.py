from __future__ import annotations

import pytest

from sparklog.core.config.cluster_config import (
    CLUSTER_KEYS,
    TOPIC_DEFAULT_KEYS,
    ClusterConfig,
    effective_cluster,
    merge_cluster_config,
    parse_cluster_config,
    topic_defaults,
)
from sparklog.core.config.topic_config import effective
from sparklog.core.errors import InvalidConfig

DEFAULTS = {
    "broker.session.timeout.ms": "9000",
    "queued.max.requests": "500",
    "compression.type": "producer",
    "default.replication.factor": "1",
    "floor.delay.ms": "604800000",
    "group.max.session.timeout.ms": "1800000",
    "group.min.session.timeout.ms": "6000",
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.flush.scheduler.interval.ms": "9223372036854775807",
    "log.flush.start.offset.checkpoint.interval.ms": "60000",
    "log.retention.bytes": "-1",
    "log.retention.check.interval.ms": "300000",
    "log.retention.ms": "604800000",
    "log.roll.ms": "604800000",
    "log.segment.bytes": "1073741824",
    "message.max.bytes": "1048588",
    "metadata.copies": None,
    "min.insync.replicas": "1",
    "metrics.groups.max": "100",
    "metrics.topics.max": "100",
    "num.partitions": "1",
    "num.replica.fetchers": "1",
    "offset.metadata.max.bytes": "4096",
    "offsets.retention.minutes": "10080",
    "page.writes": "false",
    "producer.id.expiration.ms": "86400000",
    "replica.fetch.backoff.ms": "1000",
    "replica.fetch.wait.max.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
    "replica.lag.time.max.ms": "30000",
    "store.free.low.bytes": "5368709120",
    "store.free.min.bytes": "536870912",
    "vacuum.interval.ms": "86400000",
    "writes.retention.ms": "604800000",
}


def test_keys_and_defaults_are_kafkas_and_sparklogs_own() -> None:
    assert {
        name: None if key.default is None else key.canonical(key.default) for name, key in CLUSTER_KEYS.items()
    } == DEFAULTS


@pytest.mark.parametrize("name", CLUSTER_KEYS)
def test_every_key_has_a_doc_that_says_whether_it_has_an_effect(name: str) -> None:
    key = CLUSTER_KEYS[name]
    assert key.doc.endswith(".")
    assert key.effect is ("ithout effect" not in key.doc)


def test_only_set_keys_are_kept_in_canonical_text() -> None:
    config = parse_cluster_config({"num.partitions": 6, "log.retention.ms": "-1"})
    assert config == {"log.retention.ms": "-1", "num.partitions": "6"}
    assert merge_cluster_config(config, {"num.partitions": None}) == {"log.retention.ms": "-1"}


def test_cluster_keys_are_the_defaults_of_topics_under_the_brokers_names() -> None:
    config = parse_cluster_config({"message.max.bytes": 10, "log.roll.ms": 20, "num.partitions": 2})
    assert topic_defaults(config) == {"max.message.bytes": "10", "segment.ms": "20"}
    values = effective({"segment.ms": "30"}, effective_cluster(config).topic_defaults)
    assert (values.max_message_bytes, values.segment_ms) == (10, 30)


def test_effective_values_are_typed() -> None:
    config = effective_cluster({"producer.id.expiration.ms": "5"})
    assert config.producer_id_expiration_ms == 5
    assert config.floor_delay_ms == 7 * 86_400_000
    assert (config.num_partitions, config.default_replication_factor) == (1, 1)


def test_a_key_that_nothing_reads_says_that_it_has_no_effect() -> None:
    typed = {name.replace("_", ".") for name in ClusterConfig.__struct_fields__} - {"topic.defaults"}
    assert {name for name, key in CLUSTER_KEYS.items() if key.effect} == typed | set(TOPIC_DEFAULT_KEYS)
    for key in CLUSTER_KEYS.values():
        assert key.effect is ("ithout effect" not in key.doc), key.name


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("auto.create.topics.enable", ", which sparklog does not have: topics are only created explicitly"),
        ("retention.ms", ", a key of topics; its default for the cluster is log.retention.ms"),
        ("preallocate", ", a key of topics"),
        ("num.partition", "; did you mean num.partitions?"),
        ("log.retention.hours", "; did you mean log.retention."),
    ],
)
def test_unknown_key_is_refused_with_a_way_out(name: str, told: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        parse_cluster_config({name: "1"})
    assert raised.value.message.startswith(f"wanted a config key of a cluster, found '{name}'{told}")


@pytest.mark.parametrize(
    ("config", "copies"),
    [
        ({}, 0),
        ({"min.insync.replicas": "3"}, 2),
        ({"min.insync.replicas": "3", "metadata.copies": "0"}, 0),
        ({"metadata.copies": "2"}, 2),
    ],
)
def test_the_chain_has_as_many_copies_as_are_set_else_one_less_than_replicas_in_sync(
    config: dict[str, str], copies: int
) -> None:
    assert effective_cluster(config).metadata_copies == copies
