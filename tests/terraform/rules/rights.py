"""Who may do what: no policy opens more than its reason demands."""

from __future__ import annotations

import re
from typing import Final

from tests.terraform.deployment import Deployment
from tests.terraform.rules.statements import OF_RESOURCES, OF_ROLES, TRUST, statements

# Requests for which IAM knows no narrower resource than `*`.
_FOR_EVERYTHING: Final = {
    "ecr:GetAuthorizationToken": "it is for no repository",
    "logs:DescribeLogGroups": "EMR looks for its group in the list of all",
}
_WIDE_ACTIONS: Final = {
    "kms:*": "the statement by which IAM of the account decides about a key",
    "kms:GenerateDataKey*": "as CloudWatch Logs asks for it, in the policy of a key",
    "kms:ReEncrypt*": "as CloudWatch Logs asks for it, in the policy of a key",
}
_BOUNDS: Final = (
    *("aws:SourceAccount", "aws:SourceArn"),
    *("kms:EncryptionContext:aws:logs:arn", "kms:EncryptionContext:aws:sns:topicArn"),
)


def no_policy_lets_anybody_in(deployment: Deployment) -> list[str]:
    """No statement allows something to `*`, or to a whole other account."""
    return [
        f"{each.place} lets {name} in"
        for each in statements(deployment, TRUST, OF_RESOURCES)
        if each.allows
        for _, name in each.principals
        if "*" in name
    ]


def no_role_has_a_wide_right(deployment: Deployment) -> list[str]:
    """A role's statements name each action, and the resources they are for."""
    wrong = []
    for each in statements(deployment, OF_ROLES):
        if each.allows:
            wrong += [f"{each.place} allows {action}" for action in each.actions if "*" in action]
            if any(_is_wide(resource) for resource in each.resources) and not set(each.actions) <= set(_FOR_EVERYTHING):
                wrong.append(f"{each.place} allows {', '.join(each.actions)} on everything")
    return wrong


def no_resource_has_a_wide_right(deployment: Deployment) -> list[str]:
    """The policy of a bucket, a queue, a topic, a secret or a key names each action. `*` is that resource itself."""
    return [
        f"{each.place} allows {action}"
        for each in statements(deployment, OF_RESOURCES)
        if each.allows
        for action in each.actions
        if "*" in action and not (action in _WIDE_ACTIONS and ".aws_kms_key." in f".{each.address}")
    ]


def services_act_for_this_account_only(deployment: Deployment) -> list[str]:
    """Where a service is let in, a condition says for which account or resource, so nobody else can send it.

    A key that serves through Secrets Manager alone is bound by the policy of the secret.
    """
    return [
        f"{each.place} lets {', '.join(services)} in for any account"
        for each in statements(deployment, TRUST, OF_RESOURCES)
        if each.allows and (services := [name for kind, name in each.principals if kind == "Service"])
        if not any(each.condition(key) for key in _BOUNDS)
        if not any(through.startswith("secretsmanager.") for through in each.condition("kms:ViaService"))
    ]


def rights_are_bound_by_conditions(deployment: Deployment) -> list[str]:
    """Keys serve through one service, listings name a prefix, a role is passed on to one service."""
    wrong = []
    for each in statements(deployment, OF_ROLES):
        actions = {action.lower() for action in each.actions}
        if not each.allows:
            continue
        if any(action.startswith("kms:") for action in actions) and not each.condition("kms:ViaService"):
            wrong.append(f"{each.place} uses a key without kms:ViaService")
        if "s3:listbucket" in actions and not each.condition("s3:prefix"):
            wrong.append(f"{each.place} lists a whole bucket")
        if "iam:passrole" in actions and (
            not each.condition("iam:PassedToService") or any("*" in resource for resource in each.resources)
        ):
            wrong.append(f"{each.place} passes on more than one role, or to any service")
        if actions & {"s3:putobject", "s3:deleteobject", "s3:getobject"}:
            wrong += [
                f"{each.place} reaches a whole bucket: {resource}"
                for resource in each.resources
                if re.fullmatch(r"arn:[^:]+:s3:::[^/]+(/\*?)?", resource)
            ]
    return wrong


def only_maintenance_deletes(deployment: Deployment) -> list[str]:
    """A producer, a consumer or an agent deletes nothing; a coordinator deletes no records."""
    names = {each.values["id"]: each.values["name"] for each in deployment.of("aws_iam_role")}
    roles = {each.address: names.get(each.values["role"], "") for each in deployment.of("aws_iam_role_policy")}
    wrong = []
    for each in statements(deployment, OF_ROLES):
        role = roles.get(each.address, "")
        if each.allows and any(action.startswith("s3:Delete") for action in each.actions):
            if role.endswith(("-producer", "-consumer", "-agent")):
                wrong.append(f"{each.place} lets {role} delete")
            if role.endswith(("-coordinator", "-operator")):
                wrong += [
                    f"{each.place} lets {role} delete {resource}"
                    for resource in each.resources
                    if re.search(r"/(append|topics)/", resource)
                ]
        if role.endswith("-consumer") and any(action.startswith("s3:Put") for action in each.actions):
            wrong.append(f"{each.place} lets {role} write")
    return wrong


def _is_wide(resource: str) -> bool:
    """`*`, or an ARN with a wildcard in the place of its resource."""
    return resource == "*" or re.fullmatch(r"arn:[^:]*:[^:]*:[^:]*:[^:]*:\*", resource) is not None
