"""The form of keys that every store can hold. `storage/keys.py` builds and parses keys."""

from __future__ import annotations

import re
from typing import Final

_MOST_CHARACTERS: Final = 1024  # of the longest key that S3 holds
_KEY: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}(?:/[A-Za-z0-9_-][A-Za-z0-9._-]{0,254})*")
KEY_FORM: Final = "parts of a-z A-Z 0-9 . _ - that do not begin with a dot, separated by '/'"


def is_legal_key(key: str) -> bool:
    """True if every store can hold `key` and it stays inside the store.

    A key has at most 1,024 characters. Its parts are separated by '/'. Each part has 1 to 255 of a-z A-Z 0-9 . _ - and
    does not begin with a dot: this rules out '.' and '..', and reserves names with a leading dot for the stores
    themselves.
    """
    return len(key) <= _MOST_CHARACTERS and _KEY.fullmatch(key) is not None
