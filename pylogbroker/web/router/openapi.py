"""OpenAPI 3.1 document of routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import attrs

from pylogbroker.web.router.parameters import OMITTED, Parameter
from pylogbroker.web.router.routes import JSON, NDJSON, HttpRoute
from pylogbroker.web.router.values import given, schema

_OPENAPI: Final = "3.1.0"
_PLAIN_DEFAULTS: Final = (bool, int, float, str)


@attrs.frozen
class ApiDescription:
    """Texts and errors of a document: `error` is their type, and any route may have the `statuses`."""

    title: str
    description: str
    error: Any
    statuses: Sequence[int]
    media: str = JSON
    security: Mapping[str, Any] = attrs.field(factory=dict)


def document(api: ApiDescription, routes: Sequence[HttpRoute]) -> dict[str, Any]:
    """Return the document as values of JSON."""
    named: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for route in sorted(routes, key=lambda route: route.path):
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(api, route, named)
    errors = {str(status): _error(api, status, schema(api.error, named)) for status in api.statuses}
    components: dict[str, Any] = {"schemas": dict(sorted(named.items())), "responses": errors}
    described: dict[str, Any] = {
        "openapi": _OPENAPI,
        "info": {"title": api.title, "version": "1", "description": api.description},
        "paths": paths,
        "components": components,
    }
    if api.security:
        components["securitySchemes"] = dict(api.security)
        described["security"] = [{}, *({name: []} for name in api.security)]
    return described


def _error(api: ApiDescription, status: int, described: dict[str, Any]) -> dict[str, Any]:
    return {"description": HTTPStatus(status).phrase, "content": {api.media: {"schema": described}}}


def _operation(api: ApiDescription, route: HttpRoute, named: dict[str, Any]) -> dict[str, Any]:
    in_path = [route.parameters.by_name[name] for name in route.placeholders]
    others = [parameter for name, parameter in route.parameters.by_name.items() if name not in route.placeholders]
    parameters = [_parameter(parameter, "path", named) for parameter in in_path]
    answer = schema(route.answer_type, named)
    other_media = {media: {"schema": schema(kind, named)} for media, kind in route.other_answers.items()}
    operation: dict[str, Any] = {
        "operationId": f"{route.name}",
        "summary": route.summary,
        "responses": {
            "200": {"description": "Done", "content": {route.media: {"schema": answer}, **other_media}},
            **{
                str(status): {"description": text, "content": {route.media: {"schema": answer}}}
                for status, text in route.other_statuses.items()
            },
            **{
                str(status): {"$ref": f"#/components/responses/{status}"}
                if route.error is None
                else _error(api, status, schema(route.error, named))
                for status in api.statuses
                if route.has_body or status != HTTPStatus.UNSUPPORTED_MEDIA_TYPE
            },
        },
    }
    if route.body is not None:
        content = {api.media: {"schema": schema(route.body, named)}}
        if route.lines is not None:
            content[NDJSON] = {"schema": schema(route.lines, named)}
        operation["requestBody"] = {"required": True, "content": content}
        parameters += [_parameter(parameter, "query", named) for parameter in others]
    elif route.has_body and others:
        operation["requestBody"] = _body(api, others, named)
    elif others:
        parameters += [_parameter(parameter, "query", named) for parameter in others]
    if parameters:
        operation["parameters"] = parameters
    return operation


def _parameter(parameter: Parameter, place: str, named: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"name": parameter.name, "in": place, "required": parameter.is_required}
    if place == "path":
        described["required"] = True
    described["schema"] = schema(given(parameter.kind), named) | _default(parameter)
    if parameter.description:
        described["description"] = parameter.description
    return described


def _body(api: ApiDescription, parameters: Sequence[Parameter], named: dict[str, Any]) -> dict[str, Any]:
    properties = {}
    for parameter in parameters:
        properties[parameter.name] = schema(parameter.kind, named) | _default(parameter)
        if parameter.description:
            properties[parameter.name]["description"] = parameter.description
    required = [parameter.name for parameter in parameters if parameter.is_required]
    content: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        content["required"] = required
    return {"required": bool(required), "content": {api.media: {"schema": content}}}


def _default(parameter: Parameter) -> dict[str, Any]:
    is_shown = parameter.default is not OMITTED and type(parameter.default) in _PLAIN_DEFAULTS
    return {"default": parameter.default} if is_shown and not parameter.is_required else {}
