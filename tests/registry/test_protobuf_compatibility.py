"""Changes of Protobuf schemas: which are accepted, and why others are not."""

from __future__ import annotations

import pytest

from pylogbroker.registry.protobuf_compatibility import ProtobufTypes, problems
from pylogbroker.schemas.protobuf_codec import files_of


def types(
    body: str, references: dict[str, str] | None = None, syntax: str = "proto3", package: str = "p"
) -> ProtobufTypes:
    return ProtobufTypes.of(files_of(f'syntax = "{syntax}"; package {package}; {body}', references or {}))


ACCEPTED = {
    "message added": ("message A {}", "message A {} message B {}"),
    "messages in another order": ("message A {} message B {}", "message B {} message A {}"),
    "field added": ("message A {}", "message A { int32 a = 1; }"),
    "field removed": ("message A { int32 a = 1; }", "message A {}"),
    "field renamed": ("message A { int32 a = 1; }", "message A { int32 b = 1; }"),
    "enum removed": ("message A {} enum E { X = 0; }", "message A {}"),
    "value of an enum renamed": ("enum E { X = 0; }", "enum E { Y = 0; }"),
    "int32 to int64": ("message A { int32 a = 1; }", "message A { int64 a = 1; }"),
    "enum to int32": ("enum E { X = 0; } message A { E a = 1; }", "message A { int32 a = 1; }"),
    "string to bytes": ("message A { string a = 1; }", "message A { bytes a = 1; }"),
    "string repeated": ("message A { optional string a = 1; }", "message A { repeated string a = 1; }"),
    "field of a new oneof": ("message A { int32 a = 1; }", "message A { oneof o { int32 a = 1; string b = 2; } }"),
    "oneof removed": ("message A { oneof o { int32 a = 1; string b = 2; } }", "message A {}"),
    "member left its oneof": (
        "message A { oneof o { int32 a = 1; string b = 2; } }",
        "message A { int32 a = 1; oneof o { string b = 2; } }",
    ),
    "map of the same types": ("message A { map<string, int32> m = 1; }", "message A { map<string, int64> m = 1; }"),
    "message that contains itself": ("message A { A a = 1; }", "message A { A a = 1; int32 b = 2; }"),
}
REJECTED = {
    "message removed": ("message A {} message B {}", "message A {}", "MESSAGE_REMOVED at #/B"),
    "nested message removed": ("message A { message B {} }", "message A {}", "MESSAGE_REMOVED at #/A/B"),
    "int32 to string": (
        "message A { int32 a = 1; }",
        "message A { string a = 1; }",
        "FIELD_SCALAR_KIND_CHANGED at #/A/1: from number to string or bytes",
    ),
    "int32 to sint32": (
        "message A { int32 a = 1; }",
        "message A { sint32 a = 1; }",
        "FIELD_SCALAR_KIND_CHANGED at #/A/1: from number to signed number",
    ),
    "number repeated": (
        "message A { optional int32 a = 1; }",
        "message A { repeated int32 a = 1; }",
        "FIELD_NUMERIC_LABEL_CHANGED at #/A/1: a",
    ),
    "scalar to message": (
        "message A { int32 a = 1; } message B {}",
        "message A { B a = 1; } message B {}",
        "FIELD_KIND_CHANGED at #/A/1: from scalar to message",
    ),
    "another message": (
        "message A { B a = 1; } message B {} message C {}",
        "message A { C a = 1; } message B {} message C {}",
        "FIELD_NAMED_TYPE_CHANGED at #/A/1: from p.B to p.C",
    ),
    "map of another type": (
        "message A { map<string, int32> m = 1; }",
        "message A { map<string, string> m = 1; }",
        "FIELD_SCALAR_KIND_CHANGED at #/A/1/value: from number to string or bytes",
    ),
    "member of a oneof removed": (
        "message A { oneof o { int32 a = 1; string b = 2; } }",
        "message A { oneof o { int32 a = 1; } }",
        "ONEOF_FIELD_REMOVED at #/A/2: b of o",
    ),
    "field into a oneof that exists": (
        "message A { int32 a = 1; oneof o { string b = 2; } }",
        "message A { oneof o { int32 a = 1; string b = 2; } }",
        "FIELD_MOVED_TO_EXISTING_ONEOF at #/A/o",
    ),
    "fields into a new oneof": (
        "message A { int32 a = 1; string b = 2; }",
        "message A { oneof o { int32 a = 1; string b = 2; } }",
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF at #/A/o",
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_changes(name: str) -> None:
    old, new = ACCEPTED[name]
    assert problems(types(old), types(new)) == []


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_changes(name: str) -> None:
    old, new, reason = REJECTED[name]
    assert problems(types(old), types(new)) == [reason]


def test_required_fields_stay() -> None:
    old = types("message A { required int32 a = 1; }", syntax="proto2")
    new = types("message A { required int32 b = 2; }", syntax="proto2")
    assert problems(old, new) == ["REQUIRED_FIELD_REMOVED at #/A/1: a", "REQUIRED_FIELD_ADDED at #/A/2: b"]


def test_another_package_is_rejected() -> None:
    assert problems(types("message A {}"), types("message A {}", package="q")) == ["PACKAGE_CHANGED at /: from p to q"]


def test_messages_of_imports_are_compared() -> None:
    body = 'import "other.proto"; message A { q.B b = 1; }'
    one, same, other = (
        {"other.proto": f'syntax = "proto3"; package q; message B {{ {field} a = 1; }}'}
        for field in ("int32", "int64", "string")
    )
    assert problems(types(body, one), types(body, same)) == []
    assert problems(types(body, one), types(body, other)) == [
        "FIELD_SCALAR_KIND_CHANGED at #/A/1/B/1: from number to string or bytes",
        "FIELD_NAMED_TYPE_CHANGED at #/A/1: q.B",
    ]
