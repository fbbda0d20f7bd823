"""Requests of S3 as IAM sees them: one action each, and what copies, absent objects and encryption ask for besides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.servers.fault_proxy_rules import Request
from tests.terraform.rights.iam_policy import Asked
from tests.terraform.rights.s3_requests import asked_by

KEY = "arn:aws:kms:eu-central-1:111122223333:key/1"
VIA = {"kms:viaservice": "s3.eu-central-1.amazonaws.com"}


def asked(method: str, path: str, query: str = "", status: int = 200, source: str = "") -> list[str]:
    headers = {"x-amz-copy-source": source} if source else {}
    request = replace(Request(1, method, path, query, headers), status=status)
    found = list(asked_by(request, KEY, "eu-central-1"))
    assert all(each.context == VIA for each in found if each.action.startswith("kms:"))
    return [str(each).replace("arn:aws:s3:::", "").replace(KEY, "key") for each in found]


@pytest.mark.parametrize(
    ("method", "query", "wanted"),
    [
        ("GET", "", ["s3:GetObject b/log/k", "kms:Decrypt key"]),
        ("HEAD", "", ["s3:GetObject b/log/k", "kms:Decrypt key"]),
        ("PUT", "", ["s3:PutObject b/log/k", "kms:GenerateDataKey key"]),
        ("POST", "uploads", ["s3:PutObject b/log/k", "kms:GenerateDataKey key"]),
        ("PUT", "partNumber=1&uploadId=u", ["s3:PutObject b/log/k", "kms:GenerateDataKey key", "kms:Decrypt key"]),
        ("POST", "uploadId=u", ["s3:PutObject b/log/k", "kms:Decrypt key"]),
        ("DELETE", "uploadId=u", ["s3:AbortMultipartUpload b/log/k"]),
        ("DELETE", "", ["s3:DeleteObject b/log/k"]),
    ],
)
def test_requests_for_an_object(method: str, query: str, wanted: list[str]) -> None:
    assert asked(method, "/b/log/k", query) == wanted


def test_listings() -> None:
    assert asked("GET", "/b", "list-type=2&prefix=log%2Fappend%2F") == ["s3:ListBucket b s3:prefix=log/append/"]
    assert asked("GET", "/b", "list-type=2") == ["s3:ListBucket b"]
    assert asked("GET", "/b", "uploads&prefix=log%2F") == ["s3:ListBucketMultipartUploads b"]


def test_an_object_that_is_absent_must_be_one_that_may_be_listed() -> None:
    assert asked("GET", "/b/log/k", status=404) == ["s3:GetObject b/log/k", "s3:ListBucket b s3:prefix=log/k"]


def test_a_copy_also_reads_its_source() -> None:
    found = asked("PUT", "/b/log/k", "partNumber=1&uploadId=u", source="/other/log/%6B")
    assert found[:2] == ["s3:PutObject b/log/k", "s3:GetObject other/log/k"]


def test_a_key_is_decoded() -> None:
    assert list(asked_by(Request(1, "DELETE", "/b/log/a%20b", "", {}), KEY, "r")) == [
        Asked("s3:DeleteObject", "arn:aws:s3:::b/log/a b")
    ]


def test_a_request_without_a_rule_is_an_error() -> None:
    with pytest.raises(ValueError, match="no rule says"):
        list(asked_by(Request(1, "PUT", "/b", "", {}), KEY, "r"))
