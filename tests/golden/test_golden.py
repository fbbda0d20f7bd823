"""The golden cluster, which older code wrote, stays readable, byte for byte."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from sparklog.chain.follow.read_entries import results_in
from sparklog.client.cluster import connect
from sparklog.core.commands import Application
from sparklog.core.errors import InvalidProducerEpoch, UnsupportedVersion
from sparklog.core.idempotence.applications import check_run
from sparklog.core.records import CoordinationClaimed, OffsetsCommitted, Record
from sparklog.core.state import FORMAT
from sparklog.core.types import EntryNumber
from sparklog.maintenance.verify.verify_job import run_verify
from tests.chain.newer_format import NEWER, make_newer
from tests.golden.compacted_segment import OLDER
from tests.golden.make_golden import GOLDEN, contents, make, rows
from tests.kit.silent_console import SILENT


def test_the_golden_cluster_reads_as_it_was_written(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "cluster", tmp_path / "cluster")
    with connect(str(tmp_path / "cluster")) as cluster:
        assert contents(cluster) == json.loads((GOLDEN / "expected.json").read_text())


def test_what_the_golden_cluster_applied_and_retired_is_known(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "cluster", tmp_path / "cluster")
    with connect(str(tmp_path / "cluster")) as cluster:
        follower = cluster.connection.follower
        assert follower.snapshot_n > 0
        assert all(topic.stores for topic in follower.state.topics.values())
        applied = results_in(follower.entries(EntryNumber(n) for n in range(follower.state.n + 1)))
        every = [each for each in applied if not _is_known_otherwise(each[0].records[0])]
        *known, by_producer = [(command.command_id, result) for command, result in every]
        assert list(follower.results(list(follower.state.results))) == known
        assert follower.state.results.get(by_producer[0]) is None
        assert [each.n for each in follower.state.results.labelled("")] == [result.n for _, result in known]
        retired = [(each.number, each.topic) for each in follower.state.retired if each.topic == "golden"]
        assert retired == [(0, "golden"), (1, "golden")]


def _is_known_otherwise(record: Record) -> bool:
    by_member = isinstance(record, OffsetsCommitted) and record.member_id is not None
    return by_member or isinstance(record, CoordinationClaimed)


def test_the_golden_cluster_can_be_written_to(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "cluster", tmp_path / "cluster")
    with connect(str(tmp_path / "cluster")) as cluster:
        assert cluster.append("golden", rows(0, 3), application=("app", 7)).records > 3  # version 7 was written
        assert cluster.append("golden", rows(0, 3), application=("app", 8)).records == 3


def test_the_run_of_a_query_that_another_one_followed_stays_fenced(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "cluster", tmp_path / "cluster")
    with connect(str(tmp_path / "cluster")) as cluster:
        state = cluster.connection.newest_state()
        check_run(state, Application("query", 3, "run-2"))
        with pytest.raises(InvalidProducerEpoch):
            check_run(state, Application("query", 3, "run-1"))


def test_what_is_written_today_has_the_golden_shape(tmp_path: Path) -> None:
    make(tmp_path)
    made = json.loads((tmp_path / "expected.json").read_text())["records"]
    kept = json.loads((GOLDEN / "expected.json").read_text())["records"]
    assert made["golden-0"] == kept["golden-0"]
    assert made["golden-1"] == kept["golden-1"]


@pytest.mark.parametrize("suffix", [".arrow", ".index"])
def test_each_object_opens_with_plain_arrow_and_polars(suffix: str) -> None:  # M: S-02
    objects = [each for each in (GOLDEN / "cluster").rglob(f"*{suffix}") if "meta" not in each.parts]
    assert len(objects) >= 4
    for each in objects:
        with pa.memory_map(str(each)) as file:
            table = pa.ipc.open_file(file).read_all()
        assert table.num_rows > 0
        assert pl.read_ipc(each).height == table.num_rows


def test_segments_list_in_offset_order_from_their_names() -> None:  # M: S-02
    folder = next((GOLDEN / "cluster" / "topics").glob("*-golden")) / "0"
    starts = [int(each.name[:20]) for each in sorted(folder.glob("*.arrow"))]
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert len(starts) > 1


def test_an_entry_of_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "cluster", tmp_path / "cluster")
    entry = sorted((tmp_path / "cluster" / "meta" / "log").rglob("*"))[-1]
    make_newer(entry)
    with pytest.raises(UnsupportedVersion, match=f"format {NEWER}"):
        connect(str(tmp_path / "cluster"))


def test_an_entry_of_an_older_format_is_refused_by_name(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "cluster", tmp_path / "cluster")
    shutil.rmtree(tmp_path / "cluster" / "meta" / "snapshot")
    shutil.copy(OLDER / "entry", next((tmp_path / "cluster" / "meta" / "log").iterdir()) / f"{0:020}")
    with pytest.raises(UnsupportedVersion, match=f"reads format {FORMAT}, found format 5: it was written before"):
        connect(str(tmp_path / "cluster"))


def test_the_golden_cluster_has_no_differences(tmp_path: Path) -> None:
    """Also the states in its snapshots are those that its entries lead to by today's rules."""
    shutil.copytree(GOLDEN / "cluster", tmp_path / "cluster")
    report = run_verify(str(tmp_path / "cluster"), console=SILENT)
    assert list(report.differences) == []
