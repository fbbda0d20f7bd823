"""docs/open-files.md: its snippets open the objects of a log, and find the record of an offset, without sparklog."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sparklog
from sparklog.cli.main import run
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.maintenance.rewrite.roll_job import run_roll
from tests.client.compacting import KEPT, mixed_log

PAGE = Path(__file__).parents[2] / "docs" / "open-files.md"
PYARROW, POLARS, PANDAS, DUCKDB, ONE_RECORD, OF_OFFSET = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
KEYS = ["alice", "anna", "eve"]  # one for each of three partitions


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A topic of three partitions, whose objects hold compressed batches of all of them."""
    url = str(tmp_path / "cluster")
    init_cluster(url)
    with sparklog.connect(url) as made:
        made.create_topic("orders", partitions=3)
        for first in (0, 9_000):
            values = [f"order {number}, and words enough to be compressed" for number in range(first, first + 9_000)]
            made.append("orders", pa.table({"key": KEYS * 3_000, "value": values}))
        yield made


def folder_of(cluster: Cluster) -> str:
    return cluster.connection.url.removeprefix("file://")


def an_object(cluster: Cluster) -> str:
    return str(min(Path(folder_of(cluster), "append").rglob("*.arrow")))


def ran(*snippets: str, **names: Any) -> dict[str, Any]:
    for snippet in snippets:
        exec(snippet, names)
    return names


# M: S-02
@pytest.mark.parametrize(
    ("snippet", "rows_of"),
    [
        (PYARROW, lambda found: found["records"].to_pylist()),
        (POLARS, lambda found: found["frame"].to_dicts()),
        (PANDAS, lambda found: found["frame"].to_dict("records")),
    ],
    ids=["pyarrow", "polars", "pandas"],
)
def test_tools_open_an_object_as_the_page_says(
    cluster: Cluster, snippet: str, rows_of: Callable[[dict[str, Any]], list[dict[str, Any]]]
) -> None:
    rows = rows_of(ran(snippet, path=an_object(cluster)))
    assert len(rows) == 9_000
    assert {each["key"] for each in rows} == {key.encode() for key in KEYS}


# M: S-02
def test_duckdb_queries_what_pyarrow_opened_and_opens_no_file_itself(cluster: Cluster) -> None:
    path = an_object(cluster)
    query = DUCKDB.replace("duckdb.sql(", "found = duckdb.sql(")
    assert ran(PYARROW, query, path=path)["found"] == [(key, 3_000) for key in KEYS]
    for wrong in (f"from '{path}'", f"from read_arrow('{path}')"):
        with pytest.raises((duckdb.BinderException, duckdb.CatalogException)):
            duckdb.sql(wrong)


# M: S-02
@pytest.mark.parametrize("rolled", [False, True], ids=["append objects", "sealed segments"])
@pytest.mark.parametrize("partition", [0, 1, 2])
def test_the_record_of_an_offset_is_where_the_dump_says(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], partition: int, rolled: bool
) -> None:
    url = cluster.connection.url
    if rolled:
        run_roll(url, everything=True)
    offset = 4_321
    capsys.readouterr()
    arguments = ["segment", "dump", "orders", "--partition", str(partition), "--offset", str(offset)]
    assert run([*arguments, "--cluster", url, "--format", "json"]) == 0
    dumped = json.loads(capsys.readouterr().out)
    (line,) = [each for each in dumped if each["start"] <= offset < each["end"]]
    path = f"{folder_of(cluster)}/{line['object']}"
    found = ran(PYARROW, ONE_RECORD, path=path, position=line["position"], start=line["start"], offset=offset)
    wanted = cluster.read("orders", partition=partition, start=offset, end=offset + 1).to_pylist()[0]
    assert {name: found["record"][name] for name in ("key", "value", "timestamp")} == {
        name: wanted[name] for name in ("key", "value", "timestamp")
    }
    if rolled:
        first = int(re.search(r"/(\d{20})-", path)[1])  # type: ignore[index]
        assert found["records"].slice(offset - first, 1).to_pylist()[0]["value"] == wanted["value"]


# M: S-02
def test_tools_open_a_compacted_segment_and_find_an_offset_in_it(tmp_path: Path) -> None:
    init_cluster(str(tmp_path / "cluster"))
    with sparklog.connect(str(tmp_path / "cluster")) as cluster:
        mixed_log(cluster)
        path = str(min(Path(folder_of(cluster), "topics").rglob("*.arrow")))
        record = cluster.read("t", partition=0, start=17, end=18, include_headers=True).to_pylist()[0]
    found = ran(PYARROW, PANDAS, POLARS, OF_OFFSET, path=path, offset=17)
    assert found["record"] == {name: record[name] for name in ("key", "value", "headers", "timestamp", "offset")}
    for offsets in (found["records"]["offset"].to_pylist(), found["frame"]["offset"].to_list()):
        assert offsets == [offset for offset in KEPT if offset < 20]
    query = """import duckdb; rows = duckdb.sql('select decode(value) from records where "offset" > 11 order by all')"""
    assert ran(PYARROW, query, path=path)["rows"].fetchall() == [("v14",), ("v17",)]
    index = pa.ipc.open_file(pa.memory_map(path.removesuffix("arrow") + "index")).read_all()
    assert (index["base_offset"].to_pylist(), index["last_offset"].to_pylist()) == ([2], [17])
