"""Compares what was recorded with what the policies allow, in both directions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tests.terraform.rights.iam_policy import Asked, Policy, Right, matches
from tests.terraform.rights.recording import Line, Recorded
from tests.terraform.rights.rendered import KEY_ARN, REGION, STORES, Policies, bucket_arn
from tests.terraform.rights.role_processes import PREFIX
from tests.terraform.rights.s3_requests import asked_by

Name = tuple[str, str, str]  # role, action and family of keys

# The families of keys of sparklog/storage/keys.py. The first that fits counts.
FAMILIES = (
    "INCARNATION",
    "OWNER/*",
    "append/*",
    "topics/*",
    "probe/*-clock",
    "probe/*",
    "meta/log/*",
    "meta/snapshot/*",
    "meta/chunks/*",
    "meta/commands/*",
    "meta/void/*",
    "meta/restores/*",
    "copies/checkpoints/*",
    "copies/peers/*",
    "copies/*/log/*",
    "copies/*/snapshot/*",
    "copies/*/chunks/*",
    "copies/*/commands/*",
    "copies/*/void/*",
)


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
    """What a role may do, and did in no phase and on no store: each action with each family of keys that it is for.

    A pattern that is for no family at all is named itself.
    """
    idle: set[Name] = set()
    used: set[Name] = set()
    for phase, by_role in recorded.items():
        policy = policies[phase][role]
        requests = {each for text in by_role[role] for each in asked_of(Line.parse(text))}
        for right in policy.rights():
            fitting = [each for each in requests if policy.uses(right, each)]
            for family in families_of(right):
                is_used = any(is_for(each, family) for each in fitting)
                (used if is_used else idle).add((role, right.action, family))
    return idle - used


def families_of(right: Right) -> list[str]:
    """The families of keys that a right is for; else its own pattern, which is "" for whole buckets and keys of KMS."""
    pattern = pattern_of(right)
    return [family for family in FAMILIES if pattern and matches(pattern, sample_of(family))] or [pattern]


def is_for(asked: Asked, family: str) -> bool:
    """True if the request is for a key of this family, or lists such keys."""
    if family not in FAMILIES:
        return True
    prefix = asked.context.get("s3:prefix")
    if prefix is None:
        return family_of(asked.resource.partition(f"/{PREFIX}/")[2]) == family
    listed = prefix.removeprefix(f"{PREFIX}/")
    if listed.endswith("/") or not listed:  # else it is a key that was looked for, and is absent
        start = sample_of(family).rpartition("/")[0]
        shortened = re.sub("0+", "0", listed)
        return f"{start}/".startswith(shortened) or shortened.startswith(f"{start}/")
    return family_of(listed) == family


def family_of(key: str) -> str | None:
    """The family of a key: the first that fits."""
    return next((family for family in FAMILIES if matches(family, key)), None)


def sample_of(family: str) -> str:
    """A key of a family."""
    return family.replace("*", "0")


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
