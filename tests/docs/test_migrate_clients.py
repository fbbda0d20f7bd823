"""docs/migrate-clients.md: its snippets run, each name of sparklog on it is there, and it has every answer."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer
from sparklog.client.consumer.consumer_record import ConsumerRecord
from sparklog.client.kafka_names import ANSWERS
from sparklog.client.producer.producer import Producer
from sparklog.client.producer.record_future import RecordFuture, RecordMetadata
from sparklog.client.producer.transaction import Transaction
from tests.cli.conftest import Cli
from tests.docs.test_maintenance import performed

PAGE = (Path(__file__).parents[2] / "docs" / "migrate-clients.md").read_text(encoding="utf-8")
OWNERS: dict[str, Any] = {
    "sparklog": sparklog,
    "cluster": Cluster,
    "producer": Producer,
    "consumer": Consumer,
    "transaction": Transaction,
    "record": ConsumerRecord,
    "metadata": RecordMetadata,
    "future": RecordFuture,
}
ROWS = [line[1:-1].split("|") for line in PAGE.splitlines() if line.startswith("|")]
NAMES = [name for row in ROWS if len(row) == 4 for name in re.findall(r"`([^`]+)`", row[2])]


def test_its_tables_name_what_sparklog_has() -> None:
    assert len(NAMES) > 60


@pytest.mark.parametrize("name", NAMES)
def test_each_name_of_sparklog_is_there_and_takes_these_arguments(name: str) -> None:
    found = re.fullmatch(r"(\w+)\.(\w+)(?:\((.*)\))?", name)
    assert found is not None, name
    owner, attribute = OWNERS[found[1]], found[2]
    if isinstance(owner, type) and issubclass(owner, msgspec.Struct):
        assert attribute in owner.__struct_fields__ or hasattr(owner, attribute)
        return
    called: Callable[..., object] = getattr(owner, attribute)
    given = [argument.split("=")[0] for argument in (found[3] or "").split(", ") if argument]
    if given:
        assert set(given) <= set(inspect.signature(called).parameters), name


def test_it_has_every_answer() -> None:
    rows = dict(re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \| (.+) \|$", PAGE.partition("## Options")[2], re.MULTILINE))
    said = {name: answer for names, answer in rows.items() for name in re.findall(r"`([^`]+)`", names)}
    assert said == ANSWERS


def test_its_snippets_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    here = Cli(str(tmp_path / "cluster"), capsys, monkeypatch)
    printed = ""
    for kind, text in re.findall(r"```(bash|python)\n(.*?)```", PAGE, re.DOTALL):
        snippet = text.replace("/tmp/sparklog-clients", str(tmp_path))
        if kind == "python":
            exec(snippet, {})
            printed += here.capsys.readouterr().out
        else:
            for line in snippet.splitlines():
                performed(here, line)
    assert re.fullmatch(r"orders 0\norders \d 0 7\n", printed)
