"""checkov finds nothing, but for what is skipped beside a resource with a reason."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.servers.locked_environment import locked_python
from tests.servers.made_once import CannotFetch
from tests.terraform.trees import TERRAFORM

pytestmark = pytest.mark.campaign

_LOCK: Final = TERRAFORM.parent / "requirements" / "terraform.lock"
_SKIP: Final = re.compile(r"#checkov:skip=([A-Z0-9_]+):?(.*)")


@pytest.fixture(scope="module")
def results(tree: Path) -> dict[str, Any]:
    try:
        python = locked_python("terraform", _LOCK)
    except CannotFetch as error:
        pytest.skip(str(error))
    options = ["-d", str(tree), "--framework", "terraform", "--skip-download", "--compact", "-o", "json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [str(python), "-m", "checkov.main", *options], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("{"), done.stderr[-3000:]
    return dict(json.loads(done.stdout)["results"])


def test_every_file_was_read(results: dict[str, Any]) -> None:
    assert results["parsing_errors"] == []
    assert len(results["passed_checks"]) > 150


def test_nothing_is_found(results: dict[str, Any]) -> None:
    found = {f"{each['check_id']} {each['resource']}: {each['check_name']}" for each in results["failed_checks"]}
    assert sorted(found) == []


def test_every_skip_has_a_reason_and_something_to_skip(results: dict[str, Any]) -> None:
    written = {}
    for file in TERRAFORM.rglob("*.tf"):
        for check, reason in _SKIP.findall(file.read_text()):
            written[check, f"/{file.relative_to(TERRAFORM)}"] = reason
    assert [check for check, reason in written.items() if len(reason.split()) < 3] == []
    used = {(each["check_id"], each["file_path"]) for each in results["skipped_checks"]}
    assert sorted(set(written) - used) == []
