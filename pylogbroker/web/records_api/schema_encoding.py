"""Keys and values of new records, encoded by schemas: what Confluent's deserializers and `format=schema` read.

A schema is looked up, or registered, in the visitor's name; its codec is the one that pages decode by. Encoding runs in
a worker thread. Schemas are remembered for the request, the latest of a subject for a second.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.extras import MissingExtra
from pylogbroker.schemas.codecs import TITLES, SchemaCodec, codec_of
from pylogbroker.schemas.errors import InvalidSchema, RegistryDenied, RegistryUnavailable, SchemaError, UnknownSchema
from pylogbroker.schemas.framing import HEADERS, Field, framed
from pylogbroker.schemas.names import subject_of, topic_of
from pylogbroker.schemas.registry_client import RegistryClient
from pylogbroker.schemas.subjects import DEFAULT_CONTEXT, QualifiedSubject
from pylogbroker.schemas.values import Schema, Version
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.records_api.json_members import BadRecord
from pylogbroker.web.records_api.json_records import NewRecord
from pylogbroker.web.records_api.schema_choices import ChosenSchema
from pylogbroker.web.schema_store import SchemaStore
from pylogbroker.web.visitors import Visitor

NO_REGISTRY: Final = (
    "this broker knows no schema registry: name one by schema.registry.url, or let the broker be one by "
    "schema.registry.listeners"
)
CHOICES_MAX: Final = 100
"""Schemas that a request names at a time."""
_LATEST_SECONDS: Final = 1.0
_TOPIC: Final = "topic"
_UNPROCESSABLE: Final = 422
_NO_REGISTRY_CODE: Final = 42206
_SERIALIZATION_CODE: Final = 42207
_DENIED_CODE: Final = 40301
T = TypeVar("T")
_Key = tuple[Field, ChosenSchema]


@attrs.frozen(eq=False, repr=False)
class WritingSchema:
    """Version of a schema that content is encoded by."""

    subject: str
    version: int
    id: int
    kind: str
    codec: SchemaCodec

    def encoded(self, field: Field, text: str) -> bytes:
        """Return content with its schema; raise BadRecord. Blocks."""
        try:
            return framed(self.id, self.codec.encode(text))
        except SchemaError as error:
            label = f"{TITLES.get(self.kind, self.kind)}, schema {self.id}, {self.subject} v{self.version}"
            raise BadRecord(f"the {field} does not fit its schema ({label}): {error}") from error


@attrs.frozen
class EncodedRecord:
    """Record with the schemas of its key and value."""

    record: NewRecord
    schemas: Mapping[Field, WritingSchema] = attrs.field(factory=dict)


_Resolved = Mapping[_Key, WritingSchema | BadRecord]


@attrs.define(eq=False, repr=False)
class ContentEncoder:
    """Encodes the records of one request."""

    _visitor: Visitor
    _topic: str
    _schemas: dict[_Key, WritingSchema] = attrs.field(factory=dict, init=False)
    _latest_until: float = attrs.field(default=0.0, init=False)

    async def encode(self, records: Sequence[NewRecord]) -> Sequence[EncodedRecord | BadRecord]:
        """Return the records as they are written, or why that is not possible."""
        keys = dict.fromkeys((field, data.choice) for record in records for field, data in record.unencoded.items())
        if not keys:
            return [EncodedRecord(record) for record in records]
        schemas = await self._resolve_all([*keys])
        encoded: Sequence[EncodedRecord | BadRecord] = await self._visitor.services.runtime.in_thread(
            _encode, records, schemas
        )
        return encoded

    async def _resolve_all(self, keys: Sequence[_Key]) -> _Resolved:
        self._forget_latest()
        if len(self._schemas) + len(keys) > CHOICES_MAX:
            self._schemas.clear()
        resolved: dict[_Key, WritingSchema | BadRecord] = {}
        for number, key in enumerate(keys):
            try:
                if number == CHOICES_MAX:
                    raise BadRecord(f"records that are sent together name at most {CHOICES_MAX} schemas")
                resolved[key] = self._schemas[key] = self._schemas.get(key) or await self._resolve(*key)
            except BadRecord as error:
                resolved[key] = error
                if number == CHOICES_MAX:
                    return resolved | dict.fromkeys(keys[number:], error)
        return resolved

    def _forget_latest(self) -> None:
        now = self._visitor.services.runtime.clock.seconds()
        if now >= self._latest_until:
            self._schemas = {key: schema for key, schema in self._schemas.items() if not key[1].is_latest}
            self._latest_until = now + _LATEST_SECONDS

    async def _resolve(self, field: Field, choice: ChosenSchema) -> WritingSchema:
        """Return the schema of a choice; raise BadRecord."""
        store = self._visitor.schemas
        if store is None:
            raise BadRecord(f"the {field} needs a schema, and {NO_REGISTRY}", _UNPROCESSABLE, _NO_REGISTRY_CODE)
        try:
            schema = await self._found(store, field, choice)
        except (RegistryUnavailable, MissingExtra) as error:
            raise BadRecord(str(error), 503) from error
        except (RegistryDenied, KafkaError) as error:
            raise BadRecord(str(error), 403, _DENIED_CODE) from error
        except (SchemaError, ConfigError) as error:
            reason = f"the {field} cannot be written by its schema: {error}"
            raise BadRecord(reason, _UNPROCESSABLE, _SERIALIZATION_CODE) from error
        if choice.kind and choice.kind != schema.kind:
            raise BadRecord(f"schema {schema.id} is of type {schema.kind}, not {choice.kind}")
        return schema

    async def _found(self, store: SchemaStore, field: Field, choice: ChosenSchema) -> WritingSchema:
        if choice.text:
            version = await self._registered(store, field, choice)
        elif choice.id is not None or choice.guid is not None:
            version = await self._by_id(store, field, choice)
        else:
            subject = choice.subject or subject_of(choice.strategy or _TOPIC, self._topic, field, "")
            number = "latest" if choice.version is None else choice.version
            version = await self._ask(store, lambda client: client.version(subject, number))
        _check_context(version.subject)
        loaded = await store.codec(version.id, version.schema if version.schema.text else None)
        codec: Any = loaded.codec
        codec = await self._visitor.services.runtime.in_thread(_prepared, codec, choice.message)
        return WritingSchema(version.subject, version.version, version.id, loaded.kind, codec)

    async def _by_id(self, store: SchemaStore, field: Field, choice: ChosenSchema) -> Version:
        """Return a version of the chosen schema: of the subject, if the choice says one."""
        schema_id = choice.id
        if choice.guid is not None:
            guid = choice.guid
            ids = await self._ask(store, lambda client: client.ids_of_guid(guid))
            if schema_id is not None and schema_id not in ids:
                raise UnknownSchema(f"the schema {guid} has the ids {ids[:5]}, not {schema_id}")
            schema_id = ids[0]
        number: int = -1 if schema_id is None else schema_id
        versions = await self._ask(store, lambda client: client.versions_of(number))
        if not versions:
            raise UnknownSchema(f"the schema registry has no schema {number}: it was deleted, or another one has it")
        subject = choice.subject
        if not subject and choice.strategy:
            name = await self._record_name(store, number) if choice.strategy != _TOPIC else ""
            subject = subject_of(choice.strategy, self._topic, field, name)
        matching = [
            version for version in versions if subject in ("", version[0]) and choice.version in (None, version[1])
        ]
        if not matching:
            place = f"{subject or 'any subject'}{'' if choice.version is None else f' version {choice.version}'}"
            first, version_number = versions[0]
            raise UnknownSchema(f"schema {number} is not that of {place}: it is {first} version {version_number}")
        of_topic = subject_of(_TOPIC, self._topic, field, "")
        name, version_number = min(matching, key=lambda version: (version[0] != of_topic, version[0], -version[1]))
        return Version(name, version_number, number, Schema(""))

    async def _record_name(self, store: SchemaStore, schema_id: int) -> str:
        codec = (await store.codec(schema_id)).codec
        return "" if codec is None else codec.record_name

    async def _registered(self, store: SchemaStore, field: Field, choice: ChosenSchema) -> Version:
        """Return the version that a text has, registered if the subject does not have it."""
        schema = Schema(choice.text, choice.kind)
        subject = choice.subject
        if not subject:
            strategy, name = choice.strategy or _TOPIC, ""
            if strategy != _TOPIC:
                name = (await self._visitor.services.runtime.in_thread(codec_of, schema, {})).record_name
            subject = subject_of(strategy, self._topic, field, name)
        _check_context(subject)
        self._visitor.check(AclOperation.WRITE, AclResourceType.TOPIC, topic_of(subject))

        async def register(client: RegistryClient) -> Version:
            try:
                return await client.find(subject, schema)
            except UnknownSchema:
                await client.register(subject, schema)
                return await client.find(subject, schema)

        return await self._ask(store, register)

    async def _ask(self, store: SchemaStore, question: Callable[[RegistryClient], Coroutine[Any, Any, T]]) -> T:
        return await store.ask(self._visitor.registry_sender, question)


def _check_context(subject: str) -> None:
    """Raise InvalidSchema for a subject of another context than the default one, which has ids of its own."""
    if QualifiedSubject.parse(subject).context != DEFAULT_CONTEXT:
        raise InvalidSchema(
            f"{subject} is of a context, which records do not name: consumers would take the id for another schema's"
        )


def _prepared(codec: SchemaCodec, message: str) -> SchemaCodec:
    """Return a codec that can write; raise InvalidSchema. Blocks."""
    codec = codec.for_message(message) if message else codec
    codec.prepare_writing()
    return codec


def _encode(records: Sequence[NewRecord], schemas: _Resolved) -> list[EncodedRecord | BadRecord]:
    """Return the outcome of each record. Blocks."""
    outcomes: list[EncodedRecord | BadRecord] = []
    for record in records:
        try:
            outcomes.append(_encoded(record, schemas))
        except BadRecord as error:
            outcomes.append(error)
    return outcomes


def _encoded(record: NewRecord, schemas: _Resolved) -> EncodedRecord:
    contents: dict[Field, bytes | None] = {"key": record.key, "value": record.value}
    headers, used = record.headers, dict[Field, WritingSchema]()
    for field, data in record.unencoded.items():
        schema = schemas[field, data.choice]
        if isinstance(schema, BadRecord):
            raise schema.with_traceback(None)  # of each record that uses it
        used[field] = schema
        contents[field] = None if data.text is None else schema.encoded(field, data.text)
        headers = tuple(header for header in headers if header[0] != HEADERS[field])
    key, value = contents["key"], contents["value"]
    return EncodedRecord(attrs.evolve(record, key=key, value=value, headers=headers, unencoded={}), used)
