"""Everything that is in an account of the emulators, so that a test sees what an apply made and a destroy left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from tests.terraform.emulators import Account

_Listing = Callable[[Any], Iterable[str]]


def inventory(account: Account, region: str) -> dict[str, set[str]]:
    """The names or ids of resources by kind. What AWS keeps under a deadline (a key, a secret) counts as gone."""
    clients = {service: account.client(service, region) for service in {service for service, _ in LISTINGS.values()}}
    try:
        return {kind: set(listing(clients[service])) for kind, (service, listing) in LISTINGS.items()}
    finally:
        for client in clients.values():
            client.close()


def _keys(kms: Any) -> Iterable[str]:
    for key in _all(kms, "list_keys", "Keys", "KeyId"):
        if kms.describe_key(KeyId=key)["KeyMetadata"]["KeyState"] not in ("PendingDeletion", "Disabled"):
            yield key


def _services(ecs: Any) -> Iterable[str]:
    for cluster in ecs.list_clusters()["clusterArns"]:
        for name in ecs.list_services(cluster=cluster)["serviceArns"]:
            (service,) = ecs.describe_services(cluster=cluster, services=[name])["services"]
            if service["status"] != "INACTIVE":
                yield name


def _clusters(ecs: Any) -> Iterable[str]:
    found = ecs.list_clusters()["clusterArns"]
    described = ecs.describe_clusters(clusters=found)["clusters"] if found else []
    return [each["clusterName"] for each in described if each["status"] != "INACTIVE"]


def _all(client: Any, operation: str, key: str, name: str | None = None, **arguments: Any) -> list[str]:
    """Values of all pages."""
    if client.can_paginate(operation):
        pages = list(client.get_paginator(operation).paginate(**arguments))
    else:
        pages = [getattr(client, operation)(**arguments)]
    found = [each for page in pages for each in page.get(key) or ()]
    return [each if name is None else each[name] for each in found]


def _listed(operation: str, key: str, name: str | None = None, **arguments: Any) -> _Listing:
    return lambda client: _all(client, operation, key, name, **arguments)


LISTINGS: Final[dict[str, tuple[str, _Listing]]] = {
    "buckets": ("s3", _listed("list_buckets", "Buckets", "Name")),
    "roles": ("iam", _listed("list_roles", "Roles", "RoleName")),
    "policies": ("iam", _listed("list_policies", "Policies", "PolicyName", Scope="Local")),
    "keys": ("kms", _keys),
    "aliases": ("kms", _listed("list_aliases", "Aliases", "AliasName")),
    "VPCs": ("ec2", _listed("describe_vpcs", "Vpcs", "VpcId")),
    "subnets": ("ec2", _listed("describe_subnets", "Subnets", "SubnetId")),
    "security groups": ("ec2", _listed("describe_security_groups", "SecurityGroups", "GroupId")),
    "route tables": ("ec2", _listed("describe_route_tables", "RouteTables", "RouteTableId")),
    "endpoints": ("ec2", _listed("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId")),
    "ECS clusters": ("ecs", _clusters),
    "ECS services": ("ecs", _services),
    "task definitions": ("ecs", _listed("list_task_definitions", "taskDefinitionArns", status="ACTIVE")),
    "load balancers": ("elbv2", _listed("describe_load_balancers", "LoadBalancers", "LoadBalancerName")),
    "target groups": ("elbv2", _listed("describe_target_groups", "TargetGroups", "TargetGroupName")),
    "repositories": ("ecr", _listed("describe_repositories", "repositories", "repositoryName")),
    "zones": ("route53", _listed("list_hosted_zones", "HostedZones", "Id")),
    "secrets": ("secretsmanager", _listed("list_secrets", "SecretList", "Name")),
    "log groups": ("logs", _listed("describe_log_groups", "logGroups", "logGroupName")),
    "alarms": ("cloudwatch", _listed("describe_alarms", "MetricAlarms", "AlarmName")),
    "dashboards": ("cloudwatch", _listed("list_dashboards", "DashboardEntries", "DashboardName")),
    "event rules": ("events", _listed("list_rules", "Rules", "Name")),
    "topics": ("sns", _listed("list_topics", "Topics", "TopicArn")),
    "queues": ("sqs", _listed("list_queues", "QueueUrls")),
    "schedules": ("scheduler", _listed("list_schedules", "Schedules", "Name")),
    "schedule groups": ("scheduler", _listed("list_schedule_groups", "ScheduleGroups", "Name")),
    "applications": (
        "emr-serverless",
        lambda client: [
            each["id"] for each in client.list_applications()["applications"] if each["state"] != "TERMINATED"
        ],
    ),
}
