"""Records of `_schemas`, in the layout of Confluent's registry: keys and values are JSON.

    SCHEMA          a version of a subject; a record without value deletes it for good
    DELETE_SUBJECT  soft-deletes the versions of a subject up to a number
    CLEAR_SUBJECT   before a subject is imported: all its versions are gone
    CONFIG, MODE    the level of compatibility and the mode, of a subject, a context, or, with null, of the default one
    CONTEXT         a context that has subjects
    NOOP            nothing; Confluent's registry writes it to learn the log's end

Confluent's registry rejects other kinds, and so this one writes none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from pylogbroker.registry.subjects import context_of
from pylogbroker.schemas.values import Version

TOPIC: Final = "_schemas"
SCHEMA: Final = "SCHEMA"
DELETE_SUBJECT: Final = "DELETE_SUBJECT"
CLEAR_SUBJECT: Final = "CLEAR_SUBJECT"
CONFIG: Final = "CONFIG"
MODE: Final = "MODE"
CONTEXT: Final = "CONTEXT"
NOOP: Final = "NOOP"
TENANT: Final = "default"
_FIELDS: Final = frozenset(
    ("subject", "version", "id", "schema", "schemaType", "references", "metadata", "ruleSet", "deleted")
)
"""Fields of a version that this registry understands."""


@attrs.frozen
class SchemaRecord:
    key: bytes
    value: bytes | None


def version_record(version: Version) -> SchemaRecord:
    others = json.loads(version.other_fields) if version.other_fields else {}
    return SchemaRecord(_version_key(version), _bytes({**others, **version.as_json(), "deleted": version.is_deleted}))


def other_fields(value: Mapping[str, Any]) -> str:
    """Return the fields of a version that this registry does not understand, as JSON; they are written again."""
    others = {name: field for name, field in value.items() if name not in _FIELDS}
    return json.dumps(others, separators=(",", ":")) if others else ""


def version_tombstone(version: Version) -> SchemaRecord:
    return SchemaRecord(_version_key(version), None)


def subject_deletion(subject: str, last_version: int) -> SchemaRecord:
    key = {"keytype": DELETE_SUBJECT, "subject": subject, "magic": 0}
    return SchemaRecord(_bytes(key), _bytes({"subject": subject, "version": last_version}))


def subject_clearing(subject: str | None) -> SchemaRecord:
    key = _of_subject({"keytype": CLEAR_SUBJECT}, subject, {"magic": 0})
    return SchemaRecord(_bytes(key), _bytes(_of_subject({}, subject, {})))


def context_record(subject: str) -> SchemaRecord:
    names = {"tenant": TENANT, "context": context_of(subject)}
    return SchemaRecord(_bytes({"keytype": CONTEXT, **names, "magic": 0}), _bytes(names))


def context_tombstone(context: str) -> SchemaRecord:
    return SchemaRecord(_bytes({"keytype": CONTEXT, "tenant": TENANT, "context": context, "magic": 0}), None)


def settings_record(subject: str | None, settings: Mapping[str, Any] | None) -> SchemaRecord:
    return _setting(CONFIG, subject, settings)


def mode_record(subject: str | None, mode: str | None) -> SchemaRecord:
    return _setting(MODE, subject, None if mode is None else {"mode": mode})


def _setting(kind: str, subject: str | None, value: Mapping[str, Any] | None) -> SchemaRecord:
    key = _bytes({"keytype": kind, "subject": subject, "magic": 0})
    return SchemaRecord(key, None if value is None else _bytes({"subject": subject, **value}))


def _version_key(version: Version) -> bytes:
    return _bytes({"keytype": SCHEMA, "subject": version.subject, "version": version.version, "magic": 1})


def _of_subject(before: dict[str, Any], subject: str | None, after: dict[str, Any]) -> dict[str, Any]:
    """Return members around the subject, which Confluent's registry leaves out if there is none."""
    return before | ({} if subject is None else {"subject": subject}) | after


def _bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
