"""The config keys of a whole cluster: those of Kafka's broker keys that make sense here, and sparklog's own.

Some are defaults for topics, under the names that Kafka's brokers use (`log.retention.ms` for `retention.ms`). All keys
are stored like a topic's config: only the keys that were set, as canonical text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from sparklog.core.config.key import LONG_MAX, ConfigKey, ConfigValue, ValueType, did_you_mean, typed
from sparklog.core.config.topic_keys import TOPIC_KEYS
from sparklog.core.errors import InvalidConfig

_DAY_MS: Final = 86_400_000
_GIB: Final = 1 << 30
_INT, _LONG = ValueType.INT, ValueType.LONG
_IN_THE_CHAIN: Final = (
    "Without effect: every entry of the chain has it, and `log.flush.offset.checkpoint.interval.ms` applies to all "
    "checkpoints."
)

# Cluster key -> the topic key for which it is the default.
TOPIC_DEFAULT_KEYS: Final[Mapping[str, str]] = {
    "compression.type": "compression.type",
    "log.retention.bytes": "retention.bytes",
    "log.retention.ms": "retention.ms",
    "log.roll.ms": "segment.ms",
    "log.segment.bytes": "segment.bytes",
    "message.max.bytes": "max.message.bytes",
    "min.insync.replicas": "min.insync.replicas",
}

# Keys of Kafka's brokers that sparklog deliberately does not have, and what to do instead.
REFUSED_KEYS: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "topics are only created explicitly: `sparklog topic create`",
    "broker.id": "a cluster has stores: `sparklog cluster init --store ID=URL`",
    "log.dir": "a cluster has stores: `sparklog cluster init --store ID=URL`",
    "log.dirs": "a cluster has stores: `sparklog cluster init --store ID=URL`",
}


def _topic_default(name: str, topic_name: str) -> ConfigKey:
    doc = f"`{topic_name}` of topics that do not set it. {TOPIC_KEYS[topic_name].doc}"
    return msgspec.structs.replace(TOPIC_KEYS[topic_name], name=name, doc=doc)


_OWN: Final = (
    ConfigKey(
        "broker.session.timeout.ms",
        _INT,
        9_000,
        "A coordinator that writes no entry for this long is replaced by a standby. It writes at least three entries "
        "in this time.",
        minimum=300,
    ),
    ConfigKey(
        "default.replication.factor",
        _INT,
        1,
        "Replicas of a topic that is created without a replication factor.",
        minimum=1,
        maximum=32_767,
    ),
    ConfigKey(
        "floor.delay.ms",
        _LONG,
        7 * _DAY_MS,
        "Delay of FLOOR: an upload that began longer ago than this can no longer be committed (`WRITE_EXPIRED`), and "
        "vacuum deletes what it left behind (sparklog's own key).",
        minimum=0,
    ),
    ConfigKey(
        "group.max.session.timeout.ms",
        _INT,
        1_800_000,
        "The longest session timeout that a member of a consumer group may ask for.",
        minimum=1,
    ),
    ConfigKey(
        "group.min.session.timeout.ms",
        _INT,
        6_000,
        "The shortest session timeout that a member of a consumer group may ask for.",
        minimum=1,
    ),
    ConfigKey(
        "log.flush.offset.checkpoint.interval.ms",
        _INT,
        60_000,
        "Interval at which the leading coordinator writes checkpoints to the stores, if anything has changed: recovery "
        "points, high watermarks, log starts and leader epochs. 0: never.",
        minimum=0,
    ),
    ConfigKey(
        "log.flush.scheduler.interval.ms",
        _LONG,
        LONG_MAX,
        "Interval at which logs are checked for data to force to disk. Without effect: an object is durable before "
        "the chain names it.",
        minimum=1,
        effect=False,
    ),
    ConfigKey(
        "log.flush.start.offset.checkpoint.interval.ms",
        _INT,
        60_000,
        f"Interval at which log start offsets are written down. {_IN_THE_CHAIN}",
        minimum=0,
        effect=False,
    ),
    ConfigKey(
        "log.retention.check.interval.ms",
        _LONG,
        300_000,
        "Interval at which the leading coordinator runs roll, compaction and retention.",
        minimum=1,
    ),
    ConfigKey(
        "metadata.copies",
        _INT,
        None,
        "Number of further stores that hold an entry of the metadata chain before its write is acknowledged, so that "
        "`sparklog cluster restore` can bring the cluster back if its metadata is lost (sparklog's own key). Default: "
        "`min.insync.replicas` of the cluster minus 1, so 0 unless that was raised. A cluster with fewer other "
        "stores has a copy on each of them.",
        minimum=0,
    ),
    ConfigKey(
        "metrics.groups.max",
        _INT,
        100,
        "Maximum number of consumer groups that `/metrics` names, which bounds the number of series: those with the "
        "oldest unread record come first (sparklog's own key). `sparklog group list` has them all.",
        minimum=0,
        maximum=10_000,
    ),
    ConfigKey(
        "metrics.topics.max",
        _INT,
        100,
        "Maximum number of topics that `/metrics` names: those to which most bytes were appended come first "
        "(sparklog's own key).",
        minimum=0,
        maximum=10_000,
    ),
    ConfigKey(
        "num.partitions",
        _INT,
        1,
        "Partitions of a topic that is created without a number of partitions.",
        minimum=1,
    ),
    ConfigKey(
        "num.replica.fetchers",
        _INT,
        1,
        "Number of threads with which the agent of a store copies from each store that it fetches from.",
        minimum=1,
        maximum=64,
    ),
    ConfigKey(
        "offset.metadata.max.bytes",
        _INT,
        4_096,
        "Maximum bytes of the metadata text of a committed offset.",
        minimum=0,
        maximum=65_536,
    ),
    ConfigKey(
        "offsets.retention.minutes",
        _INT,
        10_080,
        "Time for which the offsets of a consumer group are kept after its last member has left. The same "
        "time counts from the commit for groups that never had members, and for topics that no member reads any more. "
        "Maintenance jobs forget expired offsets.",
        minimum=1,
    ),
    ConfigKey(
        "page.writes",
        ValueType.BOOL,
        False,
        "If true, users with the right to do so can also change topics and groups on the pages of a coordinator "
        "(sparklog's own key).",
    ),
    ConfigKey(
        "producer.id.expiration.ms",
        _INT,
        _DAY_MS,
        "Time for which the sequence numbers of a producer that writes nothing are kept. After that, a repeat of its "
        "last batch is no longer recognized. `txnAppId` versions never expire.",
        minimum=1,
    ),
    ConfigKey(
        "queued.max.requests",
        _INT,
        500,
        "Maximum number of commands that wait in the coordinator at once. Further ones are refused and sent again "
        "later.",
        minimum=1,
    ),
    ConfigKey(
        "replica.fetch.backoff.ms",
        _INT,
        1_000,
        "Time that the agent of a store waits after an error before it fetches again. The wait doubles with each "
        "further error, up to `replica.lag.time.max.ms`.",
        minimum=1,
    ),
    ConfigKey(
        "replica.fetch.wait.max.ms",
        _INT,
        500,
        "Interval at which the agent of a store checks the chain for new records while there is nothing to fetch. "
        "While a coordinator is in force, the coordinator notifies the agent instead.",
        minimum=1,
    ),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms",
        _LONG,
        5_000,
        f"Interval at which high watermarks are written down. {_IN_THE_CHAIN}",
        minimum=1,
        effect=False,
    ),
    ConfigKey(
        "replica.lag.time.max.ms",
        _LONG,
        30_000,
        "Time that a replica may lag behind the leader before it leaves the ISR (the agent of the leader's store "
        "checks twice in that time), and time that a store may hold up a write before the write continues without it.",
        minimum=1,
    ),
    ConfigKey(
        "store.free.low.bytes",
        _LONG,
        5 * _GIB,
        "A store with less free space gets a remark from `sparklog cluster health` (sparklog's own key). Object "
        "stores do not report their free space.",
        minimum=0,
    ),
    ConfigKey(
        "store.free.min.bytes",
        _LONG,
        _GIB // 2,
        "A store with less free space is unhealthy: `sparklog cluster health` ends with 5 (sparklog's own key).",
        minimum=0,
    ),
    ConfigKey(
        "vacuum.interval.ms",
        _LONG,
        _DAY_MS,
        "Interval at which the leading coordinator runs vacuum, which lists the stores (sparklog's own key).",
        minimum=1,
    ),
    ConfigKey(
        "writes.retention.ms",
        _LONG,
        7 * _DAY_MS,
        'Time for which `metadata = "writes"` lists a write, up to a million rows (sparklog\'s own key). Without '
        "effect in this version: a write is listed until FLOOR passes it (`floor.delay.ms`).",
        minimum=0,
        effect=False,
    ),
)

CLUSTER_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in sorted(
        (*_OWN, *(_topic_default(name, topic) for name, topic in TOPIC_DEFAULT_KEYS.items())), key=lambda key: key.name
    )
}


class ClusterConfig(msgspec.Struct, frozen=True):
    """The effective values of a cluster's config, for those keys that the code reads.

    `topic_defaults` holds the topic keys that were set for the cluster, as canonical text. They are the `defaults` of
    `topic_config.effective`.
    """

    broker_session_timeout_ms: int
    default_replication_factor: int
    floor_delay_ms: int
    group_max_session_timeout_ms: int
    group_min_session_timeout_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_retention_check_interval_ms: int
    metadata_copies: int
    metrics_groups_max: int
    metrics_topics_max: int
    num_partitions: int
    num_replica_fetchers: int
    offset_metadata_max_bytes: int
    offsets_retention_minutes: int
    page_writes: bool
    producer_id_expiration_ms: int
    queued_max_requests: int
    replica_fetch_backoff_ms: int
    replica_fetch_wait_max_ms: int
    replica_lag_time_max_ms: int
    store_free_low_bytes: int
    store_free_min_bytes: int
    vacuum_interval_ms: int
    topic_defaults: Mapping[str, str]


def cluster_key(name: str) -> ConfigKey:
    """The key of this name.

    Raises `InvalidConfig` if there is no such key. The error offers the nearest one, or says what to do instead.
    """
    key = CLUSTER_KEYS.get(name)
    if key is None:
        raise InvalidConfig(f"wanted a config key of a cluster, found {name!r}{_hint(name)}")
    return key


def parse_cluster_config(raw: Mapping[str, object]) -> dict[str, str]:
    """A cluster's config in canonical form: only the keys that were set. Raises `InvalidConfig`."""
    return merge_cluster_config({}, raw)


def merge_cluster_config(current: Mapping[str, str], changes: Mapping[str, object]) -> dict[str, str]:
    """Apply `changes` to the canonical config `current`. A change to None removes the key, so that its default counts.

    Raises `InvalidConfig`.
    """
    merged = dict(current)
    for name, raw in changes.items():
        key = cluster_key(name)
        if raw is None:
            merged.pop(name, None)
        else:
            merged[name] = key.canonical(raw)
    return dict(sorted(merged.items()))


def topic_defaults(config: Mapping[str, str]) -> dict[str, str]:
    """The defaults for topics in a cluster's canonical `config`, under the names of the topic keys."""
    return {topic: config[name] for name, topic in TOPIC_DEFAULT_KEYS.items() if name in config}


def effective_cluster(config: Mapping[str, str]) -> ClusterConfig:
    """The effective values: the canonical `config` on top of the defaults."""
    return _effective(tuple(config.items()))


@lru_cache(maxsize=64)
def _effective(config: tuple[tuple[str, str], ...]) -> ClusterConfig:
    values: dict[str, ConfigValue | None] = {name: key.default for name, key in CLUSTER_KEYS.items()}
    values |= {name: cluster_key(name).parse(text) for name, text in config}
    copies = values["metadata.copies"]
    if copies is None:
        least = values["min.insync.replicas"]
        assert isinstance(least, int)
        copies = least - 1
    return typed(values, ClusterConfig, metadata_copies=copies, topic_defaults=topic_defaults(dict(config)))


def _hint(name: str) -> str:
    if name in REFUSED_KEYS:
        return f", which sparklog does not have: {REFUSED_KEYS[name]}"
    if name in TOPIC_KEYS:
        cluster_name = next((key for key, topic in TOPIC_DEFAULT_KEYS.items() if topic == name), None)
        default_key = f"; its default for the cluster is {cluster_name}" if cluster_name else ""
        return f", a key of topics{default_key}"
    return did_you_mean(name, CLUSTER_KEYS)
