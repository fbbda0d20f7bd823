"""The HTTP face of a coordinator: its routes. What happens is in `service.py`, sizes and errors in `exchange.py`."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sparklog.coordinator.endpoint import Endpoint
from sparklog.coordinator.exchange import Decoders, decoded
from sparklog.coordinator.metadata import metadata_routes
from sparklog.coordinator.openapi import described
from sparklog.coordinator.queries import query_routes
from sparklog.coordinator.reading import Reading
from sparklog.coordinator.service import Service
from sparklog.core.errors import Conflict, InconsistentClusterId, NotController, NotFound
from sparklog.wire.messages import CLUSTER, HEARTBEAT, SUBMIT, ClusterReply, Heartbeat, SubmitReply, SubmitRequest

_submit_request = Decoders(SubmitRequest)
_heartbeat = Decoders(Heartbeat)


def app_of(service: Service) -> Starlette:
    """The ASGI application of a coordinator."""
    endpoints = endpoints_of(service)
    return Starlette(routes=[*endpoints, described(endpoints), *_liveness(service)])


def endpoints_of(service: Service) -> list[Endpoint]:
    """What programs ask a coordinator."""
    reading = Reading(service.follower, service.queued_max)
    queries = query_routes(reading, service.metadata, service.stores)
    return [*_commits(service), *metadata_routes(reading), *queries]


def _commits(service: Service) -> list[Endpoint]:
    async def submit(request: Request) -> SubmitReply:
        return await service.submit(await decoded(request, _submit_request))

    async def heartbeat(request: Request) -> ClusterReply:
        return service.heartbeat(await decoded(request, _heartbeat))

    async def cluster(request: Request) -> ClusterReply:
        return service.cluster()

    return [
        Endpoint(
            "POST",
            SUBMIT,
            submit,
            "Commit a command. Any error of a command may come back: its code says which",
            takes=_submit_request,
            gives=SubmitReply,
            errors=(NotController, Conflict, NotFound),
        ),
        Endpoint(
            "POST",
            HEARTBEAT,
            heartbeat,
            "The agent of a store is at work",
            takes=_heartbeat,
            gives=ClusterReply,
            errors=(NotController, InconsistentClusterId),
        ),
        Endpoint("GET", CLUSTER, cluster, "Which cluster this is, and who coordinates it", gives=ClusterReply),
    ]


def _liveness(service: Service) -> list[Route]:
    async def healthz(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        known = service.follower.state.coordinator
        if service.leads or known.in_force:
            return PlainTextResponse(f"{'leads' if service.leads else 'stands by'}, epoch {known.epoch}\n")
        return PlainTextResponse("nobody coordinates the cluster yet\n", 503)

    probes = (("/healthz", healthz), ("/readyz", readyz))
    return [Route(path, probe, methods=["GET"], include_in_schema=False) for path, probe in probes]
