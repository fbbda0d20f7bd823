"""Completion by the shell's Tab key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sparklog.cli.command_line import COMPLETE
from sparklog.cli.main import run
from tests.cli.conftest import Cli
from tests.cli.test_main import HEAVY


def completed(line: str, shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What Tab offers behind `line`; its last word is not ended."""
    words = line.split(" ")
    settings = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        COMPLETE: f"complete_{shell}",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert run([]) == 0
    return [each for each in capsys.readouterr().out.splitlines() if each]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sparklog to", {"topic"}),
        ("sparklog topic de", {"describe", "delete", "delete-records"}),
        ("sparklog --cluster /tmp/x topic des", {"describe"}),
        ("sparklog consume orders --fol", {"--follow"}),
        ("sparklog --clu", {"--cluster"}),
        ("sparklog topic nothing", set()),
    ],
)
def test_nouns_verbs_and_options_are_offered(
    line: str, offered: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(completed(line, "bash", monkeypatch, capsys)) == offered


def test_names_of_topics_and_groups_are_offered(
    orders: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    orders("topic", "create", "returns")
    orders("consume", "orders", "--group", "billing")
    for line, offered in (
        ("consume o", ["orders"]),
        ("topic describe ", ["orders", "returns"]),
        ("consume orders --group b", ["billing"]),
        ("group describe x", []),
    ):
        assert completed(f"sparklog --cluster {orders.url} {line}", "bash", monkeypatch, capsys) == offered
    gone = f"sparklog --cluster {orders.url}-gone topic describe o"
    assert completed(gone, "bash", monkeypatch, capsys) == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_offered_the_verb_with_its_help(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offered = "\n".join(completed("sparklog topic des", shell, monkeypatch, capsys))
    assert "describe" in offered
    assert "Show the config, size and partitions of a" in offered


def test_completing_loads_no_heavy_library() -> None:
    code = f"""
import os, sys
from sparklog.cli.main import run
os.environ.update({{{COMPLETE!r}: "complete_bash", "COMP_WORDS": "sparklog topic ", "COMP_CWORD": "2"}})
assert run([]) == 0
heavy = {HEAVY!r} & set(sys.modules)
sys.exit(f"loaded: {{heavy}}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "add-partitions" in done.stdout.split()


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".bash_completions/sparklog.sh"),
        ("zsh", ".zfunc/_sparklog"),
        ("fish", ".config/fish/completions/sparklog.fish"),
    ],
)
def test_completion_is_shown_and_installed_for_the_shell_that_asks(
    shell: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("shellingham.detect_shell", lambda: (shell, f"/bin/{shell}"))
    assert run(["--show-completion"]) == 0
    script = capsys.readouterr().out
    assert COMPLETE in script
    assert run(["--install-completion"]) == 0
    assert f"{shell} completion installed in" in capsys.readouterr().out
    assert (tmp_path / file).read_text().strip() == script.strip()
