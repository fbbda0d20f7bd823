"""Files that Spark cuts into parts: no row is lost, doubled or mistaken at a border, and settings are put back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from sparklog.spark.produce.formats.text_files import settings
from sparklog.spark.produce.input_source import InputSource, checked, open_source, reading

MAX_PART_BYTES = "64"
SMALL_PARTS = {"spark.sql.files.maxPartitionBytes": MAX_PART_BYTES, "spark.sql.files.openCostInBytes": "1"}


@pytest.fixture
def cut(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that cuts a file after 64 bytes, as Spark does by default after 128 MiB."""
    before = {name: spark.conf.get(name) for name in SMALL_PARTS}
    for name, value in SMALL_PARTS.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        spark.conf.set(name, str(old))


def rows(session: SparkSession, path: Path, **options: str) -> tuple[list[Any], int]:
    """What is read, without what is beside the columns, and by how many tasks."""
    source = checked(InputSource(str(path), options=options))
    with reading(source, session):
        frame = open_source(source, session)
        return [tuple(each)[:-1] for each in frame.collect()], frame.rdd.getNumPartitions()


def test_a_csv_file_is_not_cut_because_a_value_may_span_the_border(cut: SparkSession, tmp_path: Path) -> None:
    wanted = [(str(n), f"a note that goes\nover {n} lines\nand ends here") for n in range(20)]
    path = tmp_path / "notes.csv"
    path.write_text("id,note\n" + "".join(f'{n},"{note}"\n' for n, note in wanted))
    assert rows(cut, path) == (wanted, 1)


def test_parts_of_a_csv_file_without_such_values_have_its_header_only_once(cut: SparkSession, tmp_path: Path) -> None:
    """A part that begins with what would be the magic of another format is none."""
    wanted = [(f"PAR1{n}", "x" * 56) for n in range(20)]
    path = tmp_path / "orders.csv"
    path.write_text("id,note\n" + "".join(f"{n},{note}\n" for n, note in wanted))
    found, tasks = rows(cut, path, multiLine="false")
    assert found == wanted
    assert tasks > 10


def test_every_line_of_a_json_file_is_read_once(cut: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    path.write_text("".join(json.dumps({"n": n, "note": "y" * (n % 70)}) + "\n" for n in range(40)))
    found, tasks = rows(cut, path)
    assert [n for n, *_ in found] == list(range(40))
    assert tasks > 10


def test_a_json_document_is_not_cut(cut: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    path.write_text(json.dumps([{"n": n} for n in range(40)], indent=2))
    found, tasks = rows(cut, path, multiLine="true")
    assert ([n for n, *_ in found], tasks) == (list(range(40)), 1)


@pytest.mark.parametrize("multiline", ["false", "true"])
def test_json_of_another_encoding_arrives_as_utf_8(spark: SparkSession, tmp_path: Path, multiline: str) -> None:
    path = tmp_path / "cafe.json"
    path.write_text('{"name": "Café Zoë"}', encoding="latin-1")
    found, _ = rows(spark, path, encoding="latin-1", multiLine=multiline)
    assert found == [("Café Zoë", '{"name": "Café Zoë"}')]


class Conf:
    """A session of which only the settings are there. After Ctrl-C every call would fail."""

    def __init__(self) -> None:
        self.conf = self
        self.values: dict[str, str] = {}
        self.broken = False

    def get(self, name: str) -> str:
        return self.values.get(name, "as it was")

    def set(self, name: str, value: str) -> None:
        assert not self.broken, "a call into Spark over the connection that Ctrl-C broke"
        self.values[name] = value


@pytest.mark.parametrize("error", [None, ValueError("x"), KeyboardInterrupt()])
def test_settings_are_put_back_unless_ctrl_c_broke_the_connection(error: BaseException | None) -> None:
    session = Conf()
    with (
        suppress(ValueError, KeyboardInterrupt),
        settings(cast(SparkSession, session), {"spark.sql.ansi.enabled": "true"}),
    ):
        assert "as it was" not in session.values.values()
        session.broken = isinstance(error, KeyboardInterrupt)
        if error is not None:
            raise error
    assert (set(session.values.values()) == {"as it was"}) is not session.broken
