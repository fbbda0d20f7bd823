"""docs/consumer.md: its snippets run one after the other, and its names are those of the code."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from sparklog.client.consumer.consumer import Consumer
from sparklog.client.consumer.options import ConsumerOptions
from tests.cli.conftest import Cli
from tests.docs.test_maintenance import performed

PAGE = (Path(__file__).parents[2] / "docs" / "consumer.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```(bash|python)\n(.*?)```", PAGE, re.DOTALL)


def test_the_snippets_run_one_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Cli(str(tmp_path / "cluster"), capsys, monkeypatch)
    names: dict[str, object] = {}
    printed = ""
    for kind, text in SNIPPETS:
        snippet = text.replace("/tmp/sparklog-consumer", str(tmp_path))
        if kind == "python":
            exec(snippet, names)
            printed += here.capsys.readouterr().out
        else:
            for line in snippet.splitlines():
                performed(here, line)
    assert len(re.findall(r"^\d \d+ b'customer \d+' b'order \d+'$", printed, re.MULTILINE)) == 30
    assert "billed 30\n" in printed
    assert "30 rows of 3 partitions: key, value\n" in printed
    seeked = re.search(r"^2 (\d+) (\d+)$", printed, re.MULTILINE)
    assert seeked is not None
    assert int(seeked[1]) - 2 == int(seeked[2])
    assert "('orders', 0) [2, 3, 4]\n" in printed
    assert printed.endswith("awaited 30\n")


def test_the_options_and_their_defaults_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", PAGE, re.MULTILINE))
    options = fields(ConsumerOptions)
    assert list(rows) == [option.name for option in options]
    assert rows == {option.name: _shown(option.default) for option in options} | {"enable_auto_commit": "with a group"}


def _shown(default: object) -> str:
    if default is None:
        return "none"
    if isinstance(default, bool):
        return f"`{default}`"
    if isinstance(default, int):
        return f"{default >> 20} MiB" if default % (1 << 20) == 0 else f"{default:,}"
    return f'`"{default}"`'


def test_every_method_is_on_the_page() -> None:
    methods = [name for name, _ in inspect.getmembers(Consumer, inspect.isfunction) if not name.startswith("_")]
    missing = [name for name in methods if not re.search(rf"\b{name}\b", PAGE)]
    assert set(missing) <= {"paused", "unsubscribe"}
