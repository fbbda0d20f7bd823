"""Compares what was recorded with what the policies allow, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.terraform.rights.iam_policy import Asked, Policy, Right
from tests.terraform.rights.recording import Line, Recorded
from tests.terraform.rights.rendered import KEY_ARN, REGION, STORES, Policies, bucket_arn
from tests.terraform.rights.role_processes import PREFIX
from tests.terraform.rights.s3_requests import asked_by

Name = tuple[str, str, str]  # role, action and key pattern


def denied(policies: Policies, recorded: Recorded, role: str) -> list[str]:
    """The requests of a role that IAM would have refused, each with the right that is missing."""
    return sorted(
        {
            f"{phase}: {text}: {each}"
            for phase, by_role in recorded.items()
            for text in by_role[role]
            for each in asked_of(Line.parse(text))
            if not policies[phase][role].allows(each)
        }
    )


def unused(policies: Policies, recorded: Recorded, role: str) -> set[Name]:
    """The rights of a role of which no request made use, in any phase and on any store."""
    idle: set[Name] = set()
    used: set[Name] = set()
    for phase, by_role in recorded.items():
        policy = policies[phase][role]
        requests = {each for text in by_role[role] for each in asked_of(Line.parse(text))}
        for right in policy.rights():
            is_used = any(policy.uses(right, each) for each in requests)
            (used if is_used else idle).add((role, right.action, pattern_of(right)))
    return idle - used


def asked_of(line: Line) -> Iterator[Asked]:
    """What a line asks of IAM, with the names of buckets that the policies have."""
    for each in asked_by(line.request, KEY_ARN, REGION):
        store = each.resource.removeprefix("arn:aws:s3:::")
        yield replace(each, resource=f"arn:aws:s3:::store-{store}" if store != each.resource else store)


def pattern_of(right: Right) -> str:
    """The key pattern of a right, without the prefix of the store; "" for a right on a whole bucket or a key of KMS."""
    if right.prefix is not None:
        return right.prefix.removeprefix(f"{PREFIX}/")
    return right.resource.partition(f"/{PREFIX}/")[2]


def may(policy: Policy, action: str, key: str) -> bool:
    """Whether a role may do this with this key in any store."""
    return any(policy.allows(Asked(action, f"{bucket_arn(store)}/{PREFIX}/{key}")) for store in STORES)
