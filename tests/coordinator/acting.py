"""A coordinator whose pages change things, asked in its own event loop as a browser would ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pyarrow as pa

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.coordinator.http.app import app_of
from sparklog.core.access import Access
from sparklog.core.state import ClusterState
from tests.coordinator.asgi import Answer, request
from tests.coordinator.served_coordinator import ServedCoordinator, served_coordinator
from tests.coordinator.shown_records import Records, rows

RECORDS = 4  # in each of the two partitions of orders
HOST = "localhost:7400"
ORIGIN = f"http://{HOST}"


class Acting:
    """Asks for pages of actions, and sends their forms."""

    def __init__(self, coordinator: ServedCoordinator, access: Callable[[], Access] | None = None) -> None:
        self.coordinator = coordinator
        self.app = app_of(coordinator.service, access)

    @property
    def state(self) -> ClusterState:
        """The newest state."""
        return self.coordinator.service.follower.catch_up().state

    def get(
        self, path: str, given: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Records:
        answer = request(self.app, "GET", path, headers={"host": HOST, **(headers or {})}, query=urlencode(given or {}))
        return Records(self.coordinator.run(answer))

    def plan(self, action: str, given: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Records:
        """The page of a form that was filled in."""
        return self.get(f"/actions/{action}", {**given, "plan": "1"}, headers)

    async def sent(self, action: str, sealed: str | None, headers: Mapping[str, str] | None = None) -> Answer:
        """The answer to a form of confirmation, or to one without its token."""
        body = urlencode({} if sealed is None else {"sealed": sealed}).encode()
        given = {"host": HOST, "origin": ORIGIN, "content-type": "application/x-www-form-urlencoded", **(headers or {})}
        return await request(self.app, "POST", f"/actions/{action}", [body], given)

    def send(self, action: str, sealed: str | None, headers: Mapping[str, str] | None = None) -> Records:
        return Records(self.coordinator.run(self.sent(action, sealed, headers)))


@contextmanager
def acting(
    folder: Path, *, writes: bool = True, access: Callable[[], Access] | None = None, leads: bool = True
) -> Iterator[Acting]:
    """A cluster with topic orders, which group billing reads, and a coordinator of it."""
    url = made(folder, writes=writes)
    with served_coordinator(url, leads=leads) as coordinator:
        yield Acting(coordinator, access)


def made(folder: Path, *, writes: bool = True) -> str:
    """Create the cluster; returns its address."""
    init_cluster(str(folder), config={"page.writes": writes})
    with sparklog.connect(str(folder)) as cluster:
        cluster.create_topic("orders", partitions=2, config={"retention.ms": 86_400_000})
        for partition in range(2):
            values = [f"{partition}-{at}" for at in range(RECORDS)]
            times = pa.array([1_000_000 * (at + 1) for at in range(RECORDS)], pa.timestamp("us", "UTC"))
            cluster.append("orders", rows(values, partition, timestamp=times))
        cluster.commit_offsets("billing", {("orders", 0): 2, ("orders", 1): RECORDS})
    return str(folder)


def sealed_in(page: Records) -> str | None:
    """The token in the form of confirmation; None if the page has no such form."""
    return next((found["value"] for tag, found in page.tags if tag == "input" and found.get("name") == "sealed"), None)


def actions_in(page: Records) -> list[str]:
    """The links of a page to actions that change something."""
    links = [found["href"] or "" for tag, found in page.tags if tag == "a"]
    return [link for link in links if link.startswith("/actions/") and link != "/actions/plan-job"]


def forms_in(page: Records) -> list[str]:
    """The methods of a page's forms."""
    return [found["method"] or "" for tag, found in page.tags if tag == "form"]
