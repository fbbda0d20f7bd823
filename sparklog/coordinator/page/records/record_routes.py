"""The page of a topic's records, for principals that may read the topic.

Bytes of records pass through a coordinator here. So only a few reads run at once (`record_work.py`), and each has
limits on records, bytes and time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from sparklog.coordinator.http.record_replies import MOST_REPLIES, Replies
from sparklog.coordinator.http.topic_routes import check_topic_for
from sparklog.coordinator.leading.record_work import RecordWork
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
from sparklog.core.describe.readable import counted
from sparklog.core.errors import SparklogError, TryAgain
from sparklog.core.reading.plan import RangeToRead, replanned
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset
from sparklog.host.clock import SystemClock
from sparklog.log.cluster_stores import Stores
from sparklog.wire.error_messages import http_status

MESSAGES: Final = "/topics/{name}/messages"
READS: Final = 4  # at once


def page_reads() -> RecordWork:
    """The reads of pages: READS at once. None waits for its turn: a page can be loaded again."""
    return RecordWork(READS, busy=f"{counted(READS, 'page')} of records are being read already")


def record_page_of(service: Service, masks: Sequence[MaskRule]) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """The handler for MESSAGES, the page of a topic's records. `masks`: rules for the parts that it must not show."""
    reads, replies = page_reads(), Replies(MOST_REPLIES, SystemClock().monotonic_ms)

    async def messages(request: Request) -> Response:
        topic = request.path_params["name"]
        mask = mask_of(masks, topic)
        query, records, problem, status = RecordQuery(), None, "", 200
        try:
            check_topic_for(request, Verb.READ, topic, service.follower.state)
            query = query_of(request.query_params)
            source = _source(service)
            limits = LIVE_LIMITS if query.live else LIMITS
            records = await reads.run(partial(find_records, source, topic, query, mask, limits))
        except SparklogError as error:
            problem, status = str(error), http_status(error)
        if request.query_params.get("format") == "jsonl":
            lines = partial(json_lines, topic, query, mask)
            download = await _download(topic, lines, records, problem, status)
            try:
                return replies.held_reply(request, download)
            except TryAgain as error:
                return await _download(topic, lines, None, str(error), http_status(error))

        def view(seen: Observation) -> dict[str, object]:
            return record_page(seen.state, topic, query, mask, records, problem)

        return await rendered(service, "messages.html", view, status)

    return messages


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
