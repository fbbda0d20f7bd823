"""The gate before all routes of a coordinator: identifies the caller, and checks the caller's rights.

Each route states the right that its callers need, or an `Openness` in place of a right (`endpoint.py`). Requests to a
route that states neither are refused, so a new route can't be open by mistake. Before these checks, only the headers of
a request are read. A standby does the same checks as the leader.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from sparklog.coordinator.access.access_file import token_hash
from sparklog.coordinator.access.audit import audit_refused
from sparklog.coordinator.http.endpoint import GatedRoute, Openness
from sparklog.coordinator.http.exchange import answer
from sparklog.core.access import ANONYMOUS, Access, Need, Principal, check_access
from sparklog.core.errors import AuthenticationFailed, ClusterAuthorizationFailed, SparklogError
from sparklog.core.state import ClusterState
from sparklog.wire.error_messages import error_reply, http_status
from sparklog.wire.this_machine import is_this_machine

MAX_TOKEN: Final = 512  # characters
# A browser asks for a name and a password: any name, and the token.
_FOR_BROWSERS: Final = 'Basic realm="sparklog: any name, and your token as the password", charset="UTF-8"'
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")


class Caller(msgspec.Struct, frozen=True):
    """The sender of a request: its principal, and the network address that the request came from ("" if unknown)."""

    principal: Principal
    address: str


def caller_of(scope: Scope) -> Caller:
    """Return the caller of a request, which `Gate` has stored in the request's `scope`."""
    caller = scope["sparklog.caller"]
    assert isinstance(caller, Caller)
    return caller


def renewed_caller(scope: Scope) -> Caller:
    """Return the caller of a request that has waited, by the access file in force now.

    Raises AuthenticationFailed if the token is not in that file.
    """
    caller = scope["sparklog.caller"] = scope["sparklog.renew"]()
    assert isinstance(caller, Caller)
    return caller


class Gate:
    """ASGI middleware that passes on only permitted requests.

    `access` returns the access file in force. If `access` is None, there is no access file, and every caller may do
    everything. In that case, the headers Host and Origin may name only this machine and `hosts`, the coordinator's own
    names. This stops DNS rebinding, by which a web page reaches the coordinator under a domain of the page's author:
    the browser then names that domain in Host, and in Origin the site whose page has sent the request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        routes: Sequence[BaseRoute],
        state: Callable[[], ClusterState],
        access: Callable[[], Access] | None,
        hosts: Sequence[str] = (),
    ) -> None:
        self.app = app
        self._routes = routes
        self._state = state
        self._access = access
        self._hosts = (*_LOCAL_NAMES, *hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # the routes support only HTTP
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope)
        address = scope["client"][0] if scope.get("client") else ""
        route = self._route(scope)
        # A path without a route needs a token, even for the answer that there is no route.
        need = Openness.EVERY_PRINCIPAL if route is None else route.needs if isinstance(route, GatedRoute) else None
        for_people = isinstance(route, GatedRoute) and route.for_people
        principal = ANONYMOUS
        try:
            if need is not Openness.EVERYBODY:
                principal = self._principal(request, for_people)
            if need is None:
                raise ClusterAuthorizationFailed(
                    f"no right is stated for {request.url.path[:200]}: no principal has it"
                )
            if isinstance(need, Need):
                check_access(principal, need, self._state())
        except SparklogError as error:
            audit_refused(principal.name, address, f"{request.method} {request.url.path}", error)
            await _refusal(request, error, for_people)(scope, receive, send)
            return
        scope["sparklog.caller"] = Caller(principal, address)
        scope["sparklog.renew"] = lambda: Caller(self._principal(request, for_people), address)
        await self.app(scope, receive, send)

    def _route(self, scope: Scope) -> BaseRoute | None:
        """The first route that matches the path of the request, or None."""
        matching = (route for route in self._routes if route.matches(scope)[0] is not Match.NONE)
        return next(matching, None)

    def _principal(self, request: Request, for_people: bool) -> Principal:
        """The principal whose token the request has; ANONYMOUS if there is no access file.

        `for_people`: the token may also be a password of HTTP's Basic authentication. Raises AuthenticationFailed if
        the token is missing or unknown. Without an access file, raises ClusterAuthorizationFailed if Host or Origin
        names neither this machine nor a host given to the constructor.
        """
        if self._access is None:
            self._check_host(request)
            return ANONYMOUS
        given = request.headers.getlist("authorization")
        if not given:
            raise AuthenticationFailed("wanted a token in the header Authorization, found none: set SPARKLOG_TOKEN")
        scheme, _, text = given[0].partition(" ")
        token = text if scheme.lower() == "bearer" else None
        if for_people and scheme.lower() == "basic":
            token = _password(text)
        if len(given) > 1 or not token or len(token) > MAX_TOKEN:
            raise AuthenticationFailed("wanted one header 'Authorization: Bearer TOKEN', found another form of it")
        principal = self._access().of_token(token_hash(token))
        if principal is None:
            raise AuthenticationFailed(
                "the token is not one of this coordinator's: set SPARKLOG_TOKEN to one that is in its access file "
                "('sparklog coordinator token' draws one)"
            )
        return principal

    def _check_host(self, request: Request) -> None:
        """Raise ClusterAuthorizationFailed if the header Host or the header Origin names a host that is not allowed.

        Allowed are this machine, and the hosts given to the constructor. Both headers may be absent.
        """
        host = _name(request.headers.get("host", "localhost"))
        origin = request.headers.get("origin")
        for name in (host,) if origin is None else (host, _name(origin.partition("://")[2])):
            if name not in self._hosts and not is_this_machine(name):
                raise ClusterAuthorizationFailed(
                    f"without an access file a coordinator accepts requests only under {', '.join(self._hosts)}, "
                    f"found {name[:200]!r}"
                )


def _refusal(request: Request, error: SparklogError, for_people: bool) -> Response:
    """The response to a refused caller: plain text on a route for people, else an ErrorReply, encoded by `answer`."""
    if for_people:
        text = f"{error}\nIn a browser, log in with any name, and with your token as the password.\n"
        refusal: Response = PlainTextResponse(text, http_status(error))
    else:
        refusal = answer(request, error_reply(error), http_status(error))
    if isinstance(error, AuthenticationFailed):
        refusal.headers["www-authenticate"] = _FOR_BROWSERS if for_people else "Bearer"
    return refusal


def _password(credentials: str) -> str | None:
    """The password in credentials of Basic authentication (RFC 7617); None if they are malformed or too long."""
    if len(credentials) > 2 * MAX_TOKEN:
        return None
    try:
        text = base64.b64decode(credentials, validate=True).decode()
    except ValueError:
        return None
    return text.partition(":")[2]


def _name(host: str) -> str:
    """The host name in lower case, without the port that `host` may have."""
    host = host.lower()
    return host if host.endswith("]") else host.rpartition(":")[0] or host
