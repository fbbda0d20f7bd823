"""Prices of object storage, as conf/prices.toml lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sparklog.core.config.key import did_you_mean
from sparklog.core.cost.requests import Requests
from sparklog.core.errors import InvalidOption

GIB = 1 << 30


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List prices of one provider in USD. `region` says where they apply, `as_of` when they were published."""

    region: str
    as_of: str
    writes_per_1000: float
    reads_per_1000: float
    storage_gib_month: float
    between_zones_gib: float
    out_gib: float

    def of_requests(self, requests: Requests) -> float:
        """The price of the requests."""
        return (requests.writes * self.writes_per_1000 + requests.gets * self.reads_per_1000) / 1000


def prices_of(provider: str, tables: Mapping[str, Any], where: str) -> Prices:
    """The prices of `provider` among the tables of the file at `where`. Raises InvalidOption."""
    if provider not in tables:
        raise InvalidOption(
            f"--provider: wanted one of {', '.join(tables)} (the tables of {where}), found {provider!r}"
            f"{did_you_mean(provider, tables)}"
        )
    try:
        return msgspec.convert(tables[provider], Prices)
    except msgspec.ValidationError as error:
        raise InvalidOption(f"--prices: {where}: [{provider}] is not a table of prices: {error}") from error
