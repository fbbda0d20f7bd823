from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.config.key import LONG_MAX
from sparklog.core.errors import InvalidOption
from sparklog.core.types import Offset, PartitionIndex
from sparklog.options.starting_offsets import (
    AtOffset,
    AtTimestamp,
    Earliest,
    EveryPartition,
    Latest,
    OffsetSpec,
    PerPartition,
    check_batch_range,
    check_names_all,
    parse_offsets,
    parse_partitions,
    parse_timestamp,
    parse_timestamp_us,
    parse_timestamps,
)


def test_words_mean_every_partition_and_match_without_case() -> None:
    assert parse_offsets("o", " Earliest ") == EveryPartition(Earliest())
    assert parse_offsets("o", "LATEST") == EveryPartition(Latest())
    assert parse_offsets("o", "latest").at("any", 7) == Latest()


def test_offsets_by_partition_know_latest_and_earliest() -> None:
    spec = parse_offsets("o", '{"a":{"0":"23","1":-2},"b":{"0":-1}}')
    assert (spec.at("a", 0), spec.at("a", 1), spec.at("b", 0)) == (AtOffset(Offset(23)), Earliest(), Latest())
    assert isinstance(spec, PerPartition)
    assert spec.partitions() == {("a", 0), ("a", 1), ("b", 0)}
    assert pickle.loads(pickle.dumps(spec)) == spec


@given(
    table=st.dictionaries(
        st.text(min_size=1, max_size=5),
        st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, LONG_MAX), min_size=1, max_size=5),
        min_size=1,
        max_size=5,
    )
)
def test_any_offsets_by_partition_are_read_back(table: dict[str, dict[int, int]]) -> None:
    spec = parse_offsets("o", json.dumps(table))
    for topic, inner in table.items():
        for partition, offset in inner.items():
            assert spec.at(topic, partition) == AtOffset(Offset(offset))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("soon", "found 'soon'"),
        ("", "found ''"),
        ("{}", "found '{}'"),
        ("[1]", "found '[1]'"),
        ('{"a":5}', "found 5 for topic 'a'"),
        ('{"a":{}}', "found {} for topic 'a'"),
        ('{"a":{"x":5}}', "wanted partition numbers from 0, found 'x' for topic 'a'"),
        ('{"a":{"-1":5}}', "wanted partition numbers from 0, found '-1' for topic 'a'"),
        ('{"a":{"0":5,"00":6}}', "wanted partition numbers from 0, found '00' for topic 'a'"),
        ('{"a":{"0":5,"0":6}}', "wanted each key once, found '0' twice"),
        ('{"a":{"0":-3}}', "o: a-0: wanted an offset >= 0, -1 (latest) or -2 (earliest), found -3"),
        ('{"a":{"0":1.5}}', "o: a-0: wanted an offset >= 0, -1 (latest) or -2 (earliest), found 1.5"),
        ('{"a":{"0":true}}', "found True"),
        ('{"a":{"0":"5x"}}', "found '5x'"),
        ('{"a":{"0":null}}', "found None"),
        ('{"a":{"0":9223372036854775808}}', "found 9223372036854775808"),
        ('{"a":{"0":NaN}}', "found nan"),
    ],
)
def test_bad_offsets_are_refused_with_option_and_place(text: str, found: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        parse_offsets("o", text)
    assert raised.value.message.startswith("o: ")
    assert found in raised.value.message


@pytest.mark.parametrize(
    ("raw", "timestamp_us"),
    [
        (0, 0),
        ("1735689600000", 1_735_689_600_000_000),
        (1_735_689_600_000, 1_735_689_600_000_000),
        ("2025-01-01T00:00:00Z", 1_735_689_600_000_000),
        (" 2025-01-01T01:00:00+01:00 ", 1_735_689_600_000_000),
        ("2025-01-01 00:00:00.000001Z", 1_735_689_600_000_001),
        ("1969-12-31T23:59:59.999999Z", -1),
        (LONG_MAX, LONG_MAX),
    ],
)
def test_timestamps_are_milliseconds_or_iso_with_zone(raw: object, timestamp_us: int) -> None:
    assert parse_timestamp_us("t", raw) == timestamp_us


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ("2025-01-01T00:00:00", "t: wanted a time with its zone, found '2025-01-01T00:00:00' without: append Z"),
        ("2025-01-01", "t: wanted a time with its zone, found '2025-01-01' without"),
        ("yesterday", "t: wanted milliseconds since the epoch, or ISO 8601 with a zone"),
        ("", "t: wanted milliseconds since the epoch"),
        (-1, "t: wanted a timestamp >= 0"),
        ("-2", "t: wanted a timestamp >= 0"),
        (1.5, "t: wanted milliseconds since the epoch"),
        (True, "t: wanted milliseconds since the epoch"),
        (None, "t: wanted milliseconds since the epoch"),
    ],
)
def test_bad_timestamps_are_refused(raw: object, told: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        parse_timestamp_us("t", raw)
    assert raised.value.message.startswith(told)


def test_timestamps_by_partition_mix_both_forms() -> None:
    spec = parse_timestamps("o", '{"a":{"0":5,"1":"1970-01-01T00:00:01Z"}}')
    assert (spec.at("a", 0), spec.at("a", 1)) == (AtTimestamp(5_000), AtTimestamp(1_000_000))
    with pytest.raises(InvalidOption, match=r"^INVALID_OPTION: o: a-1: wanted a time with its zone"):
        parse_timestamps("o", '{"a":{"0":5,"1":"1970-01-01T00:00:01"}}')
    with pytest.raises(InvalidOption, match=r"^INVALID_OPTION: o: wanted timestamps by partition like"):
        parse_timestamps("o", "5")


def test_partitions_to_assign_are_sorted() -> None:
    assert parse_partitions("assign", '{"a":[2,0],"b":[1]}') == {
        "a": (PartitionIndex(0), PartitionIndex(2)),
        "b": (PartitionIndex(1),),
    }


@pytest.mark.parametrize("text", ["", "a", '{"a":[]}', '{"a":0}', '{"a":[0,0]}', '{"a":[-1]}', '{"a":[0.5]}', "{}"])
def test_bad_partitions_to_assign_are_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"^INVALID_OPTION: assign: wanted partition"):
        parse_partitions("assign", text)


def offsets(text: str) -> OffsetSpec:
    return parse_offsets("o", text)


@pytest.mark.parametrize(
    ("start", "end", "told"),
    [
        (offsets("latest"), offsets("latest"), "start: a batch read can't start at latest (-1)"),
        (offsets('{"t":{"0":-1}}'), offsets("latest"), "start: t-0: a batch read can't start at latest (-1)"),
        (offsets("earliest"), offsets("earliest"), "end: a batch read can't end at earliest (-2)"),
        (offsets("earliest"), offsets('{"t":{"0":-2}}'), "end: t-0: a batch read can't end at earliest (-2)"),
        (
            offsets('{"t":{"0":1,"1":1,"2":1}}'),
            offsets('{"t":{"0":2,"1":2}}'),
            "start and end: wanted the same topic-partitions in both, found only in start: t-2; only in end: none",
        ),
        (
            offsets('{"t":{"0":1}}'),
            offsets('{"t":{"0":0}}'),
            "start and end: wanted a start not after the end, found start offset 1 > end offset 0 for t-0",
        ),
        (
            parse_timestamps("o", '{"t":{"0":2}}'),
            parse_timestamps("o", '{"t":{"0":1}}'),
            "start and end: wanted a start not after the end, "
            "found start 1970-01-01T00:00:00.002Z > end 1970-01-01T00:00:00.001Z for t-0",
        ),
        (
            parse_timestamp("o", "2"),
            parse_timestamp("o", "1"),
            "start and end: wanted a start not after the end, "
            "found start 1970-01-01T00:00:00.002Z > end 1970-01-01T00:00:00.001Z for all partitions",
        ),
    ],
)
def test_ranges_that_no_cluster_can_serve_are_refused(start: OffsetSpec, end: OffsetSpec, told: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        check_batch_range("start", start, "end", end)
    assert raised.value.message.startswith(told)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (offsets("earliest"), offsets("latest")),
        (offsets('{"t":{"0":-2,"1":5}}'), offsets('{"t":{"0":0,"1":-1}}')),
        (offsets('{"t":{"0":5}}'), offsets('{"t":{"0":5}}')),
        (parse_timestamp("o", "2"), offsets('{"t":{"0":0}}')),
        (parse_timestamp("o", "2"), parse_timestamp("o", "2")),
    ],
)
def test_ranges_that_only_the_cluster_can_judge_pass(start: OffsetSpec, end: OffsetSpec) -> None:
    check_batch_range("start", start, "end", end)


def test_a_spec_by_partition_must_name_exactly_what_is_read() -> None:
    spec = offsets('{"t":{"0":1,"1":1}}')
    check_names_all("o", spec, {("t", 0), ("t", 1)})
    check_names_all("o", offsets("earliest"), {("t", 0)})
    with pytest.raises(InvalidOption) as raised:
        check_names_all("o", spec, [("t", partition) for partition in range(1, 20)])
    assert raised.value.message == (
        "o: wanted every partition that is read and no other (-1 stands for latest, -2 for earliest), found missing: "
        "t-2, t-3, t-4, t-5, t-6, t-7, t-8, t-9, t-10, t-11 and 8 more; not read: t-0"
    )
