"""Takes a sample of a coordinator each second: for the charts, and to measure the delay of its event loop.

Every half minute, a check of each store begins (`store_looks.py`). Every ten seconds, a leader notes the lag of groups.
"""

from __future__ import annotations

import asyncio

from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.watching.activity import GROUPS_PER_SAMPLE, LagSample, Sample
from sparklog.core.groups.lag import group_lags
from sparklog.host.clock import Clock, SystemClock

EVERY_MS = 1_000
LOOK_EVERY_MS = 30_000
LAGS_EVERY_MS = 10_000


async def sampling(service: Service, clock: Clock | None = None) -> None:
    """Take samples until the task is cancelled."""
    clock = clock or SystemClock()
    lag_ms = look_due_ms = lags_due_ms = 0
    while True:
        if clock.monotonic_ms() >= look_due_ms:
            look_due_ms = clock.monotonic_ms() + LOOK_EVERY_MS
            service.look_at_stores()
        if service.leads and clock.monotonic_ms() >= lags_due_ms:
            lags_due_ms = clock.monotonic_ms() + LAGS_EVERY_MS
            await take_lags(service, clock.now_ms())
        take_sample(service, clock.now_ms(), lag_ms)
        due_ms = clock.monotonic_ms() + EVERY_MS
        await asyncio.sleep(EVERY_MS / 1000)
        lag_ms = max(0, clock.monotonic_ms() - due_ms)


def take_sample(service: Service, now_ms: int, lag_ms: int) -> None:
    """Add a sample of the counts, and count changes of ISRs and leaders. `lag_ms`: the delay of the event loop."""
    counts = service.commit_counts()
    commands = sum(size * times for size, times in counts.group_sizes.items())
    appended = service.activity.newly_appended(counts.appended)
    service.activity.samples.append(Sample(now_ms, counts.entries, commands, service.control.queued, lag_ms, appended))
    service.activity.observe(service.follower.state)


async def take_lags(service: Service, now_ms: int) -> None:
    """Add a sample of the lag of groups, which is computed in a thread."""
    state = service.follower.state
    behind = await asyncio.to_thread(lambda: group_lags(state).most_behind(GROUPS_PER_SAMPLE))
    service.activity.lags.append(LagSample(now_ms, {lag.group.name: lag.lag_records for lag in behind}))
