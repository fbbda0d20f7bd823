"""Coordinators and agents as tasks of ECS: least rights inside, TLS all the way, each at an address of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from tests.terraform.deployment import Deployment, Resource

_SECRET_NAME: Final = re.compile(r"TOKEN|SECRET|PASSWORD|PRIVATE|ACCESS_FILE|ACCESS_KEY", re.IGNORECASE)
_SECRET_VALUE: Final = re.compile(r"PRIVATE KEY|sparklog_[A-Za-z0-9_-]{20,}|token_sha256")


def task_and_execution_roles_differ(deployment: Deployment) -> list[str]:
    """What starts a task may read its secrets; the task itself may not, and only the task reaches the stores."""
    return [
        f"{each.address} runs with the role that starts it"
        for each in deployment.of("aws_ecs_task_definition")
        if not each.values["task_role_arn"] or each.values["task_role_arn"] == each.values["execution_role_arn"]
    ]


def containers_are_locked_down(deployment: Deployment) -> list[str]:
    """Read-only root, a user other than root, no capabilities, and only /tmp can be written."""
    wrong = []
    for place, container in _containers(deployment):
        user = str(container.get("user", "0")).split(":")[0]
        if container.get("readonlyRootFilesystem") is not True:
            wrong.append(f"{place} can write to its root")
        if user in ("0", "root"):
            wrong.append(f"{place} runs as root")
        if container.get("privileged"):
            wrong.append(f"{place} is privileged")
        if container.get("linuxParameters", {}).get("capabilities", {}).get("drop") != ["ALL"]:
            wrong.append(f"{place} keeps capabilities")
        if [each["containerPath"] for each in container.get("mountPoints", ())] != ["/tmp"]:
            wrong.append(f"{place} can write elsewhere than /tmp, or nowhere")
        if container["image"].endswith(":latest") or ":" not in container["image"].rpartition("/")[2]:
            wrong.append(f"{place} has an image that may change")
        if container.get("logConfiguration", {}).get("logDriver") != "awslogs":
            wrong.append(f"{place} has no log")
    return wrong


def secrets_are_not_in_the_environment(deployment: Deployment) -> list[str]:
    """A task definition is readable for many: it names secrets, and ECS puts their values in."""
    wrong = []
    for place, container in _containers(deployment):
        wrong += [
            f"{place} has {each['name']} in plain text"
            for each in container.get("environment", ())
            if _SECRET_NAME.search(each["name"]) or _SECRET_VALUE.search(each["value"])
        ]
        wrong += [
            f"{place} takes {each['name']} from elsewhere than a secret"
            for each in container.get("secrets", ())
            if not re.match(r"arn:aws[a-z-]*:(secretsmanager|ssm):", each["valueFrom"])
        ]
    return wrong


def no_secret_is_in_the_state(deployment: Deployment) -> list[str]:
    """No value of a secret is made or known by Terraform: whoever reads the state would have it."""
    return [
        f"{each.address} keeps a secret in the state" for each in deployment.of("aws_secretsmanager_secret_version")
    ]


def coordinators_are_reached_by_tls_only(deployment: Deployment) -> list[str]:
    """The load balancer passes bytes on, the coordinator ends TLS, and the health check asks it over TLS."""
    wrong = [
        f"{each.address} ends TLS, or is not encrypted, before the coordinator"
        for each in deployment.of("aws_lb_listener")
        if each.values["protocol"] != "TCP"
    ]
    for each in deployment.of("aws_lb_target_group"):
        (check,) = each.values["health_check"]
        if (check["protocol"], check["path"]) != ("HTTPS", "/healthz"):
            wrong.append(f"{each.address} is checked by {check['protocol']} at {check['path']}, not HTTPS at /healthz")
    for place, container in _containers(deployment, "coordinator"):
        command = " ".join(container["command"])
        if not all(option in command for option in ("--tls-certificate", "--tls-key", "--access ")):
            wrong.append(f"{place} listens without TLS or without an access file")
        if not _environment(container).get("SPARKLOG_ADVERTISE", "").startswith("https://"):
            wrong.append(f"{place} advertises an address that is not https")
    return wrong


def each_coordinator_has_its_own_address(deployment: Deployment) -> list[str]:
    """As many listeners, target groups and services of one task as coordinators, each in the next zone."""
    coordinators = list(_containers(deployment, "coordinator"))
    if not coordinators:
        return []
    advertised = [_environment(container).get("SPARKLOG_ADVERTISE", "") for _, container in coordinators]
    ports = sorted(urlsplit(url).port or 0 for url in advertised)
    listeners = sorted(each.values["port"] for each in deployment.of("aws_lb_listener"))
    services = [each for each in deployment.of("aws_ecs_service") if each.values["load_balancer"]]
    wrong = []
    if len(coordinators) < 2:
        wrong.append("there is one coordinator: nothing is committed while it is replaced")
    if ports != listeners or len(set(ports)) != len(ports):
        wrong.append(f"coordinators advertise the ports {ports}, and listeners are at {listeners}")
    if len(services) != len(coordinators) or any(each.values["desired_count"] != 1 for each in services):
        wrong.append("a coordinator has no service of one task")
    if len({tuple(each.values["network_configuration"][0]["subnets"]) for each in services}) < 2:
        wrong.append("all coordinators are in one zone")
    groups = [group["target_group_arn"] for each in services for group in each.values["load_balancer"]]
    if len(set(groups)) != len(coordinators):
        wrong.append("coordinators share a target group")
    wrong += [
        f"{each.address} starts the new coordinator beside the old one"
        for each in services
        if (each.values["deployment_minimum_healthy_percent"], each.values["deployment_maximum_percent"]) != (0, 100)
    ]
    return wrong


def only_coordinators_know_the_metadata(deployment: Deployment) -> list[str]:
    """Coordinators get the address of the chain; agents get the addresses of all coordinators."""
    wrong = []
    cluster = chain(deployment)
    url = addresses(deployment)
    for place, container in _containers(deployment):
        given = _environment(container).get("SPARKLOG_CLUSTER")
        wanted = cluster if container["name"] == "coordinator" else url or cluster
        if given != wanted:
            wrong.append(f"{place} has SPARKLOG_CLUSTER={given}, wanted {wanted}")
    if (given := deployment.outputs["sparklog_cluster"]) != (url or cluster):
        wrong.append(f"the output sparklog_cluster is {given}, wanted {url or cluster}")
    return wrong


def chain(deployment: Deployment) -> str:
    """The address of the metadata chain, which the command that creates the cluster names."""
    found = re.search(r"--cluster\s+(\S+)", deployment.outputs["init_command"])
    return found[1] if found else ""


def addresses(deployment: Deployment) -> str:
    """The addresses of the coordinators, in the order of their ports; empty without coordinators."""
    found = [
        _environment(container).get("SPARKLOG_ADVERTISE", "") for _, container in _containers(deployment, "coordinator")
    ]
    return ",".join(sorted(found))


def _containers(deployment: Deployment, name: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    for each in deployment.of("aws_ecs_task_definition"):
        for container in each.document("container_definitions"):
            if name in (None, container["name"]):
                yield f"{each.address} {container['name']}", container


def _environment(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container.get("environment", ())}


def services_restart_what_fails(deployment: Deployment) -> list[str]:
    """A deployment that does not come up is taken back."""
    return [f"{each.address} has no circuit breaker" for each in deployment.of("aws_ecs_service") if not _breaks(each)]


def _breaks(service: Resource) -> bool:
    return [(each["enable"], each["rollback"]) for each in service.values["deployment_circuit_breaker"]] == [
        (True, True)
    ]
