"""The table of docs/cost.md: the requests of each operation, and their price.

python -m tests.cost_table    writes it into the page
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from sparklog.core.cost.prices import Prices, prices_of
from sparklog.core.cost.request_costs import OPERATIONS
from tests.marked_part import replaced

ROOT = Path(__file__).parents[1]
PAGE, PRICES = ROOT / "docs" / "cost.md", ROOT / "conf" / "prices.toml"
BEGIN, END = "<!-- requests: begin (make docs) -->", "<!-- requests: end -->"


def list_prices(provider: str = "aws-s3") -> Prices:
    """The list prices of a provider."""
    return prices_of(provider, tomllib.loads(PRICES.read_text(encoding="utf-8")), "conf/prices.toml")


def table() -> str:
    """The rows of the page."""
    lines = ["| operation | PUT | POST | GET | LIST | USD per million |", "|---|---:|---:|---:|---:|---:|"]
    for name, of in OPERATIONS.items():
        usd = 1e6 * list_prices().of_requests(of)
        lines.append(f"| {name} | {of.puts} | {of.posts} | {of.gets} | {of.lists} | {usd:.2f} |")
    return "\n".join(lines)


def page() -> str:
    """The page with its table replaced."""
    return replaced(PAGE.read_text(encoding="utf-8"), BEGIN, END, table())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
