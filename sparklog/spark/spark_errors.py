"""Turns Spark's exceptions into the sparklog errors that caused them, or into one plain line."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from sparklog.core.errors import InvalidInput, NotFound, SparklogError, error_classes

_OURS: Final = re.compile(r"sparklog\.core\.errors\.(\w+): [A-Z_]+: ([^\n]*)")
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)?)\] ([^\n]*)")
_SQL_STATE: Final = re.compile(r"\.?\s*SQLSTATE: \w+.*")
_PY4J: Final = "An error occurred while calling "
_ABSENT: Final = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
# Spark's wrappers: the actual reason follows them.
_WRAPPERS: Final = (
    "PYTHON_DATA_SOURCE_ERROR",
    "TASK_WRITE_FAILED",
    "WRITING_JOB_ABORTED",
    "FAILED_READ_FILE.NO_HINT",
)
_UNREADABLE: Final = re.compile(r"\[FAILED_READ_FILE\.\w+\] [^\n]*?reading file ([^\n]+?)\.\s")
_CAUSE: Final = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+)(?:: ([^\n]*))?$", re.MULTILINE)
_MISMATCH: Final = re.compile(
    r"\[FAILED_READ_FILE\.PARQUET_COLUMN_DATA_TYPE_MISMATCH\] [^\n]*?reading file ([^\n]+?)\. +Data type mismatches "
    r"when reading Parquet column \[([^\n]*?)\]\. Expected Spark type ([^\n]*?), actual Parquet type ([^\n.]*)"
)
_AS_TEXT: Final = "write the column as text (pyarrow: column.cast('string'))"
_WHAT_TO_DO: Final = (  # advice by pattern: the first pattern that matches the start of Spark's line
    (
        r"PARQUET_TYPE_ILLEGAL: .*TIMESTAMP\(NANOS",
        "Spark has no times in nanoseconds: write the file with microseconds (pyarrow: coerce_timestamps='us')",
    ),
    (r"PARQUET_TYPE_ILLEGAL: .*TIME\(", f"Spark can't read such times of day: {_AS_TEXT}"),
    (r"PARQUET_TYPE_(ILLEGAL|NOT_SUPPORTED)", f"Spark has no such type: {_AS_TEXT}"),
    (
        r"UNSUPPORTED_TIME_TYPE",
        f"spark-submit --conf spark.sql.timeType.enabled=true reads times of day, or {_AS_TEXT}",
    ),
    (
        r"CANNOT_MERGE_SCHEMAS",
        "the files have columns of one name and different types: run produce for each kind",
    ),
)


def explained(error: Exception, what: str) -> SparklogError:
    """Return the error to show for an exception that Spark raised while it worked on `what`.

    An error that sparklog raised in a task or planner is returned unchanged, with its code. If Spark failed while it
    read a file, the error is InvalidInput, and its message has the cause. Another exception with one of Spark's error
    conditions becomes InvalidInput or NotFound, and its message has the condition. Any other exception becomes a
    SparklogError with the first line of Spark's message.
    """
    if isinstance(error, SparklogError):
        return error
    text = str(error)
    kinds = {kind.__name__: kind for kind in error_classes()}
    ours = _OURS.search(text)
    if ours is not None and ours[1] in kinds:
        return kinds[ours[1]](ours[2])
    mismatch = _MISMATCH.search(text)
    if mismatch is not None:
        file, column, wanted, actual = mismatch.groups()
        return InvalidInput(
            f"{shown_path(file)}: wanted column {column} as {wanted}, as in another file, found {actual}: run produce "
            "for each kind of file. Nothing was written"
        )
    unreadable = _UNREADABLE.search(text)
    condition = _reason(text)
    if unreadable is not None and (condition is None or condition.startswith("FAILED_READ_FILE")):
        return InvalidInput(damaged(unreadable[1], text))
    if condition is None:
        return SparklogError(f"{what}: {brief(error)}")
    kind = NotFound if condition in _ABSENT else InvalidInput
    line = brief(error).rstrip(":")
    advice = next((f": {text}" for pattern, text in _WHAT_TO_DO if re.match(pattern, line)), "")
    return kind(f"{what}: {line}{advice}")


def shown_path(url: str) -> str:
    """Return a URL from Spark as users write it: unquoted, and a file: URL as a path without its scheme."""
    path = unquote(url)
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path


def damaged(file: str, text: str) -> str:
    """The message for a file that cannot be read. It shows the innermost cause, which is the helpful one."""
    causes = [f"{kind}: {message}" if message else kind for kind, message in _CAUSE.findall(text)]
    cause = f" ({causes[-1].strip()})" if causes else ""
    return (
        f"{shown_path(file)} can't be read to its end: it is cut off, damaged, or not in the format that its name or "
        f"--format says{cause}; copy or create it again, or leave it out. Nothing was written"
    )


def brief(error: Exception) -> str:
    """Return Spark's own message in one line, without stack traces.

    If the message has error conditions, the line is the first condition that does not merely wrap another.
    """
    text = str(error)
    reasons = [match for match in _CONDITION.finditer(text) if match[1] not in _WRAPPERS]
    line = f"{reasons[0][1]}: {reasons[0][2]}" if reasons else next(iter(_lines(text)), repr(error))
    return _SQL_STATE.sub("", line).strip()


def _lines(text: str) -> list[str]:
    """Return the lines of a message without Py4J's first line, which only says which call failed."""
    lines = text.strip().splitlines()
    return [line.lstrip(": ") for line in lines[1:]] if text.startswith(_PY4J) and len(lines) > 1 else lines


def condition_of(error: Exception) -> str:
    """Spark's error condition, or "" if there is none."""
    return _reason(str(error)) or ""


def parameters_of(error: Exception) -> dict[str, str]:
    """The message parameters of Spark's error (`objectName`, …)."""
    get = getattr(error, "getMessageParameters", None)
    return dict(get() or {}) if get is not None else {}


def _reason(text: str) -> str | None:
    return next((match[1] for match in _CONDITION.finditer(text) if match[1] not in _WRAPPERS), None)
