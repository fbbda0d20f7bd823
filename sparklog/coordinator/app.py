"""The HTTP face of a coordinator: its routes. What happens is in `service.py`, sizes and errors in `exchange.py`."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sparklog.coordinator.exchange import Decoders, decoded, exchange
from sparklog.coordinator.service import Service
from sparklog.wire.jobs import JOBS, JobsReply
from sparklog.wire.messages import CLUSTER, HEARTBEAT, SUBMIT, ClusterReply, Heartbeat, SubmitReply, SubmitRequest

_submit_request = Decoders(SubmitRequest)
_heartbeat = Decoders(Heartbeat)


def app_of(service: Service) -> Starlette:
    """The ASGI application of a coordinator."""
    return Starlette(routes=[*_commits(service), *_liveness(service)])


def _commits(service: Service) -> list[Route]:
    async def submit(request: Request) -> SubmitReply:
        return await service.submit(await decoded(request, _submit_request))

    async def heartbeat(request: Request) -> ClusterReply:
        return service.heartbeat(await decoded(request, _heartbeat))

    async def cluster(request: Request) -> ClusterReply:
        return service.cluster()

    async def jobs(request: Request) -> JobsReply:
        return service.jobs()

    return [
        Route(SUBMIT, exchange(submit), methods=["POST"]),
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
