"""All subjects, as the records of `_schemas` make them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import attrs

from pylogbroker.registry import records
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.records import SchemaRecord
from pylogbroker.schemas.values import Schema, Version

LATEST: Final = -1
DEFAULT_LEVEL: Final = "BACKWARD"
DEFAULT_MODE: Final = "READWRITE"


@attrs.define(eq=False, repr=False)
class RegistryState:
    """Subjects with their versions, ids of schemas, levels and modes (of all: by None)."""

    levels: dict[str | None, str] = attrs.field(factory=dict)
    modes: dict[str | None, str] = attrs.field(factory=dict)
    _subjects: dict[str, dict[int, Version]] = attrs.field(factory=dict)
    _schemas: dict[int, Schema] = attrs.field(factory=dict)
    _ids: dict[Schema, int] = attrs.field(factory=dict)
    _id_max: int = 0

    # changes

    def apply(self, record: SchemaRecord) -> None:
        """Change the state by a record; other kinds than this registry's are skipped."""
        key = json.loads(record.key)
        value = None if record.value is None else json.loads(record.value)
        kind, subject = key.get("keytype"), key.get("subject")
        if kind == records.SCHEMA:
            self._apply_version(subject, key["version"], value)
        elif kind == records.DELETE_SUBJECT and value is not None:
            for version in self.versions(subject):
                if version.version <= value["version"]:
                    self._put(attrs.evolve(version, is_deleted=True))
        elif kind == records.CONFIG:
            _set(self.levels, subject, None if value is None else value["compatibilityLevel"])
        elif kind == records.MODE:
            _set(self.modes, subject, None if value is None else value["mode"])

    def _apply_version(self, subject: str, number: int, value: dict[str, Any] | None) -> None:
        if value is not None:
            is_deleted = bool(value.get("deleted"))
            self._put(Version(subject, number, value["id"], Schema.from_json(value), is_deleted))
            return
        versions = self._subjects.get(subject, {})
        gone = versions.pop(number, None)
        if not versions:
            self._subjects.pop(subject, None)
        if gone is not None and not any(version.id == gone.id for version in self.all_versions(deleted=True)):
            self._ids.pop(self._schemas.pop(gone.id), None)

    def _put(self, version: Version) -> None:
        self._subjects.setdefault(version.subject, {})[version.version] = version
        self._schemas[version.id] = version.schema
        self._ids.setdefault(version.schema, version.id)
        self._id_max = max(self._id_max, version.id)

    # questions

    @property
    def id_max(self) -> int:
        return self._id_max

    def id_of(self, schema: Schema) -> int | None:
        return self._ids.get(schema)

    def schema(self, schema_id: int) -> Schema:
        """Return a schema by its id, also of a soft-deleted version; raise RegistryError."""
        registered = self._schemas.get(schema_id)
        if registered is None:
            raise RegistryError.no_schema(schema_id)
        return registered

    def subjects(self, *, deleted: bool = False) -> list[str]:
        return sorted(name for name in self._subjects if self.versions(name, deleted=deleted))

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Return the versions of a subject from the oldest, none if there is no such subject."""
        in_order = sorted(self._subjects.get(subject, {}).values(), key=lambda version: version.version)
        return [version for version in in_order if deleted or not version.is_deleted]

    def all_versions(self, *, deleted: bool = False) -> Iterator[Version]:
        for subject in sorted(self._subjects):
            yield from self.versions(subject, deleted=deleted)

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version:
        """Return a version, or the latest; raise RegistryError."""
        versions = self.versions(subject, deleted=deleted)
        if not versions:
            raise RegistryError.no_subject(subject)
        if number == LATEST:
            return versions[-1]
        for candidate in versions:
            if candidate.version == number:
                return candidate
        raise RegistryError.no_version(number)

    def level(self, subject: str) -> str:
        return self.levels.get(subject) or self.levels.get(None, DEFAULT_LEVEL)

    def mode(self, subject: str) -> str:
        return self.modes.get(subject) or self.modes.get(None, DEFAULT_MODE)

    def referrers(self, subject: str, version: int) -> list[Version]:
        """Return the versions that refer to this one."""
        return [
            referrer
            for referrer in self.all_versions()
            if any((used.subject, used.version) == (subject, version) for used in referrer.schema.references)
        ]


def _set(table: dict[str | None, str], subject: str | None, value: str | None) -> None:
    if value is None:
        table.pop(subject, None)
    else:
        table[subject] = value
