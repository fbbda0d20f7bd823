"""The evaluator of IAM policies: what AWS documents, case by case."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.terraform.rights.iam_policy import Asked, Policy, Right, matches

BUCKET = "arn:aws:s3:::logs"
OBJECT = f"{BUCKET}/log/append/1"


def policy(*statements: dict[str, Any]) -> Policy:
    return Policy.of_json(json.dumps({"Version": "2012-10-17", "Statement": list(statements)}))


def allow(action: object, resource: object, **condition: Any) -> dict[str, Any]:
    statement = {"Sid": "S", "Effect": "Allow", "Action": action, "Resource": resource}
    return {**statement, "Condition": condition} if condition else statement


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("s3:GetObject", "s3:GetObject", True),
        ("s3:Get*", "s3:GetObject", True),
        ("s3:Get*", "s3:PutObject", False),
        ("log/*", "log/a/b", True),  # a wildcard goes over slashes
        ("log/*", "log/", True),
        ("log/*", "log", False),
        ("log/?", "log/a", True),
        ("log/?", "log/ab", False),
        ("log.x", "logxx", False),  # other signs stand for themselves
        ("copies/*/log/*", "copies/0f/log/1", True),
        ("*", "", True),
        ("a\nb*", "a\nb", True),
    ],
)
def test_wildcards(pattern: str, value: str, fits: bool) -> None:
    assert matches(pattern, value) is fits


def test_what_no_statement_allows_is_denied() -> None:
    assert not policy().allows(Asked("s3:GetObject", OBJECT))
    assert policy(allow("s3:GetObject", OBJECT)).allows(Asked("s3:GetObject", OBJECT))
    assert not policy(allow("s3:GetObject", OBJECT)).allows(Asked("s3:GetObject", f"{OBJECT}0"))
    assert not policy(allow("s3:GetObject", OBJECT)).allows(Asked("s3:PutObject", OBJECT))


def test_actions_match_without_case_and_resources_with_case() -> None:
    assert policy(allow("S3:getobject", OBJECT)).allows(Asked("s3:GetObject", OBJECT))
    assert not policy(allow("s3:GetObject", OBJECT.replace("append", "Append"))).allows(Asked("s3:GetObject", OBJECT))


def test_a_denial_wins_over_every_allowance() -> None:
    denied = {"Effect": "Deny", "Action": "s3:*", "Resource": f"{BUCKET}/log/append/*"}
    allowed = allow(["s3:GetObject", "s3:PutObject"], ["*"])
    assert policy(allowed).allows(Asked("s3:PutObject", OBJECT))
    assert not policy(allowed, denied).allows(Asked("s3:PutObject", OBJECT))
    assert policy(allowed, denied).allows(Asked("s3:PutObject", f"{BUCKET}/log/topics/1"))


def test_a_condition_on_the_prefix_of_a_listing() -> None:
    listing = policy(allow("s3:ListBucket", BUCKET, StringLike={"s3:prefix": ["log/append/*", "log/OWNER/*"]}))
    assert listing.allows(Asked("s3:ListBucket", BUCKET, {"s3:prefix": "log/append/"}))
    assert listing.allows(Asked("s3:ListBucket", BUCKET, {"s3:prefix": "log/OWNER/1"}))
    assert not listing.allows(Asked("s3:ListBucket", BUCKET, {"s3:prefix": "log/"}))
    assert not listing.allows(Asked("s3:ListBucket", BUCKET)), "a request without the key does not fit"


def test_all_conditions_must_hold() -> None:
    both = policy(allow("s3:*", "*", StringEquals={"a": "1", "b": ["2", "3"]}, Bool={"aws:SecureTransport": "true"}))
    whole = {"a": "1", "b": "3", "aws:securetransport": "true"}
    assert both.allows(Asked("s3:GetObject", OBJECT, whole))
    for key in whole:
        assert not both.allows(Asked("s3:GetObject", OBJECT, {**whole, key: "4"}))


def test_rights_are_told_apart_and_a_request_uses_those_that_fit() -> None:
    both = policy(
        allow(["s3:GetObject", "s3:PutObject"], [f"{BUCKET}/log/append/*"]),
        allow("s3:ListBucket", BUCKET, StringLike={"s3:prefix": ["log/append/*", "log/OWNER/*"]}),
    )
    get, put, first, second = both.rights()
    assert get == Right("S", "s3:GetObject", f"{BUCKET}/log/append/*")
    assert (first.prefix, second.prefix) == ("log/append/*", "log/OWNER/*")
    asked = Asked("s3:GetObject", OBJECT)
    assert [both.uses(right, asked) for right in (get, put, first, second)] == [True, False, False, False]
    listed = Asked("s3:ListBucket", BUCKET, {"s3:prefix": "log/OWNER/"})
    assert [both.uses(right, listed) for right in (get, put, first, second)] == [False, False, False, True]


@pytest.mark.parametrize(
    "statement",
    [
        {"Effect": "Allow", "NotAction": "s3:*", "Resource": "*"},
        {"Effect": "Allow", "Action": "s3:*", "NotResource": "*"},
        allow("s3:*", "*", StringLikeIfExists={"s3:prefix": "log/*"}),
        {"Effect": "Maybe", "Action": "s3:*", "Resource": "*"},
    ],
)
def test_what_it_does_not_know_is_an_error(statement: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="can't evaluate"):
        policy(statement)


def test_a_policy_of_another_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="version 2012-10-17"):
        Policy.of_json('{"Version": "2008-10-17", "Statement": []}')
