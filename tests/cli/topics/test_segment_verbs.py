"""`sparklog segment …`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import sparklog as library
from sparklog.core.errors import Damaged, KeyNotFound, SparklogError, StoreUnavailable
from sparklog.core.reading import plan
from sparklog.core.reading.plan import SliceToRead
from sparklog.storage.keys import index_key
from sparklog.storage.memory import MemoryStore
from tests.cli.conftest import Cli
from tests.cli.replicated import disk
from tests.client.compacting import KEPT, mixed_log
from tests.kit.faulty_store import ALWAYS, FaultyStore
from tests.log.written_log import put_in_front


def test_slices_are_listed_in_offset_order_with_their_objects(orders: Cli) -> None:
    found = orders.json("segment", "list", "orders")
    assert [(each["start"], each["end"], each["kind"], each["stores"]) for each in found] == [
        (0, 1, "append", ["local"]),
        (1, 2, "append", ["local"]),
        (2, 3, "append", ["local"]),
    ]
    assert all(Path(orders.url, each["object"]).is_file() for each in found)
    assert found[0]["object"] in orders("segment", "list", "orders").out


@pytest.mark.parametrize(
    ("arguments", "starts"),
    [
        (("--offset", "1"), [1, 2]),
        (("-n", "1"), [0]),
        (("--offset", "1", "-n", "1"), [1]),
        (("--offset", "3"), []),
        (("-p", "0"), [0, 1, 2]),
    ],
)
def test_a_part_of_the_slices_can_be_asked_for(orders: Cli, arguments: tuple[str, ...], starts: list[int]) -> None:
    assert [each["start"] for each in orders.json("segment", "list", "orders", *arguments)] == starts


@pytest.mark.parametrize("verb", ["list", "dump"])
def test_an_offset_beyond_the_end_is_refused(orders: Cli, verb: str) -> None:
    said = orders("segment", verb, "orders", "--offset", "9")
    assert (said.code, said.err) == (2, "OFFSET_OUT_OF_RANGE: orders-0: wanted offset 9, the log ends at 3\n")


def test_an_empty_topic_has_none(sparklog: Cli) -> None:
    sparklog("topic", "create", "t")
    assert sparklog("segment", "list", "t").out == "topic t has no records there\n"
    assert sparklog.json("segment", "dump", "t") == []
    assert sparklog("segment", "dump", "t", "-p", "1").code == 3


def test_dump_shows_batches_with_verified_checksums(orders: Cli) -> None:
    (batch,) = orders.json("segment", "dump", "orders", "--offset", "1")
    assert (batch["start"], batch["end"], batch["records"], batch["checksum"]) == (1, 2, 1, "ok")
    body = Path(orders.url, batch["object"]).read_bytes()
    assert batch["position"] + batch["size_bytes"] < len(body)
    assert len(orders.json("segment", "dump", "orders", "-n", "9")) == 3


def test_dump_shows_the_records_of_its_slices(orders: Cli) -> None:
    said = orders("segment", "dump", "orders", "--offset", "1", "-n", "2", "--records", "--format", "json")
    assert [(each["offset"], each["value"]) for each in said.lines] == [(1, "b"), (2, "c")]
    assert '"value":"c"' in orders("segment", "dump", "orders", "-n", "3", "--records").out


# M: F-04
def test_a_flipped_bit_is_found_and_the_other_batches_are_shown(orders: Cli) -> None:
    first, second, third = orders.json("segment", "dump", "orders", "-n", "3")
    path = Path(orders.url, second["object"])
    body = bytearray(path.read_bytes())
    body[second["position"] + 10] ^= 1
    path.chmod(0o600)
    path.write_bytes(body)
    said = orders("segment", "dump", "orders", "-n", "3", "--format", "json")
    assert said.code == 5
    assert said.json[0] == first
    assert said.json[2] == third
    assert f"at byte {second['position']} of {second['object']}: wanted CRC32C" in said.json[1]["checksum"]
    assert said.err.startswith(
        "CORRUPT_MESSAGE: 1 of 3 batches can't be used, the first: orders-0 offsets [1, 2) on store local: record batch"
    )
    assert f"restore {second['object']} from a backup, or continue reading at 2" in said.err
    table = orders("segment", "dump", "orders", "-n", "3").out.splitlines()
    assert ["FAILED" in line for line in table] == [False, False, True, False, False]
    assert table[4].startswith("[1, 2): CORRUPT_MESSAGE: record batch at byte ")


# M: F-05
def test_a_missing_index_is_rebuilt_with_a_warning(orders: Cli) -> None:
    wanted = orders.json("segment", "dump", "orders")
    Path(orders.url, index_key(wanted[0]["object"])).unlink()
    said = orders("segment", "dump", "orders", "--format", "json")
    assert (said.code, said.json) == (0, wanted)
    assert said.err.startswith("warning: the index was rebuilt from its object: KEY_NOT_FOUND")


def test_without_an_index_the_damage_of_another_partition_is_not_blamed_on_these_records(sparklog: Cli) -> None:
    sparklog("topic", "create", "t", "-p", "2")
    with library.connect(sparklog.url) as cluster:
        cluster.append("t", pa.table({"value": ["a", "b"], "partition": pa.array([0, 1], pa.int32())}))
    (_,), (other,) = (sparklog.json("segment", "dump", "t", "-p", each) for each in "01")
    path = Path(sparklog.url, other["object"])
    Path(sparklog.url, index_key(other["object"])).unlink()
    body = bytearray(path.read_bytes())
    body[other["position"] + 10] ^= 1
    path.chmod(0o600)
    path.write_bytes(body)
    said = sparklog("segment", "dump", "t", "-p", "0")
    assert said.code == 5
    assert "the checksum of the whole object was compared because its index can't be used (KEY_NOT_FOUND" in said.err
    assert "the damage may be in records of another slice or partition" in said.err


def test_an_object_that_is_gone_with_its_index_leaves_its_slice(orders: Cli) -> None:
    (batch,) = orders.json("segment", "dump", "orders")
    Path(orders.url, batch["object"]).unlink()
    Path(orders.url, index_key(batch["object"])).unlink()
    said = orders("segment", "dump", "orders", "--format", "json")
    (row,) = said.json
    assert (said.code, row["start"], row["end"], row["crc32c"]) == (5, 0, 1, None)
    assert row["checksum"].startswith("KEY_NOT_FOUND")
    assert said.err.startswith("DATA_LOSS: 1 of 1 batch can't be used, the first: orders-0 offsets [0, 1) on store")


@pytest.mark.parametrize("error", [KeyNotFound, Damaged, StoreUnavailable])
def test_dump_reads_the_next_holder_where_the_first_one_fails_and_says_which_it_read(
    orders: Cli, monkeypatch: pytest.MonkeyPatch, error: type[SparklogError]
) -> None:
    failing = FaultyStore(MemoryStore("memory://failing"))
    failing.plan(error("not here"), times=ALWAYS)
    put_in_front(monkeypatch, failing)
    found = orders.json("segment", "dump", "orders", "-n", "3")
    assert [(each["start"], each["checksum"], each["store"]) for each in found] == [
        (each, "ok", "local") for each in range(3)
    ]


def test_dump_does_not_follow_an_index_that_says_something_else_than_the_chain(
    orders: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_other_batches(*given: Any) -> Iterator[SliceToRead]:
        for part in slices(*given):
            yield SliceToRead(
                msgspec.structs.replace(part.slice, position=part.slice.position + 1), part.object, part.stores
            )

    slices = plan.slices_to_read
    monkeypatch.setattr(plan, "slices_to_read", of_other_batches)
    said = orders("segment", "dump", "orders", "--format", "json")
    (row,) = said.json
    assert (said.code, row["start"], row["end"], row["crc32c"]) == (5, 0, 1, None)
    assert row["checksum"].startswith("CORRUPT_MESSAGE: index of append/")


def test_what_may_not_be_read_is_neither_damaged_nor_lost(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def denied(path: str, *arguments: int, **named: int) -> int:
        if "/append/" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "open", denied)
    for arguments in (("segment", "dump", "orders"), ("consume", "orders"), ("consume", "orders", "-o", "@0")):
        said = orders(*arguments)
        assert (said.code, said.err.split(":")[0]) == (1, "STORE_ACCESS_DENIED")
        assert "orders-0" in said.err
        assert "store local" in said.err
        assert "Permission denied (EACCES); the user of this process may not read there" in said.err


def test_dump_shows_where_the_batches_of_compacted_segments_begin_and_end(sparklog: Cli) -> None:
    with library.connect(sparklog.url) as cluster:
        mixed_log(cluster)
    dumped = sparklog.json("segment", "dump", "t", "-n", "9")
    assert [(each["start"], each["end"], each["records"], each["checksum"]) for each in dumped] == [
        (2, 18, 6, "ok"),
        (23, 38, 2, "ok"),
        (40, 50, 10, "ok"),
        (50, 60, 10, "ok"),
    ]
    listed = sparklog.json("segment", "list", "t")
    assert [(each["start"], each["end"], each["records"]) for each in listed[:2]] == [(0, 20, 6), (20, 40, 2)]
    said = sparklog("segment", "dump", "t", "-n", "9", "--records", "--format", "json")
    assert [each["offset"] for each in said.lines] == KEPT
    assert sparklog.json("topic", "list")[0]["records"] == len(KEPT)
    assert sparklog.json("topic", "describe", "t")["partitions"][0]["records"] == len(KEPT)


# ---- verify ------------------------------------------------------------------------------------------


def test_verify_compares_each_object_on_each_store(replicated: Cli) -> None:
    rows = replicated.json("segment", "verify", "t")
    assert [row["store"] for row in rows] == ["a", "b", "c"] * 2
    assert {row["result"] for row in rows} == {"ok"}
    key = rows[0]["object"]
    disk(replicated, "b").joinpath(key).unlink()
    said = replicated("segment", "verify", "t", "--format", "json")
    assert said.code == 5
    bad = [row for row in said.json if row["result"] != "ok"]
    assert [(row["object"], row["store"], row["kinds"]) for row in bad] == [(key, "b", ["object-missing"])]
    assert bad[0]["advice"] == "run 'sparklog job recovery --full --store b'"
    assert replicated("segment", "verify", "t", "--store", "a", "-p", "0").code == 0
    assert "object-missing" in replicated("segment", "verify", "t", "--store", "b").out


@pytest.mark.parametrize("arguments", [("none",), ("orders", "-p", "7"), ("orders", "--store", "none")])
def test_verify_of_what_is_not_there_is_not_found(orders: Cli, arguments: tuple[str, ...]) -> None:
    said = orders("segment", "verify", *arguments)
    assert (said.code, said.out) == (3, "")
