"""Where the report of a produce may not go: into what it reads, now or in its next run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from sparklog.core.errors import InvalidInput

_BRACES: Final = re.compile(r"\{([^{}]*)\}")


def check_report_is_no_source(report: str | None, source: str | None) -> None:
    """Raise InvalidInput if the report would replace a file of the source, or be read with it by the next run."""
    if report is None or report == "-" or source is None:
        return
    path = _path(source)
    if path is None or not _is_read(Path(report), path):
        return
    raise InvalidInput(
        f"--report: wanted a file outside of the source, found {report}, which belongs to {source}; nothing was begun"
    )


def _path(source: str) -> str | None:
    """The source as a path or a pattern on this machine, or None if it is elsewhere."""
    parsed = urlparse(source)
    if parsed.scheme == "file":
        return unquote(parsed.path)
    return source if parsed.scheme == "" else None


def _is_read(report: Path, source: str) -> bool:
    """Whether `source` names the report or a directory around it. Names that begin with _ or . are none to Spark."""
    if Path(source).is_file():
        return report.exists() and report.samefile(source)
    patterns = [str(Path(each).resolve()) for each in _alternatives(source)]
    file = report.resolve()
    return any(
        place.match(pattern) and not any(part[0] in "._" for part in file.relative_to(place).parts)
        for place in (file, *file.parents)
        for pattern in patterns
    )


def _alternatives(pattern: str) -> list[str]:
    """The patterns that a pattern with {a,b} stands for."""
    found = _BRACES.search(pattern)
    if found is None:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [each for choice in found[1].split(",") for each in _alternatives(before + choice + after)]
