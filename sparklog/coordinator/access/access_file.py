"""The access file of a coordinator: its principals, the hashes of their tokens, and their rights.

    [principal.loader]
    token_sha256 = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
    rights = ["write:orders", "describe:*"]

A principal may have several tokens: while one is replaced, the old and the new one are both valid.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sparklog.core.access import ANONYMOUS, JOBS_PRINCIPAL, Access, Principal, parse_right
from sparklog.core.config.key import did_you_mean
from sparklog.core.errors import InvalidConfig

_KEYS: Final = ("token_sha256", "rights")
_NAME: Final = re.compile(r"[a-zA-Z0-9._@-]{1,100}")
_TAKEN: Final = (ANONYMOUS.name, JOBS_PRINCIPAL.name)
_BARE: Final = re.compile(r"[a-zA-Z0-9_-]+")  # a key that TOML takes without quotes
_HASH: Final = re.compile(r"[0-9a-f]{64}")


def token_hash(token: str) -> str:
    """The SHA-256 of a token in hexadecimal digits, as `token_sha256` in an access file has it."""
    return hashlib.sha256(token.encode()).hexdigest()


def parse_access(body: bytes) -> Access:
    """The principals in an access file, with their rights and the hashes of their tokens.

    Raises InvalidConfig if the file is not valid. The message never shows a hash, or text that may be a token.
    """
    try:
        tables = tomllib.loads(body.decode())
    except ValueError as error:  # no TOML, or no UTF-8; the error's text may quote a line of the file
        raise InvalidConfig("it is not TOML") from error
    for key in tables:
        if key != "principal":
            raise InvalidConfig(f"wanted tables [principal.NAME], found another key{did_you_mean(key, ['principal'])}")
    principals = tables.get("principal")
    if not isinstance(principals, dict) or not principals:
        raise InvalidConfig("wanted at least one table [principal.NAME], found none")
    access = Access(tuple(_principal(name, table) for name, table in principals.items()))
    owner: dict[str, str] = {}
    for principal, hashes in access.principals:
        for known in hashes:
            if owner.setdefault(known, principal.name) != principal.name:
                raise InvalidConfig(f"{owner[known]} and {principal.name} have the same token: draw one for each")
    return access


def lines_of(name: str, hashes: Sequence[str], rights: Sequence[str]) -> str:
    """Format the lines of an access file that define a principal with this name, these token hashes and these rights.

    Raises InvalidConfig if the name, a hash or a right is not valid.
    """
    key = name if _BARE.fullmatch(name) else json.dumps(name)
    lines = f"[principal.{key}]\ntoken_sha256 = {json.dumps(list(hashes))}\nrights = {json.dumps(list(rights))}\n"
    parse_access(lines.encode())
    return lines


def with_principal(file: Path, lines: str) -> None:
    """Add the lines of a principal (see `lines_of`) to an access file. The file is replaced atomically.

    A file that did not exist is created, readable only by its owner. Raises InvalidConfig, and leaves the file
    unchanged, if it can't be read or written, or would not be valid with these lines.
    """
    try:
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        whole = f"{before}\n{lines}" if before else lines
        parse_access(whole.encode())
        new = file.with_name(f".{file.name}.new")
        new.touch(file.stat().st_mode & 0o777 if before else 0o600)
        new.write_text(whole, encoding="utf-8")
        new.replace(file)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{file}: can't be read and written: {error}") from error
    except InvalidConfig as error:
        raise InvalidConfig(f"{file}: {error.message}") from error


def _principal(name: str, table: Any) -> tuple[Principal, tuple[str, ...]]:
    if _NAME.fullmatch(name) is None or name in _TAKEN:
        raise InvalidConfig(
            f"a principal has a name of a-z A-Z 0-9 . _ @ -, not {' or '.join(_TAKEN)}, found another one"
        )
    where = f"[principal.{name}]"
    if not isinstance(table, dict):
        raise InvalidConfig(f"{where}: wanted a table, found another value")
    for key in table:
        if key not in _KEYS:
            raise InvalidConfig(f"{where}: wanted {' and '.join(_KEYS)}, found another key{did_you_mean(key, _KEYS)}")
    hashes = _texts(where, table, "token_sha256")
    if not hashes or not all(_HASH.fullmatch(text) for text in hashes):
        raise InvalidConfig(
            f"{where}: token_sha256 wants one or more SHA-256 of tokens, each of 64 lower-case hexadecimal digits: "
            "'sparklog coordinator token' prints them"
        )
    try:
        rights = tuple(parse_right(text) for text in _texts(where, table, "rights"))
    except InvalidConfig as error:
        raise InvalidConfig(f"{where}: rights: {error.message}") from error
    return Principal(name, rights), tuple(hashes)


def _texts(where: str, table: Mapping[str, Any], key: str) -> list[str]:
    texts = table.get(key)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InvalidConfig(f"{where}: {key} wants a list of strings")
    return texts
