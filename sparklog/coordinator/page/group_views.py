"""The pages of consumer groups: the list, and one group with its members and partitions."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from sparklog.coordinator.http.group_routes import described_group
from sparklog.coordinator.page.charts import Chart, chart
from sparklog.coordinator.page.views import ROWS, Listed, listed
from sparklog.coordinator.watching.activity import LAG_SAMPLES
from sparklog.coordinator.watching.observation import Observation
from sparklog.coordinator.watching.sampling import LAGS_EVERY_MS
from sparklog.core.access import Principal
from sparklog.core.groups.lag import NEVER, appended_ms, group_lags
from sparklog.core.state import ClusterState
from sparklog.core.tables.slice_table import partition_key
from sparklog.core.types import TopicPartition
from sparklog.wire.group_messages import GroupPartitionReply

_SHORT_CHART: Final = 60  # samples: ten minutes


class GroupPartitionRow(msgspec.Struct, frozen=True):
    """A partition of a group. `unread_since_ms`: the append time of its oldest record that the group has not read.

    None if no record is left to read, or if the group has committed no offset in the partition.
    """

    partition: GroupPartitionReply
    unread_since_ms: int | None


def groups(seen: Observation, find: str, page: int) -> dict[str, Any]:
    """The content of the page of groups: all by name, or those whose names contain `find`; `page` counts from 1."""
    state = seen.state
    cut = listed(sorted(name for name in state.groups if find.lower() in name.lower()), page)
    lags = group_lags(state)
    rows = [lags.of(state.groups[name]) for name in cut.rows]
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
    rows = partition_rows(seen.state, described.partitions)
    return {
        "group": described.summary,
        "members": described.members[:ROWS],
        "more_members": len(described.members[ROWS:]),
        "partitions": Listed(rows, described.partitions_total, page, pages),
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


def partition_rows(state: ClusterState, partitions: Sequence[GroupPartitionReply]) -> list[GroupPartitionRow]:
    """A row for each of the partitions, in the same order, with its `unread_since_ms`."""
    behind = [row for row in partitions if row.lag]
    places = [TopicPartition(state.topic_ids[row.topic], row.partition) for row in behind]
    offsets = [max(row.committed or 0, row.log_start) for row in behind]
    keys = np.array([partition_key(place) for place in places], dtype=np.int64)
    since = appended_ms(state, keys, np.array(offsets, dtype=np.int64)).tolist()
    by_place = dict(zip(((row.topic, row.partition) for row in behind), since, strict=True))
    times_ms = (by_place.get((row.topic, row.partition), NEVER) for row in partitions)
    return [GroupPartitionRow(row, None if at == NEVER else at) for row, at in zip(partitions, times_ms, strict=True)]
