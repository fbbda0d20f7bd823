"""The HTTP face of a coordinator: routes, sizes, statuses. What happens is in `service.py`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sparklog.coordinator.service import Service
from sparklog.core.errors import InvalidInput, OutcomeUnknown, SparklogError
from sparklog.core.readable import amount
from sparklog.wire.errors import error_reply, http_status
from sparklog.wire.messages import CLUSTER, CONTENT_TYPE, HEARTBEAT, SUBMIT, Heartbeat, SubmitRequest

MAX_BODY = 64 * 2**20  # bytes: an append of a hundred thousand slices fits
_log = logging.getLogger("sparklog.coordinator")
_encoder = msgspec.msgpack.Encoder()
_submit_decoder = msgspec.msgpack.Decoder(SubmitRequest)
_heartbeat_decoder = msgspec.msgpack.Decoder(Heartbeat)

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]


def app_of(service: Service) -> Starlette:
    """The ASGI application of a coordinator."""

    async def submit(request: Request) -> Response:
        return _answer(await service.submit(await _decoded(request, _submit_decoder)))

    async def heartbeat(request: Request) -> Response:
        return _answer(service.heartbeat(await _decoded(request, _heartbeat_decoder)))

    async def cluster(request: Request) -> Response:
        return _answer(service.cluster())

    async def healthz(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        known = service.follower.state.coordinator
        if service.leads or known.in_force:
            return PlainTextResponse(f"{'leads' if service.leads else 'stands by'}, epoch {known.epoch}\n")
        return PlainTextResponse("nobody coordinates the cluster yet\n", 503)

    return Starlette(
        routes=[
            Route(SUBMIT, _safe(submit), methods=["POST"]),
            Route(HEARTBEAT, _safe(heartbeat), methods=["POST"]),
            Route(CLUSTER, _safe(cluster), methods=["GET"]),
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
        ]
    )


def _answer(reply: msgspec.Struct, status: int = 200) -> Response:
    return Response(_encoder.encode(reply), status, media_type=CONTENT_TYPE)


def _safe(endpoint: Endpoint) -> Endpoint:
    """An error is a reply of its own kind, whatever it is."""

    async def safe(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HTTPException:
            raise
        except ClientDisconnect:  # in the middle of its body: nothing was asked for
            return Response(status_code=400)
        except SparklogError as error:
            return _answer(error_reply(error), http_status(error))
        except Exception as error:
            _log.exception("%s %s failed", request.method, request.url.path)
            unknown = OutcomeUnknown(f"the coordinator failed while it answered {request.url.path}: {error!r}")
            return _answer(error_reply(unknown), 500)

    return safe


async def _decoded(request: Request, decoder: msgspec.msgpack.Decoder[T]) -> T:
    try:
        return decoder.decode(await _body(request))
    except msgspec.DecodeError as error:
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
