"""The pages of consumer groups: the list, and one group with its members and partitions."""

from __future__ import annotations

import shlex
from typing import Any, Final

from sparklog.coordinator.http.group_routes import described_group
from sparklog.coordinator.page.charts import Chart, chart
from sparklog.coordinator.page.views import ROWS, Listed, listed
from sparklog.coordinator.watching.activity import LAG_SAMPLES
from sparklog.coordinator.watching.observation import Observation
from sparklog.coordinator.watching.sampling import LAGS_EVERY_MS
from sparklog.core.access import Principal
from sparklog.core.describe.group_rows import group_row
from sparklog.core.groups.lag import group_lags

_SHORT_CHART: Final = 60  # samples: ten minutes


def groups(seen: Observation, find: str, page: int) -> dict[str, Any]:
    """The content of the page of groups: all by name, or those whose names contain `find`; `page` counts from 1."""
    state = seen.state
    cut = listed(sorted(name for name in state.groups if find.lower() in name.lower()), page)
    lags = group_lags(state)
    rows = [group_row(lags.of(state.groups[name])) for name in cut.rows]
    return {"groups": Listed(rows, cut.total, cut.page, cut.pages), "find": find}


def group(seen: Observation, name: str, page: int, principal: Principal) -> dict[str, Any]:
    """The content of a group's page, with the parts that the principal may see. Raises GroupIdNotFound.

    `page`, from 1, is the page of the list of partitions.
    """
    described = described_group(seen.state, name, (page - 1) * ROWS, ROWS, principal)
    pages = max(1, -(-described.partitions_total // ROWS))
    if page > pages:
        page = pages
        described = described_group(seen.state, name, (page - 1) * ROWS, ROWS, principal)
    return {
        "group": described,
        "members": described.members[:ROWS],
        "more_members": len(described.members[ROWS:]),
        "partitions": Listed(list(described.partitions), described.partitions_total, page, pages),
        "quoted": shlex.quote(name),
        "charts": lag_charts(seen, name),
    }


def lag_charts(seen: Observation, name: str) -> list[Chart]:
    """The chart of a group's lag, for an hour at most, as a list of one chart.

    [] on a standby, or if no sample contains the group.
    """
    values = [float(sample.lags[name]) for sample in seen.lags if name in sample.lags]
    if not values or not seen.leads:
        return []
    slots = _SHORT_CHART if len(values) <= _SHORT_CHART else LAG_SAMPLES
    describe = f"sparklog group describe {shlex.quote(name)}"
    return [chart("Lag", "offsets", describe, values, slots, slots * LAGS_EVERY_MS // 1000)]
