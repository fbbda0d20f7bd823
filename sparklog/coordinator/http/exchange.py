"""One exchange with a client: reads and decodes the body of the request, and encodes the reply or the error.

Requests and replies are in MessagePack, or in JSON if a header says so: `content-type` for the request, `accept` for
the reply. In JSON, bytes are base64. Bodies are limited in size.

Rarely called routes are handlers of Starlette (`exchange`). The route of commits is a plain ASGI application
(`Posted`): Starlette's requests and responses would take a fifth of a commit's time.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from sparklog.coordinator.http.request_counts import ERROR_CODE
from sparklog.core.describe.readable import amount
from sparklog.core.errors import InvalidInput, OutcomeUnknown, SparklogError, TryAgain
from sparklog.wire.error_messages import ErrorReply, error_reply, http_status
from sparklog.wire.messages import CONTENT_TYPE, JSON

MAX_BODY = 64 * 2**20  # bytes: an append of a hundred thousand slices fits
SMALL_BODY = 64 * 2**10  # bytes that a connection may always hold; most commands fit
MAX_BODIES = 4 * MAX_BODY  # of all bodies being received, not counting SMALL_BODY of each
_log = logging.getLogger("sparklog.coordinator")
_encoder, _json_encoder = msgspec.msgpack.Encoder(), msgspec.json.Encoder()

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[msgspec.Struct | Response]]


class Bodies:
    """Limits the bodies of requests: each to `most_bytes`, and all together to `most_held`, while they are received.

    So half-sent bodies can't fill the memory. Of each body, the first SMALL_BODY bytes do not count. `held`: the bytes
    that count now.
    """

    def __init__(self, most_bytes: int, most_held: int) -> None:
        self.most_bytes = most_bytes
        self.most_held = most_held
        self.held = 0

    def grow(self, before: int, after: int) -> None:
        """Note that a body has grown from `before` to `after` bytes.

        Raises TryAgain if all bodies together are too large, but never for a body of at most SMALL_BODY bytes.
        """
        self.held += max(0, after - SMALL_BODY) - max(0, before - SMALL_BODY)
        if after > SMALL_BODY and self.held > self.most_held:
            raise TryAgain(f"bodies of {amount(self.held)} are being received, at most {amount(self.most_held)} may be")

    def shrink(self, size: int) -> None:
        """Stop counting a body of `size` bytes: it was received, or receiving it failed."""
        self.held -= max(0, size - SMALL_BODY)

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Count a body of `size` bytes, which was just received, until the end of the block."""
        self.held += max(0, size - SMALL_BODY)
        try:
            yield
        finally:
            self.shrink(size)


_bodies = Bodies(MAX_BODY, MAX_BODIES)


class Decoders(Generic[T]):
    """The decoders of one type of request (`kind`): from MessagePack, and from JSON."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self.msgpack = msgspec.msgpack.Decoder(kind)
        self.json = msgspec.json.Decoder(kind)

    def decode(self, body: bytes, content_type: str, path: str) -> T:
        """The request in this body, which is JSON if `content_type` says so, else MessagePack. Raises InvalidInput.

        `path` is for the error's message.
        """
        is_json = content_type.partition(";")[0].strip().lower() == JSON
        try:
            return self.json.decode(body) if is_json else self.msgpack.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"the body of {path} is not a request of this version: {error}") from error


class Posted(Generic[T]):
    """An ASGI application for one route: decodes a request of type T, and answers with the reply of `handler`.

    Any exception of the decoder or of `handler` becomes an error reply.
    """

    def __init__(self, decoders: Decoders[T], handler: Callable[[Scope, T], Awaitable[msgspec.Struct]]) -> None:
        self._decoders = decoders
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length, content_type, accept = _headers(scope)
        status, reply = 200, None
        try:
            body = await _body(length, receive, _bodies)
            reply = await self._handler(scope, self._decoders.decode(body, content_type, scope["path"]))
        except ClientDisconnect:
            status = 400
        except Exception as error:
            status, reply = _refused(error, scope)
            scope[ERROR_CODE] = reply.code
        body, media_type = _encoded(reply, accept)
        headers = [(b"content-type", media_type.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def exchange(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Make an endpoint of Starlette from a handler: its reply is encoded, and its exceptions become error replies.

    An HTTPException is not caught.
    """

    async def handled(request: Request) -> Response:
        try:
            reply = await handler(request)
            return reply if isinstance(reply, Response) else answer(request, reply)
        except HTTPException:
            raise
        except ClientDisconnect:  # in the middle of its body: there is no request to answer
            return Response(status_code=400)
        except Exception as error:
            status, reply = _refused(error, request.scope)
            return answer(request, reply, status)

    return handled


def answer(request: Request, reply: msgspec.Struct, status: int = 200) -> Response:
    """The response with this reply, in JSON if the request accepts JSON, else in MessagePack."""
    if isinstance(reply, ErrorReply):
        request.scope[ERROR_CODE] = reply.code
    body, media_type = _encoded(reply, request.headers.get("accept", ""))
    return Response(body, status, media_type=media_type)


async def not_served(request: Request, error: Exception) -> Response:
    """The response for a path without a route: under /v1/ the usual error, elsewhere a line of text."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    text = f"nothing is served at {request.method} {request.url.path[:200]}"
    if request.url.path.startswith("/v1/"):
        return answer(request, error_reply(InvalidInput(f"{text}: GET /v1/openapi.json lists the routes")), status)
    return PlainTextResponse(f"{text}\n", status, {"x-content-type-options": "nosniff"})


async def decoded(request: Request, decoders: Decoders[T]) -> T:
    """The body of the request, decoded. Raises the errors of `body_of`, and InvalidInput if it can't be decoded."""
    _, content_type, _ = _headers(request.scope)
    return decoders.decode(await body_of(request), content_type, request.url.path)


async def body_of(request: Request, bodies: Bodies = _bodies) -> bytes:
    """The bytes of the body.

    Raises InvalidInput if the body is too large or compressed, or its announced length is not a number.

    `bodies`: the limits, and the other bodies that share them. Raises TryAgain if they are too large together now, and
    ClientDisconnect if the client has left.
    """
    length, _, _ = _headers(request.scope)
    coding = request.headers.get("content-encoding", "identity")
    if coding.strip().lower() != "identity":
        raise InvalidInput(f"wanted a body without content-encoding, found {coding[:30]!r}")
    return await _body(length, request.receive, bodies)


def _headers(scope: Scope) -> tuple[str | None, str, str]:
    """The headers `content-length` (None if absent), `content-type` and `accept` ("" if absent)."""
    length, content_type, accept = None, "", ""
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = value.decode("latin-1")
        elif name == b"content-type":
            content_type = value.decode("latin-1")
        elif name == b"accept":
            accept = value.decode("latin-1")
    return length, content_type, accept


def _refused(error: Exception, scope: Scope) -> tuple[int, ErrorReply]:
    """The HTTP status and the reply for an error. An error that is no SparklogError is logged."""
    if isinstance(error, SparklogError):
        return http_status(error), error_reply(error)
    path = scope["path"]
    _log.error("%s %s failed", scope["method"], path, exc_info=error)
    return 500, error_reply(OutcomeUnknown(f"the coordinator failed while it answered {path}: {error!r}"))


def _encoded(reply: msgspec.Struct | None, accept: str) -> tuple[bytes, str]:
    """The encoded reply (b"" for None), and its content type: JSON if `accept` names JSON, else MessagePack."""
    is_json = JSON in accept
    encoder = _json_encoder if is_json else _encoder
    return b"" if reply is None else encoder.encode(reply), JSON if is_json else CONTENT_TYPE


async def _body(announced: str | None, receive: Receive, bodies: Bodies) -> bytes:
    """Read the body, but stop as soon as it is too large. Raises the errors of `body_of`.

    `announced`: the header content-length, or None.
    """
    limit = f"a request has at most {amount(bodies.most_bytes)}"
    if announced is not None:
        if not announced.isdecimal():
            raise InvalidInput(f"wanted the length of the body, found {announced[:30]!r}")
        if int(announced) > bodies.most_bytes:
            raise InvalidInput(f"{limit}, found {amount(int(announced))}")
    chunks: list[bytes] = []
    size = 0
    try:
        while True:
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            chunks.append(chunk)
            size += len(chunk)
            bodies.grow(size - len(chunk), size)
            if size > bodies.most_bytes:
                raise InvalidInput(f"{limit}, found more")
            if not message.get("more_body", False):
                return b"".join(chunks)
    finally:
        bodies.shrink(size)
