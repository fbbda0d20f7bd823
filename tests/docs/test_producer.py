"""docs/producer.md: its snippets run one after the other, and its settings are those of the code."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from pathlib import Path

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.core.producing.producer_settings import RECORD_BYTES
from tests.docs.clean_shell import in_clean_shell

PAGE = (Path(__file__).parents[2] / "docs" / "producer.md").read_text(encoding="utf-8")
SNIPPET = re.compile(r"```(bash|python)\n(.*?)```", re.DOTALL)


def test_the_page_of_the_producer(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    text = PAGE.replace("/tmp/sparklog-producer", str(tmp_path))
    lines = [code if kind == "bash" else f"python -c {shlex.quote(code)}" for kind, code in SNIPPET.findall(text)]
    printed = in_clean_shell(tmp_path, 'export PATH="$PWD/.venv/bin:$PATH"\n' + "\n".join(lines))
    assert "RecordMetadata(topic='orders', partition=" in printed
    assert "failed: 0\n" in printed
    assert "clicks counted: 1000\n" in printed
    assert re.search(r"^RecordMetadata\(topic='clicks', partition=\d, offset=\d+\)$", printed, re.MULTILINE)
    assert printed.endswith("INVALID_PRODUCER_EPOCH\n")
    with sparklog.connect(f"{tmp_path}/cluster") as cluster:
        values = [value for p in range(3) for value in cluster.read("orders", partition=p)["value"].to_pylist()]
    assert len(values) == 1001 + 6 + 2
    assert b"sent before the end, and there" in values


def test_the_settings_and_their_defaults_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", PAGE, re.MULTILINE))
    given = inspect.signature(Cluster.producer).parameters
    assert list(rows) == [name for name in given if name not in ("self", "unknown")]
    for name, shown in rows.items():
        default = given[name].default
        if isinstance(default, int):
            number = int(shown.replace(",", "").removesuffix(" MiB"))
            assert default == (number << 20 if shown.endswith("MiB") else number)
    assert f"{RECORD_BYTES} bytes of each are added" in PAGE
