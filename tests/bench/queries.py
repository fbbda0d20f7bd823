"""Plans and descriptions as a coordinator answers them, from a state of a million segments: processor time of each.

python -m tests.bench.queries        prints a line per figure
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from sparklog.coordinator.queries import described, planned
from sparklog.wire.queries import MOST_SLICES, PlanRequest, WantedRange
from tests.bench.state_scale import large_state

SECONDS = 3.0


def query_rates(segments: int = 1_000_000) -> list[tuple[str, str]]:
    """Rows for the report: (what was measured, its figure)."""
    state = large_state(segments)
    topic = next(iter(state.topics.values())).name
    narrow = PlanRequest(topic, (WantedRange(0, 0, 1),))
    wide = PlanRequest(topic, limit=MOST_SLICES)
    return [
        _figure("a plan of one slice", lambda: planned(state, "memory://m", narrow)),
        _figure(f"a plan of {MOST_SLICES:,} slices", lambda: planned(state, "memory://m", wide)),
        _figure("a description", lambda: described(state, topic, 0, 1_000)),
    ]


def _figure(what: str, answer: Callable[[], msgspec.Struct]) -> tuple[str, str]:
    size_bytes = len(msgspec.json.encode(answer()))
    begin, count = time.process_time(), 0
    while time.process_time() < begin + SECONDS:
        msgspec.json.encode(answer())
        count += 1
    each_s = (time.process_time() - begin) / count
    figure = f"{each_s * 1000:.2f} ms of processor time, {1 / each_s:,.0f}/s on one core, {size_bytes:,} B"
    print(f"{what}: {figure}", flush=True)
    return what, figure


if __name__ == "__main__":
    query_rates()
