"""Numbers as people read them."""

from __future__ import annotations

import pytest

from sparklog.core.describe.readable import (
    amount,
    counted,
    duration,
    exact_amount,
    human,
    labels_of,
    numbered,
    point_in_time,
    point_in_time_us,
    printable,
    setting_bytes,
    setting_ms,
    text_table,
)


@pytest.mark.parametrize(
    ("number", "noun", "shown"),
    [
        (0, "record", "0 records"),
        (1, "partition", "1 partition"),
        (2, "partition", "2 partitions"),
        (12_345, "record", "12,345 records"),
        (3, "entry", "3 entries"),
        (2, "key", "2 keys"),
        (2, "batch", "2 batches"),
        (2, "in-sync replica", "2 in-sync replicas"),
    ],
)
def test_one_thing_is_singular(number: int, noun: str, shown: str) -> None:
    assert counted(number, noun) == shown


@pytest.mark.parametrize(
    ("size_bytes", "shown", "exact"),
    [
        (0, "0 B", "0 bytes"),
        (1, "1 B", "1 byte"),
        (1023, "1,023 B", "1,023 bytes"),
        (1536, "1.5 KiB", "1,536 bytes (1.5 KiB)"),
        (1_048_588, "1.0 MiB", "1,048,588 bytes (1.0 MiB)"),
        (3 << 40, "3.0 TiB", "3,298,534,883,328 bytes (3.0 TiB)"),
        (5000 << 40, "5,000.0 TiB", "5,497,558,138,880,000 bytes (5,000.0 TiB)"),
    ],
)
def test_sizes_have_binary_units_and_exact_ones_keep_their_digits(size_bytes: int, shown: str, exact: str) -> None:
    assert (amount(size_bytes), exact_amount(size_bytes)) == (shown, exact)


@pytest.mark.parametrize(
    ("length_ms", "shown"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 second"),
        (1500, "1.5 seconds"),
        (60_000, "1 minute"),
        (90_000, "1 minute 30 seconds"),
        (60_001, "1 minute 0.001 seconds"),
        (120_000, "2 minutes"),
        (604_800_000, "7 days"),
        (90_000_000, "1 day 1 hour"),
        (-1000, "-1 second"),
    ],
)
def test_durations_have_the_units_of_a_calendar_and_are_not_rounded(length_ms: int, shown: str) -> None:
    assert duration(length_ms) == shown


def test_times_are_iso_in_utc_and_stay_numbers_beyond_the_calendar() -> None:
    assert point_in_time(1_359_676_799_001) == "2013-01-31T23:59:59.001Z"
    assert point_in_time(-1) == "1969-12-31T23:59:59.999Z"
    assert point_in_time(10**17) == "100000000000000000 ms (after the year 9999)"
    assert point_in_time(-(10**17)) == "-100000000000000000 ms (before the year 1)"
    assert point_in_time_us(1_359_676_799_001_000) == "2013-01-31T23:59:59.001Z"
    assert point_in_time_us(1) == "1970-01-01T00:00:00.000001Z"
    assert point_in_time_us(2**62) == f"{2**62} us (after the year 9999)"


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    assert printable("Bücher 日本 🙂") == "Bücher 日本 🙂"
    assert printable("a\x1b[2J\0\n\u202eb\ud800") == "a\\x1b[2J\\x00\\n\\u202eb\\ud800"
    assert printable("a\x1b\n\tb", "\n\t") == "a\\x1b\n\tb"


def test_partitions_are_numbered_from_0() -> None:
    assert [numbered(each) for each in (1, 2, 6)] == ["only partition 0", "partitions 0 to 1", "partitions 0 to 5"]


def test_a_setting_is_shown_as_it_is_written_and_as_it_is_read() -> None:
    assert setting_ms("retention.ms", 604_800_000) == "retention.ms=604800000 (7 days)"
    assert setting_bytes("segment.bytes", 1 << 30) == "segment.bytes=1073741824 (1.0 GiB)"
    assert (setting_ms("segment.ms", 1), setting_bytes("segment.bytes", 10)) == ("segment.ms=1", "segment.bytes=10")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("at_ms", 0, "1970-01-01T00:00:00.000Z"),
        ("at_ms", 1_359_676_799_001, "2013-01-31T23:59:59.001Z"),
        ("at_ms", -1, "1969-12-31T23:59:59.999Z"),
        ("at_ms", 2**62, "4611686018427387904 ms (after the year 9999)"),
        ("at_ms", None, "-"),
        ("size_bytes", 1023, "1,023 B"),
        ("size_bytes", 1536, "1.5 KiB"),
        ("size_bytes", 3 << 40, "3.0 TiB"),
        ("records", 12_345, "12345"),
        ("isr", ["a", "b"], "a, b"),
        ("isr", [], "-"),
        ("healthy", True, "yes"),
    ],
)
def test_a_value_is_shown_by_the_unit_in_its_name(name: str, value: object, shown: str) -> None:
    assert human(name, value) == shown


def test_names_of_others_can_not_steer_a_terminal() -> None:
    assert human("client", "a\x1b]0;x\x07\u202eb") == "a\\x1b]0;x\\x07\\u202eb"
    assert human("clients", ["a\nb", "c"]) == "a\\nb, c"


def test_the_unit_is_not_shown_twice() -> None:
    assert list(labels_of(("oldest_ms", "size_bytes", "log_start")).values()) == ["oldest", "size", "log start"]


def test_two_columns_have_two_names() -> None:
    names = ("deleted", "deleted_bytes", "deleted_ms", "done_bytes")
    assert list(labels_of(names).values()) == ["deleted", "deleted size", "deleted time", "done"]


def test_columns_are_aligned_and_nothing_is_cut_or_taken_as_markup() -> None:
    rows = [{"range": "[a]", "n": 5}, {"range": "[/b] " + "x" * 200, "n": None}]
    lines = text_table(rows).split("\n")
    assert [line.split()[0] for line in lines] == ["range", "[a]", "[/b]"]
    assert lines[2].endswith("x" * 200 + "  -")
    assert [line[207:] for line in lines] == ["n", "5", "-"]


def test_a_footer_is_the_last_line_and_aligned_with_its_columns() -> None:
    lines = text_table(
        [{"place": "t-0", "done_bytes": 1024, "why": "due"}], {"place": "all", "done_bytes": 2048, "why": ""}
    )
    assert lines.split("\n") == ["place     done  why", "t-0    1.0 KiB  due", "all    2.0 KiB"]
