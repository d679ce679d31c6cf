"""Validation of produced records by the schemas of the registry, for topics with settings of Confluent Server's names.

    confluent.value.schema.validation      values must name a schema that is registered for the topic
    confluent.value.subject.name.strategy  by which subject: of the topic, of the record's name, or of both
    schema.validation.content              content must fit its schema, too

The same for keys. A null is valid. Schemas are looked up when a batch first names them; a schema that was valid counts
as such for a minute, so deletions take effect within that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.config import TopicConfig
from pylogbroker.errors import ConfigError, ErrorCode, InvalidRecords, KafkaError
from pylogbroker.records import Buffer, entries
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.registry import SchemaRegistry
from pylogbroker.schemas.codecs import SchemaCodec, codec_of
from pylogbroker.schemas.errors import SchemaError
from pylogbroker.schemas.framing import Field, frame_of
from pylogbroker.schemas.names import subject_of
from pylogbroker.schemas.values import Schema, Version

SchemaKey = int | UUID

_VALID_SECONDS: Final = 60.0
_NOT_FOUND: Final = 404
_KEPT_MAX: Final = 1000
_REASONS_MAX: Final = 10
"""Records of a batch whose reasons are returned."""
_KEYS_MAX: Final = 100
"""Schemas that one batch may name."""
STRATEGIES: Final = {
    "TopicNameStrategy": "topic",
    "RecordNameStrategy": "record",
    "TopicRecordNameStrategy": "topic-record",
}


@attrs.frozen(eq=False, repr=False)
class KnownSchema:
    """Schema that a key or value names; `problem` says why it is not valid, and is empty if it is."""

    problem: str = ""
    codec: SchemaCodec | None = None
    """Set if content is checked, too."""


Known = Mapping[tuple[Field, SchemaKey], KnownSchema]


@attrs.frozen
class FieldRule:
    """Rule of keys or values."""

    field: Field
    strategy: str


class _Unknown(Exception):
    """A batch names schemas that were not looked up."""

    def __init__(self, keys: Iterable[tuple[Field, SchemaKey]]) -> None:
        super().__init__()
        self.keys = tuple(keys)


@attrs.define(eq=False, repr=False)
class TopicValidation:
    """Check of one topic's records."""

    _registry: SchemaRegistry
    _runtime: Runtime
    _topic: str
    _rules: tuple[FieldRule, ...]
    _checks_content: bool
    _known: dict[tuple[Field, SchemaKey], KnownSchema] = attrs.field(factory=dict, init=False)
    _valid_until: dict[tuple[Field, SchemaKey], float] = attrs.field(factory=dict, init=False)

    async def check(self, records: Buffer) -> None:
        """Raise KafkaError: InvalidRecords with the reasons of single records, or the error of a damaged batch."""
        schemas = self._fresh()
        try:
            await self._runtime.in_thread(validate, records, self._rules, schemas)
        except _Unknown as unknown:
            looked_up = {key: await self._look_up(*key) for key in unknown.keys}
            await self._runtime.in_thread(validate, records, self._rules, {**schemas, **looked_up})

    def _fresh(self) -> dict[tuple[Field, SchemaKey], KnownSchema]:
        now = self._runtime.clock.seconds()
        return {key: schema for key, schema in self._known.items() if now < self._valid_until[key]}

    async def _look_up(self, field: Field, key: SchemaKey) -> KnownSchema:
        """Return a schema as it is registered now; one that is valid is remembered."""
        try:
            state = await self._registry.catch_up()
            if isinstance(key, int):
                versions = state.versions_of_id(key, None, deleted=False)
            else:
                versions = [
                    version
                    for context, schema_id in state.ids_of_guid(key)
                    for version in state.versions_of_id(schema_id, f":{context}:", deleted=False)
                ]
            schema = await self._known_schema(field, key, versions)
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                return KnownSchema(f"schema {key} is not registered, or was deleted")
            raise KafkaError(f"schemas cannot be looked up: {error}", ErrorCode.REQUEST_TIMED_OUT) from error
        if not schema.problem:
            while len(self._known) >= _KEPT_MAX:
                oldest = next(iter(self._known))
                del self._known[oldest], self._valid_until[oldest]
            self._known[field, key] = schema
            self._valid_until[field, key] = self._runtime.clock.seconds() + _VALID_SECONDS
        return schema

    async def _known_schema(self, field: Field, key: SchemaKey, versions: list[Version]) -> KnownSchema:
        if not versions:
            return KnownSchema(f"schema {key} is not registered, or was deleted")
        strategy = next(rule.strategy for rule in self._rules if rule.field == field)
        schema, references = versions[0].schema, self._registry.texts_of_references(versions[0])
        codec: SchemaCodec | None = None
        if strategy != "topic" or self._checks_content:
            try:
                codec = await self._runtime.in_thread(_codec, schema, references)
            except SchemaError as error:
                return KnownSchema(f"schema {key} cannot be used: {error}")
        try:
            subject = subject_of(strategy, self._topic, field, codec.record_name if codec is not None else "")
        except ConfigError as error:
            return KnownSchema(str(error))
        if not any(version.subject == subject for version in versions):
            subjects = ", ".join(sorted({version.subject for version in versions})[:3])
            return KnownSchema(f"schema {key} is not registered for subject {subject}, but for {subjects}")
        return KnownSchema(codec=codec if self._checks_content else None)


def validation_of(registry: SchemaRegistry, runtime: Runtime) -> Callable[[str, TopicConfig], TopicValidation]:
    """Return what makes the check of a topic."""

    def make(topic: str, settings: TopicConfig) -> TopicValidation:
        rules = []
        if settings.confluent_key_schema_validation:
            rules.append(FieldRule("key", _strategy(settings.confluent_key_subject_name_strategy)))
        if settings.confluent_value_schema_validation:
            rules.append(FieldRule("value", _strategy(settings.confluent_value_subject_name_strategy)))
        return TopicValidation(registry, runtime, topic, tuple(rules), settings.schema_validation_content)

    return make


def _strategy(name: str) -> str:
    return STRATEGIES[name.rpartition(".")[2]]


def _codec(schema: Schema, references: Mapping[str, str]) -> SchemaCodec:
    return codec_of(schema, references)


def validate(records: Buffer, rules: Iterable[FieldRule], schemas: Known) -> None:
    """Check the records of a batch; raise InvalidRecords, CorruptRecords, or _Unknown. Blocks."""
    reasons: list[tuple[int, str]] = []
    unknown: dict[tuple[Field, SchemaKey], None] = {}
    rejected = 0
    index = 0
    for entry in entries(records):
        for record in entry.records():
            for rule in rules:
                reason = _problem(
                    rule, record.key if rule.field == "key" else record.value, record.headers, schemas, unknown
                )
                if reason:
                    rejected += 1
                    if len(reasons) < _REASONS_MAX:
                        reasons.append((index, f"{rule.field}: {reason}"))
            index += 1
    if reasons:
        raise InvalidRecords(
            f"{rejected} of {index} records are not valid by their schemas; the first is record {reasons[0][0]}:"
            f" {reasons[0][1]}",
            record_errors=tuple(reasons),
            rejected=rejected,
        )
    if unknown:
        raise _Unknown(unknown)


def _problem(
    rule: FieldRule,
    content: Buffer | None,
    headers: Iterable[tuple[str, bytes | None]],
    schemas: Known,
    unknown: dict[tuple[Field, SchemaKey], None],
) -> str:
    """Return why content is not valid, empty if it is; note a schema that was not looked up."""
    if content is None:
        return ""
    frame = frame_of(bytes(content), headers, rule.field)
    if frame is None:
        return "it names no schema: no serializer of a schema registry wrote it"
    key = rule.field, frame.schema
    schema = schemas.get(key)
    if schema is None:
        if len(unknown) < _KEYS_MAX:
            unknown[key] = None
            return ""
        return f"a batch names more than {_KEYS_MAX} schemas"
    if schema.problem or schema.codec is None:
        return schema.problem
    try:
        schema.codec.decode(frame)
    except SchemaError as error:
        return f"it does not fit schema {frame.schema}: {error}"
    return ""
