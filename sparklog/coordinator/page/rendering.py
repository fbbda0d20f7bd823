"""Renders a page: fills its template from an observation, in a thread, and adds the HTTP headers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

from sparklog import __version__
from sparklog.client.describe.chain_tail import folded
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.page import views, words
from sparklog.coordinator.page.actions.action_list import writes_are_on
from sparklog.coordinator.watching.observation import Observation, observe
from sparklog.core.describe.readable import labels_of, printable
from sparklog.core.errors import NotFound
from sparklog.host.clock import now_ms

_STATIC: Final = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with no-referrer a browser would send its own forms with `Origin: null`
    "cross-origin-resource-policy": "same-origin",
}

View = Callable[[Observation], dict[str, Any]]


async def rendered(service: Service, template: str, view: View, status: int = 200) -> Response:
    """Render the template as a response, with the values that `view` makes from a new `Observation` of the cluster.

    If `view` raises NotFound, the response is the page not_found.html, with status 404.
    """
    seen = observe(service, now_ms())
    text, status = await asyncio.to_thread(_rendered, template, view, seen, status)
    headers = {**HEADERS, "cache-control": "no-store"}
    return Response(text, status, media_type="text/html", headers=headers)


def static_file(name: str) -> Response:
    """The response with a file that pages load: style, script or icon. Status 404 for any other name."""
    if name not in _STATIC:
        return Response("not found\n", 404, media_type="text/plain", headers=HEADERS)
    headers = {**HEADERS, "cache-control": "max-age=86400"}  # their addresses change with their content
    return Response(_read(name), media_type=_STATIC[name], headers=headers)


def _rendered(template: str, view: View, seen: Observation, status: int) -> tuple[str, int]:
    """The page as text, and its HTTP status: 404 if `view` raises NotFound, else `status`."""
    known = {"seen": seen, "state": seen.state, "lead": views.lead(seen), "late": views.late(seen)}
    known["writes"] = writes_are_on(seen.state)
    environment = _environment()
    try:
        content = view(seen)
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
        finalize=_shown,
    )
    environment.filters.update(
        number=words.number,
        size=words.size,
        cell=words.cell,
        labels_of=labels_of,
        span=words.span,
        exact_time=words.exact_time,
        folded=folded,
        path_part=words.path_part,
    )
    digest = hashlib.sha256(b"".join(_read(name) for name in _STATIC)).hexdigest()[:12]
    environment.globals.update(version=__version__, digest=digest)
    return environment


def _shown(value: object) -> object:
    """Return a value as the page shows it: no name that others chose may change the direction of the text around it."""
    return printable(value, "\n\r\t") if type(value) is str else value


@lru_cache
def _read(name: str) -> bytes:
    return (files("sparklog.coordinator.page") / "static" / name).read_bytes()
