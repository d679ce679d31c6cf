"""Members of bodies and answers."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict


class ReferenceFields(TypedDict):
    name: str
    subject: str
    version: int


class SchemaFields(TypedDict, total=False):
    """A schema that is given."""

    schema: str
    schemaType: Annotated[str, "AVRO, JSON or PROTOBUF; by default AVRO"]
    references: list[ReferenceFields]
    metadata: dict[str, Any]
    ruleSet: dict[str, Any]
    id: int
    version: int


class SettingsFields(TypedDict, total=False):
    compatibility: str
    normalize: bool
    alias: str
    compatibilityGroup: str
    defaultMetadata: dict[str, Any]
    overrideMetadata: dict[str, Any]
    defaultRuleSet: dict[str, Any]
    overrideRuleSet: dict[str, Any]


class ModeFields(TypedDict):
    mode: str


class RegistryFailure(TypedDict):
    error_code: Annotated[int, "the first three digits are the status"]
    message: str


class SubjectVersion(TypedDict):
    subject: str
    version: int


class ContextId(TypedDict):
    context: str
    id: int


class Registered(TypedDict):
    id: int
    version: NotRequired[int]
    guid: NotRequired[str]


class ServerScope(TypedDict):
    path: list[str]
    clusters: dict[str, str]


class ServerId(TypedDict):
    scope: ServerScope
    id: str


class ServerVersion(TypedDict):
    version: str
    commitId: str
