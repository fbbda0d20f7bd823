"""`sparklog consume`: where it begins and ends, what it prints, following."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparklog as library
from sparklog.cli import times
from sparklog.cli.main import run
from sparklog.cli.records import consume_reading
from sparklog.cli.records.consume_offsets import times_of
from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer
from sparklog.core.commands import MoveLogStart
from sparklog.core.errors import InvalidOption
from sparklog.core.types import Offset, PartitionIndex, TopicId
from sparklog.host.clock import SystemClock
from tests.cli.conftest import Cli
from tests.client.compacting import KEPT, compact_range, mixed_log


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ((), "a b c"),
        (("-o", "start"), "a b c"),
        (("-o", "end"), ""),
        (("-o", "1"), "b c"),
        (("-o", "3"), ""),
        (("-o", "-1"), "c"),
        (("-o", "-99"), "a b c"),
        (("-n", "2"), "a b"),
        (("-o", "1", "-n", "1"), "b"),
        (("-p", "0", "-p", "0"), "a b c"),
        (("-o", "@0"), "a b c"),
        (("-o", "@0:0"), ""),
        (("-o", "@9999-01-01T00:00:00Z"), ""),
        (("-o", "@0:9999-01-01T00:00:00Z"), "a b c"),
        (("-o", "@0:9999-01-01T00:00:00Z", "-f"), "a b c"),
        (("-n", "3", "-f"), "a b c"),
    ],
)
def test_it_begins_and_ends_where_it_is_told(orders: Cli, arguments: tuple[str, ...], values: str) -> None:
    said = orders("consume", "orders", *arguments)
    assert (said.code, said.out.split(), said.err) == (0, values.split(), "")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("-o", "4"), 2, "OFFSET_OUT_OF_RANGE: orders-0: wanted offset 4, the readable range is [0, 3)"),
        (("-o", "begin"), 2, "wanted start, end, N, -N or @TIME[:TIME]"),
        (("-o", "@"), 2, "ISO 8601"),
        (("-o", "@2000:1000"), 2, "with A not after B"),
        (("-o", "@2026-01-01T00:00:00"), 2, "zone"),
        (("-p", "1"), 3, "wanted partition 1 of topic orders, it has only partition 0"),
        (("-p", "-1"), 3, "wanted partition -1"),
        (("-n", "0"), 2, "--num"),
        (("--base64",), 2, "--base64 needs --format json"),
        (("--key-separator", ":", "--format", "json"), 2, "--key-separator applies to plain lines"),
    ],
)
def test_what_it_cant_do_is_told(orders: Cli, arguments: tuple[str, ...], code: int, text: str) -> None:
    said = orders("consume", "orders", *arguments)
    assert (said.code, said.out) == (code, "")
    assert text in said.err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1000", [1_000_000]),
        ("1000:2000", [1_000_000, 2_000_000]),
        ("1970-01-01T00:00:01Z", [1_000_000]),
        ("1970-01-01T00:00:01+00:00", [1_000_000]),
        ("1970-01-01T01:00:01+01:00:2000", [1_000_000, 2_000_000]),
        ("1970-01-01T00:00:01Z:1970-01-01T01:00:02+01:00", [1_000_000, 2_000_000]),
        ("1000:1970-01-01T00:00:02.5Z", [1_000_000, 2_500_000]),
    ],
)
def test_two_times_are_told_apart_though_both_have_colons(text: str, found: list[int]) -> None:
    assert times_of(text) == found


def test_no_time_at_all_is_refused() -> None:
    with pytest.raises(InvalidOption, match="ISO 8601"):
        times_of("noon:night")


@pytest.mark.parametrize(
    ("text", "before_ms"), [("-90s", 90_000), ("-15m", 900_000), ("-1h", 3_600_000), ("-7d", 604_800_000)]
)
def test_times_count_back_from_now(monkeypatch: pytest.MonkeyPatch, text: str, before_ms: int) -> None:
    monkeypatch.setattr(times, "now_ms", lambda: 1_000_000_000)
    assert times_of(text) == [(1_000_000_000 - before_ms) * 1000]
    assert times_of(f"{text}:-1s") == [(1_000_000_000 - before_ms) * 1000, 999_999_000_000]


def test_a_time_before_now_needs_a_unit() -> None:
    with pytest.raises(InvalidOption, match="or a time before now like -90s, -15m, -1h or -7d"):
        times_of("-5")


def several(sparklog: Cli) -> None:
    for topic in ("orders", "orders-old", "bills"):
        sparklog("topic", "create", topic)
        sparklog("produce", topic, stdin=f"{topic} 1\n{topic} 2\n")


def test_several_topics_are_read_one_after_the_other(sparklog: Cli) -> None:
    several(sparklog)
    said = sparklog("consume", "orders", "bills", "-o", "1")
    assert (said.code, said.out.splitlines()) == (0, ["bills 2", "orders 2"])
    said = sparklog("consume", "--pattern", "orders.*", "--format", "json", "-n", "3")
    assert [(each["topic"], each["offset"]) for each in said.lines] == [
        ("orders", 0),
        ("orders", 1),
        ("orders-old", 0),
    ]
    said = sparklog("consume", "--pattern", "ord*")
    assert (said.code, said.out) == (0, "")
    assert said.err == "warning: no topic's whole name matches the regular expression 'ord*'\n"
    assert sparklog("consume", "--pattern", "bi.*", "orders").code == 2
    assert sparklog("consume", "--pattern", "(").err.startswith("INVALID_REQUEST: pattern: wanted a regular expression")
    assert "wanted topic 'order'" in sparklog("consume", "bills", "order").err


def test_a_group_reads_all_topics_of_a_pattern(sparklog: Cli) -> None:
    several(sparklog)
    read = [sparklog("consume", "--pattern", "orders.*", "--group", "g").out.splitlines() for _ in range(2)]
    assert (sorted(read[0]), read[1]) == (["orders 1", "orders 2", "orders-old 1", "orders-old 2"], [])


def test_a_follower_of_a_pattern_sees_topics_come_and_go(sparklog: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0

    def happens(*_: object) -> None:
        nonlocal rounds
        rounds += 1
        with library.connect(sparklog.url) as cluster:
            if rounds == 1:
                cluster.create_topic("orders-new")
                cluster.append("orders-new", _rows("new", 0))
            elif rounds == 2:
                cluster.delete_topic("orders-old")
            else:
                cluster.append("orders", _rows("late", 0))
        if rounds == 4:
            raise KeyboardInterrupt

    several(sparklog)
    monkeypatch.setattr(SystemClock, "pause", happens)
    said = sparklog("consume", "--pattern", "orders.*", "-o", "end", "--follow")
    assert (said.code, said.out) == (130, "new\nlate\n")
    assert said.err == "warning: topic orders-old was deleted while it was read\n"


def test_a_template_says_how_records_are_printed(sparklog: Cli) -> None:
    sparklog("topic", "create", "t")
    record = '{"key": "k", "value": "vv", "timestamp": 5, "headers": [{"key": "h", "value": "1"}, {"key": "i"}]}'
    sparklog("produce", "t", "--json", stdin=record + '\n{"value": null}\n')
    said = sparklog("consume", "t", "-n", "1", "--template", r"%t-%p@%o %k=%s %K %S %T %h 100%% \x41\\\t\n")
    assert (said.code, said.out) == (0, "t-0@0 k=vv 1 2 5 h=1,i=NULL 100% A\\\t\n")
    assert sparklog("consume", "t", "-o", "1", "--template", "<%k|%s|%K|%S>").out == "<||-1|-1>"
    assert sparklog("consume", "t", "--template", ".").out == ".."
    assert sparklog("consume", "t", "--template", ".", "--group", "g").out == ".."


@pytest.mark.parametrize("template", ["%q", "%", "\\", r"\x4", r"\q"])
def test_an_unknown_place_in_a_template_is_told(orders: Cli, template: str) -> None:
    said = orders("consume", "orders", "--template", template)
    assert said.code == 2
    assert f"found {template[:2]!r}" in said.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_stdout_is_told(orders: Cli) -> None:
    command = [sys.executable, "-m", "sparklog", "--cluster", orders.url, "consume", "orders"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "UNKNOWN_SERVER_ERROR: stdout can't be written: No space left on device; the output is incomplete\n",
    )


def test_bytes_are_printed_as_they_are(sparklog: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    sparklog("topic", "create", "t")
    body = bytes(range(256)).replace(b"\n", b"")
    sparklog("produce", "t", stdin=body + b"\n")
    printed = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed))
    assert run(["--cluster", sparklog.url, "consume", "t"]) == 0
    assert printed.getvalue() == body + b"\n"


def test_what_json_cant_hold_is_told_once(sparklog: Cli) -> None:
    sparklog("topic", "create", "t")
    sparklog("produce", "t", stdin=b"\xff\n\xfe\n")
    said = sparklog("consume", "t", "--format", "json")
    assert [each["value"] for each in said.lines] == ["�", "�"]
    assert said.err.count("warning: some keys or values are not UTF-8") == 1
    said = sparklog("consume", "t", "--format", "json", "--base64")
    assert ([each["value"] for each in said.lines], said.err) == (["/w==", "/g=="], "")


def test_json_has_the_fields_of_a_record(sparklog: Cli) -> None:
    sparklog("topic", "create", "t")
    record = {"key": "k", "value": "v", "timestamp_us": 1_700_000_000_000_999, "headers": [{"key": "h", "value": "x"}]}
    sparklog("produce", "t", "--json", stdin=json.dumps(record))
    (found,) = sparklog("consume", "t", "--format", "json").lines
    assert found == {"topic": "t", "partition": 0, "offset": 0, "timestamp": 1_700_000_000_000, **record}


def test_num_counts_over_all_partitions(sparklog: Cli) -> None:
    sparklog("topic", "create", "t", "-p", "2")
    for partition in ("0", "1"):
        sparklog("produce", "t", "-p", partition, stdin=f"{partition}a\n{partition}b\n")
    assert sparklog("consume", "t", "-n", "3").out.split() == ["0a", "0b", "1a"]
    assert sparklog("consume", "t", "-o", "-1").out.split() == ["0b", "1b"]


def test_following_sees_what_comes_also_in_new_partitions(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0

    def more(*_: object) -> None:
        nonlocal rounds
        rounds += 1
        with library.connect(orders.url) as cluster:
            cluster.add_partitions("orders", rounds + 1)
            cluster.append("orders", _rows(f"new {rounds}", rounds))
        if rounds == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(SystemClock, "pause", more)
    said = orders("consume", "orders", "-o", "end", "--follow")
    assert (said.code, said.out, said.err) == (130, "new 1\nnew 2\n", "")


def _rows(value: str, partition: int) -> object:
    import pyarrow as pa

    return pa.table({"value": [value], "partition": pa.array([partition], pa.int32())})


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[Cluster], object]) -> None:
    """Let somebody act while the first table is read."""
    poll_table, acted = Consumer.poll_table, []

    def busy(consumer: Consumer, *args: Any, **options: Any) -> object:
        found = poll_table(consumer, *args, **options)
        if not acted:
            acted.append(1)
            with library.connect(consumer._connection.url) as other:
                act(other)
        return found

    monkeypatch.setattr(Consumer, "poll_table", busy)


def two_partitions(sparklog: Cli) -> None:
    sparklog("topic", "create", "t", "-p", "2")
    for partition in ("0", "1"):
        sparklog("produce", "t", "-p", partition, stdin=f"{partition}a\n{partition}b\n")


def test_what_retention_took_while_another_partition_was_read_is_told(
    sparklog: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_partitions(sparklog)
    meanwhile(monkeypatch, lambda other: other.submit(MoveLogStart(TopicId(1), PartitionIndex(1), Offset(1))))
    said = sparklog("consume", "t")
    assert (said.code, said.out.split()) == (0, ["0a", "0b", "1b"])
    assert "t-1: records [0, 1) were removed before they were read" in said.err


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_topic_that_is_made_anew_while_it_is_read_is_no_part_of_it(
    sparklog: Cli, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    def anew(other: Cluster) -> None:
        other.delete_topic("t")
        other.create_topic("t", partitions=partitions)
        other.append("t", _rows("new", partitions - 1))

    two_partitions(sparklog)
    meanwhile(monkeypatch, anew)
    said = sparklog("consume", "t")
    assert (said.code, said.out.split()) == (3, ["0a", "0b"])
    assert "was deleted and created again while it was read" in said.err


def test_a_partition_that_is_added_has_no_end_in_time_and_is_left_out(
    sparklog: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_partitions(sparklog)
    meanwhile(monkeypatch, lambda other: (other.add_partitions("t", 3), other.append("t", _rows("late", 2))))
    said = sparklog("consume", "t", "--offset", "@0:9999-01-01T00:00:00Z", "--follow")
    assert (said.code, said.out.split()) == (0, ["0a", "0b", "1a", "1b"])


def test_what_retention_took_from_a_follower_is_told(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0

    def more(*_: object) -> None:
        nonlocal rounds
        rounds += 1
        with library.connect(orders.url) as cluster:
            cluster.append("orders", _rows("d", 0))
            cluster.append("orders", _rows("e", 0))
            cluster.submit(MoveLogStart(TopicId(1), PartitionIndex(0), Offset(4)))
        if rounds == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(SystemClock, "pause", more)
    said = orders("consume", "orders", "-o", "end", "--follow")
    assert said.out == "e\n"
    assert said.err == "warning: orders-0: records [3, 4) were removed before they were read\n"


def test_a_topic_made_anew_is_not_mistaken_for_the_old_one(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def anew(*_: object) -> None:
        with library.connect(orders.url) as cluster:
            cluster.delete_topic("orders")
            cluster.create_topic("orders")

    monkeypatch.setattr(SystemClock, "pause", anew)
    said = orders("consume", "orders", "--follow")
    assert (said.code, "created again" in said.err) == (3, True)


@pytest.mark.parametrize("last", [1, 15, 20, 22, 28])
def test_records_of_a_compacted_log_are_counted_not_its_offsets(sparklog: Cli, last: int) -> None:
    with library.connect(sparklog.url) as cluster:
        mixed_log(cluster)
    values = [f"v{offset}" for offset in KEPT]
    assert sparklog("consume", "t", "-o", f"-{last}").out.split() == values[-last:]
    assert sparklog("consume", "t", "-n", f"{last}").out.split() == values[:last]
    assert sparklog("consume", "t", "-o", "18", "-n", "4").out.split() == ["v23", "v37", "v40", "v41"]


def test_the_end_in_a_compacted_log_is_an_offset_not_a_number_of_records(sparklog: Cli) -> None:
    stamps = pa.array([second * 1_000_000 for second in range(10)], pa.timestamp("us", "UTC"))
    with library.connect(sparklog.url) as cluster:
        cluster.create_topic("t")
        cluster.append("t", pa.table({"value": list("abcdefghij"), "timestamp": stamps}))
        compact_range(cluster, "t", 0, (0, 10), lambda offset: offset in (0, 1, 8, 9))
    assert sparklog("consume", "t", "-o", "@0:7500").out.split() == ["a", "b"]
    assert sparklog("consume", "t", "-o", "@500:8500", "-n", "2").out.split() == ["b", "i"]


def test_partitions_are_printed_one_after_the_other_also_if_they_are_long(
    sparklog: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_reading, "RECORDS_PER_TABLE", 1)
    two_partitions(sparklog)
    assert sparklog("consume", "t").out.split() == ["0a", "0b", "1a", "1b"]
    assert sparklog("consume", "t", "-o", "1", "-n", "2", "-f").out.split() == ["0b", "1b"]
    assert sparklog("consume", "t", "-p", "1", "-p", "0", "-n", "3").out.split() == ["1a", "1b", "0a"]


def test_the_end_of_the_topic_is_told_to_a_follower(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def delete(*_: object) -> None:
        with library.connect(orders.url) as cluster:
            cluster.delete_topic("orders")

    monkeypatch.setattr(SystemClock, "pause", delete)
    said = orders("consume", "orders", "--follow")
    assert (said.code, said.out) == (3, "a\nb\nc\n")
    assert "topic orders was deleted while it was read" in said.err


# ---- groups -------------------------------------------------------------------------------------------


def test_a_group_reads_on_where_it_committed(orders: Cli) -> None:  # M: I-07
    consume = ("consume", "orders", "--group", "billing")
    assert orders(*consume, "--num", "2").out == "a\nb\n"
    assert orders(*consume).out == "c\n"
    said = orders(*consume)
    assert (said.code, said.out, said.err) == (0, "", "")
    assert orders("consume", "orders", "--group", "other", "--offset", "end").out == ""
    assert orders.json("group", "describe", "billing")["members"] == []
    assert [(row["committed"], row["lag"]) for row in orders.json("group", "describe", "billing")["partitions"]] == [
        (3, 0)
    ]


def test_a_group_that_began_at_the_end_reads_what_came_after_its_first_run(orders: Cli) -> None:
    """Also if nothing came during that run."""
    consume = ("consume", "orders", "--group", "late", "--offset", "end")
    assert orders(*consume).out == ""
    orders("produce", "orders", stdin="d\n")
    assert orders(*consume).out == "d\n"


def test_a_group_begins_once_where_offset_says_also_if_its_first_run_is_interrupted(
    orders: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    consume = ("consume", "orders", "--group", "late", "--offset", "end")
    with monkeypatch.context() as patch:
        patch.setattr(SystemClock, "pause", interrupt)
        assert orders(*consume, "--follow").code == 130
    orders("produce", "orders", stdin="d\n")
    assert orders(*consume).out == "d\n"


def test_a_group_commits_only_what_it_printed(sparklog: Cli) -> None:
    """Also in compacted slices, of which more is read than is wanted."""
    with library.connect(sparklog.url) as cluster:
        mixed_log(cluster)
    printed = [sparklog("consume", "t", "-g", "billing", "-n", "5").out.split() for _ in range(len(KEPT) // 5 + 1)]
    assert [value for values in printed for value in values] == [f"v{offset}" for offset in KEPT]


def test_a_member_prints_only_its_share(orders: Cli) -> None:
    """Of the two members, the one with the lower id has the only partition; it commits what it prints."""
    with library.connect(orders.url) as cluster, cluster.join_group("billing", ["orders"]):
        printed = orders("consume", "orders", "--group", "billing").out
        assert printed in ("a\nb\nc\n", "")
        (row,) = orders.json("group", "describe", "billing")["partitions"]
        assert row["committed"] == (3 if printed else None)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--group", ""), 2, "INVALID_GROUP_ID"),
        (("--group", "g", "-p", "0"), 2, "--partition can't be combined with --group"),
        (("--group", "g", "-o", "@0:1"), 2, "--offset @A:B can't be combined with --group"),
        (("--group", "g", "-o", "soon"), 2, "found 'soon'"),
    ],
)
def test_bad_arguments_of_a_group(orders: Cli, arguments: tuple[str, ...], code: int, text: str) -> None:
    said = orders("consume", "orders", *arguments)
    assert said.code == code
    assert text in said.err
    assert not any(group["members"] for group in orders.json("group", "list"))
