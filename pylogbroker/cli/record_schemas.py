"""Keys and values by a schema registry: decoded for `consume`, encoded for `produce`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from pylogbroker.cli.record_format import JsonText
from pylogbroker.errors import ConfigError
from pylogbroker.schemas import endpoint
from pylogbroker.schemas.blocking import blocking_client
from pylogbroker.schemas.codecs import TITLES, SchemaCodec, codec_of
from pylogbroker.schemas.errors import InvalidSchema, SchemaError, Undecodable, Unencodable, UnknownSchema
from pylogbroker.schemas.framing import Field, frame_of, framed
from pylogbroker.schemas.names import subject_of
from pylogbroker.schemas.registry_client import RegistryClient, ResolvedSchema, blocking
from pylogbroker.schemas.schema_cache import SchemaCache
from pylogbroker.schemas.values import AVRO, INT_MAX, JSON, PROTOBUF, Reference, Schema

if TYPE_CHECKING:
    from pylogbroker.client.messages import Message
    from pylogbroker.records import Header

_AUTO: Final = "auto"
_NONE: Final = "none"
_KINDS: Final = {"avro": AVRO, "json": JSON, "json-schema": JSON, "protobuf": PROTOBUF}
_FORMS: Final = (*_KINDS, _AUTO, _NONE)
_SUFFIXES: Final = {".avsc": AVRO, ".avro": AVRO, ".json": JSON, ".proto": PROTOBUF}
_FIELDS: Final[tuple[Field, Field]] = ("key", "value")
_VERSION: Final = re.compile(r"(.+):(latest|[0-9]{1,10})")
_REFERENCE: Final = re.compile(r"([^=]+)=(.+):([0-9]{1,10})")
_ID: Final = re.compile(r"[0-9]{1,10}")
_NOTES_MAX: Final = 100  # and one that says that no others follow
_WHERE: Final = (
    "name it by --schema-registry URL, PYLOGBROKER_SCHEMA_REGISTRY, or schema.registry.url in a profile or by -X"
)


def registry_client(settings: Mapping[str, str], seconds: float) -> RegistryClient | None:
    """Return the client of the registry that settings name, None without one; raise ConfigError."""
    where = endpoint.RegistryEndpoint.of(settings)
    return None if where is None else blocking_client(where, min(seconds, endpoint.SECONDS))


# decoding


def decoder_of(
    client: RegistryClient | None, options: Sequence[str], note: Callable[[str], object]
) -> RecordDecoder | None:
    """Return what `-s` options and the registry ask for, None for nothing; raise ConfigError."""
    forms = dict.fromkeys(_FIELDS, _NONE if options else _AUTO)
    for option in options:
        name, equals, form = option.rpartition("=")
        fields = [field for field in _FIELDS if field == name] if equals else _FIELDS
        if not fields or form not in _FORMS:
            raise ConfigError(f"-s: {option!r} is not accepted; expected [key=|value=] and {', '.join(_FORMS)}")
        forms |= dict.fromkeys(fields, form)
    if client is None:
        if explicit := [option for option in options if option.rpartition("=")[2] != _NONE]:
            raise ConfigError(f"-s {explicit[0]} needs a schema registry: {_WHERE}")
        return None
    return RecordDecoder(client, forms, note)


@attrs.define(eq=False, repr=False)
class RecordDecoder:
    """Decodes keys and values; with the form auto, content that has no schema stays as it is.

    `note` gets each reason once why content that names a schema is not decoded, and at most a hundred reasons.
    """

    _client: RegistryClient
    _forms: Mapping[Field, str]
    _note: Callable[[str], object]
    _codecs: SchemaCache[tuple[str, SchemaCodec]] = attrs.field(
        init=False, default=attrs.Factory(lambda self: SchemaCache(self._client, _kind_and_codec), takes_self=True)
    )
    _noted: set[str] = attrs.field(factory=set, init=False)

    @classmethod
    def automatic(cls, client: RegistryClient, note: Callable[[str], object]) -> RecordDecoder:
        """Return what decodes all content that has a schema, and leaves the rest as it is."""
        return cls(client, dict.fromkeys(_FIELDS, _AUTO), note)

    def reads_any(self, contents: Iterable[bytes | None]) -> bool:
        """Return True: any content may have to be decoded, or to be rejected."""
        return True

    def decoded(self, message: Message) -> Message:
        """Return a message with what can be decoded; raise SchemaError."""
        key = self._content("key", message.key, message)
        return message._replace(key=key, value=self._content("value", message.value, message))

    def _content(self, field: Field, content: bytes | None, message: Message) -> bytes | None:
        form = self._forms[field]
        if content is None or form == _NONE:
            return content
        try:
            return self._decoded(field, content, message.headers, form)
        except (Undecodable, UnknownSchema, InvalidSchema) as error:
            where = f"{message.topic}/{message.partition}, offset {message.offset}, {field}"
            if form != _AUTO:
                raise SchemaError(f"{where}: {error}") from error
            self._note_once(where, str(error))
            return content

    def _note_once(self, where: str, reason: str) -> None:
        if reason in self._noted or len(self._noted) > _NOTES_MAX:
            return
        self._noted.add(reason)
        last = "; other reasons are not printed" if len(self._noted) > _NOTES_MAX else ""
        self._note(f"{where}: {reason}; it is printed as it is{last}")

    def _decoded(self, field: Field, content: bytes, headers: Iterable[Header], form: str) -> bytes:
        frame = frame_of(content, headers, field)
        if frame is None:
            if form == _AUTO:
                return content
            raise Undecodable(
                "it has no schema: no serializer of a schema registry wrote it; -s auto leaves it as it is"
            )
        kind, codec = self._codecs.get(frame.schema)
        if form != _AUTO and kind != _KINDS[form]:
            raise Undecodable(f"schema {frame.schema} is of {TITLES.get(kind, kind)}, and -s has {form}")
        try:
            return JsonText(codec.decode(frame).encode())
        except Undecodable as error:
            raise Undecodable(f"it does not fit schema {frame.schema}: {error}") from error


def _kind_and_codec(_: int | UUID, resolved: ResolvedSchema) -> tuple[str, SchemaCodec]:
    return resolved.schema.kind, codec_of(resolved.schema, resolved.references)


# encoding


@attrs.frozen
class SchemaChoice:
    """Options of `produce`: schemas of keys and values, and how their subjects are named."""

    key: str | None = None
    value: str | None = None
    strategy: str = "topic"
    may_register: bool = False
    message: str = ""
    references: Sequence[str] = ()

    def fields(self) -> dict[Field, str]:
        given: dict[Field, str | None] = {"key": self.key, "value": self.value}
        return {field: text for field, text in given.items() if text is not None}


def encoder_of(client: RegistryClient | None, choice: SchemaChoice, topic: str) -> RecordEncoder | None:
    """Return what encodes by the chosen schemas, None for none; raise ConfigError or SchemaError."""
    fields = choice.fields()
    if not fields:
        return None
    if client is None:
        raise ConfigError(f"--{next(iter(fields))}-schema needs a schema registry: {_WHERE}")
    return RecordEncoder({field: _found(client, choice, topic, field, text) for field, text in fields.items()})


@attrs.frozen(eq=False, repr=False)
class RecordEncoder:
    """Encodes keys and values that are JSON; others pass as they are."""

    _schemas: Mapping[Field, tuple[int, SchemaCodec]]

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(self._schemas)

    def encoded(self, field: Field, content: bytes | None) -> bytes | None:
        """Return content with its schema; a null stays one. Raise ConfigError."""
        schema = self._schemas.get(field)
        if schema is None or content is None:
            return content
        schema_id, codec = schema
        try:
            return framed(schema_id, codec.encode(content.decode()))
        except (Unencodable, UnicodeDecodeError) as error:
            raise ConfigError(f"the {field} does not fit schema {schema_id}: {error}") from error


def _found(
    client: RegistryClient, choice: SchemaChoice, topic: str, field: Field, text: str
) -> tuple[int, SchemaCodec]:
    """Return the id and the codec of a schema that an option names."""
    message = choice.message if field == "value" else ""
    if _ID.fullmatch(text):
        if int(text) > INT_MAX:
            raise ConfigError(f"--{field}-schema: {text} is no id of a schema: ids go up to {INT_MAX}")
        return int(text), _codec(blocking(client.by_id(int(text))), message)
    named = _VERSION.fullmatch(text)
    if text == "latest" or (named is not None and not os.path.exists(text)):
        if text == "latest" and choice.strategy != "topic":
            raise ConfigError(
                f"--{field}-schema latest: the subject strategy {choice.strategy} needs the schema's name:"
                " give SUBJECT:latest, or a file"
            )
        subject, number = named.groups() if named is not None else (subject_of("topic", topic, field, ""), "latest")
        version = blocking(client.version(subject, number))
        return version.id, _codec(blocking(client.resolve(version.schema)), message)
    schema = schema_of_file(text, choice.references, f"--{field}-schema {text}")
    codec = _codec(blocking(client.resolve(schema)), message)
    subject = subject_of(choice.strategy, topic, field, codec.record_name)
    return blocking((client.register if choice.may_register else client.look_up)(subject, schema)), codec


def _codec(resolved: ResolvedSchema, message: str) -> SchemaCodec:
    codec = codec_of(resolved.schema, resolved.references, message)
    codec.prepare_writing()
    return codec


def schema_of_file(name: str, references: Sequence[str], option: str = "") -> Schema:
    """Return the schema of a file; raise ConfigError. `option` names it where there are other ways than a file."""
    path = Path(name)
    expected = "expected an id, latest, SUBJECT:VERSION, or a file" if option else "expected a file"
    option = option or name
    if (kind := _SUFFIXES.get(path.suffix.lower())) is None:
        raise ConfigError(f"{option}: {expected} that ends with {', '.join(_SUFFIXES)}")
    try:
        return Schema(path.read_text("utf-8"), kind, tuple(map(_reference, references)))
    except OSError as error:
        raise ConfigError(f"{option}: {error.strerror}; {expected}") from error
    except ValueError as error:
        raise ConfigError(f"{option}: it is not UTF-8") from error


def _reference(text: str) -> Reference:
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise ConfigError(f"--schema-reference: {text!r} is not accepted; expected NAME=SUBJECT:VERSION")
    return Reference(match[1], match[2], int(match[3]))
