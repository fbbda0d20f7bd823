"""The S3 requests of operations: as many for a short and a long log, no LIST on a hot path, and documented."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.request_counts import PAGE, Counted, measure, page_with, proxied, table
from tests.servers.s3_servers import ministack

SHORT, LONG = 10, 200  # appends


@pytest.fixture(scope="module")
def measured() -> Iterator[tuple[list[Counted], list[Counted]]]:
    with ministack() as server, proxied(server) as proxy:
        bucket = server.new_bucket()
        yield measure(proxy, bucket, SHORT), measure(proxy, bucket, LONG)


Measured = tuple[list[Counted], list[Counted]]


def test_requests_do_not_grow_with_the_log(measured: Measured) -> None:
    short, long = measured
    for few, many in zip(short, long, strict=True):
        assert few.counts == many.counts, "\n".join(
            str(each) for each in (few.operation, *few.requests, *many.requests)
        )


def test_only_opening_lists_and_only_for_one_key(measured: Measured) -> None:
    for each in (*measured[0], *measured[1]):
        lists = [request for request in each.requests if request.kind == "LIST"]
        if each.operation != "open a cluster":
            assert not lists, each.operation
            continue
        newest_snapshot, beyond_the_end = lists
        assert "meta%2Fsnapshot%2F" in newest_snapshot.query
        assert "meta%2Flog%2F" in beyond_the_end.query
        assert all("max-keys=1&" in f"{request.query}&" for request in lists)


def test_page_has_the_measured_numbers(measured: Measured) -> None:
    assert PAGE.read_text() == page_with(table(measured[0])), "run python -m tests.faults.request_counts"
