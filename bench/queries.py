"""Plans and descriptions as a coordinator answers them, from a state of a million segments.

python -m bench.queries        prints a line per figure
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
import urllib3

from bench.children import ended_on_failure
from bench.state_scale import large_state
from sparklog.chain.follow.follower import Follower
from sparklog.chain.head import Head
from sparklog.coordinator.http.server_connections import Connections, limits_here
from sparklog.coordinator.http.topic_routes import described, planned
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.run import listening, server_of
from sparklog.storage.open_store import open_store
from sparklog.wire.metadata_messages import SEEN_HEADER
from sparklog.wire.topic_messages import MOST_SLICES, PLAN, TOPICS, PlanRequest, WantedRange

SECONDS = 3.0
CLIENTS = 4
SEEN = {SEEN_HEADER: "0", "accept": "application/json"}  # the state that is there will do
JSON_BODY = {**SEEN, "content-type": "application/json"}


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


def served_rates(segments: int = 1_000_000) -> list[tuple[str, str]]:
    """Rows for the report: requests a second over HTTP, from so many clients in a process of their own."""
    command = [sys.executable, "-m", "bench.queries", "--serve", str(segments)]
    with ended_on_failure(), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address, topic = server.stdout.readline().split()
        plan = msgspec.json.encode(PlanRequest(topic, (WantedRange(0, 0, 1),)))
        rows = [
            _rate(
                address,
                "plans of one slice",
                lambda http: http.request("POST", address + PLAN, plan, headers=JSON_BODY),
            ),
            _rate(
                address,
                "descriptions of 10 partitions",
                lambda http: http.request("GET", f"{address}{TOPICS}/{topic}?limit=10", headers=SEEN),
            ),
        ]
        server.terminate()
    return rows


def _rate(address: str, what: str, ask: Callable[[urllib3.PoolManager], urllib3.BaseHTTPResponse]) -> tuple[str, str]:
    http = urllib3.PoolManager(maxsize=CLIENTS)
    end = time.monotonic() + SECONDS

    def client() -> int:
        count = 0
        while time.monotonic() < end:
            answer = ask(http)
            assert answer.status == 200, answer.data
            count += 1
        return count

    with ThreadPoolExecutor(CLIENTS) as pool:
        counts = [pool.submit(client) for _ in range(CLIENTS)]
        total = sum(count.result() for count in counts)
    figure = f"{total / SECONDS:,.0f} requests/s from {CLIENTS} clients over HTTP"
    print(f"{what}: {figure}", flush=True)
    return what, figure


def _serve(segments: int) -> None:
    """A coordinator that knows a large state. Its address and the topic are the first line."""
    state = large_state(segments)
    follower = Follower(open_store(f"memory://{uuid.uuid4().hex}"))
    follower.publish(Head(state))
    listener = listening("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    service = Service(follower, follower.store.url, address, session_ms=9_000, queued_max=500, say=lambda *_: None)
    server = server_of(service, Connections(limits_here()))
    print(address, next(iter(state.topics.values())).name, flush=True)
    asyncio.run(server.serve([listener]))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--serve", segments]:
            _serve(int(segments))
        case _:
            query_rates()
            served_rates()
