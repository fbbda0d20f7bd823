"""`sparklog produce`: lines and JSON, batches, what is wrong with a line."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparklog as library
from sparklog.cli.records import produce
from sparklog.cli.records.produce import line_groups
from sparklog.core.errors import InvalidInput
from tests.cli.conftest import Cli
from tests.kit.hand_clock import HandClock


def never() -> None:
    raise AssertionError("nothing pauses")


@dataclass
class Script:
    """An input that gives its chunks at their times; None in `chunks` is a silence of a second."""

    chunks: list[bytes | None]
    clock: HandClock = field(default_factory=lambda: HandClock(0, [never]))
    waits: list[float | None] = field(default_factory=list)

    def read(self, wait_ms: float | None) -> bytes | None:
        self.waits.append(wait_ms)
        if not self.chunks:
            return b""
        if self.chunks[0] is not None:
            return self.chunks.pop(0)
        self.clock.at_ms += 1000 if wait_ms is None else int(wait_ms)
        self.chunks.pop(0)
        return None

    def groups(self, most_lines: int = 100, linger_ms: int = 500) -> list[list[bytes]]:
        return [list(each) for each in line_groups(self.read, most_lines, linger_ms, self.clock)]


@given(
    lines=st.lists(st.binary(max_size=5).map(lambda each: each.replace(b"\n", b"").replace(b"\r", b""))),
    cuts=st.lists(st.integers(0, 60)),
    most=st.integers(1, 4),
    end=st.sampled_from([b"\n", b"\r\n"]),
)
def test_lines_come_whole_and_in_order_however_the_input_is_cut(
    lines: list[bytes], cuts: list[int], most: int, end: bytes
) -> None:
    body = b"".join(line + end for line in lines)
    edges = [0, *sorted(min(each, len(body)) for each in cuts), len(body)]
    chunks = [body[low:high] for low, high in pairwise(edges) if low < high]
    groups = Script(list(chunks)).groups(most)
    assert [line for group in groups for line in group] == lines
    assert all(len(group) == most for group in groups[:-1])


def test_a_last_line_without_an_end_counts() -> None:
    assert Script([b"a\nb"]).groups() == [[b"a", b"b"]]
    assert Script([b"a\n\n"]).groups() == [[b"a", b""]]
    assert Script([]).groups() == []


def test_what_came_is_handed_out_when_nothing_follows_in_time() -> None:
    script = Script([b"a\nb", None, b"c\n", None, b"d\n"])
    assert script.groups() == [[b"a"], [b"bc"], [b"d"]]
    assert script.waits[:2] == [None, 500]


def test_a_steady_trickle_does_not_put_a_group_off() -> None:
    script = Script([b"a\n"])
    read = script.read

    def trickle(wait_ms: float | None) -> bytes | None:
        script.clock.at_ms += 200
        return b"x\n" if script.clock.at_ms < 1400 else read(wait_ms)

    groups = list(line_groups(trickle, 100, 500, script.clock))
    assert [len(each) for each in groups][:2] == [4, 3]


def test_memory_is_bounded_by_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "COMMIT_BYTES", 10)
    assert Script([b"12345\n12345\n1\n"]).groups() == [[b"12345", b"12345"], [b"1"]]
    monkeypatch.setattr(produce, "LONGEST_LINE_BYTES", 7)
    with pytest.raises(InvalidInput, match="line 2: wanted at most 7 bytes"):
        Script([b"1\n12345", b"12345"]).groups()


def test_stdin_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb", buffering=0) as pipe:
        monkeypatch.setattr("sys.stdin", stdin)
        read = produce.stdin_reader()
        assert read(0) is None
        pipe.write(b"a")
        assert read(None) == b"a"
        pipe.close()
        assert read(0) == b""


def test_what_is_produced_is_consumed(sparklog: Cli) -> None:
    sparklog("topic", "create", "t")
    said = sparklog("produce", "t", "--key-separator", ":", stdin="k:a\nk::b\r\n:\n")
    assert (said.code, said.out) == (0, "appended 3 records to t in 1 commit\n")
    assert sparklog("consume", "t", "--key-separator", "=").out == "k=a\nk=:b\n=\n"


def test_each_batch_is_one_commit(sparklog: Cli) -> None:
    sparklog("topic", "create", "t", "-p", "2")
    before = sparklog.json("chain", "state")["n"]
    said = sparklog.json("produce", "t", "--batch", "2", "--partition", "1", stdin="a\nb\nc\nd\ne\n")
    ranges = [{"partition": 1, "start": 0, "end": 5}]
    assert said == {"topic": "t", "records": 5, "commits": 3, "ranges": ranges}
    assert sparklog.json("chain", "state")["n"] == before + 3


# M: F-01
def test_a_topic_limits_how_much_waits_for_a_commit(sparklog: Cli) -> None:
    sparklog("topic", "create", "t", "-c", "flush.messages=2")
    assert sparklog.json("produce", "t", stdin="a\nb\nc\nd\ne\n")["commits"] == 3


# M: F-01
def test_a_topic_limits_for_how_long_records_wait_for_a_commit(sparklog: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script([b"a\n", None, b"b\n"])
    monkeypatch.setattr(produce, "stdin_reader", lambda: script.read)
    sparklog("topic", "create", "t", "-c", "flush.ms=7")
    assert sparklog.json("produce", "t", "--linger-ms", "3600000")["commits"] == 2
    assert script.waits[0] is None
    assert all(wait <= 7 for wait in script.waits[1:] if wait is not None)


def test_the_same_json_comes_out_as_went_in(sparklog: Cli) -> None:
    sparklog("topic", "create", "t", "-p", "2")
    sparklog("topic", "create", "copy", "-p", "2")
    given = [
        '{"partition":1,"timestamp_us":1357000000000123,"key":"aw==","value":"/w==","headers":[{"key":"h","value":null}]}',
        '{"partition":1,"timestamp":1357000000001,"value":null}',
        '{"partition":0,"timestamp":-1,"key":"","value":""}',
    ]
    assert sparklog("produce", "t", "--json", "--base64", stdin="\n".join(given)).code == 0
    out = sparklog("consume", "t", "--format", "json", "--base64")
    assert [(each["timestamp_us"], each["key"], each["value"], each["headers"]) for each in out.lines] == [
        (-1000, "", "", []),
        (1357000000000123, "aw==", "/w==", [{"key": "h", "value": None}]),
        (1357000000001000, None, None, []),
    ]
    assert sparklog("produce", "copy", "--json", "--base64", stdin=out.out).code == 0
    copied = sparklog("consume", "copy", "--format", "json", "--base64").out
    assert copied == out.out.replace('"topic":"t"', '"topic":"copy"')


def test_a_value_that_is_no_string_is_kept_as_its_json(sparklog: Cli) -> None:
    sparklog("topic", "create", "t")
    odd = '{"key": [1e400], "value": {"a":  "\\ud83d"}}'
    sparklog("produce", "t", "--json", stdin=f'{{"value": {{"a":  1.50}}, "key": 7}}\n{{"value": "\\u00e9"}}\n{odd}\n')
    shown = '7 {"a":  1.50}\nnull é\n[1e400] {"a":  "\\ud83d"}\n'
    assert sparklog("consume", "t", "--key-separator", " ").out == shown


@pytest.mark.parametrize(
    ("arguments", "line", "text"),
    [
        (("--json",), "{", "line 2: wanted a JSON object"),
        (("--json",), '{"value": NaN}', "line 2: wanted a JSON object, found NaN, which is not JSON"),
        (("--json",), '{"value": "\\ud83d"}', "line 2: wanted text, found half of a surrogate pair"),
        (("--json",), '{"value": 1, "key": "\\ude00"}', "line 2: wanted text, found half of a surrogate pair"),
        (("--json",), '{"value": 1, "headers": [{"key": "\\ude00"}]}', "found half of a surrogate pair"),
        (("--json",), '{"value": ["\\ude00"], "partition": 1.5}', "$.partition"),
        (("--json",), '{"key": ["\\ude00"]}', "line 2: Object missing required field `value`"),
        (("--json",), "[]", "line 2: Expected `object`"),
        (("--json",), '{"key": "k"}', "line 2: Object missing required field `value`"),
        (("--json",), '{"value": 1, "vlaue": 2}', "did you mean value?"),
        (("--json",), '{"value": 1, "timestamp": "now"}', "$.timestamp"),
        (("--json",), '{"value": 1, "partition": 1.5}', "$.partition"),
        (("--json",), '{"value": 1, "headers": [{"value": 1}]}', "$.headers[0]"),
        (("--json", "--base64"), '{"value": "é"}', "line 2: the value can't be read as base64"),
        (("--json", "--base64"), '{"value": 1}', "line 2: wanted the value as a base64 string"),
        (("--json",), '{"value": 1, "partition": -1}', "$.partition"),
        (("--key-separator", "="), "novalue", "line 2: wanted KEY=VALUE, found 'novalue'"),
    ],
)
def test_a_wrong_line_ends_it_and_what_was_appended_before_is_told(
    sparklog: Cli, arguments: tuple[str, ...], line: str, text: str
) -> None:
    sparklog("topic", "create", "t")
    good = '{"value": ""}' if "--json" in arguments else "k=v"
    said = sparklog("produce", "t", *arguments, "--batch", "1", stdin=f"{good}\n{line}\n")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert text in said.err
    assert said.err.endswith("; appended before it: 1 record\n")
    assert sparklog.json("topic", "list")[0]["records"] == 1


# M: S-06
def test_a_batch_with_a_record_too_large_is_not_appended_at_all(sparklog: Cli) -> None:
    sparklog("topic", "create", "t", "-c", "max.message.bytes=100")
    said = sparklog("produce", "t", stdin="small\n" + "x" * 200 + "\n")
    assert (said.code, said.err.startswith("RECORD_TOO_LARGE: ")) == (2, True)
    assert sparklog.json("topic", "list")[0]["records"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--base64",), 2, "--base64 needs --json"),
        (("--json", "--key-separator", ":"), 2, "give only one of them"),
        (("--key-separator", ""), 2, "wanted a text"),
        (("--batch", "0"), 2, "--batch"),
        (("--partition", "-1"), 2, "--partition"),
        (("--partition", "5"), 3, "it has only partition 0"),
        (("--compression", "gzip"), 2, "gzip"),
        (("--key", "k", "--key-separator", ":"), 2, "--key sets the key of every record"),
        (("file", "--json"), 2, "a file is one value"),
    ],
)
def test_options_that_make_no_sense_are_refused(orders: Cli, arguments: tuple[str, ...], code: int, text: str) -> None:
    said = orders("produce", "orders", *arguments, stdin="a\n")
    assert (said.code, text in said.err) == (code, True)
    assert orders.json("topic", "list")[0]["records"] == 3


def test_each_file_is_one_record_as_it_is(sparklog: Cli, tmp_path: Path) -> None:
    bodies = [b"one\r\ntwo\n", b"", bytes(range(256))]
    files = [tmp_path / str(number) for number in range(3)]
    for file, body in zip(files, bodies, strict=True):
        file.write_bytes(body)
    sparklog("topic", "create", "t")
    said = sparklog("produce", "t", *map(str, files), "--key", "k", "--batch", "2")
    assert (said.code, said.out) == (0, "appended 3 records to t in 2 commits\n")
    with library.connect(sparklog.url) as cluster:
        rows = cluster.read("t", partition=0)
    assert (rows["value"].to_pylist(), rows["key"].to_pylist()) == (bodies, [b"k"] * 3)


def test_a_file_that_cant_be_read_is_told(sparklog: Cli, tmp_path: Path) -> None:
    sparklog("topic", "create", "t")
    (tmp_path / "there").write_bytes(b"x")
    for missing, why in (("gone", "No such file or directory"), ("", "Is a directory")):
        said = sparklog("produce", "t", "--batch", "1", str(tmp_path / "there"), str(tmp_path / missing))
        assert (said.code, why in said.err, said.err.endswith("appended before it: 1 record\n")) == (2, True, True)


def test_a_file_that_is_too_large_is_not_read(sparklog: Cli, tmp_path: Path) -> None:
    sparklog("topic", "create", "t", "-c", "max.message.bytes=100")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(1 << 40)  # no memory holds it
    said = sparklog("produce", "t", str(tmp_path / "large"))
    assert (said.code, said.err.startswith("RECORD_TOO_LARGE: "), "large" in said.err) == (2, True, True)


def test_words_of_the_command_line_need_not_be_utf_8(sparklog: Cli) -> None:
    sparklog("topic", "create", "t")
    odd = os.fsdecode(b"\xff")
    sparklog("produce", "t", "--key", odd, stdin="v\n")
    sparklog("produce", "t", "--key-separator", odd, stdin=b"k\xffw\n")
    with library.connect(sparklog.url) as cluster:
        rows = cluster.read("t", partition=0)
    assert (rows["key"].to_pylist(), rows["value"].to_pylist()) == ([b"\xff", b"k"], [b"v", b"w"])


def test_a_fixed_key_is_that_of_every_line(sparklog: Cli) -> None:
    sparklog("topic", "create", "t")
    sparklog("produce", "t", "-k", "", stdin="a\nb\n")
    assert sparklog("consume", "t", "--template", "%K:%s ").out == "0:a 0:b "


def test_a_missing_topic_is_told_before_anything_is_read(sparklog: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "stdin_reader", lambda: pytest.fail("stdin was read"))
    assert sparklog("produce", "none").code == 3
