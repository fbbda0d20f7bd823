"""What the pages of a coordinator cost: a search through many records, and browsers that stay on live pages.

python -m bench.page_costs             prints a line per figure
python -m bench.page_costs search      only some: search, browsers
"""

from __future__ import annotations

import asyncio
import http.client
import re
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import psutil
import pyarrow as pa

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.core.describe.readable import amount
from tests.coordinator.shown_cluster import fill, init_shown
from tests.faults.running_coordinators import RunningCoordinator, running_coordinators

RECORDS = 10_000_000
PER_APPEND = 500_000
PARTITIONS = 4
BROWSERS = 50
EVERY_S = 8.0  # as static/page.js
SECONDS = 60.0
Row = tuple[str, str]
LIVE_PAGES = {
    "the first page": "/",
    "a topic": "/topics/orders",
    "groups": "/groups",
    "a live tail": "/topics/orders/messages?live=1",
}


def search(records: int = RECORDS) -> list[Row]:
    """Search for what is not there, page by page, until all records were read."""
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as folder:
        init_cluster(folder)
        written_s = _write(folder, records)
        with _coordinator(folder) as running:
            process = psutil.Process(running.process.pid)
            urllib.request.urlopen(f"{running.address}/topics/many/messages").close()
            before = process.memory_info().rss
            processor_s, took_s, searched = sum(process.cpu_times()[:2]), [], 0
            address: str | None = f"/topics/many/messages?{urlencode({'find': 'absent', 'order': 'oldest'})}"
            while address is not None:
                began_s = time.perf_counter()
                with urllib.request.urlopen(running.address + address) as answer:
                    page = answer.read().decode()
                took_s.append(time.perf_counter() - began_s)
                found = re.search(r"searched ([\d,]+) record", page)
                assert found is not None
                searched += int(found[1].replace(",", ""))
                link = re.search(r'rel="next" href="([^"]+)"', page)
                address = None if link is None else unescape(link[1])
            processor_s = sum(process.cpu_times()[:2]) - processor_s
            status = Path(f"/proc/{process.pid}/status").read_text()
            most = 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])  # type: ignore[index]
    assert searched == records, searched
    return [
        (
            f"search of {records:,} records",
            f"written in {written_s:.0f} s; {len(took_s)} pages in {sum(took_s):.1f} s, the longest "
            f"{max(took_s):.2f} s, {processor_s / records * 1e6:.2f} µs of processor time a record; memory "
            f"{amount(before)} before, at most {amount(most)}",
        )
    ]


def _write(folder: str, records: int) -> float:
    began_s = time.perf_counter()
    with sparklog.connect(folder) as cluster:
        cluster.create_topic("many", partitions=PARTITIONS)
        for first in range(0, records, PER_APPEND):
            values = [
                f'{{"order": {at}, "customer": "c{at % 9973}", "cents": {at % 10007}}}' for at in range(PER_APPEND)
            ]
            partition = pa.array([first // PER_APPEND % PARTITIONS] * PER_APPEND, pa.int32())
            keys = [f"k{at}" for at in range(PER_APPEND)]
            cluster.append("many", pa.table({"key": keys, "value": values, "partition": partition}))
    return time.perf_counter() - began_s


def browsers(count: int = BROWSERS, seconds: float = SECONDS) -> list[Row]:
    """Let browsers stay on a page each, as its script reads it again: the processor time of the coordinator."""
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        url = init_shown(Path(name))
        with _coordinator(url) as running:
            fill(running.address)
            with sparklog.connect(running.address) as cluster:
                for group in range(20):
                    cluster.commit_offsets(f"group-{group}", {("orders", at): 10 for at in range(6)})
            idle = _share(running, [], seconds)
            shares = {what: _share(running, [path] * count, seconds) for what, path in LIVE_PAGES.items()}
            ways = [f"{path}{'&' if '?' in path else '?'}own" for path in LIVE_PAGES.values()]
            apart = _share(running, [f"{ways[at % len(ways)]}={at}" for at in range(count)], seconds)
    shown = ", ".join(f"{what} {share:.1%}" for what, share in shares.items())
    figure = (
        f"of a core, over {seconds:.0f} s: nobody {idle:.1%}; all on {shown}; each on a page of its own {apart:.1%}"
    )
    return [(f"{count} browsers on live pages", figure)]


def _share(running: RunningCoordinator, paths: Sequence[str], seconds: float) -> float:
    """The part of a core that the coordinator takes while browsers show these pages."""
    process = psutil.Process(running.process.pid)
    host = running.address.partition("://")[2]

    async def browser(number: int, path: str) -> list[int]:
        connection = http.client.HTTPConnection(host, timeout=60)
        statuses = []
        await asyncio.sleep(number / len(paths) * EVERY_S)
        while time.monotonic() < end_s:
            connection.request("GET", path, headers={"sparklog-refresh": "1"})
            answer = await asyncio.to_thread(connection.getresponse)
            statuses.append(answer.status)
            answer.read()
            await asyncio.sleep(EVERY_S)
        connection.close()
        return statuses

    async def all_of_them() -> Counter[int]:
        found = await asyncio.gather(*(browser(*each) for each in enumerate(paths)))
        await asyncio.sleep(max(0.0, end_s - time.monotonic()))
        return Counter(status for statuses in found for status in statuses)

    before_s, began_s = sum(process.cpu_times()[:2]), time.monotonic()
    end_s = began_s + seconds
    statuses = asyncio.run(all_of_them())
    elapsed_s = time.monotonic() - began_s
    taken_s: float = sum(process.cpu_times()[:2]) - before_s
    answered = ", ".join(f"{times} with {status}" for status, times in sorted(statuses.items())) or "none"
    print(f"{paths[-1:]}: {taken_s / elapsed_s:.2%} of a core, answers: {answered}", file=sys.stderr)
    return taken_s / elapsed_s


@contextmanager
def _coordinator(url: str) -> Iterator[RunningCoordinator]:
    with running_coordinators(url) as coordinators:
        running = coordinators.start("--job-command", "none")
        running.wait_for("leads")
        yield running


if __name__ == "__main__":
    for part in (search, browsers):
        if len(sys.argv) < 2 or part.__name__ in sys.argv[1:]:
            for what, figure in part():
                print(f"{what}: {figure}", flush=True)
