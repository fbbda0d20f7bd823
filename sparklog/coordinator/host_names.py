"""Refuses requests that came under a name that is not this coordinator's.

A page of any site can make a browser ask this machine, under a name of that site that resolves to 127.0.0.1 (DNS
rebinding), and read the answer. Such a request carries the site's name in `Host`.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN = frozenset({"/healthz", "/readyz"})  # probes ask by an address, and learn nothing of the cluster


class HostNames:
    """ASGI middleware: only local names and the one of the `address` that is advertised are answered."""

    def __init__(self, app: ASGIApp, address: str) -> None:
        self._app = app
        self._names = LOCAL_NAMES | {_name(urlsplit(address).netloc)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it. A request without `Host` comes from no browser."""
        if scope["type"] == "http" and scope["path"] not in _OPEN:
            for host in Headers(scope=scope).getlist("host"):
                if _name(host) not in self._names:
                    shown = host[:100].encode("ascii", "replace").decode()
                    refused = PlainTextResponse(f"this is no name of this coordinator: {shown}\n", 400)
                    await refused(scope, receive, send)
                    return
        await self._app(scope, receive, send)


def _name(host: str) -> str:
    """The name in HOST:PORT, without its port: NAME, 127.0.0.1 or ::1."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".")
