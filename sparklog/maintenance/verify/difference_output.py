"""The table of differences on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.table import Table

from sparklog.core.describe.readable import counted
from sparklog.core.maintenance.differences import Difference

ROWS_SHOWN: Final = 50


def difference_table(differences: Sequence[Difference], not_listed: int = 0) -> Table:
    """Return a table of the first ROWS_SHOWN differences.

    Its footer counts all `differences`, and `not_listed` more that were not passed.
    """
    table = Table(title="differences", title_justify="left", show_footer=True)
    rest = len(differences) + not_listed - ROWS_SHOWN
    footer = counted(len(differences) + not_listed, "difference")
    table.add_column("where", footer=f"{footer}, {rest:,} more in the report" if rest > 0 else footer, overflow="fold")
    table.add_column("what", overflow="fold")
    table.add_column("wanted", overflow="fold")
    table.add_column("found", overflow="fold")
    table.add_column("what to do", overflow="fold")
    for difference in differences[:ROWS_SHOWN]:
        table.add_row(difference.place, difference.kind, difference.wanted, difference.found, difference.advice)
    return table
