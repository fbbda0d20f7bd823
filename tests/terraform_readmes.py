"""The README of each module and example below terraform/: what is written by hand, then its variables and outputs.

python -m tests.terraform_readmes    writes the tables

The files are read line by line, without a parser of HCL: `terraform fmt` puts each block, and each argument of a block,
on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.marked_part import replaced

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- variables and outputs: begin (make docs) -->", "<!-- variables and outputs: end -->"
_BLOCK = re.compile(r'^(variable|output) "([^"]+)" \{$')
_ARGUMENT = re.compile(r"^  (\w+)\s*= (.*)$")


@dataclass(frozen=True)
class Block:
    """A variable or an output, and the text of each of its arguments."""

    kind: str
    name: str
    arguments: dict[str, str]


def folders() -> list[Path]:
    """Every module and every example."""
    return sorted(file.parent for file in (ROOT / "terraform").glob("*/*/variables.tf"))


def blocks(text: str) -> Iterator[Block]:
    """The variables and outputs of a formatted file. Nested blocks, such as validation, are left out."""
    kind = name = key = ""
    arguments: dict[str, str] = {}
    for line in text.splitlines():
        if found := _BLOCK.match(line):
            kind, name, key, arguments = found[1], found[2], "", {}
        elif line == "}" and kind:
            yield Block(kind, name, arguments)
            kind = ""
        elif kind and (argument := _ARGUMENT.match(line)):
            key = argument[1]
            arguments[key] = argument[2]
        elif kind and key and line.startswith(("   ", "  }", "  ]", "  )")):
            arguments[key] += f"\n{line}"
        else:
            key = ""


def tables(folder: Path) -> str:
    """The variables and the outputs of a module as Markdown."""
    found = [*blocks(_read(folder / "variables.tf")), *blocks(_read(folder / "outputs.tf"))]
    lines = ["## Variables", "", "| name | type | default | what |", "|---|---|---|---|"]
    for variable in (block for block in found if block.kind == "variable"):
        default = variable.arguments.get("default")
        lines.append(
            f"| `{variable.name}` | {_code(variable.arguments['type'])} | "
            f"{'required' if default is None else _code(default)} | {_text(variable)} |"
        )
    lines += ["", "## Outputs", "", "| name | what |", "|---|---|"]
    lines += [f"| `{block.name}` | {_text(block)} |" for block in found if block.kind == "output"]
    return "\n".join(lines)


def readme(folder: Path) -> str:
    """The README with its tables replaced, or a new one."""
    file = folder / "README.md"
    before = _read(file) if file.exists() else f"# {folder.name}\n\n{BEGIN}\n{END}\n"
    return replaced(before, BEGIN, END, tables(folder))


def outdated() -> list[Path]:
    """The READMEs that are missing, or whose tables differ from the files."""
    files = [folder / "README.md" for folder in folders()]
    return [file for file in files if not file.exists() or _read(file) != readme(file.parent)]


def _text(block: Block) -> str:
    return block.arguments["description"].removeprefix('"').removesuffix('"').replace('\\"', '"').replace("|", "\\|")


def _code(text: str) -> str:
    """HCL on one line."""
    line = re.sub(r"\s+", " ", re.sub(r"(?<=[^{(\[,])\n(?=\s*[^\s})\]])", ", ", text))
    return "`" + line.replace("|", "\\|") + "`"


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def write() -> None:
    """Write the tables into all READMEs."""
    for folder in folders():
        (folder / "README.md").write_text(readme(folder), encoding="utf-8")


if __name__ == "__main__":
    write()
