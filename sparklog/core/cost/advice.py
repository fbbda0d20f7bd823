"""Advice on how to lower the cost of a day: on batches, segments, agents and copies of the chain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sparklog.core.cost.prices import Prices
from sparklog.core.cost.request_costs import COPY_OF_ENTRY, ENTRY, NEXT_ENTRY, PART_BYTES, PLAN, stored
from sparklog.core.cost.usage import Usage
from sparklog.core.describe.readable import amount, counted, duration

SMALL_BYTES: Final = 1 << 20  # requests of an object of this size cost as much as storing it for about two weeks
MANY: Final = 1_000  # objects or entries a day: fewer cost less than a cent
MANY_ENTRIES: Final = 86_400  # one a second
DAY_MS: Final = 86_400_000


def advice(usage: Usage, prices: Prices) -> Iterator[str]:
    """Yield a sentence for each thing to change. If less than a day was counted, the first sentence says so."""
    if usage.period_ms < DAY_MS:
        yield f"only {duration(usage.period_ms // 1000 * 1000)} were counted, so a whole day costs more than this"
    yield from _batches(usage, prices)
    yield from _segments(usage)
    yield from _agents(usage, prices)
    yield from _copies(usage, prices)
    if usage.work.appended.between_zones_bytes:
        yield (
            "writers send bytes to stores in other zones: run each writer in the zone of the leader's store, and each "
            "agent in the zone of its own store, so that bytes cross once"
        )


def _batches(usage: Usage, prices: Prices) -> Iterator[str]:
    appended = usage.work.appended
    if appended.objects < MANY or appended.object_bytes >= SMALL_BYTES * appended.objects:
        return
    copies = appended.size_bytes / max(1, appended.object_bytes)
    wanted = max(1, -(-appended.object_bytes // PART_BYTES))
    saved = prices.of_requests(appended.requests) - prices.of_requests(stored(PART_BYTES).times(copies * wanted))
    yield (
        f"objects of appends have {amount(appended.object_bytes // appended.objects)} on average: gather "
        "records in larger batches (linger_ms of producers, fewer tasks, longer triggers). The same bytes in objects "
        f"of {amount(PART_BYTES)} would save {saved:.2f} USD of requests a day"
    )


def _segments(usage: Usage) -> Iterator[str]:
    appended, rewritten = usage.work.appended, usage.work.rewritten
    if appended.slices >= MANY and not usage.rolled:
        yield (
            f"{counted(appended.slices, 'slice')} came a day and roll never ran: each costs every reader two requests "
            "until it is rolled (sparklog job roll, or a coordinator)"
        )
    if rewritten.objects >= MANY and rewritten.object_bytes < SMALL_BYTES * rewritten.objects:
        yield (
            f"segments have {amount(rewritten.object_bytes // rewritten.objects)} on average: raise segment.bytes or "
            "segment.ms, or use fewer partitions"
        )


def _agents(usage: Usage, prices: Prices) -> Iterator[str]:
    if not usage.agents or usage.coordinator_in_force:
        return
    looks = PLAN.times(usage.agents * DAY_MS / usage.fetch_wait_ms)
    looks += NEXT_ENTRY.times(usage.agents * usage.work.entries)
    yield (
        f"{counted(usage.agents, 'agent')} look at the chain every {usage.fetch_wait_ms} ms, for up to "
        f"{prices.of_requests(looks):.2f} USD a day: run a coordinator, which notifies them, or raise "
        "replica.fetch.wait.max.ms"
    )


def _copies(usage: Usage, prices: Prices) -> Iterator[str]:
    entries = usage.work.entries
    if entries < MANY:
        return
    if usage.copies:
        copied = prices.of_requests(COPY_OF_ENTRY.times(usage.copies * entries))
        yield (
            f"metadata.copies is {usage.copies}, for {copied:.2f} USD a day: a restore needs one copy, and a "
            "coordinator that commits for all makes fewer entries"
        )
    if not usage.coordinator_in_force and entries >= MANY_ENTRIES:
        chain = prices.of_requests(ENTRY.times(entries) + PLAN.times(usage.work.planned))
        yield (
            f"{counted(entries, 'entry')} a day cost {chain:.2f} USD: a coordinator puts the appends of many writers "
            "into one entry"
        )
