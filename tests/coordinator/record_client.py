"""A program without a client: it appends and reads records of a coordinator in JSON, without a server in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from sparklog.client.cluster import Cluster
from sparklog.coordinator.http.app import app_of
from sparklog.coordinator.page.records.masks import mask_rule
from sparklog.core.access import Access
from sparklog.wire.error_messages import ErrorReply
from sparklog.wire.messages import JSON
from sparklog.wire.record_messages import PRODUCERS, AppendReply, ProducerReply, RecordsReply
from tests.coordinator.asgi import Answer, request
from tests.coordinator.served_coordinator import ServedCoordinator, served_coordinator

T = TypeVar("T")
HEADERS = {"content-type": JSON, "accept": JSON}


def path_of(topic: str) -> str:
    return f"/v1/topics/{topic}/records"


def error(answer: Answer) -> tuple[int, str]:
    """The status and the code of a refusal."""
    return answer.status, refusal(answer).code


def refusal(answer: Answer) -> ErrorReply:
    return msgspec.json.decode(answer.body, type=ErrorReply)


class RecordClient:
    """Asks one coordinator."""

    def __init__(
        self,
        coordinator: ServedCoordinator,
        *,
        access: Callable[[], Access] | None = None,
        masks: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.coordinator = coordinator
        self.app = app_of(coordinator.service, access, tuple(map(mask_rule, masks)))
        self.headers = HEADERS | dict(headers or {})

    async def asked(self, method: str, path: str, body: bytes | None = None, **query: Any) -> Answer:
        return await request(self.app, method, path, [body or b""], self.headers, urlencode(query))

    def ask(self, method: str, path: str, body: bytes | None = None, **query: Any) -> Answer:
        return self.coordinator.run(self.asked(method, path, body, **query))

    def post(self, records: Any, topic: str = "orders", **fields: Any) -> Answer:
        return self.ask("POST", path_of(topic), msgspec.json.encode({"records": records, **fields}))

    def append(self, records: Any, topic: str = "orders", **fields: Any) -> list[tuple[int, int]]:
        """Append them; returns the partition and offset of each."""
        answer = self.post(records, topic, **fields)
        assert answer.status == 200, answer.body
        return [(each.partition, each.offset) for each in msgspec.json.decode(answer.body, type=AppendReply).records]

    def get(self, topic: str = "orders", **query: Any) -> Answer:
        return self.ask("GET", path_of(topic), **query)

    def read(self, topic: str = "orders", **query: Any) -> RecordsReply:
        answer = self.get(topic, **query)
        assert answer.status == 200, answer.body
        return msgspec.json.decode(answer.body, type=RecordsReply)

    def producer(self, **fields: Any) -> dict[str, int]:
        """The id and epoch of a new producer, or of the next epoch of one."""
        answer = self.ask("POST", PRODUCERS, msgspec.json.encode(fields))
        assert answer.status == 200, answer.body
        reply = msgspec.json.decode(answer.body, type=ProducerReply)
        return {"producer_id": reply.producer_id, "producer_epoch": reply.producer_epoch}


@contextmanager
def record_client(cluster: Cluster, **how: Any) -> Iterator[RecordClient]:
    """A client of a coordinator that leads this cluster."""
    with served_coordinator(cluster.connection.url) as coordinator:
        yield RecordClient(coordinator, **how)
