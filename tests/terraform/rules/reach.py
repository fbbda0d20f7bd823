"""Connections: security groups let each process reach what it needs, by the ports at which that listens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tests.terraform.deployment import Deployment
from tests.terraform.rules.network import EGRESS, INGRESS, ports

_HTTPS: Final = 443
_WORLD: Final = "0.0.0.0/0"


def processes_have_their_own_groups(deployment: Deployment) -> list[str]:
    """Clients, coordinators, load balancers and endpoints have different security groups."""
    kinds = _groups(deployment)
    return [
        f"{one} and {other} have the same security group"
        for one in kinds
        for other in kinds
        if one < other and kinds[one] & kinds[other]
    ]


def clients_reach_coordinators(deployment: Deployment) -> list[str]:
    """Clients reach the load balancer at each listener, and it reaches coordinators where they listen."""
    groups = _groups(deployment)
    listeners = {each.values["port"] for each in deployment.of("aws_lb_listener")}
    served = {each.values["port"] for each in deployment.of("aws_lb_target_group")}
    return [
        *_unreached(deployment, "clients", groups["clients"], "load balancers", groups["load balancers"], listeners),
        *_unreached(
            deployment, "load balancers", groups["load balancers"], "coordinators", groups["coordinators"], served
        ),
    ]


def processes_reach_aws(deployment: Deployment) -> list[str]:
    """Clients and coordinators reach the endpoints of AWS, or addresses outside in their place, and S3."""
    groups = _groups(deployment)
    has_endpoints = any(each.values["vpc_endpoint_type"] == "Interface" for each in deployment.of("aws_vpc_endpoint"))
    wrong = []
    for kind in ("clients", "coordinators"):
        wrong += _unreached(deployment, kind, groups[kind], "endpoints", groups["endpoints"], {_HTTPS})
        for group in sorted(groups[kind]):
            out = [
                each.values
                for each in deployment.of(EGRESS)
                if each.values["security_group_id"] == group and _HTTPS in ports(each)
            ]
            world = any(each["cidr_ipv4"] == _WORLD for each in out)
            if not (world or any(each["prefix_list_id"] for each in out)):
                wrong.append(f"{kind} don't reach S3")
            if not (has_endpoints or any(each["cidr_ipv4"] for each in out)):
                wrong.append(f"{kind} reach no service of AWS")
    return wrong


def endpoints_are_found_by_name(deployment: Deployment) -> list[str]:
    """A new VPC resolves names, those of endpoints included."""
    return [
        f"{each.address} does not resolve the names of endpoints"
        for each in deployment.of("aws_vpc")
        if not (each.values["enable_dns_support"] and each.values["enable_dns_hostnames"])
    ]


def health_checks_ask_the_coordinator(deployment: Deployment) -> list[str]:
    """The load balancer asks at the port that it passes on, and only 200 is an answer."""
    wrong = []
    for each in deployment.of("aws_lb_target_group"):
        (check,) = each.values["health_check"]
        if check["port"] not in ("traffic-port", str(each.values["port"])) or check["matcher"] != "200":
            wrong.append(f"{each.address} is checked at port {check['port']} for {check['matcher']}")
    return wrong


def _groups(deployment: Deployment) -> Mapping[str, set[str]]:
    """The security groups of each kind of process. Clients are agents, jobs, and the task of the operator."""
    services = deployment.of("aws_ecs_service")
    of_tasks = {
        is_served: {
            group
            for each in services
            if bool(each.values["load_balancer"]) is is_served
            for network in each.values["network_configuration"]
            for group in network["security_groups"]
        }
        for is_served in (True, False)
    }
    of_jobs = {
        group
        for each in deployment.of("aws_emrserverless_application")
        for network in each.values["network_configuration"] or ()
        for group in network["security_group_ids"] or ()
    }
    function = deployment.outputs.get("operator_function") or ""
    of_operators = {each.values["id"] for each in deployment.of("aws_security_group") if each.values["id"] in function}
    return {
        "clients": of_tasks[False] | of_jobs | of_operators,
        "coordinators": of_tasks[True],
        "load balancers": {group for each in deployment.of("aws_lb") for group in each.values["security_groups"]},
        "endpoints": {
            group
            for each in deployment.of("aws_vpc_endpoint")
            if each.values["vpc_endpoint_type"] == "Interface"
            for group in each.values["security_group_ids"] or ()
        },
    }


def _unreached(
    deployment: Deployment, kind: str, sources: Iterable[str], other: str, targets: Iterable[str], wanted: Iterable[int]
) -> list[str]:
    """What the sources can't reach of the targets: one rule must let out, and another one in."""
    return [
        f"{kind} don't reach {other} at port {port}"
        for source in sorted(sources)
        for target in sorted(targets)
        for port in sorted(wanted)
        if not (
            _allows(deployment, EGRESS, source, target, port) and _allows(deployment, INGRESS, target, source, port)
        )
    ]


def _allows(deployment: Deployment, type_: str, group: str, other: str, port: int) -> bool:
    return any(
        each.values["security_group_id"] == group
        and each.values["referenced_security_group_id"] == other
        and port in ports(each)
        for each in deployment.of(type_)
    )
