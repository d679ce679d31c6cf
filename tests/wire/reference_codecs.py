"""Other implementations of the messages: kafka-python's of today, its older ones, and kio's.

Each takes our message and gives its own bytes, and takes bytes and gives our message; on the way it holds
the values in its own classes.  kio knows only the versions that Kafka 4 still has, and kafka-python's older
classes, written by hand in their time, only those that were in use before flexible versions came.
"""

from __future__ import annotations

import importlib
import io
import pkgutil
import re
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Protocol, get_args, get_type_hints

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.old
import kafka.protocol.producer
import kio.schema.errors
from kafka.protocol.api_message import ApiMessage
from kio.serial import entity_reader, entity_writer

from pylogbroker.wire.schema import NO_ID, Field, FieldType, fields_of


class Peer(Protocol):
    """An implementation to compare with."""

    def knows(self, cls: type, version: int) -> bool: ...

    def encode(self, message: Any, version: int) -> bytes: ...

    def decode(self, cls: type, version: int, encoded: bytes) -> Any: ...


def present(cls: type, version: int) -> list[Field]:
    """The fields that a version carries; those of our own are left at their defaults, which are not sent."""
    return [field for field in fields_of(cls) if field.is_in(version) and not field.is_own]


class Operations:
    """Authorised operations, which kafka-python holds as a set of bits, or as None for bit 31 alone."""

    @staticmethod
    def theirs(value: int) -> set[int]:
        return {bit for bit in range(32) if value >> bit & 1}

    @staticmethod
    def ours(value: set[int] | None) -> int:
        return sum(1 << bit if bit < 31 else -(1 << 31) for bit in (value if value is not None else {31}))


class KafkaPython:
    """kafka-python's messages of today: one class for all versions."""

    RENAMED = {"generation_id_or_member_epoch": "generation_id"}
    """Fields of newer versions that have another name in Kafka today."""

    def knows(self, cls: type, version: int) -> bool:
        theirs = getattr(self._module(cls.__name__), cls.__name__, None)
        return theirs is not None and version <= theirs.max_version

    def encode(self, message: Any, version: int) -> bytes:
        name = type(message).__name__
        return bytes(self._theirs(message, getattr(self._module(name), name), version).encode(version=version))

    def decode(self, cls: type, version: int, encoded: bytes) -> Any:
        theirs = getattr(self._module(cls.__name__), cls.__name__)
        # Past the class's own method, which takes whatever has an error for version 0 of ApiVersions.
        decode = ApiMessage.decode.__func__
        return self._ours(decode(theirs, encoded, version=version), cls, version)

    @staticmethod
    @cache
    def _module(name: str) -> Any:
        modules = (
            kafka.protocol.admin,
            kafka.protocol.consumer,
            kafka.protocol.metadata,
            kafka.protocol.producer,
        )
        return next((room for room in modules if hasattr(room, name)), None)

    def _name(self, field: Field, theirs: Any) -> str:
        short = re.sub("^(topic|cluster)_authorized", "authorized", field.name)
        if field.name in theirs.fields:
            return field.name
        return self.RENAMED.get(field.name, short)

    def _theirs(self, message: Any, cls: Any, version: int) -> Any:
        given = {}
        for field in present(type(message), version):
            value = getattr(message, field.name)
            if isinstance(field.kind, type):
                inner = getattr(cls, cls.fields[field.name].type_str.removeprefix("[]"))
                value = _each(field, value, lambda struct, inner=inner: self._theirs(struct, inner, version))
            elif cls.fields[self._name(field, cls)].type_str == "bitfield":
                value = Operations.theirs(value)
            given[self._name(field, cls)] = value
        return cls(version=version, **given)

    def _ours(self, theirs: Any, cls: type, version: int) -> Any:
        given = {}
        for field in present(cls, version):
            if field.tag is not None and field.name not in (theirs.tags or ()):
                continue
            value = getattr(theirs, self._name(field, type(theirs)))
            if isinstance(field.kind, type):
                value = _each(field, value, lambda struct, kind=field.kind: self._ours(struct, kind, version))
            elif type(theirs).fields[self._name(field, type(theirs))].type_str == "bitfield":
                value = Operations.ours(value)
            given[field.name] = NO_ID if value is None and field.kind is FieldType.UUID else value
        return cls(**given)


class KafkaPythonOld:
    """kafka-python's older messages: one class per version, with nested tuples of the values."""

    LEFT_OUT = {
        ("DescribeLogDirsRequest", 0),  # wrong: a topic has one partition, not an array of them
        ("CreatePartitionsRequest", 0),  # the same bytes, but as structs that are cut otherwise
        ("CreatePartitionsRequest", 1),
    }

    def knows(self, cls: type, version: int) -> bool:
        case = cls.__name__, version
        return case in self._classes() and case not in self.LEFT_OUT and not cls.versions.is_flexible(version)

    def encode(self, message: Any, version: int) -> bytes:
        schema = self._classes()[type(message).__name__, version].SCHEMA
        return bytes(schema.encode(self._theirs(message, version)))

    def decode(self, cls: type, version: int, encoded: bytes) -> Any:
        schema = self._classes()[cls.__name__, version].SCHEMA
        return self._ours(schema.decode(io.BytesIO(encoded)), cls, version)

    @staticmethod
    @cache
    def _classes() -> dict[tuple[str, int], Any]:
        found = {}
        for module in pkgutil.iter_modules(kafka.protocol.old.__path__):
            for name, cls in vars(importlib.import_module(f"kafka.protocol.old.{module.name}")).items():
                if versioned := re.fullmatch(r"(\w+(?:Request|Response))_v(\d+)", name):
                    found[versioned[1], int(versioned[2])] = cls
        return found

    def _theirs(self, message: Any, version: int) -> tuple[Any, ...]:
        values = []
        for field in present(type(message), version):
            value = getattr(message, field.name)
            if isinstance(field.kind, type):
                value = _each(field, value, lambda struct: self._inner(struct, version))
            elif field.name.endswith("authorized_operations") and not field.name.startswith("include"):
                value = Operations.theirs(value)
            values.append(value)
        return tuple(values)

    def _inner(self, struct: Any, version: int) -> Any:
        """A struct in an array; one of a single field goes without a tuple around it."""
        values = self._theirs(struct, version)
        return values if len(values) > 1 else values[0]

    def _ours(self, theirs: Any, cls: type, version: int) -> Any:
        fields = present(cls, version)
        values = {}
        for field, value in zip(fields, theirs if isinstance(theirs, tuple) else (theirs,), strict=True):
            if isinstance(field.kind, type):
                value = _each(field, value, lambda struct, kind=field.kind: self._ours(struct, kind, version))
            elif isinstance(value, set) or (value is None and field.name.endswith("authorized_operations")):
                value = Operations.ours(value)
            values[field.name] = value
        return cls(**values)


class Kio:
    """kio's messages: one class per version, its fields in order, with types of its own for some numbers."""

    SPAN = timedelta(milliseconds=1)

    def knows(self, cls: type, version: int) -> bool:
        return self._class(cls.__name__, version) is not None

    def encode(self, message: Any, version: int) -> bytes:
        cls = self._class(type(message).__name__, version)
        out = io.BytesIO()
        entity_writer(cls)(out, self._theirs(message, cls, version))
        return out.getvalue()

    def decode(self, cls: type, version: int, encoded: bytes) -> Any:
        theirs, size = entity_reader(self._class(cls.__name__, version))(encoded, 0)
        assert size == len(encoded)
        return self._ours(theirs, cls, version)

    @staticmethod
    @cache
    def _class(name: str, version: int) -> Any:
        api, side = re.fullmatch(r"(\w+)(Request|Response)", name).groups()
        api = re.sub(r"(?<!^)(?=[A-Z])", "_", api).lower()
        try:
            module = importlib.import_module(f"kio.schema.{api}.v{version}.{side.lower()}")
        except ModuleNotFoundError:
            return None
        return getattr(module, name)

    def _theirs(self, message: Any, cls: Any, version: int) -> Any:
        given = {}
        for field, theirs in zip(present(type(message), version), dataclass_fields(cls), strict=True):
            value = getattr(message, field.name)
            if isinstance(field.kind, type):
                inner = _struct_in(get_type_hints(cls)[theirs.name])
                value = _each(field, value, lambda struct, inner=inner: self._theirs(struct, inner, version))
            else:
                value = self._value(value, theirs.metadata.get("kafka_type"))
            given[theirs.name] = tuple(value) if field.is_array and value is not None else value
        return cls(**given)

    def _value(self, value: Any, kind: str | None) -> Any:
        if kind == "error_code":
            return kio.schema.errors.ErrorCode(value)
        if kind in ("timedelta_i32", "timedelta_i64"):
            return value * self.SPAN
        if kind == "datetime_i64":
            return None if value == -1 else datetime.fromtimestamp(value / 1000, tz=UTC)
        return value

    def _ours(self, theirs: Any, cls: type, version: int) -> Any:
        given = {}
        for field, their_field in zip(present(cls, version), dataclass_fields(theirs), strict=True):
            value = getattr(theirs, their_field.name)
            if isinstance(field.kind, type):
                value = _each(field, value, lambda struct, kind=field.kind: self._ours(struct, kind, version))
            elif not field.is_array or value is not None:
                value = self._plain(value, their_field.metadata.get("kafka_type"))
            given[field.name] = list(value) if field.is_array and value is not None else value
        return cls(**given)

    def _plain(self, value: Any, kind: str | None) -> Any:
        if kind == "uuid":
            return [each or NO_ID for each in value] if isinstance(value, tuple) else value or NO_ID
        if isinstance(value, timedelta):
            return value // self.SPAN
        if kind == "datetime_i64":
            return -1 if value is None else round(value.timestamp() * 1000)
        return value


def _struct_in(hint: Any) -> Any:
    """Return the class of a struct, also if the hint is of several of them, or of none."""
    found = [_struct_in(each) for each in get_args(hint)] if get_args(hint) else [hint if is_dataclass(hint) else None]
    return next((each for each in found if each is not None), None)


def _each(field: Field, value: Any, convert: Any) -> Any:
    """A struct, a list of structs or a null, converted."""
    if value is None:
        return None
    return [convert(struct) for struct in value] if field.is_array else convert(value)


PEERS: dict[str, Peer] = {"kafka-python": KafkaPython(), "kafka-python, old": KafkaPythonOld(), "kio": Kio()}
