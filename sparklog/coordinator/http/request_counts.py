"""Counts requests by their route and HTTP status, and error replies by the code of the error."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparklog.coordinator.watching.activity import Activity

ERROR_CODE = "sparklog.error_code"  # in the scope of a request: the code of the error that was its answer
OTHER = "other"  # for requests without a route: arbitrary paths must not become labels


class RequestCounts:
    """ASGI middleware that counts each reply by its route and HTTP status, and each error also by its code.

    The counts are kept in the Activity that the constructor is given.
    """

    def __init__(self, app: ASGIApp, activity: Activity, routes: Iterable[Route]) -> None:
        self._app = app
        self._activity = activity
        self._paths: dict[object, str] = {route.endpoint: route.path for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count its reply."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            self._activity.requests[self._paths.get(scope.get("endpoint"), OTHER), status] += 1
            code = scope.get(ERROR_CODE)
            if code is not None:
                self._activity.refusals[code] += 1
