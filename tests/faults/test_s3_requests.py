"""The S3 requests of operations: as many for a short and a long log, no LIST on a hot path, and documented."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import connect
from sparklog.client.describe.counted_day import counted_day
from sparklog.core.cost.cost_report import work_lines
from sparklog.core.cost.request_costs import OPERATIONS
from sparklog.host.clock import now_ms
from tests.faults.request_counts import Counted, measure, proxied
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


def test_operations_send_the_requests_that_the_page_and_cluster_cost_count_with(measured: Measured) -> None:
    wanted = {
        name: {"PUT": of.puts, "POST": of.posts, "GET": of.gets, "LIST": of.lists} for name, of in OPERATIONS.items()
    }
    assert {each.operation: dict(each.counts) for each in measured[0]} == {
        name: {kind: count for kind, count in counts.items() if count} for name, counts in wanted.items()
    }, "sparklog/core/cost/request_costs.py is the home of these numbers; then run make docs"


def test_cluster_cost_counts_the_requests_that_a_day_of_appends_sent() -> None:
    with ministack() as server, proxied(server) as proxy:
        url = f"s3://{server.new_bucket()}/log"
        init_cluster(url, stores={"a": ".", "b": "b"}, config={"metadata.copies": 1})
        with connect(url) as cluster:
            cluster.create_topic("t", assignment=["ab"])
            before = counted_day(cluster.connection, cluster.connection.follower.state, now_ms())
            proxy.forget()
            for _ in range(20):
                cluster.append("t", pa.table({"value": ["x"] * 100}))
            large = [random.Random(at).randbytes(900_000) for at in range(20)]
            cluster.append("t", pa.table({"value": large}))
            sent = Counter(each.billed_as for each in proxy.requests)
            after = counted_day(cluster.connection, cluster.connection.follower.state, now_ms())
    lines, old = work_lines(after), work_lines(before)
    counted = Counter[str]()
    for what in ("objects of appends", "entries of the chain", "copies of the chain"):
        counted += Counter(PUT=lines[what].puts, POST=lines[what].posts, GET=lines[what].gets)
        counted -= Counter(PUT=old[what].puts, POST=old[what].posts, GET=old[what].gets)
    assert counted == sent
