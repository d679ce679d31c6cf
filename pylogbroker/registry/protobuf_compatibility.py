"""Differences of Protobuf schemas, and which of them Confluent's registry accepts.

Fields are compared by their numbers, messages and enums by their names. Each side must read what the other has written.
So fields, messages and values of enums may come and go, and a number may become another one of the same encoding.

| change | accepted |
|---|---|
| message or enum added, enum removed, messages in another order | yes |
| message removed, package changed | no |
| field added or removed, renamed | yes, unless it is `required` |
| type of a field changed | within int32, int64, uint32, uint64, bool and enums; within sint; string and bytes; fixed |
| field of a number has become repeated, optional or required | no; of strings and bytes yes |
| field has become a member of a oneof that exists, several fields members of a new one | no |
| member of a oneof removed while others stay | no |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

_FIELD: Final = FieldDescriptorProto
_NUMBER_KINDS: Final = {
    **dict.fromkeys(
        (
            *(_FIELD.TYPE_INT32, _FIELD.TYPE_INT64, _FIELD.TYPE_UINT32, _FIELD.TYPE_UINT64),
            *(_FIELD.TYPE_BOOL, _FIELD.TYPE_ENUM),
        ),
        "number",
    ),
    **dict.fromkeys((_FIELD.TYPE_SINT32, _FIELD.TYPE_SINT64), "signed number"),
    **dict.fromkeys((_FIELD.TYPE_FIXED32, _FIELD.TYPE_SFIXED32), "number of 4 bytes"),
    **dict.fromkeys((_FIELD.TYPE_FIXED64, _FIELD.TYPE_SFIXED64), "number of 8 bytes"),
    _FIELD.TYPE_FLOAT: "float",
    _FIELD.TYPE_DOUBLE: "double",
}
_TEXT: Final = "string or bytes"
_KINDS: Final = {**_NUMBER_KINDS, **dict.fromkeys((_FIELD.TYPE_STRING, _FIELD.TYPE_BYTES), _TEXT)}
_MESSAGES: Final = (_FIELD.TYPE_MESSAGE, _FIELD.TYPE_GROUP)


@attrs.frozen
class _Type:
    """A message or an enum, with the file that declares it."""

    declaration: Any
    file: FileDescriptorProto

    def local_name(self, full_name: str) -> str:
        return full_name.removeprefix(".").removeprefix(f"{self.file.package}.")


@attrs.define(eq=False, repr=False)
class ProtobufTypes:
    """Types of a schema and of what it imports, by their full names."""

    main: FileDescriptorProto
    _types: dict[str, _Type] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, files: Sequence[FileDescriptorProto]) -> ProtobufTypes:
        """Return the types of files, the last of which is the schema."""
        types = cls(files[-1])
        for file in files:
            prefix = f".{file.package}" if file.package else ""
            types._collect(file, file.message_type, file.enum_type, prefix)
        return types

    def _collect(self, file: FileDescriptorProto, messages: Any, enums: Any, prefix: str) -> None:
        for enum in enums:
            self._types[f"{prefix}.{enum.name}"] = _Type(enum, file)
        for message in messages:
            name = f"{prefix}.{message.name}"
            self._types[name] = _Type(message, file)
            self._collect(file, message.nested_type, message.enum_type, name)

    def find(self, full_name: str) -> _Type | None:
        return self._types.get(full_name)

    def map_entry(self, field: FieldDescriptorProto) -> Any:
        """Return the message of a map's entries, None for a field that is no map."""
        if field.type not in _MESSAGES:
            return None
        entry = self.find(field.type_name)
        return entry.declaration if entry is not None and entry.declaration.options.map_entry else None


def problems(old: ProtobufTypes, new: ProtobufTypes) -> list[str]:
    """Return why a new schema may not follow an old one."""
    return list(_Comparison(old, new).files())


@attrs.define(eq=False, repr=False)
class _Comparison:
    _old: ProtobufTypes
    _new: ProtobufTypes
    _running: set[tuple[str, str]] = attrs.field(factory=set, init=False)

    def files(self) -> Iterator[str]:
        old, new = self._old.main, self._new.main
        if old.package != new.package:
            yield f"PACKAGE_CHANGED at /: from {old.package or 'none'} to {new.package or 'none'}"
        yield from self._types(old.message_type, new.message_type, "#/")

    def _types(self, old: Any, new: Any, path: str) -> Iterator[str]:
        old_messages, new_messages = _by_name(old), _by_name(new)
        for name, message in old_messages.items():
            if message.options.map_entry:  # compared where its field is
                continue
            if name in new_messages:
                yield from self._message(message, new_messages[name], f"{path}{name}/")
            else:
                yield f"MESSAGE_REMOVED at {path}{name}"

    def _message(self, old: DescriptorProto, new: DescriptorProto, path: str) -> Iterator[str]:
        before, after = _Fields.of(old), _Fields.of(new)
        yield from _new_oneofs(before, after, path)
        for number in sorted(before.by_number.keys() | after.by_number.keys()):
            yield from self._field(before, after, number, f"{path}{number}")
        yield from self._types(old.nested_type, new.nested_type, path)

    def _field(self, before: _Fields, after: _Fields, number: int, path: str) -> Iterator[str]:
        old, new = before.by_number.get(number), after.by_number.get(number)
        if old is None:
            if new is not None and number not in after.oneof_of and new.label == _FIELD.LABEL_REQUIRED:
                yield f"REQUIRED_FIELD_ADDED at {path}: {new.name}"
        elif new is None:
            oneof = before.oneof_of.get(number)
            if oneof is None:
                if old.label == _FIELD.LABEL_REQUIRED:
                    yield f"REQUIRED_FIELD_REMOVED at {path}: {old.name}"
            elif oneof in after.oneofs or any(member in after.by_number for member in before.members(oneof)):
                yield f"ONEOF_FIELD_REMOVED at {path}: {old.name} of {oneof}"
        else:
            yield from self._contents(old, new, path, are_labels_compared=True)

    def _contents(
        self, old: FieldDescriptorProto, new: FieldDescriptorProto, path: str, *, are_labels_compared: bool
    ) -> Iterator[str]:
        old_entry, new_entry = self._old.map_entry(old), self._new.map_entry(new)
        forms = _form(old, old_entry), _form(new, new_entry)
        if forms[0] != forms[1]:
            yield f"FIELD_KIND_CHANGED at {path}: from {forms[0]} to {forms[1]}"
        elif old_entry is not None and new_entry is not None:
            for old_part, new_part in zip(old_entry.field, new_entry.field, strict=True):
                yield from self._contents(old_part, new_part, f"{path}/{old_part.name}", are_labels_compared=False)
        elif forms[0] == "message":
            yield from self._named(old.type_name, new.type_name, path)
        elif _KINDS[old.type] != _KINDS[new.type]:
            yield f"FIELD_SCALAR_KIND_CHANGED at {path}: from {_KINDS[old.type]} to {_KINDS[new.type]}"
        elif are_labels_compared and old.type in _NUMBER_KINDS:
            labels = _label(old, self._old), _label(new, self._new)
            if None not in labels and labels[0] != labels[1]:
                yield f"FIELD_NUMERIC_LABEL_CHANGED at {path}: {old.name}"

    def _named(self, old_name: str, new_name: str, path: str) -> Iterator[str]:
        old, new = self._old.find(old_name), self._new.find(new_name)
        if old is None or new is None:  # one of Protobuf's own types
            if old_name != new_name:
                yield f"FIELD_NAMED_TYPE_CHANGED at {path}: from {old_name[1:]} to {new_name[1:]}"
            return
        if old.local_name(old_name) != new.local_name(new_name):
            yield f"FIELD_NAMED_TYPE_CHANGED at {path}: from {old_name[1:]} to {new_name[1:]}"
            return
        is_compared_elsewhere = old.file is self._old.main and new.file is self._new.main
        pair = (old_name, new_name)
        if is_compared_elsewhere or pair in self._running:
            return
        self._running.add(pair)
        reasons = list(self._message(old.declaration, new.declaration, f"{path}/{new.declaration.name}/"))
        yield from reasons
        if reasons:
            yield f"FIELD_NAMED_TYPE_CHANGED at {path}: {new_name[1:]}"


@attrs.frozen(eq=False, repr=False)
class _Fields:
    """Fields of a message by their numbers, and the oneofs that they are members of."""

    by_number: Mapping[int, FieldDescriptorProto]
    oneof_of: Mapping[int, str]
    oneofs: frozenset[str]

    @classmethod
    def of(cls, message: DescriptorProto) -> _Fields:
        names = [oneof.name for oneof in message.oneof_decl]
        members = {
            field.number: names[field.oneof_index]
            for field in message.field
            if field.HasField("oneof_index") and not field.proto3_optional
        }
        return cls({field.number: field for field in message.field}, members, frozenset(members.values()))

    def members(self, oneof: str) -> list[int]:
        return [number for number, name in self.oneof_of.items() if name == oneof]


def _new_oneofs(before: _Fields, after: _Fields, path: str) -> Iterator[str]:
    """Yield oneofs that make fields exclude each other that could be set together before."""
    for oneof in sorted(after.oneofs):
        members = [number for number in after.members(oneof) if number in before.by_number]
        moved = [number for number in members if number not in before.oneof_of]
        groups = {before.oneof_of.get(number, number) for number in members}
        if len(groups) > 1:
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if len(moved) > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            yield f"{kind} at {path}{oneof}"


def _by_name(messages: Any) -> dict[str, Any]:
    return {message.name: message for message in messages}


def _form(field: FieldDescriptorProto, entry: DescriptorProto | EnumDescriptorProto | None) -> str:
    if entry is not None:
        return "map"
    return "message" if field.type in _MESSAGES else "scalar"


def _label(field: FieldDescriptorProto, types: ProtobufTypes) -> int | None:
    """Return a label as it is written, None where proto3 has none."""
    if field.label == _FIELD.LABEL_OPTIONAL and types.main.syntax == "proto3" and not field.proto3_optional:
        return None
    return int(field.label)
