"""Routes of the registry."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from pylogbroker.registry.rest import contexts, levels, schemas, server, subjects
from pylogbroker.registry.rest.fields import ModeFields, RegistryFailure, SchemaFields, SettingsFields
from pylogbroker.web.router import ApiDescription, HttpRoute, document

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
DESCRIPTION: Final = "/openapi.json"


NOT_SERVED: Final = {
    "exporters": "this registry has no exporters; to copy its schemas, mirror the topic _schemas",
    "associations": "this registry has no associations: subjects belong to topics by their names",
    "dek-registry": "this registry keeps no encryption keys: clients need a registry of Confluent's for these",
    "catalog": "this registry has no catalog",
    "clusterconfig": "the settings of this registry are those of its broker: kafka-configs.sh shows them",
}
"""Paths of Confluent's products that are not there, by their first part, and why."""


def _route(method: str, path: str, handle: Any, body: Any = None) -> HttpRoute:
    hidden = frozenset({"call", "body"})
    return HttpRoute(method, path, handle, media=CONTENT_TYPE, hidden=hidden, body=body)


_SUBJECT: Final = "/subjects/{subject}"
_VERSION: Final = f"{_SUBJECT}/versions/{{version}}"
_COMPATIBILITY: Final = f"/compatibility{_SUBJECT}/versions"
_BY_ID: Final = "/schemas/ids/{id}"
ROUTES: Final = (
    _route("GET", "/", server.root),
    _route("POST", "/", server.check_post),
    _route("GET", "/v1/metadata/id", server.server_id),
    _route("GET", "/v1/metadata/version", server.server_version),
    _route("GET", "/v1/metadata/deployment", server.deployment),
    _route("GET", "/subjects", subjects.subjects),
    _route("POST", _SUBJECT, subjects.look_up, SchemaFields),
    _route("DELETE", _SUBJECT, subjects.delete_subject),
    _route("GET", f"{_SUBJECT}/metadata", subjects.latest_with_metadata),
    _route("GET", f"{_SUBJECT}/versions", subjects.versions),
    _route("POST", f"{_SUBJECT}/versions", subjects.register, SchemaFields),
    _route("GET", _VERSION, subjects.version),
    _route("DELETE", _VERSION, subjects.delete_version),
    _route("GET", f"{_VERSION}/schema", subjects.text_of_version),
    _route("GET", f"{_VERSION}/referencedby", subjects.referenced_by),
    _route("POST", _COMPATIBILITY, subjects.check, SchemaFields),
    _route("POST", f"{_COMPATIBILITY}/{{version}}", subjects.check_version, SchemaFields),
    _route("GET", "/schemas", schemas.schemas),
    _route("GET", "/schemas/types", schemas.types),
    _route("GET", _BY_ID, schemas.schema),
    _route("GET", f"{_BY_ID}/schema", schemas.text_of_schema),
    _route("GET", f"{_BY_ID}/subjects", schemas.subjects_of_id),
    _route("GET", f"{_BY_ID}/versions", schemas.versions_of_id),
    _route("GET", "/schemas/guids/{guid}", schemas.schema_of_guid),
    _route("GET", "/schemas/guids/{guid}/ids", schemas.ids_of_guid),
    _route("GET", "/contexts", contexts.contexts),
    _route("DELETE", "/contexts/{context}", contexts.delete_context),
    _route("GET", "/config", levels.level),
    _route("PUT", "/config", levels.set_level, SettingsFields),
    _route("DELETE", "/config", levels.delete_level),
    _route("GET", "/config/{subject}", levels.level_of),
    _route("PUT", "/config/{subject}", levels.set_level_of, SettingsFields),
    _route("DELETE", "/config/{subject}", levels.delete_level_of),
    _route("GET", "/mode", levels.mode),
    _route("PUT", "/mode", levels.set_mode, ModeFields),
    _route("DELETE", "/mode", levels.delete_mode),
    _route("GET", "/mode/{subject}", levels.mode_of),
    _route("PUT", "/mode/{subject}", levels.set_mode_of, ModeFields),
    _route("DELETE", "/mode/{subject}", levels.delete_mode_of),
)
API: Final = ApiDescription(
    "Schema registry of pylogbroker",
    "The REST interface of Confluent's schema registry, as far as docs/schema-registry.md says. All paths also exist "
    "below /contexts/{context}.",
    RegistryFailure,
    (400, 401, 403, 404, 409, 422, 500),
    media=CONTENT_TYPE,
    security={"basic": {"type": "http", "scheme": "basic"}},
)


@cache
def registry_document() -> dict[str, Any]:
    return document(API, ROUTES)
