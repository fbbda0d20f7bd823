"""Which ids a store may have: they are written in settings (`storage.<id>.<key>`), options and on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sparklog.core.config.storage import METADATA_STORE
from sparklog.core.errors import InvalidInput

MAX_LENGTH: Final = 100
_LEGAL: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def check_store_ids(ids: Iterable[str]) -> None:
    """Raise InvalidInput unless each is a legal id, and no two are the same one in settings, which have no case."""
    seen: dict[str, str] = {}
    for each in ids:
        if len(each) > MAX_LENGTH or _LEGAL.fullmatch(each) is None:
            raise InvalidInput(
                f"the id of a store is 1 to {MAX_LENGTH} of a-z A-Z 0-9 . _ - and does not begin with a dot, "
                f"found {each[:MAX_LENGTH]!r}"
            )
        if each.lower() == METADATA_STORE:
            raise InvalidInput(f"the id {METADATA_STORE!r} means the place of the metadata: give the store another one")
        if each.lower() in seen:
            raise InvalidInput(f"each store needs an id of its own, found {seen[each.lower()]!r} and {each!r}")
        seen[each.lower()] = each
