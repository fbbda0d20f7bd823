"""Checks the path of a source before Spark reads it: finds its format, and files that Spark would leave out."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple
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
# Hidden files and folders that hold no rows: marks of writers, checksums, table formats and systems.
_MARKS: Final = re.compile(
    r"_SUCCESS|_(common_)?metadata|_(started|committed)_.*|\.(.*\.)?crc|\._.*|\.DS_Store|\.(git)?keep|\.gitignore|"
    r"_temporary|_delta_log|_change_data|_spark_metadata|\.hoodie|\.git|\.ipynb_checkpoints|"
    r"\.(hive-staging|spark-staging).*"
)
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
    return [parts[-1] for parts in files_below(folder) or () if not any(map(_is_hidden, parts))]


def files_below(place: Path) -> list[tuple[str, ...]] | None:
    """The files at any depth below a folder, each as the parts of its path from there on; None if it is a file."""
    return [file.relative_to(place).parts for file in place.rglob("*") if file.is_file()] if place.is_dir() else None


def _is_hidden(name: str) -> bool:
    """True if Spark skips files and folders of this name (`HadoopFSUtils.shouldFilterOutPathName`, `isDataPath`)."""
    return (name[0] == "_" and "=" not in name) or name[0] == "." or name.endswith("._COPYING_")


def _plain(path: str) -> str:
    """Return `path` as a pattern for Python's glob; "", which matches nothing, if it is not on this machine."""
    return path.removeprefix("file://") if urlparse(path).scheme in ("", "file") else ""


class FileFilter(NamedTuple):
    """The options by which Spark finds files. `all_below`: in all subfolders. `names`: the pattern of their names."""

    all_below: bool
    names: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> FileFilter:
        """Pick the options for finding files from all reading options, whose names are not case-sensitive."""
        given = {name.lower(): value for name, value in options.items()}
        names = given.get("pathglobfilter", "*")
        # Python's patterns have no braces: then every hidden file is checked.
        return cls(given.get("recursivefilelookup", "").lower() == "true", "*" if "{" in names else names)


def check_path(path: str, local: Path | None, file_filter: FileFilter) -> None:
    """Raise InvalidInput if Spark would leave out files at this path on this machine.

    Some patterns, and paths on other systems, can't be checked without Spark: `hidden_files` does that later.
    """
    if local is None and _plain(path) and Path(_plain(path)).exists():
        raise InvalidInput(f"{path} exists, but *, ?, [ and {{ make a path a pattern: rename it, or name its directory")
    if local is not None and local.is_file() and _is_hidden(local.name):
        raise _hidden_file_error(local.name, path)
    for root in [local] if local is not None else map(Path, glob.glob(_plain(path), include_hidden=True)):
        if link := next((file for file in root.rglob("*") if file.is_symlink() and not file.exists()), None):
            raise InvalidInput(f"{link} is a link to a file that is missing, which Spark would skip: remove it")
        check_files(str(root), files_below(root), file_filter)


def check_files(root: str, below: Iterable[tuple[str, ...]] | None, file_filter: FileFilter) -> list[str]:
    """Check what Spark would leave out of the file or folder `root`. `below`: its files; None if it is a file.

    A file or folder is hidden from Spark if its name begins with _ or a dot. Returns the files in hidden folders, which
    may be left out. Known marks such as _SUCCESS and _temporary don't count. Raises InvalidInput for other files that
    Spark would not read: hidden files, and files in subfolders unless it is to read all below. Spark descends only into
    NAME=VALUE folders, and then ignores files beside them. A folder `value=…` is refused as well: it would replace the
    column that holds the lines.
    """
    aside, visible = [], []
    for parts in [(PurePosixPath(root).name,)] if below is None else below:
        hidden = next((part for part in enumerate(parts, 1) if _is_hidden(part[1])), None)
        if hidden is None:
            visible.append(parts)
        elif not any(map(_MARKS.fullmatch, (hidden[1], parts[-1]))) and fnmatchcase(parts[-1], file_filter.names):
            if hidden[0] == len(parts):
                raise _hidden_file_error("/".join(parts), root)
            aside.append("/".join((root, *parts)))
    if not file_filter.all_below and below is not None:
        _check_depth(root, visible)
    return aside


def _hidden_file_error(name: str, place: str) -> InvalidInput:
    return InvalidInput(
        f"Spark ignores files whose names begin with _ or ., or end with ._COPYING_, found {name} at {place}: rename "
        "it, move it away, or leave it out with a glob such as DIR/[!_.]*"
    )


def _check_depth(root: str, visible: Iterable[tuple[str, ...]]) -> None:
    """Raise InvalidInput if Spark would read only a part of the files `visible` below the folder `root`."""
    beside: dict[int, tuple[str, ...]] = {}  # a file for each depth
    for parts in visible:
        if any("=" not in part for part in parts[:-1]):
            raise InvalidInput(
                f"Spark reads no files in sub-folders, found {'/'.join((root, *parts))}: give --option "
                "recursiveFileLookup=true, or a glob"
            )
        if any(part.lower().startswith("value=") for part in parts[:-1]):
            raise InvalidInput(f"a folder value=… can't be a column, found {'/'.join((root, *parts))}: rename it")
        beside.setdefault(len(parts), parts)
    if len(beside) > 1:
        raise InvalidInput(
            f"Spark reads no files beside name=value folders, found {'/'.join((root, *beside[min(beside)]))}: give "
            "--option recursiveFileLookup=true (without the folders' columns), or produce it by itself"
        )


def _format_of(name: str) -> str | None:
    lower = name.lower().rstrip("/")
    packed = next((suffix for suffix in _PACKED if lower.endswith(suffix)), "")
    return next((kind for suffix, kind in _FORMAT_OF_SUFFIX.items() if lower.endswith(suffix + packed)), None)
