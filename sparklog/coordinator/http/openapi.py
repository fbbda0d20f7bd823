"""The description of the HTTP interface (OpenAPI 3.1), made from the routes and the types of their messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from sparklog import __version__
from sparklog.coordinator.http.endpoint import Endpoint, GatedRoute, Openness, Parameter
from sparklog.core.errors import (
    AuthenticationFailed,
    ClusterAuthorizationFailed,
    Damaged,
    InvalidInput,
    OutcomeUnknown,
    SparklogError,
    StoreUnavailable,
    TopicAuthorizationFailed,
    TryAgain,
)
from sparklog.wire.error_messages import ErrorReply, http_status
from sparklog.wire.messages import CONTENT_TYPE, JSON

OPENAPI = "/v1/openapi.json"
_OCTETS = "application/octet-stream"
# Errors of any request: it is malformed, the caller is unknown or lacks a right, the coordinator or a store can't
# serve it.
_ANY = (
    InvalidInput,
    AuthenticationFailed,
    ClusterAuthorizationFailed,
    TopicAuthorizationFailed,
    TryAgain,
    StoreUnavailable,
    OutcomeUnknown,
    Damaged,
)
_CONVERTER = re.compile(r":[a-z]+}")


def described(endpoints: Sequence[Endpoint]) -> GatedRoute:
    """The route that serves the OpenAPI description of these endpoints."""

    @cache
    def body() -> bytes:
        return msgspec.json.encode(document(endpoints))

    async def openapi(request: Request) -> Response:
        return Response(body(), media_type=JSON)

    return GatedRoute("GET", OPENAPI, openapi, Openness.EVERY_PRINCIPAL)


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI description of these endpoints, as a JSON object."""
    named = [kind for endpoint in endpoints for kind in (endpoint.takes, endpoint.gives) if kind is not None]
    kinds = list(dict.fromkeys([*named, ErrorReply]))
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        of_path = paths.setdefault(_CONVERTER.sub("}", endpoint.path), {})
        of_path[endpoint.method.lower()] = _operation(endpoint, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "The coordinator of a sparklog cluster", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(endpoint: Endpoint, schema_of: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "parameters": [_parameter(parameter) for parameter in endpoint.parameters],
        "responses": _responses(endpoint, schema_of),
    }
    if endpoint.takes is not None:
        operation["requestBody"] = {"required": True, "content": _content(schema_of[endpoint.takes])}
    return operation


def _responses(endpoint: Endpoint, schema_of: dict[Any, Any]) -> dict[str, Any]:
    text = {"type": "string", "contentMediaType": _OCTETS}
    reply = {_OCTETS: {"schema": text}} if endpoint.gives is None else _content(schema_of[endpoint.gives])
    responses: dict[str, Any] = {"200": {"description": "The reply", "content": reply}}
    if any(parameter.name == "range" for parameter in endpoint.parameters):
        responses["206"] = {"description": "The requested bytes", "content": reply}
    for status, kinds in sorted(_by_status([*_ANY, *endpoint.errors]).items()):
        codes = ", ".join(sorted({kind.code for kind in kinds}))
        error = _content(schema_of[ErrorReply])
        responses[str(status)] = {"description": f"{HTTPStatus(status).phrase}: {codes}", "content": error}
    return responses


def _by_status(kinds: Iterable[type[SparklogError]]) -> dict[int, list[type[SparklogError]]]:
    by_status: dict[int, list[type[SparklogError]]] = {}
    for kind in kinds:
        by_status.setdefault(http_status(kind("")), []).append(kind)
    return by_status


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {JSON: {"schema": schema}, CONTENT_TYPE: {"schema": schema}}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if parameter.most is not None:
        schema = {"type": "integer", "minimum": parameter.least, "maximum": parameter.most}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        "description": parameter.text,
        "schema": schema,
    }
