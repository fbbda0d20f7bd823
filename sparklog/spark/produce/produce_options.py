"""Parses `--option KEY=VALUE` for CSV and JSON files. The names are Spark's, although Python reads these files."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Final

import msgspec

from sparklog.core.config.key import did_you_mean
from sparklog.core.errors import InvalidOption
from sparklog.spark.produce.formats.csv_rows import CsvDialect

_OF_FILES: Final = (  # passed on to Spark, which finds the files
    "recursiveFileLookup",
    "pathGlobFilter",
    "modifiedBefore",
    "modifiedAfter",
    "basePath",
    "ignoreCorruptFiles",
    "ignoreMissingFiles",
)
_OF_JSON_TYPES: Final = (  # also passed on to Spark: they affect the types of columns, but not what is written
    "primitivesAsString",
    "prefersDecimal",
    "inferTimestamp",
    "timestampFormat",
    "timestampNTZFormat",
    "dateFormat",
)
_ALIASES: Final[Mapping[str, str]] = {"delimiter": "sep", "charset": "encoding"}
_OF_CSV: Final = (
    "header",
    "sep",
    "quote",
    "escape",
    "encoding",
    "multiLine",
    "comment",
    "nullValue",
    "inferSchema",
    "ignoreLeadingWhiteSpace",
)
_INSTEAD: Final = {
    "mode": "--on-bad-row chooses the treatment of malformed rows",
    "columnnameofcorruptrecord": "--on-bad-row dead-letter keeps malformed rows",
    "linesep": "lines end with \\n or \\r\\n",
    "emptyvalue": "an empty value is an empty text; nullValue= makes it null",
    "enforceschema": "all files must have the header of the first",
}


class CsvOptions(msgspec.Struct, frozen=True):
    """Options for reading CSV. `of_files` goes to Spark, which finds the files.

    If `null_value` is None, text is never null: an empty value is an empty text.
    """

    dialect: CsvDialect = CsvDialect()
    null_value: str | None = None
    infer_schema: bool = False
    of_files: Mapping[str, str] = {}


class JsonOptions(msgspec.Struct, frozen=True):
    """Options for reading JSON. Spark gets `of_types` to infer types, and `of_files` to find files."""

    encoding: str = "utf-8"
    multiline: bool = False
    of_types: Mapping[str, str] = {}
    of_files: Mapping[str, str] = {}


def csv_options(given: Mapping[str, str]) -> CsvOptions:
    """Parse the options for CSV. Raises InvalidOption."""
    options = _known("csv", given, (*_OF_CSV, *_OF_FILES))
    dialect = CsvDialect(
        sep=_character("sep", options.get("sep", ","), least=1),
        quote=_character("quote", options.get("quote", '"')),
        escape=_character("escape", options.get("escape", '"')),
        comment=options.get("comment", ""),
        encoding=_encoding(options),
        header=_boolean(options, "header", default=True),
        multiline=_boolean(options, "multiLine", default=True),
        skip_initial_space=_boolean(options, "ignoreLeadingWhiteSpace", default=False),
    )
    if dialect.sep in (dialect.quote, dialect.escape):
        raise InvalidOption(f"--option sep: wanted a character other than quote and escape, found {dialect.sep!r}")
    return CsvOptions(
        dialect, options.get("nullValue"), _boolean(options, "inferSchema", default=False), _chosen(options, _OF_FILES)
    )


def json_options(given: Mapping[str, str]) -> JsonOptions:
    """Parse the options for JSON. Raises InvalidOption."""
    options = _known("json", given, ("multiLine", "encoding", *_OF_JSON_TYPES, *_OF_FILES))
    return JsonOptions(
        _encoding(options),
        _boolean(options, "multiLine", default=False),
        _chosen(options, _OF_JSON_TYPES),
        _chosen(options, _OF_FILES),
    )


def _known(kind: str, given: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """Return the options for files of `kind`, each under its name as spelled in `names`. Case does not matter.

    Raises InvalidOption for an option that is not among `names`.
    """
    spelling = {name.lower(): name for name in names} | dict(_ALIASES)
    options: dict[str, str] = {}
    for name, value in given.items():
        key = spelling.get(name.lower())
        if key is None or key not in names:
            instead = _INSTEAD.get(name.lower()) or f"there are {', '.join(names)}"
            raise InvalidOption(
                f"--option {name}: wanted an option of the {kind} files"
                f"{did_you_mean(name, list(names)) or f'; {instead}'}"
            )
        options[key] = value
    return options


def _chosen(options: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name in names}


def _character(name: str, text: str, *, least: int = 0) -> str:
    text = {"\\t": "\t", "\\0": "\0"}.get(text, text)
    if not least <= len(text) <= 1 or text in ("\n", "\r"):
        wanted = "one character" if least else "one character or nothing"
        raise InvalidOption(f"--option {name}: wanted {wanted}, found {text!r}")
    return text


def _boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise InvalidOption(f"--option {name}: wanted true or false, found {options[name]!r}")
    return text == "true"


def _encoding(options: Mapping[str, str]) -> str:
    """Return Python's name of the encoding. Raises InvalidOption unless it is known, and encodes \\n as ASCII does.

    Lines are split at this byte before they are decoded.
    """
    name = options.get("encoding", "utf-8")
    try:
        encoding = codecs.lookup(name).name
        cuts = "\n".encode(encoding) == b"\n"
    except LookupError:
        raise InvalidOption(f"--option encoding: wanted utf-8, iso8859-1, cp1252, …, found {name!r}") from None
    if not cuts:
        raise InvalidOption(
            f"--option encoding: {name} can't be read line by line: convert the file, as by iconv -f {name} -t UTF-8"
        )
    return encoding
