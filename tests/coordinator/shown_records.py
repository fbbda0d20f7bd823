"""Pages of a coordinator of a cluster with records, asked without a server in between."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from sparklog.client.cluster import Cluster
from sparklog.coordinator.http.app import app_of
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.page.records.masks import mask_rule
from sparklog.core.access import Access
from tests.coordinator.asgi import Answer, request

Place = tuple[int, int]  # partition and offset


class Records(HTMLParser):
    """A page: its records, its links by relation, its text, and all tags."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.status = answer.status
        self.places: list[Place] = []
        self.links: dict[str, str] = {}
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(answer.body.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if place := found.get("data-record"):
            partition, _, offset = place.partition("-")
            self.places.append((int(partition), int(offset)))
        if tag == "a" and (relation := found.get("rel")):
            self.links[relation] = found["href"] or ""

    def handle_data(self, data: str) -> None:
        self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)


class Asked:
    """Asks a coordinator of the cluster, which need not lead."""

    def __init__(self, cluster: Cluster, *, access: Access | None = None, masks: Sequence[str] = ()) -> None:
        connection = cluster.connection
        connection.follower.catch_up()
        self.service = Service(
            connection.follower,
            connection.url,
            "http://me:7400",
            session_ms=60_000,
            queued_max=10,
            say=lambda *_: None,
            stores=connection.stores,
        )
        self.app = app_of(self.service, None if access is None else lambda: access, tuple(map(mask_rule, masks)))

    def answer(self, address: str, headers: dict[str, str] | None = None, **query: Any) -> Answer:
        path, _, text = address.partition("?")
        text = text or "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
        return asyncio.run(request(self.app, "GET", path, headers=headers, query=text))

    def page(self, address: str = "/topics/orders/messages", **query: Any) -> Records:
        return Records(self.answer(address, **query))

    def walk(self, topic: str = "orders", **query: Any) -> Iterator[Records]:
        """The page of a topic's records with this query, and those that its links lead to."""
        page = self.page(f"/topics/{topic}/messages", **query)
        for _ in range(200):
            yield page
            if "next" not in page.links:
                return
            page = self.page(page.links["next"])
        raise AssertionError("the links never come to an end")


def rows(values: Sequence[Any], partition: int = 0, **columns: Any) -> pa.Table:
    given = {name: pa.array(column) for name, column in columns.items()}
    return pa.table({"value": values, "partition": pa.array([partition] * len(values), pa.int32()), **given})


def searched(page: Records) -> int:
    """Return the number of records that a page says it has searched."""
    found = re.search(r"searched ([\d,]+) record", page.text)
    assert found is not None, page.text
    return int(found[1].replace(",", ""))
