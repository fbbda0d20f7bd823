"""The pictures of pages in docs/coordinator.md: `python -m tests.coordinator.page_picture` (needs a browser).

Starts a coordinator and the agents of three stores, writes for a minute, and stops them again.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import sparklog
from tests.coordinator.browser import browser, watched
from tests.coordinator.shown_cluster import append, fill, init_shown
from tests.faults.running_coordinators import running_coordinators

DOCS = Path(__file__).parents[2] / "docs"
# Its name below docs/, its address, its height.
PICTURES = (
    ("coordinator-page", "/", 1190),
    ("coordinator-messages", "/topics/orders/messages?find=value", 760),
    ("coordinator-group", "/groups/billing", 560),
    ("coordinator-action", "/actions/delete-records?topic=orders&offset=500&plan=1", 780),
)


def main(folder: Path, seconds: float, also: Path | None) -> None:
    url = init_shown(folder / "logs")
    with running_coordinators(url) as coordinators:
        leading = coordinators.start()
        leading.wait_for("leads")
        agents = [
            subprocess.Popen(
                [sys.executable, "-m", "sparklog", "--cluster", url, "agent", "--store", store],
                stdout=subprocess.DEVNULL,
            )
            for store in "abc"
        ]
        stop, writers = threading.Event(), list[threading.Thread]()
        try:
            fill(leading.address)
            read(leading.address)
            writers = [threading.Thread(target=write, args=(leading.address, at, stop)) for at in range(24)]
            for writer in writers:
                writer.start()
            stop.wait(seconds)
            shoot(leading.address, also)
        finally:
            stop.set()
            for writer in writers:
                writer.join()
            for agent in agents:
                agent.terminate()
            for agent in agents:
                agent.wait()


def read(address: str) -> None:
    """A group that has read a part of the payments, whose lag grows while others write."""
    with sparklog.connect(address) as cluster:
        cluster.commit_offsets("billing", {("payments", at): 200 for at in range(3)})


def write(address: str, at: int, stop: threading.Event) -> None:
    """A writer that is busy for some seconds, and then less so: for the charts."""
    with sparklog.connect(address) as cluster:
        while not stop.is_set():
            append(cluster, "payments", 5)
            stop.wait(0.05 + 0.4 * ((time.monotonic() // 7 + at) % 3))


def shoot(address: str, also: Path | None) -> None:
    with browser() as started:
        for name, path, height in PICTURES:
            page = watched(started, width=1180, height=height).page
            page.goto(address + path)
            page.evaluate(
                "([name]) => { for (const part of document.querySelectorAll('.lead')) "
                "part.innerHTML = part.innerHTML.replaceAll(name, 'coordinator-1'); }",
                [socket.gethostname()],
            )
            page.screenshot(path=str(DOCS / f"{name}.png"))
        if also is None:
            return
        for name, path, width, dark in (
            ("dark", "/", 1180, True),
            ("phone", "/", 390, False),
            ("topic", "/topics/orders", 1180, False),
            ("messages", "/topics/orders/messages?find=value", 1180, False),
            ("messages-phone", "/topics/orders/messages", 400, True),
            ("groups", "/groups", 1180, False),
            ("chain", "/chain", 1180, False),
            ("jobs", "/jobs", 1180, True),
            ("stores", "/stores", 1180, False),
            ("topics", "/topics?find=o", 1180, False),
        ):
            page = watched(started, width=width, dark=dark).page
            page.goto(address + path)
            page.screenshot(path=str(also / f"{name}.png"), full_page=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=90, help="how long to write")
    parser.add_argument("--also", type=Path, help="a folder for pictures of the other pages")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sparklog-") as made:
        main(Path(made), given.seconds, given.also)
