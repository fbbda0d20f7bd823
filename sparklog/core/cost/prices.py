"""Prices of object storage, as conf/prices.toml lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from sparklog.core.config.key import did_you_mean
from sparklog.core.cost.request_costs import Requests
from sparklog.core.errors import InvalidOption

GIB = 1 << 30

Usd = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]  # excludes nan and inf


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List prices of one provider in USD. `region` says where they apply, `as_of` when they were published."""

    region: str
    as_of: str
    writes_per_1000: Usd
    reads_per_1000: Usd
    storage_gib_month: Usd
    between_zones_gib: Usd
    out_gib: Usd

    def of_requests(self, requests: Requests) -> float:
        """The price of the requests in USD."""
        return (requests.writes * self.writes_per_1000 + requests.gets * self.reads_per_1000) / 1000


def prices_of(provider: str, tables: Mapping[str, Any], where: str) -> Prices:
    """Return the prices of `provider` from `tables`, the content of a price file.

    `where` is the path of the file, for errors. Raises InvalidOption if the file has no valid prices of the provider.
    """
    if provider not in tables:
        raise InvalidOption(
            f"--provider: wanted one of {', '.join(tables) or 'none'} (the tables of {where}), found {provider!r}"
            f"{did_you_mean(provider, tables)}"
        )
    try:
        return msgspec.convert(tables[provider], Prices)
    except msgspec.ValidationError as error:
        raise InvalidOption(f"--prices: {where}: [{provider}] is not a table of prices: {error}") from error
