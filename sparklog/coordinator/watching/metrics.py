"""`/metrics` for Prometheus, made from one `Observation` at each scrape. The names are in `metric_names.py`.

No metric has a label for a partition, because there may be tens of thousands of partitions. Only a limited number of
topics, consumer groups and jobs have metrics of their own. Every store has its own metrics, because stores are few.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from sparklog import __version__
from sparklog.chain.commit.commit_counts import AppendCounts
from sparklog.coordinator.http.endpoint import GatedRoute
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.watching.activity import Distribution, group_sizes
from sparklog.coordinator.watching.metric_names import COUNTER, METRICS, TOPICS_OF_A_GROUP
from sparklog.coordinator.watching.observation import Observation, observe
from sparklog.core.access import Need, Verb
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.describe.group_rows import group_row
from sparklog.core.groups.lag import GroupLag, TopicLag, group_lags
from sparklog.core.groups.membership import GROUP_CONDITIONS
from sparklog.core.state import STORE_CONDITIONS, ClusterState, Topic
from sparklog.host.clock import now_ms

GROUP_BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
MOST_JOBS: Final = 50  # with labels of their own: those that ran last
_LOOP_LAG_SAMPLES: Final = 60  # one per second
_BY_NAME: Final = {metric.name: metric for metric in METRICS}


def metrics_routes(service: Service) -> list[GatedRoute]:
    """The route `/metrics`."""

    async def metrics(request: Request) -> Response:
        observation = observe(service, now_ms())
        text, content_type = await asyncio.to_thread(exposition, observation, request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type})

    return [GatedRoute("GET", "/metrics", metrics, Need(Verb.DESCRIBE))]


def exposition(observation: Observation, accept: str) -> tuple[bytes, str]:
    """The metrics as text, and its content type: that of OpenMetrics if the scraper accepts it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(observation))
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def families(observation: Observation) -> Iterator[Metric]:
    """All metrics of `METRICS` with their values, except the metrics of the process itself (memory, CPU time)."""
    yield from _of_chain(observation)
    yield from _of_commits(observation)
    yield from _of_partitions(observation)
    yield from _of_topics(observation)
    yield from _of_groups(observation)
    yield from _of_stores(observation)
    yield from _of_jobs(observation.state)
    yield _by_label("sparklog_build_info", {(__version__,): 1})


class _Collector(Collector):
    def __init__(self, observation: Observation) -> None:
        self._observation = observation

    def collect(self) -> Iterable[Metric]:
        return families(self._observation)


def _of_chain(seen: Observation) -> Iterator[Metric]:
    state = seen.state
    yield _value("sparklog_active_controller", seen.leads)
    yield _value("sparklog_coordinator_in_force", state.coordinator.in_force)
    yield _value("sparklog_coordinator_epoch", state.coordinator.epoch)
    yield _value("sparklog_chain_position", state.n)
    yield _value("sparklog_chain_entry_timestamp_seconds", state.time_ms / 1000)
    yield _value("sparklog_floor", state.floor)
    yield _value("sparklog_snapshot_lag_entries", seen.entries_since_snapshot)
    made_ms = seen.snapshot_time_ms
    yield _value("sparklog_snapshot_age_seconds", None if made_ms is None else max(0, seen.now_ms - made_ms) / 1000)


def _of_commits(seen: Observation) -> Iterator[Metric]:
    commits = seen.commits
    yield _value("sparklog_commits_total", commits.entries)
    yield _value("sparklog_lost_slots_total", commits.lost_slots)
    yield _histogram("sparklog_commit_commands", group_sizes(commits.group_sizes, GROUP_BOUNDS))
    yield _histogram("sparklog_submit_duration_seconds", seen.latency, unit=1000)
    yield _value("sparklog_queued_commands", seen.queued)
    yield _value("sparklog_queued_commands_limit", seen.queued_max)
    yield _by_label("sparklog_refused_requests_total", {(code,): count for code, count in seen.refusals.items()})
    requests = {(route, str(status)): count for (route, status), count in seen.requests.items()}
    yield _by_label("sparklog_requests_total", requests)
    lags_ms = [sample.lag_ms for sample in seen.samples[-_LOOP_LAG_SAMPLES:]]
    yield _value("sparklog_event_loop_lag_seconds", max(lags_ms, default=0) / 1000)


def _of_partitions(seen: Observation) -> Iterator[Metric]:
    state, counts = seen.state, seen.replicas
    yield _value("sparklog_topics", len(state.topics))
    yield _value("sparklog_partitions", counts.partitions)
    yield _value("sparklog_offline_partitions", counts.offline)
    yield _value("sparklog_under_min_isr_partitions", counts.under_min_isr)
    yield _value("sparklog_under_replicated_partitions", counts.under_replicated)
    yield _value("sparklog_isr_shrinks_total", seen.isr_shrinks)
    yield _value("sparklog_isr_expands_total", seen.isr_expands)
    yield _value("sparklog_leader_elections_total", seen.elections)
    yield _value("sparklog_log_size_bytes", counts.log_bytes)
    yield _value("sparklog_slices", len(state.slices))
    yield _value("sparklog_objects", len(state.objects))
    yield _value("sparklog_retired_objects", len(state.retired))


def _of_topics(seen: Observation) -> Iterator[Metric]:
    state, appended = seen.state, seen.commits.appended
    yield _value("sparklog_appended_records_total", sum(counts.records for counts in appended.values()))
    yield _value("sparklog_appended_bytes_total", sum(counts.size_bytes for counts in appended.values()))
    named = _named_topics(seen)
    counted = {(topic.name,): appended.get(topic.topic_id, AppendCounts()) for topic in named}
    records = {label: counts.records for label, counts in counted.items()}
    yield _by_label("sparklog_topic_appended_records_total", records)
    size_bytes = {label: counts.size_bytes for label, counts in counted.items()}
    yield _by_label("sparklog_topic_appended_bytes_total", size_bytes)
    yield _by_label("kafka_topic_partitions", {(topic.name,): topic.partitions for topic in named})
    ends = {(topic.name,): sum(part.high_watermark for part in state.partitions_of(topic)) for topic in named}
    yield _by_label("kafka_topic_partition_current_offset", ends)


def _named_topics(seen: Observation) -> list[Topic]:
    """The topics with metrics of their own: at most `metrics.topics.max`, with the most bytes appended by this process.

    [] on a standby.
    """
    appended = seen.commits.appended
    topics = seen.state.topics.values() if seen.leads else []
    by_bytes = sorted(topics, key=lambda topic: (-appended.get(topic.topic_id, AppendCounts()).size_bytes, topic.name))
    return by_bytes[: effective_cluster(seen.state.config).metrics_topics_max]


def _of_groups(seen: Observation) -> Iterator[Metric]:
    states = Counter(group.condition for group in seen.state.groups.values())
    yield _by_label("sparklog_groups", {(name,): states[name] for name in GROUP_CONDITIONS})
    most = effective_cluster(seen.state.config).metrics_groups_max
    named = group_lags(seen.state).most_behind(most) if seen.leads and most else []
    rows = list(map(group_row, named))
    yield _by_label("sparklog_group_lag_records", {(row.group,): row.lag for row in rows})
    yield _by_label("sparklog_group_max_lag_records", {(row.group,): row.max_lag for row in rows})
    ages = {(row.group,): _age_seconds(row.unread_since_ms, seen.now_ms) for row in rows}
    yield _by_label("sparklog_group_lag_seconds", ages)
    yield _by_label("sparklog_group_rebalances_total", {(row.group,): row.generation for row in rows})
    yield _by_label("kafka_consumergroup_members", {(row.group,): row.members for row in rows})
    pairs = {(lag.group.name, topic.topic): topic for lag in named for topic in _named_topics_of(lag)}
    yield _by_label("kafka_consumergroup_current_offset", {label: topic.offset for label, topic in pairs.items()})
    lags = {label: topic.lag_records for label, topic in pairs.items()}
    yield _by_label("kafka_consumergroup_lag", lags)
    yield _by_label("kafka_consumergroup_lag_sum", lags)


def _named_topics_of(lag: GroupLag) -> list[TopicLag]:
    return sorted(lag.topics, key=lambda topic: (-topic.lag_records, topic.topic))[:TOPICS_OF_A_GROUP]


def _age_seconds(since_ms: int | None, now_ms: int) -> float:
    return 0 if since_ms is None else max(0, now_ms - since_ms) / 1000


def _of_stores(seen: Observation) -> Iterator[Metric]:
    stores = seen.state.stores.values()
    states = Counter(store.condition for store in stores)
    yield _by_label("sparklog_stores", {(name,): states[name] for name in STORE_CONDITIONS})
    yield _value("sparklog_connected_agents", sum(store.agent_up is True and not store.fenced for store in stores))
    yield _by_label("sparklog_store_up", {(store,): not look.problem for store, look in seen.looks.items()})
    free = {(store,): look.free_bytes for store, look in seen.looks.items() if look.free_bytes is not None}
    yield _by_label("sparklog_store_free_bytes", free)
    heard = {(store,): heard_ms / 1000 for store, heard_ms in seen.heard_ms_ago.items()}
    yield _by_label("sparklog_store_heard_age_seconds", heard)
    on = seen.replicas.stores
    yield _by_label("sparklog_store_replicas", {(store,): of.replicas for store, of in on.items()})
    yield _by_label("sparklog_store_leaders", {(store,): of.leaders for store, of in on.items()})
    yield _by_label("sparklog_store_replicas_behind", {(store,): of.behind for store, of in on.items()})
    yield _by_label("sparklog_store_lag_records", {(store,): of.lag_records for store, of in on.items()})
    yield _by_label("sparklog_store_max_lag_records", {(store,): of.max_lag_records for store, of in on.items()})


def _of_jobs(state: ClusterState) -> Iterator[Metric]:
    runs = sorted(state.jobs.values(), key=lambda run: run.ended_ms)[-MOST_JOBS:]
    yield _by_label("sparklog_job_last_run_timestamp_seconds", {(run.job,): run.ended_ms / 1000 for run in runs})
    took = {(run.job,): max(0, run.ended_ms - run.started_ms) / 1000 for run in runs}
    yield _by_label("sparklog_job_last_run_duration_seconds", took)
    yield _by_label("sparklog_job_last_run_failed_partitions", {(run.job,): run.failed_partitions for run in runs})


# ---- families ---------------------------------------------------------------------------------------


def _value(name: str, value: float | None) -> Metric:
    return _by_label(name, {} if value is None else {(): value})


def _by_label(name: str, values: Mapping[Any, float]) -> Metric:
    """The gauge or counter `name`. Each key of `values` is a tuple of the values of the metric's labels, in order."""
    described = _BY_NAME[name]
    kind = CounterMetricFamily if described.kind == COUNTER else GaugeMetricFamily
    family = kind(name, described.help, labels=described.labels)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family


def _histogram(name: str, values: Distribution, unit: int = 1) -> Metric:
    """The distribution as the histogram `name`, with all values divided by `unit`: 1000 turns ms into seconds."""
    buckets: list[tuple[str, float]] = []
    count = 0
    for bound, times in zip((*values.bounds, None), values.counts, strict=True):
        count += times
        buckets.append(("+Inf" if bound is None else str(bound / unit), count))
    family = HistogramMetricFamily(name, _BY_NAME[name].help)
    family.add_metric((), buckets, values.total / unit)
    return family
