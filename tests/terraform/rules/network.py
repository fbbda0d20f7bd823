"""Addresses and ports: nothing is public, and nobody talks to anybody without a security group that says so."""

from __future__ import annotations

from typing import Final

from tests.terraform.deployment import Deployment, Resource

_HTTPS: Final = range(443, 444)
_COORDINATORS: Final = range(7400, 7405)
_WORLD: Final = ("0.0.0.0/0", "::/0")
INGRESS: Final = "aws_vpc_security_group_ingress_rule"
EGRESS: Final = "aws_vpc_security_group_egress_rule"


def no_port_is_open(deployment: Deployment) -> list[str]:
    """Only security groups are let in, at the ports of coordinators and of HTTPS."""
    wrong = []
    for each in deployment.of(INGRESS):
        if not each.values.get("referenced_security_group_id"):
            wrong.append(f"{each.address} lets addresses in instead of a security group")
        wrong += _wide_ports(each)
    wrong += [f"{each.address} has rules beside its own resources" for each in deployment.of("aws_security_group_rule")]
    return wrong


def egress_is_for_https_and_coordinators(deployment: Deployment) -> list[str]:
    """What runs here talks to coordinators, to AWS and to stores, and to nothing else."""
    wrong = []
    for each in deployment.of(EGRESS):
        wrong += _wide_ports(each)
        if each.values.get("cidr_ipv4") in _WORLD and ports(each) != _HTTPS:
            wrong.append(f"{each.address} lets something other than HTTPS out to the world")
    return wrong


def nothing_has_a_public_address(deployment: Deployment) -> list[str]:
    """Load balancers are internal, tasks and the subnets of tasks give no public address."""
    wrong = [f"{each.address} is public" for each in deployment.of("aws_lb") if each.values["internal"] is not True]
    wrong += [
        f"{each.address} gives public addresses"
        for each in deployment.of("aws_subnet")
        if each.values["map_public_ip_on_launch"]
    ]
    for each in deployment.of("aws_ecs_service"):
        (network,) = each.values["network_configuration"]
        if network["assign_public_ip"] is not False:
            wrong.append(f"{each.address} gives its tasks a public address")
        if not network["security_groups"]:
            wrong.append(f"{each.address} has the default security group")
    return wrong


def stores_are_reached_without_a_gateway(deployment: Deployment) -> list[str]:
    """A new VPC has the gateway endpoint for S3: no byte of the log goes through a NAT gateway."""
    kinds = {
        each.values["service_name"].split(".")[-1]: each.values["vpc_endpoint_type"] for each in _endpoints(deployment)
    }
    if deployment.of("aws_vpc") and kinds.get("s3") != "Gateway":
        return ["the VPC has no gateway endpoint for S3"]
    return []


def _endpoints(deployment: Deployment) -> list[Resource]:
    return deployment.of("aws_vpc_endpoint")


def ports(rule: Resource) -> range:
    """The ports that a rule of a security group opens."""
    values = rule.values
    if values["ip_protocol"] != "tcp" or values.get("from_port") is None:
        return range(65536)
    return range(values["from_port"], values["to_port"] + 1)


def _wide_ports(rule: Resource) -> list[str]:
    opened = ports(rule)
    if any(opened.start >= allowed.start and opened.stop <= allowed.stop for allowed in (_HTTPS, _COORDINATORS)):
        return []
    return [f"{rule.address} opens ports {opened.start}-{opened.stop - 1}"]
