"""Whether IAM policies allow a request: effects, actions and resources with wildcards, and the conditions used here.

As documented in the IAM User Guide, "Policy evaluation logic": denied unless a statement allows it, and whatever a
statement denies is denied. An unknown element or operator is an error: a policy that is read by halves proves nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

OPERATORS = {"StringEquals", "StringLike", "Bool"}
ELEMENTS = {"Sid", "Effect", "Action", "Resource", "Condition", "Principal"}


@dataclass(frozen=True)
class Asked:
    """One request as IAM sees it. `context` has the condition keys of the request, by lower-case name."""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        where = "".join(f" {key}={value}" for key, value in self.context.items() if key != "kms:viaservice")
        return f"{self.action} {self.resource}{where}"


@dataclass(frozen=True)
class Right:
    """One action of one statement on one resource, and one value of its first condition if that is on a prefix."""

    sid: str
    action: str
    resource: str
    prefix: str | None = None

    def __str__(self) -> str:
        return f"{self.action} {self.resource}" + (f" prefix {self.prefix}" if self.prefix is not None else "")


@dataclass(frozen=True)
class Policy:
    """The statements of a policy document."""

    statements: Sequence[Mapping[str, Any]]

    @classmethod
    def of_json(cls, text: str) -> Policy:
        """Parse a policy. Raises ValueError for what this file does not understand."""
        document = json.loads(text)
        if document.get("Version") != "2012-10-17" or set(document) - {"Version", "Id", "Statement"}:
            raise ValueError(f"wanted a policy of version 2012-10-17, found {text[:100]}")
        statements = _listed(document["Statement"])
        for statement in statements:
            unknown = set(statement) - ELEMENTS | set(statement.get("Condition", {})) - OPERATORS
            if unknown or statement["Effect"] not in ("Allow", "Deny"):
                raise ValueError(f"can't evaluate {sorted(unknown) or statement['Effect']} of {statement}")
        return cls(statements)

    def allows(self, asked: Asked) -> bool:
        """Whether the request is allowed by this policy alone."""
        effects = {statement["Effect"] for statement in self.statements if _fits(statement, asked)}
        return effects == {"Allow"}

    def rights(self) -> list[Right]:
        """Everything that is allowed, one action, resource and prefix at a time."""
        return [
            Right(statement.get("Sid", ""), action, resource, prefix)
            for statement in self.statements
            if statement["Effect"] == "Allow"
            for action in _listed(statement["Action"])
            for resource in _listed(statement["Resource"])
            for prefix in _prefixes(statement)
        ]

    def uses(self, right: Right, asked: Asked) -> bool:
        """Whether the request makes use of this right."""
        return (
            matches(right.action, asked.action, ignore_case=True)
            and matches(right.resource, asked.resource)
            and (right.prefix is None or matches(right.prefix, asked.context.get("s3:prefix", "\0")))
        )


def matches(pattern: str, value: str, *, ignore_case: bool = False) -> bool:
    """Whether a pattern with `*` (any characters, / included) and `?` (one of them) is the whole of a value."""
    return _compiled(pattern, ignore_case).fullmatch(value) is not None


@cache
def _compiled(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    parts = {"*": ".*", "?": "."}
    text = "".join(parts.get(sign, re.escape(sign)) for sign in pattern)
    return re.compile(text, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _fits(statement: Mapping[str, Any], asked: Asked) -> bool:
    return (
        any(matches(action, asked.action, ignore_case=True) for action in _listed(statement["Action"]))
        and any(matches(resource, asked.resource) for resource in _listed(statement["Resource"]))
        and all(
            _holds(operator, key, _listed(wanted), asked.context)
            for operator, keys in statement.get("Condition", {}).items()
            for key, wanted in keys.items()
        )
    )


def _holds(operator: str, key: str, wanted: Iterable[str], context: Mapping[str, str]) -> bool:
    """A key that the request does not have makes each of these conditions false."""
    found = context.get(key.lower())
    if found is None:
        return False
    if operator == "StringLike":
        return any(matches(each, found) for each in wanted)
    if operator == "Bool":
        return any(str(each).lower() == found.lower() for each in wanted)
    return found in wanted


def _prefixes(statement: Mapping[str, Any]) -> Sequence[str | None]:
    for operator in ("StringLike", "StringEquals"):
        wanted = statement.get("Condition", {}).get(operator, {}).get("s3:prefix")
        if wanted is not None:
            return _listed(wanted)
    return [None]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
