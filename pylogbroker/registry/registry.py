"""Requests to the registry, without HTTP: each returns what is answered as JSON, or raises RegistryError."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from pylogbroker.registry import records
from pylogbroker.registry.avro import AvroSchema
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.json_schema import JsonSchema
from pylogbroker.registry.levels import LEVELS, Comparable, problems
from pylogbroker.registry.records import SchemaRecord
from pylogbroker.registry.state import DEFAULT_LEVEL, DEFAULT_MODE, RegistryState
from pylogbroker.schemas.values import AVRO, JSON, TYPES, Schema, Version

Append = Callable[[Sequence[SchemaRecord]], Awaitable[None]]

_MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
_READ_ONLY: Final = ("READONLY", "READONLY_OVERRIDE")
_DATA_CONTRACTS: Final = ("metadata", "ruleSet")


@attrs.frozen(eq=False, repr=False)
class ProtobufSchema:
    """A Protobuf schema, as text that nothing parses: another text is incompatible."""

    text: str

    def problems(self, writer: ProtobufSchema) -> list[str]:
        return [] if self.text == writer.text else ["PROTOBUF_CHANGED: only the same text is accepted as compatible"]


@attrs.define(eq=False, repr=False)
class SchemaRegistry:
    """Changes are appended to the log, and take effect once they are there. Run one request after the other."""

    state: RegistryState
    _append: Append

    # versions of subjects

    async def register(self, subject: str, body: Mapping[str, Any], *, normalize: bool = False) -> dict[str, Any]:
        """Register a schema in the newest version of a subject, unless the subject has it; return its id."""
        schema, parsed = self._parse(body, normalize)
        self._check_writable(subject)
        existing = self._find(subject, schema)
        if existing is not None:
            return {"id": existing.id}
        versions = self.state.versions(subject, deleted=True)
        version = versions[-1].version + 1 if versions else 1
        is_import = self.state.mode(subject) == "IMPORT"
        wanted_id = _positive(body, "id")
        if wanted_id is not None and not is_import:
            raise RegistryError.not_permitted(f"Subject {subject} is not in import mode")
        if is_import:
            version = _positive(body, "version") or version
        else:
            level = self.state.level(subject)
            self._check_compatible(subject, problems(level, parsed, self._parsed(self.state.versions(subject))))
        schema_id = self._new_id(schema, wanted_id)
        await self._commit(records.version_record(Version(subject, version, schema_id, schema)))
        return {"id": schema_id}

    def look_up(
        self, subject: str, body: Mapping[str, Any], *, normalize: bool = False, deleted: bool = False
    ) -> dict[str, Any]:
        """Return the version of a subject that has a schema."""
        if not self.state.versions(subject, deleted=deleted):
            raise RegistryError.no_subject(subject)
        schema, _ = self._parse(body, normalize)
        version = self._find(subject, schema, deleted)
        if version is None:
            raise RegistryError.no_schema()
        return version.as_json()

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Soft-delete all versions; or delete for good what is soft-deleted."""
        self._check_writable(subject)
        every = self.state.versions(subject, deleted=True)
        live = [version for version in every if not version.is_deleted]
        if not every:
            raise RegistryError.no_subject(subject)
        if permanent and live:
            raise RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")
        if not permanent and not live:
            raise RegistryError(40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")
        gone = every if permanent else live
        for target in gone:
            self._check_unreferenced(target)
        if permanent:
            await self._commit(*map(records.version_tombstone, gone))
        else:
            settings = [records.level_record(subject, None)] if subject in self.state.levels else []
            settings += [records.mode_record(subject, None)] if subject in self.state.modes else []
            await self._commit(records.subject_deletion(subject, gone[-1].version), *settings)
        return [version.version for version in gone]

    async def delete_version(self, subject: str, number: int, *, permanent: bool = False) -> int:
        """Soft-delete a version; or delete a soft-deleted one for good."""
        self._check_writable(subject)
        version = self.state.version(subject, number, deleted=True)
        if number < 0 and not permanent:
            version = self.state.version(subject, number)
        where = f"Subject '{subject}' Version {version.version}"
        if permanent and not version.is_deleted:
            raise RegistryError(40407, f"{where} was not deleted first before being permanently deleted")
        if not permanent and version.is_deleted:
            raise RegistryError(40406, f"{where} was soft deleted.Set permanent=true to delete permanently")
        self._check_unreferenced(version)
        deleted = attrs.evolve(version, is_deleted=True)
        await self._commit(records.version_tombstone(version) if permanent else records.version_record(deleted))
        return version.version

    # compatibility

    def check(
        self,
        subject: str,
        number: int | None,
        body: Mapping[str, Any],
        *,
        normalize: bool = False,
        verbose: bool = False,
    ) -> dict[str, Any]:
        """Compare a schema with one version, or by the subject's level with those that it names."""
        _, parsed = self._parse(body, normalize)
        versions = self.state.versions(subject)
        if number is not None and (versions or number > 0):
            versions = [self.state.version(subject, number)]
        messages = problems(self.state.level(subject), parsed, self._parsed(versions))
        return {"is_compatible": not messages, **({"messages": messages} if verbose else {})}

    # levels and modes

    def level(self, subject: str | None, *, default_to_global: bool = False) -> dict[str, Any]:
        configured = self.state.levels.get(subject)
        if configured is None and (subject is None or default_to_global):
            configured = self.state.levels.get(None, DEFAULT_LEVEL)
        if configured is None:
            raise RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")
        return {"compatibilityLevel": configured}

    async def set_level(self, subject: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
        level = str(body.get("compatibility", "")).upper()
        if level not in LEVELS:
            names = ", ".join(name.lower() for name in LEVELS)
            raise RegistryError(42203, f"Invalid compatibility level. Valid values are {names}")
        await self._commit(records.level_record(subject, level))
        return {"compatibility": level}

    async def delete_level(self, subject: str | None) -> dict[str, Any]:
        before = self.level(subject)
        await self._commit(records.level_record(subject, None))
        return before

    def mode(self, subject: str | None, *, default_to_global: bool = False) -> dict[str, Any]:
        configured = self.state.modes.get(subject)
        if configured is None and (subject is None or default_to_global):
            configured = self.state.modes.get(None, DEFAULT_MODE)
        if configured is None:
            raise RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")
        return {"mode": configured}

    async def set_mode(self, subject: str | None, body: Mapping[str, Any], *, force: bool = False) -> dict[str, Any]:
        mode = str(body.get("mode", "")).upper()
        if mode not in _MODES:
            raise RegistryError(42204, f"Invalid mode. Valid values are {', '.join(_MODES)}")
        has_schemas = bool(self.state.subjects() if subject is None else self.state.versions(subject))
        if mode == "IMPORT" and has_schemas and not force:
            raise RegistryError.not_permitted("Cannot import since found existing subjects")
        await self._commit(records.mode_record(subject, mode))
        return {"mode": mode}

    async def delete_mode(self, subject: str) -> dict[str, Any]:
        before = self.mode(subject)
        await self._commit(records.mode_record(subject, None))
        return before

    # parts

    def _parse(self, body: Mapping[str, Any], normalize: bool) -> tuple[Schema, Comparable]:
        for name in _DATA_CONTRACTS:
            if body.get(name):
                raise RegistryError(422, f"the test registry does not support {name}")
        if not body.get("schema"):
            raise RegistryError.invalid_schema("Empty schema")
        try:
            schema = Schema.from_json(body)
        except (KeyError, TypeError, ValueError) as error:
            raise RegistryError(422, f"the body is not that of a schema: {type(error).__name__} {error}") from error
        parsed = self._parse_schema(schema, normalize)
        return attrs.evolve(schema, text=parsed.text), parsed

    def _parse_schema(self, schema: Schema, normalize: bool = False) -> Any:
        if schema.kind not in TYPES:
            raise RegistryError.invalid_schema(f"Invalid schema type {schema.kind}")
        references = self._texts_of_references(schema)
        if schema.kind == AVRO:
            return AvroSchema.parse(schema.text, references, normalize)
        if schema.kind == JSON:
            return JsonSchema.parse(schema.text, references, normalize)
        return ProtobufSchema(schema.text.strip())

    def _texts_of_references(self, schema: Schema) -> dict[str, str]:
        """Return the texts by names: of what a schema refers to, after what that refers to itself."""
        texts: dict[str, str] = {}
        for reference in schema.references:
            try:
                used = self.state.version(reference.subject, reference.version, deleted=True).schema
            except RegistryError as error:
                raise RegistryError.invalid_schema(
                    f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
                ) from error
            texts.update(self._texts_of_references(used))
            texts[reference.name] = used.text
        return texts

    def _parsed(self, versions: Sequence[Version]) -> list[Comparable]:
        return [self._parse_schema(version.schema) for version in versions]

    def _find(self, subject: str, schema: Schema, deleted: bool = False) -> Version | None:
        versions = reversed(self.state.versions(subject, deleted=deleted))
        return next((version for version in versions if version.schema == schema), None)

    def _new_id(self, schema: Schema, requested: int | None) -> int:
        if requested is None:
            return self.state.id_of(schema) or self.state.id_max + 1
        try:
            has_other = self.state.schema(requested) != schema
        except RegistryError:
            return requested
        if has_other:
            raise RegistryError.not_permitted(f"Overwrite new schema with id {requested} is not permitted.")
        return requested

    def _check_writable(self, subject: str) -> None:
        if self.state.mode(subject) in _READ_ONLY:
            raise RegistryError.not_permitted(f"Subject {subject} is in read-only mode")

    def _check_compatible(self, subject: str, messages: list[str]) -> None:
        if messages:
            raise RegistryError.incompatible(subject, messages)

    def _check_unreferenced(self, version: Version) -> None:
        if self.state.referrers(version.subject, version.version):
            raise RegistryError(
                42206,
                f"One or more references exist to the schema "
                f"{{magic=1,keytype=SCHEMA,subject={version.subject},version={version.version}}}.",
            )

    async def _commit(self, *changes: SchemaRecord) -> None:
        await self._append(changes)
        for change in changes:
            self.state.apply(change)


def _positive(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    return value if isinstance(value, int) and value > 0 else None
