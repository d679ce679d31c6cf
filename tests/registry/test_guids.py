"""GUIDs: the MD5 of what Confluent's registry hashes, in its order."""

from __future__ import annotations

from hashlib import md5
from uuid import UUID

from pylogbroker.registry.guids import guid_of
from pylogbroker.schemas.values import Reference, Schema


def test_text_alone() -> None:
    assert guid_of(Schema('"string"')) == UUID(bytes=md5(b'"string"').digest())


def test_references_metadata_and_rules() -> None:
    schema = Schema.from_json(
        {
            "schema": "{}",
            "references": [{"name": "n", "subject": "s", "version": 3}],
            "metadata": {"properties": {"b": "2", "a": "1"}, "tags": {"p": ["y", "x"]}, "sensitive": ["b"]},
            "ruleSet": {"domainRules": [{"name": "r", "kind": "CONDITION", "type": "CEL", "disabled": True}]},
        }
    )
    assert schema.references == (Reference("n", "s", 3),)
    content = b"{}" + b"ns" + b"\0\0\0\3" + b"\1" + b"pxy" + b"a1b2" + b"b" + b"\1" + b"rCONDITIONCEL\1"
    assert guid_of(schema) == UUID(bytes=md5(content).digest())
