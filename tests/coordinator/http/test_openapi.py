"""The description of the HTTP interface names each route of the application, and nothing else."""

from __future__ import annotations

import asyncio

import msgspec

from sparklog.coordinator.http.app import app_of
from sparklog.coordinator.http.endpoint import Endpoint, GatedRoute
from sparklog.coordinator.http.openapi import OPENAPI
from sparklog.coordinator.leading.service import Service
from sparklog.wire.record_messages import RECORDS
from tests.chain.chain_kit import new_chain
from tests.coordinator.asgi import request


def test_records_name_the_errors_that_need_an_operator_or_the_next_epoch() -> None:
    async def served() -> None:
        chain = new_chain()
        service = Service(
            chain.follower, chain.store.url, "http://me:7400", session_ms=60_000, queued_max=1, say=lambda *_: None
        )
        routes = [each for each in app_of(service).routes if isinstance(each, Endpoint) and each.path == RECORDS]
        codes = {each.method: {error.code for error in each.errors} for each in routes}
        assert codes["POST"] >= {"WRITE_LOST", "STORE_READ_ONLY", "STORE_ACCESS_DENIED", "POLICY_VIOLATION"}
        assert codes["GET"] >= {"CORRUPT_MESSAGE", "DATA_LOSS", "RECORD_TOO_LARGE"}

    asyncio.run(served())


def test_each_route_is_described_and_the_other_way_round() -> None:
    async def served() -> None:
        chain = new_chain()
        service = Service(
            chain.follower, chain.store.url, "http://me:7400", session_ms=60_000, queued_max=1, say=lambda *_: None
        )
        app = app_of(service)
        document = msgspec.json.decode((await request(app, "GET", OPENAPI)).body)
        described = {(method.upper(), path) for path, of in document["paths"].items() for method in of}
        all_routes = [route for route in app.routes if isinstance(route, GatedRoute) and route.path != OPENAPI]
        routes = [route for route in all_routes if isinstance(route, Endpoint)]
        assert {route.path.startswith("/v1/") for route in routes} == {True}
        assert {route.path.startswith("/v1/") for route in all_routes if route not in routes} == {False}
        assert described == {
            (method, route.path.replace(":path}", "}"))
            for route in routes
            for method in route.methods or ()
            if method != "HEAD"
        }
        for path, of in document["paths"].items():
            for operation in of.values():
                in_path = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
                assert in_path == {part[1:-1] for part in path.split("/") if part.startswith("{")}

    asyncio.run(served())
