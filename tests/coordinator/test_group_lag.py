"""A coordinator shows how far groups are behind: in /metrics, under the names of kafka_exporter, and in /v1/groups."""

from __future__ import annotations

import json
import re
import time
import urllib.request
import uuid
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.coordinator.http.group_routes import described_group, groups_after
from sparklog.coordinator.watching.metric_names import TOPICS_OF_A_GROUP
from sparklog.core.access import ANONYMOUS, Principal, parse_right
from sparklog.core.errors import GroupIdNotFound
from tests.client.orders import RECORDS, cluster, consumer
from tests.coordinator.served_coordinator import served_coordinator
from tests.coordinator.watching.test_metrics import Scraped, parsed
from tests.kit.log import fill

__all__ = ["cluster"]


def scraped(address: str) -> Scraped:
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as reply:
        return parsed(reply.read().decode())


def asked(address: str, path: str) -> Any:
    request = urllib.request.Request(f"{address}{path}", headers={"accept": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def principal(*rights: str) -> Principal:
    return Principal("someone", tuple(map(parse_right, rights)))


def test_lag_is_seen_and_falls_as_a_group_commits(cluster: Cluster) -> None:
    with served_coordinator(cluster.connection.url) as served, sparklog.connect(served.address) as client:
        before = scraped(served.address)
        assert before["sparklog_groups", ("Empty",)] == before["sparklog_appended_records_total", ()] == 0
        fill(client, 0, 4, first=RECORDS)
        client.commit_offsets("billing", {("orders", 0): 3, ("orders", 1): RECORDS})
        committed_at = time.time()
        found = scraped(served.address)
        assert found["sparklog_groups", ("Empty",)] == 1
        for name in ("kafka_consumergroup_lag", "kafka_consumergroup_lag_sum"):
            assert found[name, ("billing", "orders")] == 7
        assert found["kafka_consumergroup_current_offset", ("billing", "orders")] == 3 + RECORDS
        assert found["kafka_consumergroup_members", ("billing",)] == 0
        assert found["sparklog_group_lag_records", ("billing",)] == 7
        assert found["sparklog_group_max_lag_records", ("billing",)] == 7
        assert 0 < found["sparklog_group_lag_seconds", ("billing",)] < 600
        assert found["kafka_topic_partitions", ("orders",)] == 3
        assert found["kafka_topic_partition_current_offset", ("orders",)] == 3 * RECORDS + 4
        assert found["sparklog_appended_records_total", ()] == 4, "what was committed before it led does not count"
        assert found["sparklog_topic_appended_records_total", ("orders",)] == 4
        size_bytes = found["sparklog_appended_bytes_total", ()]
        assert found["sparklog_topic_appended_bytes_total", ("orders",)] == size_bytes > 0

        (summary,) = asked(served.address, "/v1/groups")["groups"]
        assert (summary["group"], summary["state"], summary["partitions"]) == ("billing", "Empty", 2)
        assert (summary["lag"], summary["max_lag"], summary["members"]) == (7, 7, 0)
        assert 0 < summary["unread_since_ms"] / 1000 <= committed_at
        one = asked(served.address, "/v1/groups/billing")
        assert {**one, "members": 0, "partitions": 2}.items() >= summary.items()
        assert [(each["partition"], each["committed"], each["end"], each["lag"]) for each in one["partitions"]] == [
            (0, 3, RECORDS + 4, 7),
            (1, RECORDS, RECORDS, 0),
        ]

        client.commit_offsets("billing", {("orders", 0): RECORDS + 4})
        found = scraped(served.address)
        assert found["kafka_consumergroup_lag", ("billing", "orders")] == 0
        assert found["sparklog_group_lag_seconds", ("billing",)] == 0
        assert asked(served.address, "/v1/groups")["groups"][0]["unread_since_ms"] is None


def test_the_first_page_lists_groups(cluster: Cluster) -> None:
    cluster.commit_offsets("<billing>", {("orders", 0): 3})
    standby = served_coordinator(cluster.connection.url, leads=False)
    with standby as served, urllib.request.urlopen(served.address, timeout=60) as reply:
        page = reply.read().decode()
    (row,) = re.findall(r'<tr data-group="&lt;billing&gt;">(.*?)</tr>', page, re.DOTALL)
    assert re.sub(r"<[^>]*>", " ", row).split()[:4] == ["&lt;billing&gt;", "Empty", "0", str(RECORDS - 3)]


def test_members_and_rebalances_are_those_of_the_group(cluster: Cluster) -> None:
    with served_coordinator(cluster.connection.url) as served, sparklog.connect(served.address) as client:
        with consumer(client) as one:
            one.poll(timeout_ms=0)
            found = scraped(served.address)
            assert found["kafka_consumergroup_members", ("billing",)] == found["sparklog_groups", ("Stable",)] == 1
            assert found["sparklog_group_rebalances_total", ("billing",)] == 1
            (member,) = asked(served.address, "/v1/groups/billing")["members"]
            assert (member["topics"], member["partitions"]) == (["orders"], 3)
        assert scraped(served.address)["sparklog_groups", ("Stable",)] == 0


def test_a_process_that_stands_by_answers_but_its_metrics_name_no_group(cluster: Cluster) -> None:
    """So that a sum over all processes is right, as dashboards of kafka_exporter take it."""
    cluster.commit_offsets("billing", {("orders", 0): 3})
    with served_coordinator(cluster.connection.url, leads=False) as served:
        named = {labels for (name, labels) in scraped(served.address) if name.startswith(("kafka_", "sparklog_group_"))}
        assert named == set()
        assert asked(served.address, "/v1/groups/billing")["lag"] == RECORDS - 3


def test_series_are_bounded() -> None:
    url = f"memory://{uuid.uuid4().hex}"
    init_cluster(url, config={"metrics.groups.max": 2, "metrics.topics.max": 1})
    topics = ["orders", *(f"t{at}" for at in range(TOPICS_OF_A_GROUP + 1))]
    with sparklog.connect(url) as cluster:
        for name in topics:
            cluster.create_topic(name)
            cluster.append(name, pa.table({"value": ["x"]}))
        cluster.commit_offsets("wide", {(name, 0): 0 for name in topics[1:]})
        for name in ("a", "b", "late"):
            cluster.commit_offsets(name, {("orders", 0): 0 if name == "late" else 1})
    with served_coordinator(url) as served:
        found = scraped(served.address)
        names = {labels[0] for (name, labels) in found if name == "kafka_consumergroup_members"}
        assert names == {"late", "wide"}, "those with the oldest unread records"
        assert found["sparklog_groups", ("Empty",)] == 4
        pairs = [labels for (name, labels) in found if name == "kafka_consumergroup_lag"]
        assert len(pairs) == 1 + TOPICS_OF_A_GROUP
        assert found["sparklog_group_lag_records", ("wide",)] == len(topics) - 1, "the sum is of all topics"
        assert [labels for (name, labels) in found if name == "kafka_topic_partitions"] == [("orders",)]
        assert len(asked(served.address, "/v1/groups")["groups"]) == 4


def test_groups_come_a_page_at_a_time_whatever_their_names(cluster: Cluster) -> None:
    names = ["a/b", "a b", "ü", "z"]
    for name in names:
        cluster.commit_offsets(name, {("orders", at): at for at in range(3)})
    state, found, after, more = cluster.connection.follower.state, [], "", True
    while more:
        reply = groups_after(state, after, 2, ANONYMOUS)
        found += [summary.group for summary in reply.groups]
        after, more = found[-1], reply.more
    assert found == sorted(names)
    with served_coordinator(cluster.connection.url, leads=False) as served:
        for name in names:
            assert asked(served.address, f"/v1/groups/{quote(name, safe='')}")["group"] == name
    for first, limit, shown, more in ((0, 2, [0, 1], True), (2, 2, [2], False), (3, 1, [], False)):
        one = described_group(state, "z", first, limit, ANONYMOUS)
        assert ([each.partition for each in one.partitions], one.more, one.partitions_total) == (shown, more, 3)


def test_a_caller_sees_groups_of_the_topics_that_it_may_describe(cluster: Cluster) -> None:
    cluster.create_topic("secret")
    cluster.append("secret", pa.table({"value": ["x"]}))
    cluster.commit_offsets("both", {("orders", 0): 0, ("secret", 0): 0})
    cluster.commit_offsets("hidden", {("secret", 0): 0})
    state = cluster.connection.follower.state

    def seen(who: Principal) -> dict[str, int]:
        return {each.group: each.lag for each in groups_after(state, "", 10, who).groups}

    assert seen(ANONYMOUS) == seen(principal("describe:*")) == {"both": RECORDS + 1, "hidden": 1}
    assert seen(principal("read:orders")) == {"both": RECORDS}
    assert seen(principal("write:elsewhere")) == {}
    one = described_group(state, "both", 0, 10, principal("read:orders"))
    assert (one.lag, [each.topic for each in one.partitions]) == (RECORDS, ["orders"])
    refusals = set()
    for name in ("hidden", "nobody"):
        with pytest.raises(GroupIdNotFound) as refused:
            described_group(state, name, 0, 10, principal("read:orders"))
        refusals.add(refused.value.message.replace(name, "NAME"))
    assert len(refusals) == 1, "the error does not say whether the group exists"
