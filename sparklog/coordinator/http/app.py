"""The routes of a coordinator.

`service.py` does the work, `exchange.py` decodes requests and encodes replies and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Scope

from sparklog.coordinator.access.gate import Gate, caller_of
from sparklog.coordinator.access.submitting import submit_for
from sparklog.coordinator.http.consume_routes import consume_routes
from sparklog.coordinator.http.endpoint import Endpoint, GatedRoute, Openness
from sparklog.coordinator.http.exchange import Decoders, Posted, decoded, not_served
from sparklog.coordinator.http.group_routes import group_routes
from sparklog.coordinator.http.metadata_routes import metadata_routes
from sparklog.coordinator.http.openapi import described
from sparklog.coordinator.http.produce_routes import produce_routes
from sparklog.coordinator.http.request_counts import RequestCounts
from sparklog.coordinator.http.topic_routes import query_routes
from sparklog.coordinator.http.waiting_requests import waiting_routes
from sparklog.coordinator.leading.reader_threads import ReaderThreads
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.page.records.masks import MaskRule
from sparklog.coordinator.page.routes import page_routes
from sparklog.coordinator.watching.metrics import metrics_routes
from sparklog.core.access import Access, Need, Verb, check_access
from sparklog.core.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    InconsistentClusterId,
    NotController,
    UnknownMemberId,
)
from sparklog.wire.job_messages import JOBS, JobsReply
from sparklog.wire.messages import (
    CLUSTER,
    HEARTBEAT,
    LEADS,
    MEMBER_HEARTBEAT,
    NO_LEADER,
    READYZ,
    STANDS_BY,
    SUBMIT,
    ClusterReply,
    Heartbeat,
    MemberHeartbeat,
    SubmitReply,
    SubmitRequest,
)

_submit_request = Decoders(SubmitRequest)
_heartbeat = Decoders(Heartbeat)
_member_heartbeat = Decoders(MemberHeartbeat)


def app_of(service: Service, access: Callable[[], Access] | None = None, masks: Sequence[MaskRule] = ()) -> Starlette:
    """The ASGI application of a coordinator.

    `access` returns the access file in force; without an access file, `access` is None. `masks` are the rules for the
    parts of records that neither web pages nor replies may have.
    """
    endpoints = endpoints_of(service, masks)
    for_people = [described(endpoints), *_liveness(service), *metrics_routes(service), *page_routes(service, masks)]
    routes = [*endpoints, *for_people]
    counted = Middleware(RequestCounts, activity=service.activity, routes=routes)
    advertised = urlsplit(service.control.leadership.address).hostname or ""
    gate = Middleware(Gate, routes=routes, state=lambda: service.follower.state, access=access, hosts=[advertised])
    return Starlette(routes=routes, middleware=[counted, gate], exception_handlers={HTTPException: not_served})


def endpoints_of(service: Service, masks: Sequence[MaskRule] = ()) -> list[Endpoint]:
    """The endpoints for programs, in the order in which the router tries them: commits first, as the most frequent."""
    reading = ReaderThreads(service.follower, service.control.queued_max)
    queries = [*query_routes(reading, service.metadata, service.stores), *group_routes(reading)]
    records = [*produce_routes(service, reading), *consume_routes(service, reading, masks)]
    return [*_commits(service), *waiting_routes(service.wait), *metadata_routes(reading), *queries, *records]


def _commits(service: Service) -> list[Endpoint]:
    async def submit(scope: Scope, request: SubmitRequest) -> SubmitReply:
        return await submit_for(caller_of(scope), service, request)

    async def heartbeat(request: Request) -> ClusterReply:
        return service.heartbeat(await decoded(request, _heartbeat))

    async def member_heartbeat(request: Request) -> ClusterReply:
        beat = await decoded(request, _member_heartbeat)
        need = Need(Verb.READ, any_topic=True, of_member=(beat.group, beat.member_id))
        check_access(caller_of(request.scope).principal, need, service.follower.state)
        return service.member_heartbeat(beat)

    async def cluster(request: Request) -> ClusterReply:
        return service.cluster()

    async def jobs(request: Request) -> JobsReply:
        return service.jobs()

    return [
        Endpoint(
            "POST",
            SUBMIT,
            Posted(_submit_request, submit),
            "Commit commands. The reply has an outcome for each: its result, or its error",
            needs=Openness.BY_COMMAND,
            takes=_submit_request,
            gives=SubmitReply,
            errors=(NotController, InconsistentClusterId),
        ),
        Endpoint(
            "POST",
            HEARTBEAT,
            heartbeat,
            "Report that the agent of a store is alive",
            needs=Need(Verb.MAINTAIN),
            takes=_heartbeat,
            gives=ClusterReply,
            errors=(NotController, InconsistentClusterId),
        ),
        Endpoint(
            "POST",
            MEMBER_HEARTBEAT,
            member_heartbeat,
            "Report that a member of a consumer group is alive",
            needs=Need(Verb.READ, any_topic=True),
            takes=_member_heartbeat,
            gives=ClusterReply,
            errors=(NotController, InconsistentClusterId, GroupIdNotFound, UnknownMemberId, FencedInstanceId),
        ),
        Endpoint(
            "GET",
            CLUSTER,
            cluster,
            "The cluster, and the process that coordinates it",
            needs=Openness.EVERY_PRINCIPAL,
            gives=ClusterReply,
        ),
        Endpoint(
            "GET",
            JOBS,
            jobs,
            "The jobs that are scheduled",
            needs=Need(Verb.DESCRIBE),
            gives=JobsReply,
            errors=(NotController,),
        ),
    ]


def _liveness(service: Service) -> list[GatedRoute]:
    async def healthz(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        known = service.follower.state.coordinator
        if service.leads or known.in_force:
            return PlainTextResponse(f"{LEADS if service.leads else STANDS_BY}, epoch {known.epoch}\n")
        return PlainTextResponse(f"{NO_LEADER}\n", 503)

    probes = (("/healthz", healthz), (READYZ, readyz))
    return [GatedRoute("GET", path, probe, Openness.EVERYBODY) for path, probe in probes]
