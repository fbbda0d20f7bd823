"""The HTTP face of a coordinator: its routes. What happens is in `service.py`, sizes and errors in `exchange.py`."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from sparklog.coordinator.exchange import Decoders, Posted, decoded, exchange
from sparklog.coordinator.gate import Gate, caller_of
from sparklog.coordinator.metadata import metadata_routes
from sparklog.coordinator.metrics import metrics_routes
from sparklog.coordinator.page.routes import page_routes
from sparklog.coordinator.reading import Reading
from sparklog.coordinator.request_counts import RequestCounts
from sparklog.coordinator.service import Service
from sparklog.coordinator.submitting import submit_for
from sparklog.coordinator.waiting import waiting_routes
from sparklog.core.access import Access
from sparklog.wire.jobs import JOBS, JobsReply
from sparklog.wire.messages import CLUSTER, HEARTBEAT, SUBMIT, ClusterReply, Heartbeat, SubmitReply, SubmitRequest

_submit_request = Decoders(SubmitRequest)
_heartbeat = Decoders(Heartbeat)


def app_of(service: Service, access: Callable[[], Access] | None = None) -> Starlette:
    """The ASGI application of a coordinator. `access`: see `Gate`."""
    reading = Reading(service.follower, service.control.queued_max)
    routes = [
        *_commits(service),
        *waiting_routes(service.wait),
        *metadata_routes(reading),
        *_liveness(service),
        *metrics_routes(service),
        *page_routes(service),
    ]
    counted = Middleware(RequestCounts, activity=service.activity, routes=routes)
    advertised = urlsplit(service.control.leadership.address).hostname or ""
    gate = Middleware(Gate, routes=routes, state=lambda: service.follower.state, access=access, hosts=[advertised])
    return Starlette(routes=routes, middleware=[counted, gate])


def _commits(service: Service) -> list[Route]:
    async def submit(scope: Scope, request: SubmitRequest) -> SubmitReply:
        return await submit_for(caller_of(scope), service, request)

    async def heartbeat(request: Request) -> ClusterReply:
        return service.heartbeat(await decoded(request, _heartbeat))

    async def cluster(request: Request) -> ClusterReply:
        return service.cluster()

    async def jobs(request: Request) -> JobsReply:
        return service.jobs()

    return [
        Route(SUBMIT, Posted(_submit_request, submit), methods=["POST"]),
        Route(HEARTBEAT, exchange(heartbeat), methods=["POST"]),
        Route(CLUSTER, exchange(cluster), methods=["GET"]),
        Route(JOBS, exchange(jobs), methods=["GET"]),
    ]


def _liveness(service: Service) -> list[Route]:
    async def healthz(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        known = service.follower.state.coordinator
        if service.leads or known.in_force:
            return PlainTextResponse(f"{'leads' if service.leads else 'stands by'}, epoch {known.epoch}\n")
        return PlainTextResponse("nobody coordinates the cluster yet\n", 503)

    return [Route("/healthz", healthz, methods=["GET"]), Route("/readyz", readyz, methods=["GET"])]
