"""Requests to the registry, without HTTP: each returns what is answered as JSON, or raises RegistryError.

Changes are appended to the log, and take effect once they are read there. So the state is that of the log, with several
writers, too, and a change whose outcome is unknown cannot make two schemas with one id. Changes run one after the
other; questions do not wait for them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
from twisted.internet.defer import Deferred, DeferredLock, ensureDeferred
from twisted.logger import Logger

from pylogbroker.long_loops import over
from pylogbroker.registry import records
from pylogbroker.registry.data_contracts import check_metadata, check_rule_set, completed
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.levels import problems
from pylogbroker.registry.log import LogReplaced, SchemaLog, StoredRecords
from pylogbroker.registry.parsing import ParsedSchema, ParseJob
from pylogbroker.registry.records import SchemaRecord
from pylogbroker.registry.references import referred_version, texts_of_references
from pylogbroker.registry.state import LATEST, NotUnderstood, RegistryState
from pylogbroker.registry.subjects import context_of
from pylogbroker.schemas.subjects import DEFAULT_CONTEXT
from pylogbroker.schemas.values import INT_MAX, JSON, PROTOBUF, Reference, Schema, Version

log = Logger()

InThread = Callable[..., Deferred[Any]]
T = TypeVar("T")
Body = Mapping[str, Any]

IMPORT: Final = "IMPORT"
READ_ONLY: Final = ("READONLY", "READONLY_OVERRIDE")
_PARSED_MAX: Final = 500
_PARSED_CHARACTERS_MAX: Final = 32 * 1024 * 1024
"""Characters of the texts whose parsed schemas are kept, with those of their references."""
_REPORTED_MAX: Final = 5


@attrs.frozen
class Registration:
    """A registered version, and whether the request has made it."""

    version: Version
    is_new: bool


@attrs.define(eq=False, repr=False)
class SchemaRegistry:
    """Subjects, versions and compatibility; `settings` has levels and modes.

    `in_thread` runs what blocks. Loops give way as in `pylogbroker.long_loops`, and `in_slices` runs them.
    """

    _log: SchemaLog
    in_thread: InThread
    in_slices: Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
    state: RegistryState = attrs.field(factory=RegistryState, init=False)
    not_understood: int = attrs.field(default=0, init=False)
    """Records of the topic that this registry does not understand."""
    _next_offset: int = attrs.field(default=0, init=False)
    _parsed: OrderedDict[ParseJob, ParsedSchema] = attrs.field(factory=OrderedDict, init=False)
    _parsed_characters: int = attrs.field(default=0, init=False)
    _reading: DeferredLock = attrs.field(factory=DeferredLock, init=False)
    _writing: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    async def chosen(self, names: Iterable[str], fits: Callable[[str], bool]) -> list[str]:
        """Return those of some names that fit; gives way to other work."""

        async def choose() -> list[str]:
            return [name async for name in over(names) if fits(name)]

        chosen: list[str] = await self.in_slices(choose())
        return chosen

    # the log

    async def catch_up(self) -> RegistryState:
        """Return the state with everything that is committed now."""
        await self._reading.run(lambda: ensureDeferred(self._read()))
        return self.state

    async def _read(self) -> None:
        is_end = False
        while not is_end:
            try:
                stored = await self._log.read(self._next_offset)
            except LogReplaced:
                self.state, self._next_offset = RegistryState(), 0
                continue
            await self.in_slices(self._apply_all(stored))
            self._next_offset, is_end = stored.next_offset, stored.is_end

    async def _apply_all(self, stored: StoredRecords) -> None:
        async for offset, record in over(stored.records):
            self._apply(offset, record)

    def _apply(self, offset: int, record: SchemaRecord) -> None:
        self._next_offset = offset + 1
        try:
            self.state.apply(record)
        except NotUnderstood as error:
            self.not_understood += 1
            if self.not_understood <= _REPORTED_MAX:
                log.warn(
                    "the schema registry does not understand the record at offset {offset} of {topic}, which stays"
                    " there: {reason}",
                    offset=offset,
                    topic=records.TOPIC,
                    reason=str(error),
                )

    async def changing(self, change: Callable[[RegistryState], Any]) -> Any:
        """Return the result of a change, which runs alone, on the state of all that is committed."""
        return await self._writing.run(lambda: ensureDeferred(self._change(change)))

    async def _change(self, change: Callable[[RegistryState], Any]) -> Any:
        return await change(await self.catch_up())

    async def commit(self, *changes: SchemaRecord) -> None:
        """Append changes, and return once they have taken effect."""
        state = self.state
        await self._log.append([record for change in changes for record in state.with_other_keys(change)])
        await self.catch_up()

    # versions of subjects

    async def register(self, subject: str, body: Body, *, normalize: bool = False) -> Registration:
        """Register a schema in the newest version of a subject, unless the subject has it."""
        schema = await self._schema_of(body)
        is_normalized = normalize or await self._normalizes(subject)

        async def change(state: RegistryState) -> Registration:
            return await self._register(state, subject, schema, body, is_normalized)

        registration: Registration = await self.changing(change)
        return registration

    async def _register(
        self, state: RegistryState, subject: str, schema: Schema, body: Body, is_normalized: bool
    ) -> Registration:
        requested_id, requested_version = _positive(body, "id"), _positive(body, "version")
        mode = state.mode(subject)
        _check_mode(subject, mode, requested_id)
        every = state.versions(subject, deleted=True)
        live = [version for version in every if not version.is_deleted]
        next_version = every[-1].version + 1 if every else 1
        if mode != IMPORT:
            latest = live[-1].schema if live else None
            if not schema.text and latest is not None and (schema.metadata or schema.rule_set):
                schema = attrs.evolve(latest, metadata=schema.metadata, rule_set=schema.rule_set)
            schema = completed(schema, state.settings_of(subject), latest)
        is_import = mode == IMPORT
        schema, parsed = await self._canonical(subject, schema, is_normalized and not is_import, is_new=not is_import)
        if requested_version is None:
            same = next((version for version in reversed(live) if version.schema == schema), None)
            same = same or await self._same_version(parsed, schema, live)
            if same is not None and requested_id in (None, same.id):
                return Registration(same, is_new=False)
        if mode != IMPORT:
            if requested_version not in (None, next_version):
                raise RegistryError.invalid_schema("Version is not one more than previous version")
            if messages := await self._problems(state, subject, schema, parsed, live):
                raise RegistryError.incompatible(subject, messages)
        version = Version(
            subject, requested_version or next_version, _new_id(state, subject, schema, requested_id), schema
        )
        await self.commit(
            *_declaration(state, subject), *_replaced(state, every, version), records.version_record(version)
        )
        if version not in self.state.versions(subject):
            raise RegistryError.backend_failed(f"another writer changed {records.TOPIC} meanwhile: try again")
        return Registration(version, is_new=True)

    async def look_up(self, subject: str, body: Body, *, normalize: bool = False, deleted: bool = False) -> Version:
        """Return the version of a subject that has a schema."""
        schema = await self._schema_of(body)
        state = await self.catch_up()
        if not state.has_subject(subject, deleted=deleted):
            raise RegistryError.no_subject(subject)
        schema, parsed = await self._canonical(subject, schema, normalize or await self._normalizes(subject))
        versions = state.versions(subject, deleted=deleted)
        contract = schema.metadata, schema.rule_set
        for version in reversed(versions):
            has_same_text = attrs.evolve(version.schema, metadata="", rule_set="") == attrs.evolve(
                schema, metadata="", rule_set=""
            )
            if has_same_text and contract in ((version.schema.metadata, version.schema.rule_set), ("", "")):
                return version
        same = await self._same_version(parsed, schema, versions)
        if same is None:
            raise RegistryError.no_schema()
        return same

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Soft-delete all versions; or delete for good what is soft-deleted."""

        async def change(state: RegistryState) -> list[int]:
            check_writable(state, subject)
            every = state.versions(subject, deleted=True)
            live = [version for version in every if not version.is_deleted]
            if not every:
                raise RegistryError.no_subject(subject)
            if permanent and live:
                raise RegistryError.subject_not_deleted(subject)
            if not permanent and not live:
                raise RegistryError.subject_deleted(subject)
            gone = every if permanent else live
            for version in gone:
                _check_unreferenced(state, version, but_by=subject, deleted=permanent)
            if permanent:
                await self.commit(*map(records.version_tombstone, reversed(gone)), *_without_settings(state, subject))
            else:
                await self.commit(records.subject_deletion(subject, gone[-1].version))
            return [version.version for version in gone]

        numbers: list[int] = await self.changing(change)
        return numbers

    async def delete_version(self, subject: str, number: int, *, permanent: bool = False) -> int:
        """Soft-delete a version; or delete a soft-deleted one for good."""

        async def change(state: RegistryState) -> int:
            check_writable(state, subject)
            is_live_latest = number == LATEST and not permanent and state.has_subject(subject)
            version = state.version(subject, number, deleted=not is_live_latest)
            if permanent and not version.is_deleted:
                raise RegistryError.version_not_deleted(subject, version.version)
            if not permanent and version.is_deleted:
                raise RegistryError.version_deleted(subject, version.version)
            _check_unreferenced(state, version, deleted=permanent)
            if permanent:
                is_last = len(state.versions(subject, deleted=True)) == 1
                settings = _without_settings(state, subject) if is_last else ()
                await self.commit(records.version_tombstone(version), *settings)
            else:
                await self.commit(records.version_record(attrs.evolve(version, is_deleted=True)))
            return version.version

        deleted: int = await self.changing(change)
        return deleted

    async def delete_context(self, context: str) -> None:
        """Forget a context that has no subjects."""

        async def change(state: RegistryState) -> None:
            if state.subjects_in(context, deleted=True):
                raise RegistryError.context_not_empty(context)
            await self.commit(records.context_tombstone(context_of(context)))

        await self.changing(change)

    # compatibility

    async def check(
        self,
        subject: str,
        number: int | None,
        body: Body,
        *,
        normalize: bool = False,
        verbose: bool = False,
    ) -> dict[str, Any]:
        """Compare a schema with one version, or by the subject's level with those that it names."""
        schema = await self._schema_of(body)
        state = await self.catch_up()
        versions = state.versions(subject)
        if number is not None and number != LATEST:
            versions = [version for version in versions if version.version == number]
            if not versions:
                raise RegistryError.no_version(number)
        elif number is not None:
            versions = versions[-1:]
        try:
            schema, parsed = await self._canonical(subject, schema, normalize or await self._normalizes(subject))
            messages = await self._problems(state, subject, schema, parsed, versions)
        except RegistryError as error:
            if not verbose or error.status != 422:
                raise
            messages = [str(error)]
        return {"is_compatible": not messages, **({"messages": messages} if verbose else {})}

    async def _problems(
        self, state: RegistryState, subject: str, schema: Schema, parsed: ParsedSchema, versions: Sequence[Version]
    ) -> list[str]:
        level = state.level(subject)
        if level == "NONE":
            return []
        group = state.settings_of(subject).get("compatibilityGroup")
        if group:
            member = _property(schema, group)
            versions = [version for version in versions if _property(version.schema, group) == member]
        if not level.endswith("_TRANSITIVE"):
            versions = versions[-1:]
        older = [(version.version, await self._parsed_version(version)) for version in versions]
        messages: list[str] = await self.in_thread(problems, level, parsed, older)
        return messages

    # parts

    async def _schema_of(self, body: Body) -> Schema:
        """Return the schema of a request; a contract may have very many members. Raise RegistryError."""
        if not (body.get("metadata") or body.get("ruleSet") or body.get("references")):
            return schema_of(body)
        schema: Schema = await self.in_thread(schema_of, body)
        return schema

    async def formatted(self, subject: str, schema: Schema, form: str) -> str:
        """Return the text of a schema in a form."""
        if not form:
            return schema.text
        parsed = await self._parse(subject, schema)
        text: str = await self.in_thread(parsed.formatted, form)
        return text

    def alias_of(self, subject: str) -> str:
        """Return the subject that stands for one, by its setting `alias`."""
        alias = self.state.settings.get(subject, {}).get("alias")
        return self.state.referred(subject, Reference("", str(alias), 0))[0] if alias else subject

    async def _normalizes(self, subject: str) -> bool:
        return bool((await self.catch_up()).settings_of(subject).get("normalize"))

    async def _canonical(
        self, subject: str, schema: Schema, is_normalized: bool, *, is_new: bool = False
    ) -> tuple[Schema, ParsedSchema]:
        if not schema.text.strip():
            raise RegistryError.empty_schema()
        schema = attrs.evolve(schema, references=tuple(self._numbered(subject, used) for used in schema.references))
        parsed = await self._parse(subject, schema, is_normalized, is_new)
        return attrs.evolve(schema, text=parsed.text), parsed

    def _numbered(self, subject: str, reference: Reference) -> Reference:
        """Return a reference whose version is a number, also if it names the latest."""
        if reference.version != LATEST:
            return reference
        return attrs.evolve(reference, version=referred_version(self.state, subject, reference).version)

    async def _parsed_version(self, version: Version) -> ParsedSchema:
        return await self._parse(version.subject, version.schema)

    async def _parse(
        self, subject: str, schema: Schema, is_normalized: bool = False, is_new: bool = False
    ) -> ParsedSchema:
        bare = attrs.evolve(schema, metadata="", rule_set="")
        source = ParseJob(bare, texts_of_references(self.state, subject, schema), is_normalized, is_new)
        parsed = self._parsed.get(source)
        if parsed is None:
            parsed = await self.in_thread(source.parsed)
            if source not in self._parsed:  # another request may have parsed it meanwhile
                self._parsed_characters += source.characters
            self._parsed[source] = parsed
            while len(self._parsed) > _PARSED_MAX or self._parsed_characters > _PARSED_CHARACTERS_MAX:
                self._parsed_characters -= self._parsed.popitem(last=False)[0].characters
        else:
            self._parsed.move_to_end(source)
        return parsed

    def texts_of_references(self, version: Version) -> dict[str, str]:
        """Return the texts of what a version refers to, by names; raise RegistryError."""
        return texts_of_references(self.state, version.subject, version.schema)

    async def _same_version(self, parsed: ParsedSchema, schema: Schema, versions: Sequence[Version]) -> Version | None:
        """Return a version that means the same, although its text or its references differ."""
        for version in reversed(versions):
            other = version.schema
            if other.kind != schema.kind or (schema.metadata, schema.rule_set) != (other.metadata, other.rule_set):
                continue
            may_differ = schema.kind in (JSON, PROTOBUF) or schema.references != other.references
            if may_differ and await self.in_thread(parsed.is_same, await self._parsed_version(version)):
                return version
        return None


def schema_of(body: Body) -> Schema:
    """Return the schema of a request; raise RegistryError."""
    check_metadata(body.get("metadata"))
    check_rule_set(body.get("ruleSet"))
    try:
        return Schema.from_json({**body, "schema": body.get("schema") or ""})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RegistryError.unprocessable(
            f"the body is not that of a schema: {type(error).__name__} {error}"
        ) from error


def check_writable(state: RegistryState, subject: str | None) -> None:
    """Raise RegistryError for a subject in a read-only mode."""
    if state.mode(subject) in READ_ONLY:
        raise RegistryError.not_permitted(f"Subject {subject} is in read-only mode")


def _check_mode(subject: str, mode: str, requested_id: int | None) -> None:
    if mode in READ_ONLY:
        raise RegistryError.not_permitted(f"Subject {subject} is in read-only mode")
    if requested_id is not None and mode != IMPORT:
        raise RegistryError.not_permitted(f"Subject {subject} is not in import mode")
    if requested_id is None and mode == IMPORT:
        raise RegistryError.not_permitted(f"Subject {subject} is not in read-write mode")


def _check_unreferenced(
    state: RegistryState, version: Version, *, but_by: str | None = None, deleted: bool = False
) -> None:
    if any(referrer.subject != but_by for referrer in state.referrers(version, deleted=deleted)):
        raise RegistryError.referenced(version.subject, version.version)


def _new_id(state: RegistryState, subject: str, schema: Schema, requested: int | None) -> int:
    if requested is None:
        return state.id_of(subject, schema) or state.id_max(subject) + 1
    registered = state.registered(subject, requested)
    if registered is not None and registered != schema:
        raise RegistryError.not_permitted(f"Overwrite new schema with id {requested} is not permitted.")
    return requested


def _declaration(state: RegistryState, subject: str) -> list[SchemaRecord]:
    context = context_of(subject)
    is_declared = context == DEFAULT_CONTEXT or context in state.declared_contexts
    return [] if is_declared else [records.context_record(subject)]


def _replaced(state: RegistryState, every: Sequence[Version], new: Version) -> list[SchemaRecord]:
    """Return the records that remove soft-deleted versions of the same schema, unless others refer to them."""
    return [
        records.version_tombstone(version)
        for version in every
        if version.is_deleted
        and version.id == new.id
        and version.version < new.version
        and not state.referrers(version, deleted=True)
    ]


def _without_settings(state: RegistryState, subject: str) -> list[SchemaRecord]:
    settings = [records.settings_record(subject, None)] if subject in state.settings else []
    return settings + ([records.mode_record(subject, None)] if subject in state.modes else [])


def _property(schema: Schema, name: str) -> Any:
    properties = schema.as_json().get("metadata", {}).get("properties", {})
    return properties.get(name)


def _positive(body: Body, name: str) -> int | None:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return None
    if value > INT_MAX:
        raise RegistryError.unprocessable(f"{name} is above {INT_MAX}")
    return value
