"""The routes of the pages for people: each takes an observation, and renders it in a thread."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from sparklog import __version__
from sparklog.chain.entry import Entry
from sparklog.client.chain_tail import ChainTail, chain_tail
from sparklog.coordinator.endpoint import GatedRoute
from sparklog.coordinator.observation import Observation, observe
from sparklog.coordinator.page import views, words
from sparklog.coordinator.service import Service
from sparklog.core.access import Need, Verb
from sparklog.core.errors import NotFound, SparklogError
from sparklog.host.clock import now_ms

TAIL: Final = 50  # entries on the page of the chain
TAIL_AT_FIRST: Final = 8  # on the overview
_STATIC: Final = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}

View = Callable[[Observation], dict[str, Any]]


def page_routes(service: Service) -> list[GatedRoute]:
    """The pages, and their style and script."""
    tail = _Tail(service)

    async def overview(request: Request) -> Response:
        return await shown("overview.html", lambda seen: views.overview(seen, tail.newest(seen, TAIL_AT_FIRST)))

    async def topics(request: Request) -> Response:
        find = request.query_params.get("find", "")[:249]
        return await shown("topics.html", lambda seen: views.topics(seen, find, _page(request)))

    async def topic(request: Request) -> Response:
        return await shown("topic.html", lambda seen: views.topic(seen, request.path_params["name"], _page(request)))

    async def stores(request: Request) -> Response:
        return await shown("stores.html", views.stores)

    async def chain(request: Request) -> Response:
        return await shown("chain.html", lambda seen: views.chain(seen, tail.newest(seen, TAIL)))

    async def jobs(request: Request) -> Response:
        return await shown("jobs.html", views.jobs)

    async def static(request: Request) -> Response:
        return _static(request.path_params["file"])

    async def shown(template: str, view: View) -> Response:
        seen = observe(service, now_ms())
        text, status = await asyncio.to_thread(_rendered, template, view, seen)
        headers = {**HEADERS, "cache-control": "no-store"}
        return Response(text, status, media_type="text/html", headers=headers)

    pages: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "/": overview,
        "/topics": topics,
        "/topics/{name}": topic,
        "/stores": stores,
        "/chain": chain,
        "/jobs": jobs,
        "/page/{file}": static,
    }
    return [GatedRoute("GET", path, page, Need(Verb.DESCRIBE), for_people=True) for path, page in pages.items()]


class _Tail:
    """The newest entries of the chain. Those that were read before are not read again: they never change."""

    def __init__(self, service: Service) -> None:
        self._store = service.follower.store
        self._known: dict[int, Entry] = {}

    def newest(self, seen: Observation, num: int) -> ChainTail | SparklogError:
        """The newest `num` entries, or why they can't be read. May be called from several threads."""
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


def _rendered(template: str, view: View, seen: Observation) -> tuple[str, int]:
    """The page as text, and its status."""
    known = {"seen": seen, "state": seen.state, "lead": views.lead(seen), "late": views.late(seen)}
    environment = _environment()
    try:
        content, status = view(seen), 200
    except NotFound as error:
        template, content, status = "not_found.html", {"message": error.message}, 404
    ago = partial(words.ago, now_ms=seen.now_ms)
    return environment.get_template(template).render(**known, **content, ago=ago), status


@lru_cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("sparklog.coordinator.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(number=words.number, size=words.size, span=words.span, exact_time=words.exact_time)
    digest = hashlib.sha256(b"".join(_read(name) for name in _STATIC)).hexdigest()[:12]
    environment.globals.update(version=__version__, digest=digest)
    return environment


def _static(name: str) -> Response:
    if name not in _STATIC:
        return Response("not found\n", 404, media_type="text/plain", headers=HEADERS)
    headers = {**HEADERS, "cache-control": "max-age=86400"}  # their addresses change with their content
    return Response(_read(name), media_type=_STATIC[name], headers=headers)


@lru_cache
def _read(name: str) -> bytes:
    return (files("sparklog.coordinator.page") / "static" / name).read_bytes()


def _page(request: Request) -> int:
    text = request.query_params.get("page", "1")
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else 1
