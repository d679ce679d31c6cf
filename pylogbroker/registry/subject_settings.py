"""Levels of compatibility, other settings of subjects, and modes. None as a subject stands for the default context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from pylogbroker.registry import records
from pylogbroker.registry.data_contracts import check_metadata, check_rule_set
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.levels import LEVELS
from pylogbroker.registry.registry import IMPORT, SchemaRegistry, check_writable
from pylogbroker.registry.state import DEFAULT_LEVEL, DEFAULT_MODE, RegistryState
from pylogbroker.registry.subjects import GLOBAL, context_of
from pylogbroker.schemas.subjects import QualifiedSubject, prefix_of

_LEVEL: Final = "compatibilityLevel"
_MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", IMPORT)
_TEXTS: Final = ("alias", "compatibilityGroup")
_UNSUPPORTED: Final = ("aliasForDeks", "validateFields", "validateNewSchemas", "validateRules", "compatibilityPolicy")
_METADATA: Final = ("defaultMetadata", "overrideMetadata")
_RULE_SETS: Final = ("defaultRuleSet", "overrideRuleSet")
_WITH_DEFAULT: Final = (None, GLOBAL)
"""Scopes that always have a level and a mode."""


@attrs.frozen(eq=False, repr=False)
class SubjectSettings:
    _registry: SchemaRegistry

    async def settings(self, subject: str | None, *, default_to_global: bool = False) -> dict[str, Any]:
        return self._settings(await self._registry.catch_up(), subject, default_to_global)

    def _settings(self, state: RegistryState, subject: str | None, default_to_global: bool) -> dict[str, Any]:
        if default_to_global:
            return dict(state.settings_of(subject))
        own = state.settings.get(subject)
        if own is None and subject not in _WITH_DEFAULT:
            raise RegistryError.no_level(subject)
        return {_LEVEL: DEFAULT_LEVEL, **(own or {})}

    async def change_settings(self, subject: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change the settings that a body has, remove those that are null there, and return what it has."""
        changes = _changes(body)

        async def change(state: RegistryState) -> None:
            check_writable(state, subject)
            merged = {**state.settings.get(subject, {}), **changes}
            kept = {name: value for name, value in merged.items() if value is not None}
            await self._registry.commit(records.settings_record(subject, kept))

        await self._registry.changing(change)
        answer = {name: value for name, value in changes.items() if name != _LEVEL and value is not None}
        return {"compatibility": changes[_LEVEL], **answer} if changes.get(_LEVEL) else answer

    async def delete_settings(self, subject: str | None) -> dict[str, Any]:
        async def change(state: RegistryState) -> dict[str, Any]:
            if subject not in _WITH_DEFAULT and subject not in state.settings:
                raise RegistryError.no_subject(str(subject))
            check_writable(state, subject)
            before = self._settings(state, subject, False)
            await self._registry.commit(records.settings_record(subject, None))
            return before

        deleted: dict[str, Any] = await self._registry.changing(change)
        return deleted

    async def mode(self, subject: str | None, *, default_to_global: bool = False) -> dict[str, Any]:
        state = await self._registry.catch_up()
        if default_to_global:
            return {"mode": state.mode(subject)}
        own = state.modes.get(subject)
        if own is None and subject not in _WITH_DEFAULT:
            raise RegistryError.no_mode(subject)
        return {"mode": own or DEFAULT_MODE}

    async def set_mode(self, subject: str | None, body: Mapping[str, Any], *, force: bool = False) -> dict[str, Any]:
        """Set a mode; IMPORT needs that there are no schemas, and forgets soft-deleted ones."""
        mode = str(body.get("mode", "")).upper()
        if mode not in _MODES:
            raise RegistryError.invalid_mode(f"Valid values are {', '.join(_MODES)}")

        async def change(state: RegistryState) -> None:
            cleared = []
            if mode == IMPORT and state.mode(subject) != IMPORT and not force:
                cleared = _cleared(state, subject)
            await self._registry.commit(*cleared, records.mode_record(subject, mode))

        await self._registry.changing(change)
        return {"mode": mode}

    async def delete_mode(self, subject: str | None, *, recursive: bool = False) -> dict[str, Any]:
        async def change(state: RegistryState) -> dict[str, Any]:
            own = state.modes.get(subject)
            if own is None and not recursive and subject not in _WITH_DEFAULT:
                raise RegistryError.no_subject(str(subject))
            scopes = [subject, *(_below(state, subject) if recursive else ())]
            await self._registry.commit(*(records.mode_record(scope, None) for scope in scopes))
            return {"mode": own or (DEFAULT_MODE if subject in _WITH_DEFAULT else None)}

        deleted: dict[str, Any] = await self._registry.changing(change)
        return deleted


def _cleared(state: RegistryState, subject: str | None) -> list[records.SchemaRecord]:
    """Return the records that forget what is soft-deleted; raise RegistryError if there is anything else."""
    names = state.subjects(deleted=True) if subject == GLOBAL else state.subjects_in(subject, deleted=True)
    if any(state.has_subject(name) for name in names):
        raise RegistryError.not_permitted("Cannot import since found existing subjects")
    versions = [version for name in names for version in state.versions(name, deleted=True)]
    for version in versions:
        if state.referrers(version, deleted=True):
            raise RegistryError.referenced(version.subject, version.version)
    return [*map(records.version_tombstone, versions), records.subject_clearing(subject)]


def _below(state: RegistryState, scope: str | None) -> list[str]:
    """Return the subjects of a context that have a mode."""
    place = QualifiedSubject.parse(scope or "")
    if not place.is_context:
        return []
    return [name for name in state.modes if name and name != prefix_of(place.context) and _is_in(name, place)]


def _is_in(name: str, place: QualifiedSubject) -> bool:
    return context_of(name) == place.context and not QualifiedSubject.parse(name).is_context


def _changes(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a body; raise RegistryError."""
    changes: dict[str, Any] = {}
    if unsupported := [name for name in _UNSUPPORTED if body.get(name)]:
        raise RegistryError.unprocessable(f"the setting {unsupported[0]} is not supported by this registry")
    if "compatibility" in body or _LEVEL in body:
        level = body.get("compatibility", body.get(_LEVEL))
        changes[_LEVEL] = None if level is None else str(level).upper()
        if changes[_LEVEL] is not None and changes[_LEVEL] not in LEVELS:
            raise RegistryError.invalid_level(LEVELS)
    for name in _TEXTS:
        if name in body:
            changes[name] = _of_type(body, name, str)
    if "normalize" in body:
        changes["normalize"] = _of_type(body, "normalize", bool)
    for names, check in ((_METADATA, check_metadata), (_RULE_SETS, check_rule_set)):
        for name in names:
            if name in body:
                check(body[name])
                changes[name] = body[name]
    if not changes:
        raise RegistryError.invalid_level(LEVELS)
    return changes


def _of_type(body: Mapping[str, Any], name: str, kind: type) -> Any:
    value = body[name]
    if value is not None and not isinstance(value, kind):
        raise RegistryError.unprocessable(f"{name} is no {'text' if kind is str else 'boolean'}")
    return value
