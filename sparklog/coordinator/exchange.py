"""One exchange with a client: its body within limits, decoded; the reply or the error, in MessagePack or JSON.

A request says with `content-type` what its body is, and with `accept` what it wants back; without either it is
MessagePack. In JSON bytes are base64.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from sparklog.core.errors import InvalidInput, OutcomeUnknown, SparklogError
from sparklog.core.readable import amount
from sparklog.wire.errors import error_reply, http_status
from sparklog.wire.messages import CONTENT_TYPE, JSON

MAX_BODY = 64 * 2**20  # bytes: an append of a hundred thousand slices fits
_log = logging.getLogger("sparklog.coordinator")
_encoder, _json_encoder = msgspec.msgpack.Encoder(), msgspec.json.Encoder()

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[msgspec.Struct | Response]]


class Decoders(Generic[T]):
    """Decoders of one type of request, one for each type of body."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self.msgpack = msgspec.msgpack.Decoder(kind)
        self.json = msgspec.json.Decoder(kind)


def exchange(endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """A route's handler. What the endpoint raises is a reply of its own kind, whatever it is."""

    async def handled(request: Request) -> Response:
        try:
            reply = await endpoint(request)
            return reply if isinstance(reply, Response) else answer(request, reply)
        except HTTPException:
            raise
        except ClientDisconnect:  # in the middle of its body: nothing was asked for
            return Response(status_code=400)
        except SparklogError as error:
            return answer(request, error_reply(error), http_status(error))
        except Exception as error:
            _log.exception("%s %s failed", request.method, request.url.path)
            unknown = OutcomeUnknown(f"the coordinator failed while it answered {request.url.path}: {error!r}")
            return answer(request, error_reply(unknown), 500)

    return handled


def answer(request: Request, reply: msgspec.Struct, status: int = 200) -> Response:
    """The reply, in what the request accepts: JSON if it asks for it."""
    if JSON in request.headers.get("accept", ""):
        return Response(_json_encoder.encode(reply), status, media_type=JSON)
    return Response(_encoder.encode(reply), status, media_type=CONTENT_TYPE)


async def decoded(request: Request, decoders: Decoders[T]) -> T:
    """The body of the request. Raises InvalidInput."""
    is_json = request.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON
    body = await _body(request)
    try:
        return decoders.json.decode(body) if is_json else decoders.msgpack.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        path = request.url.path
        raise InvalidInput(f"the body of {path} is not a request of this version: {error}") from error


async def _body(request: Request) -> bytes:
    """The body, unless it is too large: that is refused before it is read whole."""
    limit = f"a request has at most {amount(MAX_BODY)}"
    announced = request.headers.get("content-length")
    if announced is not None:
        if not announced.isdecimal():
            raise InvalidInput(f"wanted the length of the body, found {announced[:30]!r}")
        if int(announced) > MAX_BODY:
            raise InvalidInput(f"{limit}, found {amount(int(announced))}")
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY:
            raise InvalidInput(f"{limit}, found more")
        chunks.append(chunk)
    return b"".join(chunks)
