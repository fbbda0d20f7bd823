"""Writes the reference pages that are made from the code: `make docs`; with --check it only compares."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from sparklog.cli.main import app
from sparklog.cli.output import examples_of
from sparklog.cli.render_docs import PAGES
from sparklog.core import errors
from sparklog.core.errors import SparklogError

ROOT = Path(__file__).parents[2]
UNFORESEEN = (
    "What none of the other codes is for: Spark could not run a task, a report could not be written, or sparklog "
    "itself failed. The message names it; `SPARKLOG_DEBUG=1` shows where it was raised."
)


def pages() -> dict[str, str]:
    """Path of each generated page, and its text."""
    return {
        **{path: render() for path, render in PAGES.items()},
        "docs/cli.md": render_cli(),
        "docs/errors.md": render_errors(),
    }


def render_cli() -> str:
    """Every noun and verb with its arguments, options and examples."""
    lines = [
        "# Command line",
        "",
        "Made by `make docs`. Every verb takes `--cluster URL`, `--config FILE` and `--format table|json`, before or",
        "after it; the address comes from `--cluster`, else from `cluster` in the TOML file of `--config`, else from",
        "`SPARKLOG_CLUSTER`, else from the file that `SPARKLOG_CONFIG` names.",
        "",
        "Results go to stdout, errors to stderr as one line `CODE: what was wanted, what was found, where`",
        "(`SPARKLOG_DEBUG=1` adds the traceback). With `--format json` stdout is one JSON document, or JSON lines, and",
        "nothing else: there times are milliseconds (`_ms`) and sizes bytes (`_bytes`).",
        "",
        "Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict or fenced, 5 unhealthy, 130 after Ctrl-C.",
        "",
        "## Completion",
        "",
        "`sparklog --install-completion` makes the shell that you type it in (bash, zsh or fish) complete nouns, verbs",
        "and options with the Tab key, from the next terminal on; `sparklog --show-completion` prints what that adds.",
    ]
    for path, command in _commands(typer.main.get_command(app), ("sparklog",)):
        lines += ["", f"## `{' '.join(path)}`", "", inspect.cleandoc(command.help or "")]
        options = [_option(each) for each in command.params if each.name != "help"]
        if options:
            lines += ["", *options]
        lines += ["", "```", *examples_of(command.epilog or ""), "```"]
    return "\n".join(lines) + "\n"


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _commands(child, (*path, name))


def _option(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"- `{parameter.metavar}`: {parameter.help}"
    names = ", ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts))
    value = f" {parameter.metavar}" if parameter.metavar else ""
    if parameter.required:
        note = " (required)"
    elif parameter.default in (None, False, [], ()):
        note = ""
    else:
        note = f" (default: `{parameter.default}`)"
    return f"- {names}{value}{note}: {parameter.help}"


def render_errors() -> str:
    """Every error: code, whether to retry, exit code, meaning."""
    lines = [
        "# Errors",
        "",
        "Made by `make docs`. Codes are Kafka's where Kafka has one. `landed` says whether the log was changed:",
        "no, unless the error says otherwise; after COMMIT_OUTCOME_UNKNOWN look it up: `sparklog chain write ID`.",
        "",
        "| code | retry | exit code | meaning |",
        "|---|---|---|---|",
    ]
    for kind in _errors(SparklogError):
        meaning = " ".join(inspect.cleandoc(kind.__doc__ or "").split())
        lines.append(_error_row(kind, meaning))
    lines.append(_error_row(SparklogError, UNFORESEEN))
    return "\n".join(lines) + "\n"


def _error_row(kind: type[SparklogError], meaning: str) -> str:
    return f"| `{kind.code}` | {'yes' if kind.retriable else 'no'} | {kind.exit_code} | {meaning} |"


def _errors(kind: type[SparklogError]) -> Iterator[type[SparklogError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
        yield from _errors(child)


def main(arguments: Sequence[str]) -> int:
    """Write the pages; with --check compare them. Exit code 1 if one differs."""
    wanted = pages()
    if "--check" in arguments:
        differ = [path for path, text in wanted.items() if _read(ROOT / path) != text]
        for path in differ:
            print(f"{path} is not what the code says: make docs", file=sys.stderr)
        return 1 if differ else 0
    for path, text in wanted.items():
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")
    return 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
