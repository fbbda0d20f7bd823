"""What `jobs/produce.py` reads: a file, a directory or a table as a DataFrame."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlparse

import msgspec

from sparklog.core.errors import InvalidInput, InvalidOption, NotFound
from sparklog.spark.row_expressions import columns_named, condition
from sparklog.spark.spark_errors import explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS: Final = ("csv", "json", "parquet")
_FORMAT_OF_SUFFIX: Final = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_PACKED: Final = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")  # what Spark unpacks while it reads
_ARCHIVES: Final = (".zip", ".tar", ".tgz", ".7z", ".rar")
_DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {"csv": {"header": "true"}}
_GLOB: Final = re.compile(r"[*?\[{]")


class Source(msgspec.Struct, frozen=True):
    """Rows to produce: of `path` (a file, a directory, a glob) or of `table`, exactly one of them.

    `format` None: guessed by suffix. `options` go to Spark's reader as they are. `where` is SQL over the rows,
    `order_by` names columns by which they are sorted, so that offsets follow them.
    """

    path: str | None = None
    table: str | None = None
    format: str | None = None
    options: Mapping[str, str] = {}
    where: str | None = None
    order_by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For people."""
        return self.path if self.path is not None else f"table {self.table}"


def checked(source: Source) -> Source:
    """The source with its format. Raises InvalidOption, InvalidInput, NotFound before any Spark is started."""
    if (source.path is None) == (source.table is None):
        found = "neither" if source.path is None else "both"
        raise InvalidOption(f"wanted a SOURCE (a file or a directory) or --table NAME, found {found}")
    if source.path is None:
        if source.format is not None:
            raise InvalidOption(f"--format {source.format}: a table has its own format, give it for files only")
        return source
    local = _local(source.path)
    if local is not None and not local.exists():
        raise NotFound(f"wanted a file or a directory, found nothing at {local}")
    if local is not None and local.is_dir():
        _check_depth(local, source.options)
    return msgspec.structs.replace(source, format=source.format or _guessed(source.path, local))


def open_source(source: Source, session: SparkSession) -> DataFrame:
    """The rows of a checked source. Raises InvalidInput, NotFound and their kin for what can't be read as asked."""
    try:
        if source.table is not None:
            frame = session.table(source.table)
        else:
            options = {**_DEFAULTS.get(source.format or "", {}), **source.options}
            frame = session.read.format(source.format or "").options(**options).load(source.path)
        if not frame.columns:
            raise InvalidInput(f"{source.name} has no columns")
    except Exception as error:
        raise explained(error, source.name) from error
    if source.where is not None:
        frame = frame.where(condition(frame, "--where", source.where))
    if source.order_by:
        frame = frame.orderBy(*columns_named(frame, "--order-by", source.order_by))
    return frame


def _local(path: str) -> Path | None:
    """The path on this machine, or None if it is elsewhere or a pattern."""
    if _GLOB.search(path):
        return None
    parsed = urlparse(path)
    if parsed.scheme == "":
        return Path(path)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else None


def _guessed(path: str, local: Path | None) -> str:
    names = _data_files(local) if local is not None and local.is_dir() else [path]
    found = {_format_of(each) for each in names}
    known = [each for each in found if each is not None]
    if len(found) == 1 and known:
        return known[0]
    if not names:
        raise InvalidInput(f"wanted {', '.join(FORMATS)} files in the directory {path}, found no file")
    if all(each.lower().endswith(_ARCHIVES) for each in names):
        raise InvalidInput(f"{path} is an archive, which Spark does not read: unpack it first")
    seen = ", ".join(sorted(known)) + (" and others" if known and None in found else "")
    raise InvalidOption(
        f"wanted one of the formats {', '.join(FORMATS)}, found {seen or 'no suffix that tells which'} at {path}: "
        "give --format"
    )


def _data_files(folder: Path) -> list[str]:
    """The files that Spark would read: those whose names begin with _ or . are none, here and on the way."""
    found = (each for each in folder.rglob("*") if each.is_file())
    return [each.name for each in found if not any(part[0] in "._" for part in each.relative_to(folder).parts)]


def _check_depth(folder: Path, options: Mapping[str, str]) -> None:
    """Refuse a directory of which Spark would read a part only: it goes into `name=value` folders, and no others."""
    if any(name.lower() == "recursivefilelookup" and value.lower() == "true" for name, value in options.items()):
        return
    for each in folder.rglob("*"):
        above = each.relative_to(folder).parts[:-1]
        hidden = any(part[0] in "._" for part in each.relative_to(folder).parts)
        if each.is_file() and not hidden and any("=" not in part for part in above):
            raise InvalidInput(
                f"Spark reads no files in sub-folders, found {each}: give --option recursiveFileLookup=true, or a glob"
            )


def _format_of(name: str) -> str | None:
    lower = name.lower().rstrip("/")
    packed = next((each for each in _PACKED if lower.endswith(each)), "")
    return next((kind for suffix, kind in _FORMAT_OF_SUFFIX.items() if lower.endswith(suffix + packed)), None)
