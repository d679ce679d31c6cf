"""All subjects, as the records of `_schemas` make them.

Contents of the topic may be those of other registries, of any age, or anybody's: `apply` raises for no record. What it
does not understand stays in the topic, and is counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

import attrs

from pylogbroker.registry import records
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.guids import guid_of
from pylogbroker.registry.records import SchemaRecord
from pylogbroker.registry.subjects import context_of, settings_scopes
from pylogbroker.schemas.subjects import DEFAULT_CONTEXT, QualifiedSubject, prefix_of
from pylogbroker.schemas.values import Reference, Schema, Version, name_in, number_in

LATEST: Final = -1
DEFAULT_LEVEL: Final = "BACKWARD"
DEFAULT_MODE: Final = "READWRITE"
_LEVEL: Final = "compatibilityLevel"
_MODE: Final = "mode"
_MAGIC_NUMBERS: Final = (0, 1)

Settings = Mapping[str, Any]
"""Fields of a CONFIG record besides the subject."""


class NotUnderstood(ValueError):
    """A record of `_schemas` that this registry does not understand."""


@attrs.define(eq=False, repr=False)
class _Context:
    """Schemas of one context by their ids, and the versions that have them."""

    schemas: dict[int, Schema] = attrs.field(factory=dict, init=False)
    ids: dict[Schema, int] = attrs.field(factory=dict, init=False)
    """Ids also of schemas that were deleted for good: registered again, they have the same one."""
    versions: dict[int, dict[tuple[str, int], None]] = attrs.field(factory=dict, init=False)
    id_max: int = attrs.field(default=0, init=False)
    """Largest id that there ever was, so that none is given twice."""


@attrs.define(eq=False, repr=False)
class RegistryState:
    """Subjects with their versions, ids of schemas, levels and modes (of the default context: by None)."""

    settings: dict[str | None, Settings] = attrs.field(factory=dict)
    modes: dict[str | None, str] = attrs.field(factory=dict)
    _subjects: dict[str, dict[int, Version]] = attrs.field(factory=dict)
    _contexts: dict[str, _Context] = attrs.field(factory=dict)
    _declared_contexts: set[str] = attrs.field(factory=set)
    _guids: dict[UUID, Schema] = attrs.field(factory=dict)
    _referrers: dict[tuple[str, int], dict[tuple[str, int], None]] = attrs.field(factory=dict)
    _keys: dict[bytes, dict[bytes, None]] = attrs.field(factory=dict)
    """Keys of other registries by the key that this one writes, where they differ."""

    _names: dict[bool, list[str]] = attrs.field(factory=dict, init=False)
    """Subjects in order, without and with those that are soft-deleted, until a change."""

    # changes

    def apply(self, record: SchemaRecord) -> None:
        """Change the state by a record; raise NotUnderstood, and change nothing, for one of an unknown kind."""
        try:
            key = json.loads(record.key)
            value = None if record.value is None else json.loads(record.value)
            if not isinstance(key, dict) or not (value is None or isinstance(value, dict)):
                raise TypeError("it is no object")
            self._apply(record, key, value)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise NotUnderstood(f"{type(error).__name__}: {str(error)[:200]}") from error

    def _apply(self, record: SchemaRecord, key: Mapping[str, Any], value: dict[str, Any] | None) -> None:
        kind, subject = key.get("keytype"), key.get("subject")
        if not (subject is None or isinstance(subject, str)):
            raise TypeError("its subject is no text")
        if kind == records.SCHEMA:
            if key.get("magic") not in _MAGIC_NUMBERS:
                raise ValueError("its magic number is neither 0 nor 1")
            self._apply_version(record, name_in(key, "subject"), number_in(key, "version"), value)
        elif kind == records.DELETE_SUBJECT:
            if value is not None:
                self._delete_versions(name_in(key, "subject"), number_in(value, "version"))
        elif kind == records.CLEAR_SUBJECT:
            if value is not None:
                self._clear(subject)
        elif kind == records.CONFIG:
            self._learn_key(records.settings_record(subject, None).key, record)
            _set(self.settings, subject, None if value is None else _settings_of(value))
        elif kind == records.MODE:
            self._learn_key(records.mode_record(subject, None).key, record)
            _set(self.modes, subject, None if value is None else name_in(value, _MODE))
        elif kind == records.CONTEXT:
            context = name_in(key, "context")
            (self._declared_contexts.discard if value is None else self._declared_contexts.add)(context)
        elif kind != records.NOOP:
            raise ValueError(f"its keytype is {kind!r}")

    def _apply_version(self, record: SchemaRecord, subject: str, number: int, value: dict[str, Any] | None) -> None:
        before = self._subjects.get(subject, {}).get(number)
        if value is None:
            self._learn_key(_key(subject, number), record)
            self._remove(before)
            return
        schema = Schema.from_json(value)
        is_deleted, others = bool(value.get("deleted")), records.other_fields(value)
        version = Version(subject, number, number_in(value, "id"), schema, is_deleted, others)
        registered = self._context(context_of(subject)).schemas.get(version.id)
        if registered is not None and registered.text != schema.text and (before is None or before.id != version.id):
            raise ValueError(f"its id {version.id} is that of another schema")
        self._learn_key(_key(subject, number), record)
        self._remove(before)
        self._put(version)

    def _put(self, version: Version) -> None:
        place = (version.subject, version.version)
        self._names.clear()
        self._subjects.setdefault(version.subject, {})[version.version] = version
        context = self._context(context_of(version.subject))
        context.schemas[version.id] = version.schema
        context.ids.setdefault(version.schema, version.id)
        context.versions.setdefault(version.id, {})[place] = None
        self._guids.setdefault(guid_of(version.schema), version.schema)
        for reference in version.schema.references:
            self._referrers.setdefault(self.referred(version.subject, reference), {})[place] = None
        context.id_max = max(context.id_max, version.id)

    def _remove(self, version: Version | None) -> None:
        if version is None:
            return
        place = (version.subject, version.version)
        self._names.clear()
        versions = self._subjects[version.subject]
        del versions[version.version]
        if not versions:
            del self._subjects[version.subject]
        context = self._context(context_of(version.subject))
        context.versions[version.id].pop(place)
        for reference in version.schema.references:
            referred = self.referred(version.subject, reference)
            if (referrers := self._referrers.get(referred)) is not None:
                referrers.pop(place, None)
                if not referrers:
                    del self._referrers[referred]
        if not context.versions[version.id]:
            del context.versions[version.id], context.schemas[version.id]
            if not any(self._has_schema(name, version.schema) for name in self._contexts):
                self._guids.pop(guid_of(version.schema), None)

    def _has_schema(self, context: str, schema: Schema) -> bool:
        entry = self._contexts[context]
        return entry.ids.get(schema) in entry.schemas

    def _delete_versions(self, subject: str, last: int) -> None:
        self._names.clear()
        for version in self.versions(subject):
            if version.version <= last:
                deleted = attrs.evolve(version, is_deleted=True)
                self._subjects[subject][version.version] = deleted

    def _clear(self, subject: str | None) -> None:
        """Forget a subject, or all of a context."""
        scope = QualifiedSubject.parse(subject or "")
        if not scope.is_context:
            names = [str(scope)]
        else:
            names = [name for name in self._subjects if context_of(name) == scope.context]
        for name in names:
            for version in self.versions(name, deleted=True):
                self._remove(version)

    def _context(self, name: str) -> _Context:
        return self._contexts.setdefault(name, _Context())

    def _learn_key(self, own: bytes, record: SchemaRecord) -> None:
        if record.key != own and record.value is not None:
            self._keys.setdefault(own, {})[record.key] = None
        elif record.key != own and own in self._keys:
            self._keys[own].pop(record.key, None)
            if not self._keys[own]:
                del self._keys[own]

    def with_other_keys(self, record: SchemaRecord) -> list[SchemaRecord]:
        """Return the records that delete a key in each form that the topic has; else the record itself.

        Compaction knows keys by their bytes, and registries write members in different orders: the record of another
        registry would be there again once the deletion is compacted away.
        """
        if record.value is not None:
            return [record]
        return [record, *(SchemaRecord(key, None) for key in self._keys.get(record.key, ()))]

    # questions

    def id_max(self, subject: str) -> int:
        """Return the largest id of the context of a subject."""
        return self._context(context_of(subject)).id_max

    @property
    def contexts(self) -> list[str]:
        """Contexts that have subjects, or were declared; the default one is always there."""
        with_schemas = {name for name, context in self._contexts.items() if context.schemas}
        return sorted(with_schemas | self._declared_contexts | {DEFAULT_CONTEXT})

    @property
    def declared_contexts(self) -> frozenset[str]:
        return frozenset(self._declared_contexts)

    def id_of(self, subject: str, schema: Schema) -> int | None:
        """Return the id of a schema in the context of a subject."""
        return self._context(context_of(subject)).ids.get(schema)

    def registered(self, subject: str, schema_id: int) -> Schema | None:
        """Return the schema that has an id in the context of a subject."""
        return self._context(context_of(subject)).schemas.get(schema_id)

    def find_id(self, schema_id: int, subject: str | None) -> str:
        """Return the context in which an id is looked up; raise RegistryError.

        A subject with a context names it. One without is looked for in all contexts; without any subject, and if no
        subject matches, the id is that of the default context, or else of any other.
        """
        place = QualifiedSubject.parse(subject or "")
        others = [name for name in self.contexts if name != DEFAULT_CONTEXT]
        contexts = [place.context] if place.context != DEFAULT_CONTEXT else [DEFAULT_CONTEXT, *others]
        holders = [name for name in contexts if schema_id in self._context(name).schemas]
        if not holders:
            raise RegistryError.no_schema(schema_id)
        if place.name:
            for name in holders:
                users = self._context(name).versions[schema_id]
                if any(QualifiedSubject.parse(user).name == place.name for user, _ in users):
                    return name
        return holders[0]

    def schema(self, schema_id: int, subject: str | None = None) -> Schema:
        """Return a schema by its id, also of a soft-deleted version; raise RegistryError."""
        return self._context(self.find_id(schema_id, subject)).schemas[schema_id]

    def versions_of_id(self, schema_id: int, subject: str | None, *, deleted: bool) -> list[Version]:
        """Return the versions that have an id; raise RegistryError."""
        context = self._context(self.find_id(schema_id, subject))
        versions = [self._subjects[name][number] for name, number in sorted(context.versions[schema_id])]
        return [version for version in versions if deleted or not version.is_deleted]

    def by_guid(self, guid: UUID) -> Schema:
        """Return a schema by its GUID; raise RegistryError."""
        schema = self._guids.get(guid)
        if schema is None:
            raise RegistryError.no_schema(guid)
        return schema

    def ids_of_guid(self, guid: UUID) -> list[tuple[str, int]]:
        """Return contexts and ids of a schema; raise RegistryError."""
        schema = self.by_guid(guid)
        holders = [name for name in self._contexts if self._has_schema(name, schema)]
        return sorted((name, self._contexts[name].ids[schema]) for name in holders)

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """Return the subjects in order, with `deleted` also those that are only soft-deleted."""
        if deleted not in self._names:
            self._names[deleted] = sorted(name for name in self._subjects if self.has_subject(name, deleted=deleted))
        return list(self._names[deleted])

    def has_subject(self, subject: str, *, deleted: bool = False) -> bool:
        return any(deleted or not version.is_deleted for version in self._subjects.get(subject, {}).values())

    def subjects_in(self, scope: str | None, *, deleted: bool = False) -> list[str]:
        """Return a subject, or all of a context, if there are any; None stands for the default context."""
        place = QualifiedSubject.parse(scope or "")
        if not place.is_context:
            return [str(place)] if self.has_subject(str(place), deleted=deleted) else []
        return [name for name in self.subjects(deleted=deleted) if context_of(name) == place.context]

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
        for version in versions:
            if version.version == number:
                return version
        raise RegistryError.no_version(number)

    def version_in_any_context(self, subject: str, number: int, *, deleted: bool = False) -> Version:
        """Return a version, or the latest; a subject that names no context may be in any. Raise RegistryError."""
        place = QualifiedSubject.parse(subject)
        try:
            return self.version(subject, number, deleted=deleted)
        except RegistryError:
            if place.context != DEFAULT_CONTEXT:
                raise
            for context in self.contexts:
                with suppress(RegistryError):
                    return self.version(prefix_of(context) + place.name, number, deleted=deleted)
            raise

    def settings_of(self, subject: str | None) -> Settings:
        """Return the settings that hold for a subject: its own before those of its context, before the global ones."""
        scopes = settings_scopes(subject)
        own = self.settings.get(subject)
        nearest = next((self.settings[scope] for scope in scopes if scope in self.settings), {})
        merged = {**self.settings.get(None, {}), **own} if own is not None else dict(nearest)
        return {_LEVEL: DEFAULT_LEVEL, **merged}

    def level(self, subject: str) -> str:
        return str(self.settings_of(subject)[_LEVEL])

    def default_level(self, subject: str) -> str:
        """Return the level that a subject has without one of its own."""
        scopes = settings_scopes(subject)[1:]
        levels = (self.settings[scope].get(_LEVEL) for scope in scopes if scope in self.settings)
        return str(next(filter(None, levels), DEFAULT_LEVEL))

    def mode(self, subject: str | None) -> str:
        return next((self.modes[scope] for scope in settings_scopes(subject) if scope in self.modes), DEFAULT_MODE)

    @staticmethod
    def referred(subject: str, reference: Reference) -> tuple[str, int]:
        """Return the subject and version that a reference of a subject's schema names."""
        if reference.subject.startswith(":."):
            return reference.subject, reference.version
        return prefix_of(context_of(subject)) + reference.subject, reference.version

    def referrers(self, version: Version, *, deleted: bool = False) -> list[Version]:
        """Return the versions that refer to a version."""
        places: Sequence[tuple[str, int]] = sorted(self._referrers.get((version.subject, version.version), ()))
        referrers = [self._subjects[subject][number] for subject, number in places]
        return [referrer for referrer in referrers if deleted or not referrer.is_deleted]


def _key(subject: str, number: int) -> bytes:
    return records.version_tombstone(Version(subject, number, 0, Schema(""))).key


def _settings_of(value: Mapping[str, Any]) -> Settings:
    """Return the settings of a CONFIG record; raise TypeError for a level that is no text."""
    settings = {name: member for name, member in value.items() if name != "subject" and member is not None}
    if not isinstance(settings.get(_LEVEL, ""), str):
        raise TypeError("its level of compatibility is no text")
    return settings


def _set(table: dict[str | None, Any], subject: str | None, value: Any) -> None:
    if value is None:
        table.pop(subject, None)
    else:
        table[subject] = value
