"""Requests about levels of compatibility and modes."""

from __future__ import annotations

from typing import Any

from pylogbroker.registry.rest.calls import (
    Body,
    Flag,
    RegistryCall,
)
from pylogbroker.registry.subjects import settings_subject
from pylogbroker.schemas.subjects import QualifiedSubject


async def level(call: RegistryCall, defaultToGlobal: Flag = False) -> dict[str, Any]:
    """Return the level of compatibility of all subjects."""
    return await call.settings.settings(None, default_to_global=defaultToGlobal)


async def set_level(call: RegistryCall, body: Body) -> dict[str, Any]:
    """Set the level of compatibility of all subjects."""
    call.caller.check_configure(None)
    return await call.settings.change_settings(None, body)


async def delete_level(call: RegistryCall) -> dict[str, Any]:
    """Restore the level of compatibility of all subjects."""
    call.caller.check_configure(None)
    return await call.settings.delete_settings(None)


async def level_of(call: RegistryCall, subject: str, defaultToGlobal: Flag = False) -> dict[str, Any]:
    """Return the level of compatibility of a subject."""
    name = _readable(call, subject)
    return await call.settings.settings(name, default_to_global=defaultToGlobal)


async def set_level_of(call: RegistryCall, subject: str, body: Body) -> dict[str, Any]:
    """Set the level of compatibility of a subject."""
    name = _configurable(call, subject)
    return await call.settings.change_settings(name, body)


async def delete_level_of(call: RegistryCall, subject: str) -> dict[str, Any]:
    """Restore the level of compatibility of a subject."""
    name = _configurable(call, subject)
    return await call.settings.delete_settings(name)


async def mode(call: RegistryCall, defaultToGlobal: Flag = False) -> dict[str, Any]:
    """Return the mode of all subjects."""
    return await call.settings.mode(None, default_to_global=defaultToGlobal)


async def set_mode(call: RegistryCall, body: Body, force: Flag = False) -> dict[str, Any]:
    """Set the mode of all subjects."""
    call.caller.check_configure(None)
    return await call.settings.set_mode(None, body, force=force)


async def delete_mode(call: RegistryCall, recursive: Flag = False) -> dict[str, Any]:
    """Restore the mode of all subjects."""
    call.caller.check_configure(None)
    return await call.settings.delete_mode(None, recursive=recursive)


async def mode_of(call: RegistryCall, subject: str, defaultToGlobal: Flag = False) -> dict[str, Any]:
    """Return the mode of a subject."""
    name = _readable(call, subject)
    return await call.settings.mode(name, default_to_global=defaultToGlobal)


async def set_mode_of(call: RegistryCall, subject: str, body: Body, force: Flag = False) -> dict[str, Any]:
    """Set the mode of a subject."""
    name = _configurable(call, subject)
    return await call.settings.set_mode(name, body, force=force)


async def delete_mode_of(call: RegistryCall, subject: str, recursive: Flag = False) -> dict[str, Any]:
    """Restore the mode of a subject."""
    name = _configurable(call, subject)
    return await call.settings.delete_mode(name, recursive=recursive)


def _readable(call: RegistryCall, subject: str) -> str | None:
    """Return the key of the settings of a subject that the caller may read; raise RegistryError."""
    name = settings_subject(subject)
    if name is not None and not QualifiedSubject.parse(name).is_context:
        call.caller.check_read(name)
    return name


def _configurable(call: RegistryCall, subject: str) -> str | None:
    name = settings_subject(subject)
    call.caller.check_configure(name)
    return name
