"""Deleting many keys on S3: in bulk, and one by one whatever the bulk request did not delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sparklog.core.errors import StoreReadOnly, StoreUnavailable
from sparklog.storage.s3.store import S3Store

Answer = Callable[[list[str]], dict[str, Any]]


class Bucket:
    """Notes the requests; `bulk` answers those for many keys."""

    def __init__(self, bulk: Answer, single: Exception | None = None) -> None:
        self.bulk, self.single = bulk, single
        self.requests: list[list[str]] = []

    def repeat_small(self, wanted: str, operation: str, **parameters: Any) -> dict[str, Any]:
        if operation == "delete_object":
            self.requests.append([parameters["Key"]])
            if self.single:
                raise self.single
            return {}
        keys = [entry["Key"] for entry in parameters["Delete"]["Objects"]]
        self.requests.append(keys)
        return self.bulk(keys)


def store(bucket: Bucket) -> S3Store:
    made = S3Store("s3://bucket/p", {})
    made._bucket = bucket  # type: ignore[assignment]
    return made


def all_of_them(keys: list[str]) -> dict[str, Any]:
    return {"Deleted": [{"Key": key} for key in keys]}


def not_supported(keys: list[str]) -> dict[str, Any]:
    raise StoreUnavailable("501 NotImplemented")


def test_a_thousand_keys_go_in_a_request() -> None:
    bucket = Bucket(all_of_them)
    store(bucket).delete_many([f"k{number}" for number in range(2_500)])
    assert sorted(map(len, bucket.requests)) == [500, 1_000, 1_000]
    assert bucket.requests[0][0].startswith("p/k")


@pytest.mark.parametrize(
    "bulk",
    [not_supported, lambda keys: {}, lambda keys: {"Errors": [{"Key": key} for key in keys]}],
    ids=["not supported", "a web page", "errors"],
)
def test_what_the_answer_does_not_name_as_deleted_is_deleted_one_by_one(bulk: Answer) -> None:
    bucket = Bucket(bulk)
    store(bucket).delete_many(["a", "b"])
    assert sorted(bucket.requests) == [["p/a"], ["p/a", "p/b"], ["p/b"]]
    partly = Bucket(lambda keys: all_of_them(keys[:1]))
    store(partly).delete_many(["a", "b"])
    assert partly.requests == [["p/a", "p/b"], ["p/b"]]


def test_a_key_that_can_not_be_deleted_either_way_is_an_error() -> None:
    bucket = Bucket(not_supported, StoreReadOnly("refused"))
    with pytest.raises(StoreReadOnly, match="refused"):
        store(bucket).delete_many(["a", "b"])
    assert len(bucket.requests) == 3
