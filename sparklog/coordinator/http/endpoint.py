"""Routes that state which right their callers need. `gate.py` checks the right.

Endpoints (routes for programs) also state their request and reply types. `openapi.py` makes the description of the HTTP
interface from the endpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from sparklog.coordinator.http.exchange import Decoders, Handler, Posted, exchange
from sparklog.core.access import Need
from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.wire.metadata_messages import CHAIN_HEADER, SEEN_HEADER


@dataclass(frozen=True)
class Parameter:
    """A parameter of a request. `place` is query, path or header; `text` describes the parameter.

    If `most` is set, the parameter is a number from `least` to `most`.
    """

    name: str
    place: str
    text: str
    default: int | str | None = None
    least: int = 0
    most: int | None = None

    def number(self, request: Request) -> int:
        """The value of this parameter in the query of a request, as a number; the default if it is absent.

        Raises InvalidInput if the value is no number from `least` to `most`.
        """
        if not isinstance(self.default, int):
            raise TypeError(f"{self.name} is no number with a default")
        given = self.given(request)
        return self.default if given is None else given

    def given(self, request: Request) -> int | None:
        """The same number; None if it is absent."""
        if self.most is None:
            raise TypeError(f"{self.name} is no number")
        text = request.query_params.get(self.name)
        if text is None:
            return None
        if text.isascii() and text.isdecimal() and len(text) <= 19 and self.least <= int(text) <= self.most:
            return int(text)
        raise InvalidInput(f"{self.name}: wanted a number from {self.least} to {self.most}, found {text[:30]!r}")


CHAIN = Parameter(CHAIN_HEADER, "header", "The id of the cluster that the request is for; another one is refused.")
SEEN = Parameter(
    SEEN_HEADER,
    "header",
    "The greatest chain position that the client has seen: the answer is no older. Without it, it is the newest.",
    most=10**18,
)


def check_query(request: Request, parameters: Sequence[Parameter] = ()) -> None:
    """Raise InvalidInput if the query of a request has a parameter that is not one of these."""
    known = [parameter.name for parameter in parameters if parameter.place == "query"]
    for name in request.query_params:
        if name not in known:
            raise InvalidInput(f"wanted a parameter of {', '.join(known) or 'none'}, found {name[:30]!r}")


class Openness(Enum):
    """The rule that a route states in place of a right. The value of each member says which callers it admits."""

    EVERYBODY = "any caller, also without a token"
    EVERY_PRINCIPAL = "any caller with a token"
    BY_COMMAND = "the right that the command in the body needs: the route checks it"
    BY_TOPIC = "a right on the topic that the request names: the route checks it"


class GatedRoute(Route):
    """A route with the right that a caller needs. `handler` is a function for a request, or an ASGI application.

    On a route `for_people` the token may also be the password of HTTP's Basic authentication (RFC 7617). A browser asks
    for that password once, and then sends it with every request, even if a page of another site causes the request. So
    such a route changes data only if the request has a form made by this coordinator (`page/actions/sealed_plan.py`).
    """

    def __init__(
        self,
        method: str,
        path: str,
        handler: Callable[..., Any],
        needs: Need | Openness,
        *,
        for_people: bool = False,
    ) -> None:
        super().__init__(path, handler, methods=[method])
        self.needs = needs
        self.for_people = for_people


class Endpoint(GatedRoute):
    """A route for programs. `errors`: the errors that it may raise besides those that every endpoint may raise.

    `takes` decodes the body of the request; None if there is no body. `gives` is the type of the reply; None if the
    reply is plain bytes.
    """

    def __init__(
        self,
        method: str,
        path: str,
        handler: Handler | Posted[Any],
        summary: str,
        *,
        needs: Need | Openness,
        takes: Decoders[Any] | None = None,
        gives: type[msgspec.Struct] | None = None,
        parameters: tuple[Parameter, ...] = (),
        errors: tuple[type[SparklogError], ...] = (),
    ) -> None:
        super().__init__(method, path, handler if isinstance(handler, Posted) else exchange(handler), needs)
        self.method = method
        self.summary = summary
        self.takes = None if takes is None else takes.kind
        self.gives = gives
        self.parameters = parameters
        self.errors = errors
