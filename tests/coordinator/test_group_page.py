"""The pages of consumer groups: the numbers are those of `sparklog group describe`, whatever a group is called."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import sparklog
from sparklog.cli.main import run
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.coordinator.page import group_views, views
from tests.client.orders import RECORDS, cluster, consumer, settle
from tests.coordinator.shown_records import Asked, Records
from tests.kit.log import fill

__all__ = ["cluster"]
JUST_NOW = r"(now|\d+ s ago)"
HOSTILE = """'"><script>alert(1)</script>&{{ 7 * 7 }}"""


def described(cluster: Cluster, group: str) -> Any:
    with redirect_stdout(io.StringIO()) as printed:
        run(["--cluster", cluster.connection.url, "--format", "json", "group", "describe", group])
    return json.loads(printed.getvalue())


def links(page: Records) -> list[str]:
    return [found["href"] or "" for tag, found in page.tags if tag == "a"]


def test_a_group_is_shown_as_the_command_line_describes_it(tmp_path: Path) -> None:
    init_cluster(str(tmp_path))
    with sparklog.connect(str(tmp_path)) as cluster:
        cluster.create_topic("orders", partitions=3)
        for partition in range(3):
            fill(cluster, partition, RECORDS)
        cluster.commit_offsets("billing", {("orders", 0): 2, ("orders", 1): RECORDS})
        with consumer(cluster) as reader:
            settle(reader)
            page = Asked(cluster).page("/groups/billing")
            found = described(cluster, "billing")
    assert "billing sparklog group describe billing copy" in page.text
    numbers = (found["generation"], found["lag"])
    assert f"State {found['state']} Generation {numbers[0]} Members 1 Lag, offsets {numbers[1]}" in page.text
    (member,) = found["members"]
    assert f"{member['member']} orders 3 {member['session_timeout_ms'] // 1000} s" in page.text
    for each in found["partitions"]:
        numbers = tuple("-" if each[name] is None else str(each[name]) for name in ("committed", "end", "lag"))
        row = f"orders {each['partition']} {' '.join(numbers)} {JUST_NOW if each['lag'] else '-'}"
        assert re.search(rf"{row} ({JUST_NOW}|-) {member['member']}", page.text), (row, page.text)
    assert "/topics/orders/messages?order=oldest&partition=0&offset=2" in links(page)
    assert "sparklog group reset billing --to-earliest" in page.text


def test_groups_are_found_by_name_and_lead_to_their_pages(cluster: Cluster) -> None:
    names = ["a/b", "a/../b", "A b", "ü?&#", HOSTILE, "other"]
    for at, name in enumerate(names):
        cluster.commit_offsets(name, {("orders", 0): at})
    asked = Asked(cluster)
    listed = asked.page("/groups")
    assert not [found for tag, found in listed.tags if tag == "script" and "src" not in found]
    shown = [found["data-group"] for tag, found in listed.tags if tag == "tr" and "data-group" in found]
    assert shown == sorted(names)
    addresses = [link for link in links(listed) if link.startswith("/groups/")]
    for name, address in zip(sorted(names), addresses, strict=True):
        assert address == f"/groups/{quote(name, safe='')}"
        page = asked.page(address)
        assert (page.status, page.tags and "h1" in dict(page.tags)) == (200, True)
        assert " ".join(name.split()) in page.text
    found = asked.page("/groups", find="B")
    assert [each["data-group"] for _, each in found.tags if "data-group" in each] == ["A b", "a/../b", "a/b"]
    assert "No consumer groups." in asked.page("/groups", find="none of them").text
    missing = asked.page("/groups/nobody")
    assert (missing.status, "wanted group nobody" in missing.text) == (404, True)


def test_a_group_of_many_partitions_comes_in_pages(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(cluster, 2, 4, first=RECORDS)
    cluster.commit_offsets("wide", {("orders", at): at for at in range(3)})
    monkeypatch.setattr(views, "ROWS", 2)
    monkeypatch.setattr(group_views, "ROWS", 2)
    asked = Asked(cluster)
    pages = [asked.page("/groups/wide", page=number) for number in (1, 2, 3, 0)]
    shown = [[each["data-partition"] for _, each in page.tags if "data-partition" in each] for page in pages]
    assert shown == [["orders-0", "orders-1"], ["orders-2"], ["orders-2"], ["orders-0", "orders-1"]]
    assert "1 to 2 of 3 Next" in pages[0].text
    assert re.search(f"orders 2 2 {RECORDS + 4} {RECORDS + 2} {JUST_NOW}", pages[1].text)


def test_the_page_of_a_topic_shows_its_times_and_who_reads_it(cluster: Cluster) -> None:
    cluster.create_topic("other")
    cluster.commit_offsets("billing", {("orders", 0): 2})
    cluster.commit_offsets("done", {("orders", 0): RECORDS})
    asked = Asked(cluster)
    page = asked.page("/topics/orders")
    assert re.search(f"Oldest record {JUST_NOW} Newest record {JUST_NOW} Next cut by time in 6 d", page.text)
    shown = [each["data-group"] for _, each in page.tags if "data-group" in each]
    assert shown == ["billing", "done"]
    assert re.search(f"billing Empty 0 {RECORDS - 2} {JUST_NOW}", page.text)
    assert "/topics/orders/messages?partition=2" in links(page)
    assert "Oldest record - Newest record - Next cut by time none" in asked.page("/topics/other").text
