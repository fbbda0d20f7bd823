"""The cost of a day: turns the work of a cluster and a list of prices into a report with advice. No I/O."""

from __future__ import annotations

from typing import Final

import msgspec

from sparklog.core.cost.advice import advice
from sparklog.core.cost.prices import GIB, Prices
from sparklog.core.cost.request_costs import (
    COPY_OF_ENTRY,
    ENTRY,
    NEXT_ENTRY,
    NONE,
    PLAN,
    READ_SLICE,
    SNAPSHOT,
    START_JOB,
    Requests,
)
from sparklog.core.cost.usage import Usage

DAYS_OF_MONTH: Final = 30
NOT_COUNTED: Final = (
    "reads by clients and by Spark, which leave no trace in the chain: give --reads-per-day and --gib-out-per-day",
    "processes that open the cluster, wait for records or stand by as coordinators",
    "verify, recovery, and agents that bring replicas up to date after an outage",
    "disks and HDFS cost nothing per request: a store there is priced as if the provider held it",
)


class Line(msgspec.Struct, frozen=True):
    """A row of the report: a kind of work, `what`, with its requests in the counted time, and their price."""

    what: str
    requests: Requests
    usd: float


class CostReport(msgspec.Struct, frozen=True):
    """The cost of requests and transfers from `from_ms` to `to_ms` (at most a day), and of a day's storage.

    `usd_per_day` is the sum of these, and `usd_per_month` is 30 times as much. `entries_read`: the number of entries
    from which the work of all `entries` was estimated.
    """

    provider: str
    prices: Prices
    from_ms: int
    to_ms: int
    entries: int
    entries_read: int
    lines: tuple[Line, ...]
    requests: Requests
    requests_usd: float
    written_bytes: int
    between_zones_bytes: int
    gib_out: float
    transfer_usd: float
    stored_bytes: int
    storage_usd: float
    usd_per_day: float
    usd_per_month: float
    advice: tuple[str, ...]
    not_counted: tuple[str, ...] = NOT_COUNTED


def cost_report(
    usage: Usage, provider: str, prices: Prices, *, reads_per_day: int = 0, gib_out_per_day: float = 0.0
) -> CostReport:
    """Return the cost of the work in `usage`: requests, transfer and storage.

    The chain doesn't show reads: `reads_per_day` is their number, `gib_out_per_day` the GiB that they transfer out.
    """
    lines = tuple(
        Line(what, requests, prices.of_requests(requests))
        for what, requests in work_lines(usage, reads_per_day).items()
        if requests != NONE
    )
    requests = NONE
    for line in lines:
        requests += line.requests
    requests_usd = prices.of_requests(requests)
    between_zones = usage.work.appended.between_zones_bytes + usage.work.rewritten.between_zones_bytes
    transfer_usd = between_zones / GIB * prices.between_zones_gib + gib_out_per_day * prices.out_gib
    stored_bytes = sum(usage.stored_bytes.values()) + usage.metadata_bytes
    storage_usd = stored_bytes / GIB * prices.storage_gib_month / DAYS_OF_MONTH
    usd = requests_usd + transfer_usd + storage_usd
    return CostReport(
        provider=provider,
        prices=prices,
        from_ms=usage.from_ms,
        to_ms=usage.to_ms,
        entries=usage.work.entries,
        entries_read=usage.sampled,
        lines=lines,
        requests=requests,
        requests_usd=requests_usd,
        written_bytes=usage.work.appended.size_bytes + usage.work.rewritten.size_bytes,
        between_zones_bytes=between_zones,
        gib_out=gib_out_per_day,
        transfer_usd=transfer_usd,
        stored_bytes=stored_bytes,
        storage_usd=storage_usd,
        usd_per_day=usd,
        usd_per_month=DAYS_OF_MONTH * usd,
        advice=tuple(advice(usage, prices)),
    )


def work_lines(usage: Usage, reads_per_day: int = 0) -> dict[str, Requests]:
    """The requests of each kind of work in the time that `usage` covers, by its name in the report.

    `reads_per_day` reads are added in full, even if `usage` covers less than a day.
    """
    work = usage.work
    rolled = READ_SLICE.times(work.appended.slices) if usage.rolled else NONE
    snapshots = (1 + usage.copies) * work.entries / usage.snapshot_every
    return {
        "objects of appends": work.appended.requests + work.bodies,
        "entries of the chain": ENTRY.times(work.entries) + PLAN.times(work.planned),
        "copies of the chain": COPY_OF_ENTRY.times(usage.copies * work.entries),
        "snapshots of the chain": SNAPSHOT.times(snapshots),
        "roll and compaction": work.rewritten.requests + rolled,
        "starts of jobs": START_JOB.times(work.job_runs),
        "agents that look for entries": agents_looking(usage),
        "reads, as given": (PLAN + READ_SLICE).times(reads_per_day),
    }


def agents_looking(usage: Usage) -> Requests:
    """The requests by which agents look for new entries; none if a coordinator is in force, which notifies them."""
    if usage.coordinator_in_force:
        return NONE
    looks = PLAN.times(usage.agents * usage.period_ms / usage.fetch_wait_ms)
    return looks + NEXT_ENTRY.times(usage.agents * usage.work.entries)
