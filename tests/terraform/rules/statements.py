"""Statements of policies: those of roles, and those of what they are attached to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.terraform.deployment import Deployment

OF_ROLES: Final = {"aws_iam_role_policy": "policy", "aws_iam_policy": "policy"}
TRUST: Final = {"aws_iam_role": "assume_role_policy"}
OF_RESOURCES: Final = {
    "aws_s3_bucket_policy": "policy",
    "aws_sqs_queue_policy": "policy",
    "aws_sns_topic_policy": "policy",
    "aws_secretsmanager_secret_policy": "policy",
    "aws_ecr_repository_policy": "policy",
    "aws_vpc_endpoint": "policy",
    "aws_kms_key": "policy",
}


@dataclass(frozen=True)
class Statement:
    """One statement, with lists where JSON may have a single string."""

    address: str
    sid: str
    allows: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    principals: tuple[tuple[str, str], ...]
    conditions: tuple[tuple[str, str, tuple[str, ...]], ...]

    @property
    def place(self) -> str:
        return f"{self.address} {self.sid}".rstrip()

    def condition(self, key: str) -> tuple[str, ...]:
        """The values that a condition compares this key with."""
        return tuple(value for _, name, values in self.conditions if name.lower() == key.lower() for value in values)


def statements(deployment: Deployment, *kinds: dict[str, str]) -> Iterator[Statement]:
    """All statements of these kinds of policies."""
    attributes = {name: attribute for kind in kinds for name, attribute in kind.items()}
    for each in deployment.of(*attributes):
        text = each.values.get(attributes[each.type])
        if text and text.lstrip().startswith("{"):
            for statement in _listed(json.loads(text)["Statement"]):
                yield _read(each.address, statement)


def _read(address: str, statement: dict[str, Any]) -> Statement:
    principal = statement.get("Principal", {})
    principals = {"*": principal} if isinstance(principal, str) else principal
    return Statement(
        address=address,
        sid=statement.get("Sid", ""),
        allows=statement["Effect"] == "Allow",
        actions=_strings(statement.get("Action", ())) + _strings(statement.get("NotAction", ())),
        resources=_strings(statement.get("Resource", ())) + _strings(statement.get("NotResource", ())),
        principals=tuple((kind, name) for kind, names in principals.items() for name in _listed(names)),
        conditions=tuple(
            (operator, key, _strings(values))
            for operator, compared in statement.get("Condition", {}).items()
            for key, values in compared.items()
        ),
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(map(str, _listed(value))) if value != () else ()
