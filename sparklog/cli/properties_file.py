"""Reads a properties file: the settings of a Kafka client, one key=value in a line."""

from __future__ import annotations

from pathlib import Path

from sparklog.core.errors import InvalidOption, NotFound


def read_properties(option: str, file: str) -> dict[str, str]:
    """Return the settings in a file. Empty lines, and those that begin with #, are left out.

    As in Kafka's own files, a line that ends with a backslash continues in the next one.

    `option`: the option that names the file, for errors. They never show a line, which may have a secret. Raises
    NotFound if there is no such file, and InvalidOption.
    """
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise NotFound(f"wanted a file of lines key=value for {option}, found none: {file}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(f"{option}: wanted a file of lines key=value, found {file}: {error}") from error
    settings = {}
    begun = ""
    for number, line in enumerate(lines, start=1):
        text, begun = begun + line.strip(), ""
        if not text or text.startswith("#"):
            continue
        if text.endswith("\\") and number < len(lines):
            begun = text[:-1]
            continue
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InvalidOption(f"{option}: {file}, line {number}: wanted key=value")
        settings[key.strip()] = value.strip()
    return settings
