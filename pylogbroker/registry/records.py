"""Records of `_schemas`, in the layout of Confluent's registry: keys and values are JSON.

SCHEMA is a version of a subject, which a record without value deletes for good. DELETE_SUBJECT soft-deletes versions
up to a number. CONFIG and MODE have the compatibility level and the mode of a subject, or with null of all.
"""

from __future__ import annotations

import json
from typing import Any, Final

import attrs

from pylogbroker.schemas.values import Version

TOPIC: Final = "_schemas"
SCHEMA: Final = "SCHEMA"
DELETE_SUBJECT: Final = "DELETE_SUBJECT"
CONFIG: Final = "CONFIG"
MODE: Final = "MODE"


@attrs.frozen
class SchemaRecord:
    key: bytes
    value: bytes | None


def version_record(version: Version) -> SchemaRecord:
    return SchemaRecord(_version_key(version), _bytes({**version.as_json(), "deleted": version.is_deleted}))


def version_tombstone(version: Version) -> SchemaRecord:
    return SchemaRecord(_version_key(version), None)


def subject_deletion(subject: str, last_version: int) -> SchemaRecord:
    key = {"keytype": DELETE_SUBJECT, "subject": subject, "magic": 0}
    return SchemaRecord(_bytes(key), _bytes({"subject": subject, "version": last_version}))


def level_record(subject: str | None, level: str | None) -> SchemaRecord:
    value = None if level is None else {"subject": subject, "compatibilityLevel": level}
    return _setting(CONFIG, subject, value)


def mode_record(subject: str | None, mode: str | None) -> SchemaRecord:
    return _setting(MODE, subject, None if mode is None else {"subject": subject, "mode": mode})


def _setting(kind: str, subject: str | None, value: dict[str, Any] | None) -> SchemaRecord:
    key = _bytes({"keytype": kind, "subject": subject, "magic": 0})
    return SchemaRecord(key, None if value is None else _bytes(value))


def _version_key(version: Version) -> bytes:
    return _bytes({"keytype": SCHEMA, "subject": version.subject, "version": version.version, "magic": 1})


def _bytes(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
