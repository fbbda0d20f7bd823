"""`sparklog group`: what it shows, and what a reset may do."""

from __future__ import annotations

import pytest

from sparklog.client.cluster import connect
from tests.cli.conftest import Cli
from tests.faults.unchanged_cluster import unchanged


def commit(cli: Cli, group: str = "billing", offset: int = 2) -> None:
    with connect(cli.url) as cluster:
        cluster.commit_offsets(group, {("orders", 0): offset}, metadata="run 7")


def committed(cli: Cli, group: str = "billing") -> int | None:
    with connect(cli.url) as cluster:
        found = cluster.committed(group).get(("orders", 0))
        return None if found is None else found.offset


def test_list_and_describe_show_committed_offset_end_and_lag(orders: Cli) -> None:  # M: I-07
    assert orders("group", "list").out == "no groups\n"
    commit(orders)
    (listed,) = orders.json("group", "list")
    unread_since_ms = listed["unread_since_ms"]
    summary = {"group": "billing", "state": "Empty", "generation": 0, "lag": 1, "max_lag": 1}
    assert listed == {**summary, "unread_since_ms": unread_since_ms, "members": 0, "partitions": 1}
    said = orders.json("group", "describe", "billing")
    (row,) = said.pop("partitions")
    assert said == {**summary, "unread_since_ms": unread_since_ms, "members": []}
    assert row["unread_since_ms"] == unread_since_ms > 0
    assert (row["topic"], row["partition"], row["committed"], row["end"], row["lag"]) == ("orders", 0, 2, 3, 1)
    assert (row["member"], row["metadata"]) == (None, "run 7")
    shown = orders("group", "describe", "billing").out
    assert "orders" in shown
    assert "run 7" in shown


def test_describe_shows_members(orders: Cli) -> None:
    with connect(orders.url) as cluster, cluster.join_group("billing", ["orders"]) as member:
        said = orders.json("group", "describe", "billing")
        assert [(each["member"], each["topics"], each["partitions"]) for each in said["members"]] == [
            (member.member_id, ["orders"], 1)
        ]
        assert [(row["committed"], row["lag"], row["member"]) for row in said["partitions"]] == [
            (None, None, member.member_id)
        ]
        assert "45 s" in orders("group", "describe", "billing").out


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 3),
        (("--to-offset", "1"), 1),
        (("--to-offset", "99"), 3),
        (("--shift-by=-1",), 1),
        (("--shift-by=-9",), 0),
        (("--shift-by", "1"), 3),
        (("--to-datetime", "2000-01-01T00:00:00Z"), 0),
        (("--to-current",), 2),
        (("--by-duration", "P9000DT1H30M0.5S"), 0),
        (("--by-duration", "PT0S"), 3),
        (("--to-datetime", "2100-01-01T00:00:00Z"), 3),
    ],
)
def test_a_reset_shows_its_plan_and_needs_execute(orders: Cli, target: tuple[str, ...], wanted: int) -> None:
    commit(orders)
    with unchanged(orders.url):
        said = orders("group", "reset", "billing", *target)
    assert said.code == 0
    assert "would reset the offsets of group billing in 1 partition: add --execute" in said.out
    plan = orders.json("group", "reset", "billing", *target, "--execute")
    row = {"topic": "orders", "partition": 0, "committed": 2, "new": wanted, "end": 3, "lag": 3 - wanted}
    assert plan == {"group": "billing", "partitions": [row], "executed": True}
    assert committed(orders) == wanted


def test_a_new_group_may_be_given_a_start(orders: Cli) -> None:
    said = orders.json("group", "reset", "new", "--topic", "orders", "--to-latest", "--execute")
    assert [row["committed"] for row in said["partitions"]] == [None]
    assert committed(orders, "new") == 3


def test_the_current_offset_of_a_topic_that_the_group_has_not_read_is_its_end(orders: Cli) -> None:
    commit(orders)
    orders("topic", "create", "more")
    said = orders.json("group", "reset", "billing", "--topic", "orders", "--topic", "more", "--to-current")
    assert [(row["topic"], row["committed"], row["new"], row["end"]) for row in said["partitions"]] == [
        ("orders", 2, 2, 3),
        ("more", None, 0, 0),
    ]


def test_a_group_with_active_members_is_neither_reset_nor_deleted(orders: Cli) -> None:
    with connect(orders.url) as cluster, cluster.join_group("billing", ["orders"]), unchanged(orders.url):
        for arguments in (
            ("reset", "billing", "--to-latest"),
            ("reset", "billing", "--topic", "orders", "--to-latest", "--execute"),
            ("delete", "billing"),
        ):
            said = orders("group", *arguments)
            assert said.code == 4
            assert said.err.startswith("NON_EMPTY_GROUP: group billing has 1 active member")


def test_an_operator_may_evict_a_member_that_is_gone(orders: Cli) -> None:
    with connect(orders.url) as cluster:
        member = cluster.join_group("billing", ["orders"])
    said = orders.json("group", "evict", "billing", member.member_id)
    assert said == {"group": "billing", "evicted": member.member_id, "members": 0}
    assert orders("group", "evict", "billing", member.member_id).err.startswith("UNKNOWN_MEMBER_ID")
    assert orders("group", "delete", "billing").code == 0


def test_delete_forgets_all_of_the_groups_or_none(orders: Cli) -> None:
    commit(orders)
    commit(orders, "audit")
    with unchanged(orders.url):
        said = orders("group", "delete", "billing", "nowhere")
        assert (said.code, said.err.partition(":")[0]) == (3, "GROUP_ID_NOT_FOUND")
        said = orders("group", "delete", "billing", "audit", "--dry-run")
        assert said.out.endswith("\nwould delete groups billing, audit with all their offsets\n")
    assert orders("group", "delete", "billing", "audit").code == 0
    assert orders.json("group", "list") == []


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("describe", "nowhere"), 3, "GROUP_ID_NOT_FOUND: wanted group nowhere"),
        (("reset", "nowhere", "--to-latest"), 3, "GROUP_ID_NOT_FOUND"),
        (("reset", "billing"), 2, "wanted exactly one of --to-earliest"),
        (("reset", "billing", "--to-latest", "--to-earliest"), 2, "found 2"),
        (("reset", "billing", "--to-offset", "-1"), 2, "--to-offset"),
        (("reset", "billing", "--to-datetime", "soon"), 2, "found 'soon'"),
        (("reset", "billing", "--by-duration", "1h"), 2, "--by-duration: wanted a period as in P7D, PT1H30M"),
        (("reset", "billing", "--by-duration", "P"), 2, "--by-duration: wanted a period"),
        (("reset", "billing", "--by-duration", "P1DT"), 2, "--by-duration: wanted a period"),
        (("reset", "billing", "--to-latest", "-p", "0"), 2, "--partition needs exactly one --topic"),
        (("reset", "billing", "--to-latest", "--topic", "nope"), 3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("reset", "billing", "--to-latest", "--topic", "orders", "-p", "7"), 3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("reset", "new", "--shift-by", "1", "--topic", "orders"), 2, "nothing is committed in orders-0"),
        (("delete",), 2, "Missing argument"),
    ],
)
def test_bad_arguments_change_nothing(orders: Cli, arguments: tuple[str, ...], code: int, text: str) -> None:
    commit(orders)
    with unchanged(orders.url):
        said = orders("group", *arguments)
    assert said.code == code
    assert text in said.err
