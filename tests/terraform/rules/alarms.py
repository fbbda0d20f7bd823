"""Alarms, dashboards and logs: each metric exists with these dimensions, and somebody hears of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sparklog.coordinator.watching.emf import CLUSTER, EXPORTED
from tests.terraform.deployment import Deployment, Resource
from tests.terraform.rules.tasks import chain

# Metrics of AWS that are used here, with their dimensions.
_OF_AWS: Final = {
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible"): {"QueueName"},
    ("AWS/NetworkELB", "HealthyHostCount"): {"LoadBalancer", "TargetGroup"},
    ("AWS/Events", "MatchedEvents"): {"RuleName"},
}
_SEARCH: Final = re.compile(r'\{([^,}]+),([^}]+)\} MetricName="([^"]+)"(?: Cluster="([^"]+)")?')
# When each alarm goes off, by its metric, or by its expression and the metrics in it: comparison, threshold, statistic
# (over all coordinators or zones), and whether a missing value is an alarm as well.
_ABOVE, _BELOW, _QUIET, _LOUD = "GreaterThanThreshold", "LessThanThreshold", "notBreaching", "breaching"
_GOES_OFF: Final[dict[tuple[str, ...], tuple[str, float, str, str]]] = {
    ("sparklog_active_controller",): (_BELOW, 1, "Maximum", _LOUD),
    ("sparklog_offline_partitions",): (_ABOVE, 0, "Maximum", _QUIET),
    ("sparklog_under_min_isr_partitions",): (_ABOVE, 0, "Maximum", _QUIET),
    ("sparklog_under_replicated_partitions",): (_ABOVE, 0, "Maximum", _QUIET),
    ("sparklog_store_up",): (_BELOW, 1, "Minimum", _QUIET),
    ("sparklog_stores",): (_ABOVE, 0, "Maximum", _QUIET),
    ("sparklog_store_max_lag_records",): (_ABOVE, 1_000_000, "Maximum", _QUIET),
    ("sparklog_group_lag_seconds",): (_ABOVE, 3_600, "Maximum", _QUIET),
    ("sparklog_job_last_run_failed_partitions",): (_ABOVE, 0, "Maximum", _QUIET),
    ("sparklog_requests_total",): (_ABOVE, 10, "Sum", _QUIET),
    ("sparklog_event_loop_lag_seconds",): (_ABOVE, 1, "Maximum", _QUIET),
    ("sparklog_snapshot_lag_entries",): (_ABOVE, 10_000, "Minimum", _QUIET),
    ("IF(b > 0, a / b, 0)", "sparklog_submit_duration_seconds_sum", "sparklog_submit_duration_seconds_count"): (
        *(_ABOVE, 5, "Sum", _QUIET),
    ),
    ("a / b", "sparklog_queued_commands", "sparklog_queued_commands_limit"): (_ABOVE, 0.9, "Maximum", _QUIET),
    ("HealthyHostCount",): (_BELOW, 1, "Maximum", _LOUD),
    ("ApproximateNumberOfMessagesVisible",): (_ABOVE, 0, "Maximum", _QUIET),
}


def alarms_watch_metrics_that_exist(deployment: Deployment) -> list[str]:
    """Each metric of an alarm is one that coordinators print, with its dimensions, or one of AWS's own."""
    return [
        f"{place} watches {why}"
        for place, namespace, name, dimensions in _watched(deployment)
        if (why := _unknown(deployment, namespace, name, dimensions))
    ]


def dashboards_show_metrics_that_exist(deployment: Deployment) -> list[str]:
    """The same for dashboards."""
    return [
        f"{place} shows {why}"
        for place, namespace, name, dimensions in _shown(deployment)
        if (why := _unknown(deployment, namespace, name, dimensions))
    ]


def what_matters_is_watched(deployment: Deployment) -> list[str]:
    """Alarms go off as the table says, and where coordinators have alarms, none of them is missing."""
    alarms = deployment.of("aws_cloudwatch_metric_alarm")
    found = {_metrics(each): each for each in alarms}
    missing = _GOES_OFF.keys() - found.keys() if alarms and deployment.of("aws_lb_listener") else ()
    wrong = [f"no alarm watches {' '.join(names)}" for names in sorted(missing)]
    for each in alarms:
        values, queried = each.values, [metric["stat"] for metric in _queried(each)]
        (statistic,) = set(queried or [values["statistic"]])
        given = (values["comparison_operator"], values["threshold"], statistic, values["treat_missing_data"])
        if given != (wanted := _GOES_OFF.get(_metrics(each))):
            wrong.append(f"{each.address} goes off by {given}, wanted {wanted}")
    return wrong


def alarms_reach_somebody(deployment: Deployment) -> list[str]:
    """Each alarm goes to a topic of this deployment, and says what to do."""
    topics = {each.values["arn"] for each in deployment.of("aws_sns_topic")}
    wrong = []
    for each in deployment.of("aws_cloudwatch_metric_alarm"):
        if not topics & set(each.values["alarm_actions"] or ()):
            wrong.append(f"{each.address} goes to no topic")
        if not each.values["alarm_description"]:
            wrong.append(f"{each.address} does not say what to do")
        if each.values["actions_enabled"] is False:
            wrong.append(f"{each.address} is switched off")
    return wrong


def logs_are_encrypted_and_end(deployment: Deployment) -> list[str]:
    """Log groups have a key and an end; topics and queues are encrypted; keys are rotated."""
    wrong = []
    for each in deployment.of("aws_cloudwatch_log_group"):
        if not each.values["retention_in_days"] or each.values["retention_in_days"] < 7:
            wrong.append(f"{each.address} is kept for ever, or hardly at all")
        if not each.values["kms_key_id"]:
            wrong.append(f"{each.address} has no key")
    wrong += [
        f"{each.address} has no key" for each in deployment.of("aws_sns_topic") if not each.values["kms_master_key_id"]
    ]
    wrong += [
        f"{each.address} is not rotated"
        for each in deployment.of("aws_kms_key")
        if not each.values["enable_key_rotation"]
    ]
    for each in deployment.of("aws_ecr_repository"):
        scans = [scan["scan_on_push"] for scan in each.values["image_scanning_configuration"]]
        if each.values["image_tag_mutability"] != "IMMUTABLE" or scans != [True]:
            wrong.append(f"{each.address} lets tags move, or is not scanned")
    return wrong


def logs_have_their_groups(deployment: Deployment) -> list[str]:
    """What a container or Container Insights logs to is made by this deployment."""
    groups = {each.values["name"] for each in deployment.of("aws_cloudwatch_log_group")}
    insights = [
        f"/aws/ecs/containerinsights/{each.values['name']}/performance" for each in deployment.of("aws_ecs_cluster")
    ]
    return [f"Container Insights makes {name} by itself" for name in insights if name not in groups] + [
        f"{each.address} logs to {name}, which is not made"
        for each in deployment.of("aws_ecs_task_definition")
        for container in each.document("container_definitions")
        if (name := container["logConfiguration"]["options"]["awslogs-group"]) not in groups
    ]


_Use = tuple[str, str, str, Mapping[str, str]]  # place, namespace, metric, dimensions


def _watched(deployment: Deployment) -> Iterator[_Use]:
    for each in deployment.of("aws_cloudwatch_metric_alarm"):
        values = each.values
        if values["metric_name"]:
            yield each.address, values["namespace"], values["metric_name"], values["dimensions"] or {}
        for metric in _queried(each):
            yield each.address, metric["namespace"], metric["metric_name"], metric["dimensions"] or {}


def _queried(alarm: Resource) -> list[Any]:
    return [metric for query in alarm.values["metric_query"] or () for metric in query["metric"]]


def _metrics(alarm: Resource) -> tuple[str, ...]:
    """The metric of an alarm, or the expression and the metrics in it, a before b."""
    queries = sorted(alarm.values["metric_query"] or (), key=lambda query: str(query["id"]))
    expressions = [query["expression"] for query in queries if query["expression"]]
    return (*expressions, *(metric["metric_name"] for query in queries for metric in query["metric"])) or (
        alarm.values["metric_name"],
    )


def _shown(deployment: Deployment) -> Iterator[_Use]:
    for each in deployment.of("aws_cloudwatch_dashboard"):
        for widget in each.document("dashboard_body")["widgets"]:
            place = f"{each.address}, {widget['properties']['title']!r},"
            for metric in widget["properties"]["metrics"]:
                yield from _of_widget(place, metric)


def _of_widget(place: str, metric: list[Any]) -> Iterator[_Use]:
    if isinstance(metric[0], dict):
        for namespace, keys, name, cluster in _SEARCH.findall(metric[0]["expression"]):
            yield place, namespace, name, {key: cluster if key == CLUSTER else "*" for key in keys.split(",")}
        return
    namespace, name, *rest = metric
    pairs = [each for each in rest if isinstance(each, str)]
    yield place, namespace, name, dict(zip(pairs[::2], pairs[1::2], strict=True))


def _unknown(deployment: Deployment, namespace: str, name: str, dimensions: Mapping[str, str]) -> str:
    """Why there is no such metric, or ""."""
    if namespace.startswith("AWS/"):
        known = _OF_AWS.get((namespace, name))
        return (
            "" if known == set(dimensions) else f"{namespace} {name} by {sorted(dimensions)}, which AWS does not have"
        )
    export = EXPORTED.get(name)
    if export is None:
        return f"{name}, which no coordinator prints"
    keys = [{CLUSTER}] if export.overall else []
    keys += [{CLUSTER, export.label}] if export.label else []
    if set(dimensions) not in keys:
        return f"{name} by {sorted(dimensions)}, and it is printed by {[sorted(each) for each in keys]}"
    if dimensions[CLUSTER] != chain(deployment):
        return f"{name} of {dimensions[CLUSTER]}, which is another cluster"
    if namespace not in namespaces(deployment):
        return f"the namespace {namespace}, into which no coordinator prints"
    return ""


def namespaces(deployment: Deployment) -> set[str]:
    """Into which coordinators print their metrics."""
    return {
        variable["value"]
        for each in deployment.of("aws_ecs_task_definition")
        for container in each.document("container_definitions")
        for variable in container.get("environment", ())
        if variable["name"] == "SPARKLOG_EMF_NAMESPACE"
    }
