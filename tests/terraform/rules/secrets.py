"""Roles and secrets of processes: each has its own, and what starts it may read exactly what its containers name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tests.terraform.deployment import Deployment, Resource
from tests.terraform.rules.jobs import start_of, submit_of
from tests.terraform.rules.statements import OF_RESOURCES, OF_ROLES, Statement, statements

# The end of the name of the secret that each variable takes, where this deployment makes the secret.
_SECRETS: Final = {
    ("coordinator", "TLS_CERTIFICATE"): "-tls",
    ("coordinator", "TLS_PRIVATE_KEY"): "-tls",
    ("coordinator", "ACCESS_FILE"): "-access",
    ("agent", "SPARKLOG_TOKEN"): "-agent-token",
    ("operator", "SPARKLOG_TOKEN"): "-operator-token",
}


def tasks_have_the_role_of_their_name(deployment: Deployment) -> list[str]:
    """A coordinator, an agent or an operator has the role of that name; jobs have that of maintenance."""
    names = {each.values["arn"]: each.values["name"] for each in deployment.of("aws_iam_role")}
    wrong = [
        f"{definition.address} has the role {name}"
        for definition, container in _containers(deployment)
        if not (name := names.get(definition.values["task_role_arn"], "")).endswith(f"-{container['name']}")
    ]
    for each in deployment.of("aws_scheduler_schedule"):
        role = names.get(start_of(each)["ExecutionRoleArn"], "")
        if not role.endswith("-maintenance"):
            wrong.append(f"{each.address} runs with the role {role}")
    return wrong


def tasks_can_read_their_secrets(deployment: Deployment) -> list[str]:
    """What starts a task may get each secret that its containers name, and decrypt it; nothing else."""
    keys = {each.values["arn"]: each.values["kms_key_id"] for each in deployment.of("aws_secretsmanager_secret")}
    wrong = []
    for definition, container in _containers(deployment):
        own = _of_role(deployment, definition.values["execution_role_arn"])
        readable = {
            place for each in own if "secretsmanager:GetSecretValue" in each.actions for place in each.resources
        }
        decrypted = {
            place
            for each in own
            if "kms:Decrypt" in each.actions
            and all(through.startswith("secretsmanager.") for through in each.condition("kms:ViaService"))
            for place in each.resources
        }
        for secret in _secrets(container).values():
            if secret not in readable:
                wrong.append(f"{definition.address} names {secret}, which its execution role can't read")
            if keys.get(secret) and keys[secret] not in decrypted:
                wrong.append(f"{definition.address} names {secret}, which its execution role can't decrypt")
    return wrong


def secrets_go_to_those_they_are_for(deployment: Deployment) -> list[str]:
    """Agents, jobs and operators each have a token of their own, where the deployment makes the secrets."""
    made = {each.values["arn"]: each.values["name"] for each in deployment.of("aws_secretsmanager_secret")}
    return [
        f"{definition.address} takes {variable} from {made[secret]}"
        for definition, container in _containers(deployment)
        for variable, secret in _secrets(container).items()
        if secret in made and not made[secret].endswith(_SECRETS[container["name"], variable])
    ]


def jobs_can_read_their_token(deployment: Deployment) -> list[str]:
    """A job names the one secret that its policy and its key let the application read: the token of jobs."""
    secrets = {each.values["arn"]: each.values for each in deployment.of("aws_secretsmanager_secret")}
    places = {each.address: each.values["secret_arn"] for each in deployment.of("aws_secretsmanager_secret_policy")}
    readable = {
        # The name that is in the ARN of a secret ends with a hyphen and six characters.
        secrets[arn]["name"] if arn in secrets else re.sub(r"-.{6}$", "", arn.rpartition(":")[2]): arn
        for each in statements(deployment, OF_RESOURCES)
        if each.address in places and each.allows and "secretsmanager:GetSecretValue" in each.actions
        for arn in [places[each.address]]
    }
    wrong = []
    for each in deployment.of("aws_scheduler_schedule"):
        for name in re.findall(r"EMR\.secret@(\S+)", submit_of(each)["SparkSubmitParameters"]):
            secret = secrets.get(readable.get(name, ""))
            if name not in readable:
                wrong.append(f"{each.address} names the secret {name}, which its application can't read")
            elif secret and not (name.endswith("-job-token") and _decrypts(deployment, secret["kms_key_id"], name)):
                wrong.append(f"{each.address} names the secret {name}, which is not for it, or which it can't decrypt")
    return wrong


def _decrypts(deployment: Deployment, key: str, secret: str) -> bool:
    """True if the policy of the key lets EMR decrypt this secret, through Secrets Manager."""
    places = {each.address for each in deployment.of("aws_kms_key") if each.values["arn"] == key}
    return any(
        each.address in places
        and ("Service", "emr-serverless.amazonaws.com") in each.principals
        and "kms:Decrypt" in each.actions
        and any(arn.endswith(f":secret:{secret}-*") for arn in each.condition("kms:EncryptionContext:SecretARN"))
        for each in statements(deployment, OF_RESOURCES)
    )


def _of_role(deployment: Deployment, arn: str) -> list[Statement]:
    """What a role may do."""
    roles = {each.values["id"] for each in deployment.of("aws_iam_role") if each.values["arn"] == arn}
    places = {each.address for each in deployment.of("aws_iam_role_policy") if each.values["role"] in roles}
    return [each for each in statements(deployment, OF_ROLES) if each.address in places and each.allows]


def _containers(deployment: Deployment) -> Iterator[tuple[Resource, dict[str, Any]]]:
    for each in deployment.of("aws_ecs_task_definition"):
        for container in each.document("container_definitions"):
            yield each, container


def _secrets(container: dict[str, Any]) -> dict[str, str]:
    """The ARN of the secret of each variable, without the key of its JSON."""
    return {each["name"]: ":".join(each["valueFrom"].split(":")[:7]) for each in container.get("secrets", ())}
