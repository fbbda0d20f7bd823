"""Checks the path of a source before Spark reads it: finds its format, and files that Spark would leave out."""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from sparklog.core.errors import InvalidInput, InvalidOption

FORMATS: Final = ("csv", "json", "parquet")
_FORMAT_OF_SUFFIX: Final = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_PACKED: Final = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")
_ARCHIVES: Final = (".zip", ".tar", ".tgz", ".7z", ".rar")
_MOST_US: Final = 9_200_000_000_000_000  # microseconds whose nanoseconds have 64 bits
_GLOB: Final = re.compile(r"[*?\[{]")


def local_path(path: str) -> Path | None:
    """Return `path` as a path of this machine; None if it is on another system, such as S3, or is a pattern."""
    if _GLOB.search(path):
        return None
    parsed = urlparse(path)
    if parsed.scheme == "":
        return Path(path)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else None


def guessed_format(path: str, local: Path | None) -> str:
    """The format of the files, by their suffixes: one of FORMATS, or tsv, which is csv with tabs.

    Raises InvalidInput or InvalidOption if the suffixes don't determine one.
    """
    names = _data_files(local) if local is not None and local.is_dir() else [path]
    formats = {_format_of(name) for name in names}
    known = [format_ for format_ in formats if format_ is not None]
    if len(formats) == 1 and known:
        return known[0]
    if not names:
        raise InvalidInput(f"wanted {', '.join(FORMATS)} files in the directory {path}, found no file")
    if all(name.lower().endswith(_ARCHIVES) for name in names):
        raise InvalidInput(f"{path} is an archive, which Spark does not read: unpack it first")
    if len(known) > 1:
        first, *others = sorted(known)
        raise InvalidOption(
            f"wanted files of one format, found {first} and {' and '.join(others)} in {path}: name the files by a glob "
            f"(`--format {first}` would read the {others[0].upper()} files as {first.upper()})"
        )
    if known:
        raise InvalidOption(
            f"wanted files of one format, found {known[0]} and files with unknown suffixes in {path}: name the files "
            f"by a glob, or give --format {known[0]} to read them all in this format"
        )
    raise InvalidOption(
        f"wanted one of the formats {', '.join(FORMATS)}, found no known suffix at {path}: give --format"
    )


def _data_files(folder: Path) -> list[str]:
    """The names of the files that Spark would read."""
    return [file.name for file in _data_paths(folder)]


def _data_paths(folder: Path) -> list[Path]:
    """The files that Spark would read: it skips files and folders whose names begin with _ or a dot."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [file for file in files if not any(part[0] in "._" for part in file.relative_to(folder).parts)]


def _plain(path: str) -> str:
    """Return `path` as a pattern for Python's glob; "", which matches nothing, if it is not on this machine."""
    return path.removeprefix("file://") if urlparse(path).scheme in ("", "file") else ""


def check_path(path: str, local: Path | None, *, all_below: bool) -> None:
    """Raise InvalidInput if Spark would leave out files at this path. Paths on another system are not checked.

    `all_below`: Spark reads the files of all subfolders.
    """
    _check_visible(path, local)
    if not all_below:
        folders = [local] if local is not None else [Path(match) for match in glob.glob(_plain(path))]
        for folder in folders:
            if folder.is_dir():
                _check_depth(folder)


def _check_visible(path: str, local: Path | None) -> None:
    """Raise InvalidInput for a path that Spark would take for a pattern or a hidden file."""
    if local is None and _plain(path) and Path(_plain(path)).exists():
        raise InvalidInput(f"{path} exists, but *, ?, [ and {{ make a path a pattern: rename it, or name its directory")
    names = [local.name] if local is not None and local.is_file() else []
    names += [Path(file).name for file in glob.glob(_plain(path), include_hidden=True)] if local is None else []
    if hidden := [name for name in names if name[0] in "._"]:
        raise InvalidInput(f"Spark ignores files whose names begin with _ or ., found {hidden[0]} at {path}: rename it")


def _check_depth(folder: Path) -> None:
    """Raise InvalidInput for a directory of which Spark would read only a part.

    Spark descends only into NAME=VALUE folders, and then ignores files beside them. A folder `value=…` is refused as
    well: it would replace the column that holds the lines.
    """
    files = [path for path in folder.rglob("*") if path.is_file()]
    below = [file.relative_to(folder).parts for file in files]
    visible = [parts for parts in below if not any(part[0] in "._" for part in parts)]
    for parts in visible:
        if any("=" not in part for part in parts[:-1]):
            raise InvalidInput(
                f"Spark reads no files in sub-folders, found {folder.joinpath(*parts)}: give --option "
                "recursiveFileLookup=true, or a glob"
            )
        if any(part.lower().startswith("value=") for part in parts[:-1]):
            raise InvalidInput(f"a folder value=… can't be a column, found {folder.joinpath(*parts)}: rename it")
    depths = {len(parts) for parts in visible}
    if len(depths) > 1:
        beside = min(visible, key=len)
        raise InvalidInput(
            f"Spark reads no files beside name=value folders, found {folder.joinpath(*beside)}: give --option "
            "recursiveFileLookup=true (without the folders' columns), or produce it by itself"
        )


def _format_of(name: str) -> str | None:
    lower = name.lower().rstrip("/")
    packed = next((suffix for suffix in _PACKED if lower.endswith(suffix)), "")
    return next((kind for suffix, kind in _FORMAT_OF_SUFFIX.items() if lower.endswith(suffix + packed)), None)


def check_times(local: Path) -> None:
    """Raise InvalidInput for a Parquet file on this machine whose INT96 times have nanoseconds, which Spark would cut.

    Spark refuses INT64 times in nanoseconds by itself, but an INT96 column doesn't say how fine its times are.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    files = [local] if local.is_file() else _data_paths(local)
    for file in files:
        try:
            parquet = pq.ParquetFile(file)
        except (OSError, ValueError):
            continue  # Spark says what is wrong with it
        with parquet, pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as rounded:
            schema = parquet.schema
            old = [column.path for column in map(schema.column, range(len(schema))) if column.physical_type == "INT96"]
            flat = [name for name in old if name in parquet.schema_arrow.names]
            batches = zip(*(opened.iter_batches(columns=flat) for opened in (parquet, rounded)), strict=True)
            for exact, cut in batches if flat else ():
                for name in flat:
                    # Arrow's nanoseconds wrap around outside of 1678 to 2262, so there they say nothing.
                    in_range = pc.less(pc.abs(cut.column(name).cast(pa.int64())), _MOST_US)
                    if pc.any(pc.and_(in_range, pc.not_equal(pc.nanosecond(exact.column(name)), 0))).as_py():
                        raise InvalidInput(
                            f"{file}: Spark has no times in nanoseconds, found some in column {name} (INT96): write "
                            "the file with microseconds (pyarrow: coerce_timestamps='us')"
                        )
