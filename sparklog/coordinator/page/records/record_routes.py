"""The page of a topic's records, for principals that may read the topic.

This is the only place where bytes of records pass through a coordinator. So only a few reads run at once, and each has
limits on records, bytes and time. Each has a thread of its own: a store that never answers blocks only that thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from sparklog.coordinator.access.audit import audit_refused
from sparklog.coordinator.access.gate import caller_of
from sparklog.coordinator.http.topic_routes import check_topic
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.page.records.masks import MaskRule, mask_of
from sparklog.coordinator.page.records.record_query import RecordQuery, query_of
from sparklog.coordinator.page.records.record_reading import (
    LIMITS,
    LIVE_LIMITS,
    RecordsFound,
    RecordSource,
    find_records,
)
from sparklog.coordinator.page.records.record_views import json_lines, record_page
from sparklog.coordinator.page.rendering import HEADERS, rendered
from sparklog.coordinator.watching.observation import Observation
from sparklog.core.access import Verb
from sparklog.core.describe.readable import counted, duration
from sparklog.core.errors import AccessRefused, SparklogError, StoreUnavailable, TryAgain
from sparklog.core.reading.plan import RangeToRead, replanned
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset
from sparklog.host.clock import SystemClock
from sparklog.host.daemon import in_daemon
from sparklog.log.cluster_stores import Stores
from sparklog.wire.error_messages import http_status

MESSAGES: Final = "/topics/{name}/messages"
READS: Final = 4  # at once
ABANDONED: Final = 32  # threads at most
PATIENCE_MS: Final = 20_000  # the longest wait for a page

T = TypeVar("T")


def record_page_of(service: Service, masks: Sequence[MaskRule]) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """The handler for MESSAGES, the page of a topic's records. `masks`: rules for the parts that it must not show."""
    reads = RecordReads()

    async def messages(request: Request) -> Response:
        topic = request.path_params["name"]
        mask = mask_of(masks, topic)
        query, records, problem, status = RecordQuery(), None, "", 200
        try:
            _check_may_read(request, service.follower.state, topic)
            query = query_of(request.query_params)
            source = _source(service)
            limits = LIVE_LIMITS if query.live else LIMITS
            records = await reads.run(partial(find_records, source, topic, query, mask, limits))
        except SparklogError as error:
            problem, status = str(error), http_status(error)
        if request.query_params.get("format") == "jsonl":
            return await _download(topic, partial(json_lines, topic, query, mask), records, problem, status)

        def view(seen: Observation) -> dict[str, object]:
            return record_page(seen.state, topic, query, mask, records, problem)

        return await rendered(service, "messages.html", view, status)

    return messages


class RecordReads:
    """Runs reads in threads that end with the process, because a store may never answer.

    At most READS reads with a waiting caller run at once. A read continues after its caller has given up; while at
    least ABANDONED such reads run, new reads are refused.
    """

    def __init__(self) -> None:
        self._under_way = 0  # reads with a waiting caller
        self._abandoned: list[Future[Any]] = []  # reads that took too long: their threads may never end

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of `work`. Raises its errors, and TryAgain if too many reads are under way.

        Raises StoreUnavailable if `work` takes longer than PATIENCE_MS.
        """
        self._abandoned = [read for read in self._abandoned if not read.done()]
        if len(self._abandoned) >= ABANDONED:
            raise TryAgain(f"{counted(ABANDONED, 'read')} of records hang: a store does not answer")
        if self._under_way >= READS:
            raise TryAgain(
                f"{counted(READS, 'page')} of records are being read already, which is the limit: "
                "load this one again in some seconds"
            )
        read = in_daemon(work, "sparklog-records")
        self._under_way += 1
        try:
            return await asyncio.wait_for(asyncio.wrap_future(read), PATIENCE_MS / 1000)
        except TimeoutError:
            raise StoreUnavailable(f"the stores gave no answer in {duration(PATIENCE_MS)}") from None
        finally:
            self._under_way -= 1
            if not read.done():
                self._abandoned.append(read)


def _check_may_read(request: Request, state: ClusterState, topic: str) -> None:
    """Raise TopicAuthorizationFailed, and audit the request, if the caller may not read the topic.

    Raise UnknownTopicOrPartition if there is no such topic.
    """
    caller = caller_of(request.scope)
    try:
        check_topic(caller.principal, Verb.READ, topic, state)
    except AccessRefused as error:
        audit_refused(caller.principal.name, caller.address, f"GET {request.url.path}", error)
        raise


def _source(service: Service) -> RecordSource:
    state = service.follower.state

    def now() -> tuple[ClusterState, Stores]:
        newest = service.follower.catch_up().state
        return newest, service.stores(newest)

    def replan(plan: RangeToRead, at: Offset) -> RangeToRead:
        return replanned(service.follower.catch_up().state, plan, at)

    return RecordSource(state, service.stores(state), replan, now, SystemClock().monotonic_ms)


async def _download(
    topic: str, lines: Callable[[RecordsFound], bytes], records: RecordsFound | None, problem: str, status: int
) -> Response:
    headers = {**HEADERS, "cache-control": "no-store"}
    if records is None:
        return Response(f"{problem}\n", status, media_type="text/plain", headers=headers)
    headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(topic, safe='')}.jsonl"
    return Response(await asyncio.to_thread(lines, records), media_type="application/jsonl", headers=headers)
