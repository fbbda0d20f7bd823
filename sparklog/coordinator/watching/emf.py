"""Print metrics once a minute in CloudWatch's embedded metric format. CloudWatch extracts them from the process's log.

The metrics are those of `/metrics` that `EXPORTED` lists. A counter is printed as its growth since it was last printed,
so that sums over processes and time are right. A gauge is printed as its present value; in CloudWatch, take its maximum
over the processes. Every metric has the dimension `Cluster`, the address of the metadata. A metric with a label is
printed for each value of the label, and also over all values (unless `Export.overall` is false).

Source: "Specification: Embedded metric format", Amazon CloudWatch User Guide.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
from prometheus_client.metrics_core import Metric

from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.watching.metrics import families
from sparklog.coordinator.watching.observation import Observation, observe
from sparklog.core.errors import InvalidInput
from sparklog.host.clock import Clock, SystemClock

EVERY_MS: Final = 60_000
CLUSTER: Final = "Cluster"
_NAMESPACE: Final = re.compile(r"(?!AWS/|:)[0-9A-Za-z._/#:-]{1,255}")
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_MOST_CHARACTERS: Final = 1_024  # in the value of a dimension

Totals: TypeAlias = Mapping[tuple[str, str], float]  # of counters, by metric and value of the label


class Export(msgspec.Struct, frozen=True):
    """The form in which a metric is printed. `label`: the label that becomes a dimension; None for no dimension.

    With `overall`, the metric is also printed without this dimension. Other labels are left out: values that differ
    only in them are added up or, with `largest`, only the largest of them is printed.
    """

    label: str | None = None
    overall: bool = True
    largest: bool = False


EXPORTED: Final[Mapping[str, Export]] = {
    "sparklog_active_controller": Export(),
    "sparklog_coordinator_in_force": Export(),
    "sparklog_snapshot_lag_entries": Export(),
    "sparklog_commits_total": Export(),
    "sparklog_lost_slots_total": Export(),
    "sparklog_submit_duration_seconds_count": Export(),
    "sparklog_submit_duration_seconds_sum": Export(),
    "sparklog_queued_commands": Export(),
    "sparklog_queued_commands_limit": Export(),
    "sparklog_refused_requests_total": Export(),
    "sparklog_requests_total": Export("status"),
    "sparklog_event_loop_lag_seconds": Export(),
    "sparklog_topics": Export(),
    "sparklog_partitions": Export(),
    "sparklog_offline_partitions": Export(),
    "sparklog_under_min_isr_partitions": Export(),
    "sparklog_under_replicated_partitions": Export(),
    "sparklog_isr_shrinks_total": Export(),
    "sparklog_isr_expands_total": Export(),
    "sparklog_leader_elections_total": Export(),
    "sparklog_log_size_bytes": Export(),
    "sparklog_slices": Export(),
    "sparklog_retired_objects": Export(),
    "sparklog_appended_records_total": Export(),
    "sparklog_appended_bytes_total": Export(),
    "sparklog_group_lag_seconds": Export(largest=True),
    "sparklog_stores": Export("state", overall=False),
    "sparklog_connected_agents": Export(),
    "sparklog_store_up": Export("store"),
    "sparklog_store_lag_records": Export("store"),
    "sparklog_store_max_lag_records": Export("store"),
    "sparklog_job_last_run_duration_seconds": Export("name"),
    "sparklog_job_last_run_failed_partitions": Export("name"),
}


@dataclass(frozen=True, slots=True)
class MetricTarget:
    """The place to which metrics are printed: the namespace in CloudWatch, and the function that prints a line.

    Raises InvalidInput if the namespace is not valid.
    """

    namespace: str
    write: Callable[[str], None]

    def __post_init__(self) -> None:
        if _NAMESPACE.fullmatch(self.namespace) is None:
            raise InvalidInput(
                "--emf-namespace: wanted 1 to 255 of the characters 0-9 A-Z a-z . - _ / # :, AWS/ and : not at "
                f"its beginning, found {self.namespace!r}"
            )


async def print_metrics(service: Service, target: MetricTarget, clock: Clock | None = None) -> None:
    """Print the metrics at once and then every minute, until the task is cancelled."""
    clock = clock or SystemClock()
    before: Totals = {}
    due_ms = clock.monotonic_ms()
    while True:
        observation = observe(service, clock.now_ms())
        lines, before = await asyncio.to_thread(_observed_lines, observation, target.namespace, before)
        # In a thread too: a blocked log must not delay commits.
        await asyncio.to_thread(_print, lines, target)
        # At fixed times: with a pause of a minute after the work, some minute would have no line.
        due_ms = max(due_ms + EVERY_MS, clock.monotonic_ms())
        await asyncio.sleep((due_ms - clock.monotonic_ms()) / 1000)


def _print(lines: Iterable[str], target: MetricTarget) -> None:
    for line in lines:
        target.write(line)


def _observed_lines(observation: Observation, namespace: str, before: Totals) -> tuple[list[str], Totals]:
    return metric_lines(families(observation), namespace, observation.metadata, observation.now_ms, before)


def metric_lines(
    metrics: Iterable[Metric], namespace: str, cluster: str, now_ms: int, before: Totals
) -> tuple[list[str], Totals]:
    """The metrics as lines of JSON, and the totals of the counters.

    There is one line for all metrics without a label, and one for each value of a label. `before`: the totals of the
    previous call, {} at first. A counter that is smaller than before has restarted at 0, so all of it is printed.
    """
    values, totals = _values(metrics, before)
    groups: dict[tuple[str, str, bool], dict[str, float]] = defaultdict(dict)
    for (name, label), value in values.items():
        export = EXPORTED[name]
        groups[export.label or "", label, export.overall][name] = value
    return [
        _encoded_line(namespace, cluster, now_ms, label, label_value, group, overall=overall)
        for (label, label_value, overall), group in sorted(groups.items())
    ], totals


def _values(metrics: Iterable[Metric], before: Totals) -> tuple[dict[tuple[str, str], float], Totals]:
    """The values to print (of a counter, the growth since `before`), and the totals of the counters.

    The keys of both are (metric, value of its label).
    """
    values: dict[tuple[str, str], float] = defaultdict(float)
    counters = set()
    for family in metrics:
        for sample in family.samples:
            export = EXPORTED.get(sample.name)
            if export is None:
                continue
            key = sample.name, _label_value(export.label, sample.labels)
            values[key] = max(values[key], sample.value) if export.largest else values[key] + sample.value
            if family.type != "gauge":
                counters.add(sample.name)
    totals = {key: value for key, value in values.items() if key[0] in counters}
    for key, total in totals.items():
        last = before.get(key, 0)
        values[key] = total - last if total >= last else total
    return values, totals


def _label_value(label: str | None, labels: Mapping[str, str]) -> str:
    """The value of the dimension `label`, in printable ASCII and not empty; "" if `label` is None.

    HTTP statuses are grouped: 2xx, 4xx, 5xx.
    """
    if label is None:
        return ""
    value = _UNPRINTABLE.sub("?", labels[label]).strip()[:_MOST_CHARACTERS] or "?"
    return f"{value[0]}xx" if label == "status" else value


def _encoded_line(
    namespace: str,
    cluster: str,
    now_ms: int,
    label: str,
    label_value: str,
    values: Mapping[str, float],
    *,
    overall: bool,
) -> str:
    dimensions = [[CLUSTER]] if overall else []
    if label:
        dimensions.append([CLUSTER, label])
    directive = {
        "Namespace": namespace,
        "Dimensions": dimensions,
        "Metrics": [{"Name": name, "Unit": _unit(name)} for name in values],
    }
    document = {
        "_aws": {"Timestamp": now_ms, "CloudWatchMetrics": [directive]},
        CLUSTER: _UNPRINTABLE.sub("?", cluster)[:_MOST_CHARACTERS],
        **({label: label_value} if label else {}),
        **values,
    }
    return msgspec.json.encode(document).decode()


def _unit(name: str) -> str:
    if name.removesuffix("_sum").endswith("_seconds"):
        return "Seconds"
    return "Bytes" if name.removesuffix("_total").endswith("_bytes") else "Count"
