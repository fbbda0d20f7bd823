"""Legal ids and zones of stores: they appear in settings (`storage.<id>.<key>`), options and command lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sparklog.core.config.storage import METADATA_STORE
from sparklog.core.errors import InvalidInput

MAX_LENGTH: Final = 100
_LEGAL_ZONE: Final = re.compile(r"[A-Za-z0-9._/-]*")
_LEGAL: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def check_store_ids(ids: Iterable[str]) -> None:
    """Raise InvalidInput unless all ids are legal, and no two differ only in case: settings ignore case."""
    seen: dict[str, str] = {}
    for store_id in ids:
        if len(store_id) > MAX_LENGTH or _LEGAL.fullmatch(store_id) is None:
            raise InvalidInput(
                f"the id of a store is 1 to {MAX_LENGTH} of a-z A-Z 0-9 . _ - and does not begin with a dot, "
                f"found {store_id[:MAX_LENGTH]!r}"
            )
        if store_id.lower() == METADATA_STORE:
            raise InvalidInput(f"the id {METADATA_STORE!r} means the place of the metadata: give the store another one")
        if store_id.lower() in seen:
            first = seen[store_id.lower()]
            raise InvalidInput(f"each store needs an id of its own, found {first!r} and {store_id!r}")
        seen[store_id.lower()] = store_id


def check_zone(zone: str) -> None:
    """Raise InvalidInput unless the zone is legal. "" means no zone."""
    if len(zone) > MAX_LENGTH or _LEGAL_ZONE.fullmatch(zone) is None:
        raise InvalidInput(
            f"a zone is up to {MAX_LENGTH} of a-z A-Z 0-9 . _ / -, like eu-west-1a or dc1/rack7, "
            f"found {zone[:MAX_LENGTH]!r}"
        )
