"""docs/http.md: its requests get the replies that it shows."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from sparklog.coordinator.http import consume_routes, produce_routes
from sparklog.coordinator.leading import record_work
from sparklog.wire import record_messages
from tests.docs.clean_shell import in_clean_shell
from tests.servers.local_server import free_port

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
REPLIES = "\n".join(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
CHANGING = ("chain_id", "position", "timestamp", "timestamp_us")


def objects_in(text: str) -> list[Any]:
    """The JSON objects in a text, which begin a line."""
    found, at = [], 0
    while (begin := re.compile(r"^\{", re.MULTILINE).search(text, at)) is not None:
        value, at = json.JSONDecoder().raw_decode(text, begin.start())
        found.append(value)
    return found


def lasting(value: Any) -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        return {name: lasting(each) for name, each in value.items() if name not in CHANGING}
    return [lasting(each) for each in value] if isinstance(value, list) else value


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_the_requests_get_the_replies_that_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    text = "\n".join(SNIPPETS).replace("/tmp/sparklog-http", f"{tmp_path}/http").replace("7400", str(free_port()))
    text = text.replace("(sleep 1; append 4)", "(sleep 1; append 4 > later)")  # its output comes at any time
    printed = in_clean_shell(tmp_path, f'export PATH="$PWD/.venv/bin:$PATH"\n{text}')
    found, shown = objects_in(printed), objects_in(REPLIES)
    assert lasting(found) == lasting(shown)
    stamps = [record["timestamp"] for record in found[5]["records"]]
    assert stamps[0] == 1_767_225_600_000
    assert objects_in((tmp_path / "later").read_text())[0]["records"][1] == {"partition": 0, "offset": 5}


def test_the_limits_are_those_of_the_code() -> None:
    limits = PAGE.partition("## Limits")[2].partition("## Rights")[0]
    for text in (
        f"{produce_routes.MOST_BODY >> 20} MiB and {record_messages.MOST_APPENDED:,} records",
        f"{produce_routes.MOST_BODIES >> 20} MiB beyond",
        f"uploads at once | {produce_routes.APPENDS}; {produce_routes.WAITING_APPENDS} more wait",
        f"{produce_routes.COMMIT_MS // 1_000} s, then `REQUEST_TIMED_OUT`",
        f"({consume_routes._MAX_RECORDS.default}, at most {record_messages.MOST_READ:,})",
        f"(1 MiB, at most {record_messages.MOST_READ_BYTES >> 20} MiB)",
        f"{consume_routes.TIME_MS // 1_000} s of reading",
        f"{consume_routes._BATCH_BYTES >> 20} MiB for its batch",
        f"reads at once | {consume_routes.READS}; {consume_routes.WAITING_READS:,} more wait",
        f"{record_work.PATIENCE_MS // 1_000} s, then `COORDINATOR_NOT_AVAILABLE`",
    ):
        assert text in limits
