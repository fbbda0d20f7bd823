"""The routes of the web pages. Each handler makes a new `Observation`, and renders its page from it in a thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from sparklog.chain.entry import Entry
from sparklog.client.describe.chain_tail import ChainTail, chain_tail
from sparklog.coordinator.access.gate import caller_of
from sparklog.coordinator.http.endpoint import GatedRoute
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.page import group_views, views
from sparklog.coordinator.page.actions.action_list import ON_GROUP, ON_TOPIC, ON_TOPICS, links
from sparklog.coordinator.page.actions.action_routes import action_routes
from sparklog.coordinator.page.records.masks import MaskRule
from sparklog.coordinator.page.records.record_routes import MESSAGES, record_page_of
from sparklog.coordinator.page.rendering import View, rendered, static_file
from sparklog.coordinator.page.shared_answers import SharedAnswers
from sparklog.coordinator.watching.observation import Observation
from sparklog.core.access import Need, Verb
from sparklog.core.errors import SparklogError
from sparklog.host.clock import SystemClock

TAIL: Final = 50  # entries on the page of the chain
TAIL_AT_FIRST: Final = 8  # on the overview
REFRESH_HEADER: Final = "sparklog-refresh"  # as static/page.js sends it

Page = Callable[[Request], Coroutine[Any, Any, Response]]


def page_routes(service: Service, masks: Sequence[MaskRule] = ()) -> list[GatedRoute]:
    """The routes of the pages, and of their style, script and icon. `masks`: rules for parts of records to hide."""
    tail = _Tail(service)

    async def overview(request: Request) -> Response:
        return await shown("overview.html", lambda seen: views.overview(seen, tail.newest(seen, TAIL_AT_FIRST)))

    async def topics(request: Request) -> Response:
        find = request.query_params.get("find", "")[:249]
        actions = _links(request, *ON_TOPICS)
        return await shown("topics.html", lambda seen: {**views.topics(seen, find, _page(request)), **actions(seen)})

    async def topic(request: Request) -> Response:
        name = request.path_params["name"]
        actions = _links(request, *ON_TOPIC, of=name)
        return await shown("topic.html", lambda seen: {**views.topic(seen, name, _page(request)), **actions(seen)})

    async def groups(request: Request) -> Response:
        find = request.query_params.get("find", "")[:249]
        return await shown("groups.html", lambda seen: group_views.groups(seen, find, _page(request)))

    async def group(request: Request) -> Response:
        name, principal = request.path_params["name"], caller_of(request.scope).principal
        actions = _links(request, *ON_GROUP, of=name)

        def view(seen: Observation) -> dict[str, Any]:
            return {**group_views.group(seen, name, _page(request), principal), **actions(seen)}

        return await shown("group.html", view)

    async def stores(request: Request) -> Response:
        return await shown("stores.html", views.stores)

    async def chain(request: Request) -> Response:
        every = request.query_params.get("all") == "1"
        return await shown("chain.html", lambda seen: views.chain(seen, tail.newest(seen, TAIL), every=every))

    async def jobs(request: Request) -> Response:
        return await shown("jobs.html", views.jobs)

    async def static(request: Request) -> Response:
        return static_file(request.path_params["file"])

    async def shown(template: str, view: View) -> Response:
        return await rendered(service, template, view)

    pages: dict[str, Page] = {
        "/": overview,
        "/topics": topics,
        "/topics/{name}": topic,
        MESSAGES: record_page_of(service, masks),
        "/groups": groups,
        "/groups/{name:path}": group,  # a name may contain slashes
        "/stores": stores,
        "/chain": chain,
        "/jobs": jobs,
        "/page/{file}": static,
    }
    shared = SharedAnswers(SystemClock())
    return [
        *(
            GatedRoute("GET", path, _refreshed(page, shared), Need(Verb.DESCRIBE), for_people=True)
            for path, page in pages.items()
        ),
        *action_routes(service),
    ]


def _refreshed(page: Page, shared: SharedAnswers) -> Page:
    """A handler that answers like `page`, but shares answers for a short time among readers with the same rights.

    Only requests of the script that refreshes an open page get a shared answer; a newly loaded page always shows the
    current state. Sharing is safe, because a page depends only on its address and on the rights of its reader.
    """

    async def answered(request: Request) -> Response:
        if REFRESH_HEADER not in request.headers:
            return await page(request)
        rights = caller_of(request.scope).principal.rights
        return await shared.of(f"{request.url.path}?{request.url.query} {rights}", lambda: page(request))

    return answered


class _Tail:
    """Reads the newest entries of the chain. Entries never change, so each is read only once."""

    def __init__(self, service: Service) -> None:
        self._store = service.follower.store
        self._known: dict[int, Entry] = {}

    def newest(self, seen: Observation, num: int) -> ChainTail | SparklogError:
        """The newest `num` entries up to the state in `seen`. If they can't be read, returns the error.

        May be called from several threads.
        """
        try:
            tail = chain_tail(self._store, seen.state, num, self._known)
        except SparklogError as error:
            return error
        if num == TAIL:
            self._known = {shown.n: shown.entry for shown in tail.entries}
        else:
            newer = {**self._known, **{shown.n: shown.entry for shown in tail.entries}}
            self._known = {n: newer[n] for n in sorted(newer)[-TAIL:]}
        return tail


def _links(request: Request, *actions: str, of: str = "") -> View:
    """A view with links to those of the actions that the caller may perform on the topic or group `of`."""
    principal = caller_of(request.scope).principal
    return lambda seen: {"actions": links(seen, principal, *actions, of=of)}


def _page(request: Request) -> int:
    text = request.query_params.get("page", "1")
    return max(1, int(text)) if text.isdecimal() and text.isascii() and len(text) < 10 else 1
