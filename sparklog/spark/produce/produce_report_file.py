"""Refuses a report file that produce would read as part of its source, in this run or the next."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from sparklog.core.errors import InvalidInput

_BRACES: Final = re.compile(r"\{([^{}]*)\}")


def check_report_is_no_source(report: str | None, source: str | None) -> None:
    """Raise InvalidInput if the report would replace a file of the source, or become part of the source."""
    if report is None or report == "-" or source is None:
        return
    path = _path(source)
    if path is None or not _is_read(Path(report), path):
        return
    raise InvalidInput(
        f"--report: wanted a file outside the source, found {report}, which belongs to {source}; nothing was begun"
    )


def _path(source: str) -> str | None:
    """Return the source as a path or pattern of this machine; None if it is on another system, such as S3."""
    parsed = urlparse(source)
    if parsed.scheme == "file":
        return unquote(parsed.path)
    return source if parsed.scheme == "" else None


def _is_read(report: Path, source: str) -> bool:
    """True if a read of `source` includes the report: `source` names this file or a directory that contains it.

    False if a file or folder name below that directory begins with _ or a dot, because Spark skips such names.
    """
    if Path(source).is_file():
        return report.exists() and report.samefile(source)
    patterns = [str(Path(pattern).resolve()) for pattern in _alternatives(source)]
    file = report.resolve()
    return any(
        place.match(pattern) and not any(part[0] in "._" for part in file.relative_to(place).parts)
        for place in (file, *file.parents)
        for pattern in patterns
    )


def _alternatives(pattern: str) -> list[str]:
    """Expand a pattern with {a,b} into plain patterns."""
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern]
    before, after = pattern[: braces.start()], pattern[braces.end() :]
    return [plain for choice in braces[1].split(",") for plain in _alternatives(before + choice + after)]
