"""The file that --report names: checked before a job begins, written after its end."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlparse

from sparklog.core.errors import InvalidInput, Landed, SparklogError
from sparklog.host.standard_streams import print_to

_BRACES: Final = re.compile(r"\{([^{}]*)\}")


class JsonReport(Protocol):
    """A report that --report can write, with the exit code of the job."""

    @property
    def exit_code(self) -> int:
        """0, or 1 if any part of the job failed."""
        ...

    def to_json(self) -> str:
        """The whole report."""
        ...


def check_report_file(path: str | None) -> None:
    """Raise InvalidInput if a report can't be written to `path`. Call this before the job begins.

    Leaves no file behind. None (no report) and "-" (stdout) are always accepted.
    """
    if path is None or path == "-":
        return
    file = Path(path)
    try:
        if file.is_dir():
            raise InvalidInput(f"--report: wanted a file, found the directory {path}; nothing was begun")
        if file.is_symlink() and not file.exists():
            raise InvalidInput(
                f"--report: wanted a file, found the symbolic link {path} to {file.readlink()}, where nothing is; "
                "nothing was begun"
            )
        if file.exists() and not file.is_file():  # opening a pipe waits for a reader
            raise InvalidInput(
                f"--report: wanted a file, found {path}, which is a pipe, a socket or a device (- is stdout); nothing "
                "was begun"
            )
        if file.exists():
            with file.open("ab"):
                pass
        else:
            with tempfile.TemporaryFile(dir=file.parent):
                pass
    except OSError as error:
        reason = error.strerror or error
        raise InvalidInput(f"--report: {path} can't be written ({reason}); nothing was begun") from error


def check_report_is_no_source(report: str | None, source: str | None) -> None:
    """Raise InvalidInput if the report would replace a file of produce's source, or become part of the source."""
    if report is None or report == "-" or source is None:
        return
    path = _local_path(source)
    if path is None or not _is_read(Path(report), path):
        return
    raise InvalidInput(
        f"--report: wanted a file outside the source, found {report}, which belongs to {source}; nothing was begun"
    )


def write_report(report: JsonReport, path: str | None) -> None:
    """Write the report as JSON to the file `path`, or to stdout if that is "-". Does nothing if `path` is None.

    Raises SparklogError if the file can't be written: the job has run, so the error's attribute `landed` is YES.
    """
    if path is None:
        return
    if path == "-":
        print_to(sys.stdout, report.to_json())
        return
    try:
        Path(path).write_text(report.to_json() + "\n", encoding="utf-8")
    except OSError as error:
        raise SparklogError(
            f"the job ran, and its changes stay; its report could not be written to {path}: {error.strerror or error}",
            landed=Landed.YES,
        ) from error


def _local_path(source: str) -> str | None:
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
