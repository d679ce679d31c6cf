"""Changes of settings for AlterConfigs and IncrementalAlterConfigs; each resource succeeds or fails alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from pylogbroker.broker.config_resources import Resource, ResourceType, find_resource
from pylogbroker.broker.limits import duplicate_error, duplicates
from pylogbroker.broker.services import Services
from pylogbroker.config import ConfigOperation, SettingChange, apply
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError


@attrs.frozen
class ConfigAlteration:
    """Changes of a resource: (setting, operation code, value) each; without `keep`, others are removed."""

    kind: int
    name: str
    changes: Sequence[tuple[str, int, str | None]]
    keep: bool


async def alter(
    services: Services, alterations: Sequence[ConfigAlteration], validate_only: bool
) -> list[KafkaError | None]:
    """Make or validate each alteration; return its error, or None."""
    twice = duplicates((alteration.kind, alteration.name) for alteration in alterations)
    return [
        await _attempt(services, alteration, (alteration.kind, alteration.name) in twice, validate_only)
        for alteration in alterations
    ]


async def _attempt(services: Services, wanted: ConfigAlteration, twice: bool, validate_only: bool) -> KafkaError | None:
    try:
        if twice:
            raise duplicate_error()
        _check_kind(wanted)
        resource = find_resource(services, wanted.kind, wanted.name)
        await _alter(resource, _checked(wanted.changes), wanted.keep, validate_only)
    except KafkaError as error:
        return error
    return None


def _check_kind(wanted: ConfigAlteration) -> None:
    if wanted.kind == ResourceType.TOPIC and not wanted.name:
        raise KafkaError("There are no settings of all topics: name one", ErrorCode.INVALID_REQUEST)
    if wanted.kind == ResourceType.BROKER_LOGGER and not wanted.keep:
        raise KafkaError("Loggers are changed one by one, not all at once", ErrorCode.INVALID_REQUEST)


def _checked(changes: Sequence[tuple[str, int, str | None]]) -> list[SettingChange]:
    twice = duplicates(name for name, _, _ in changes)
    if twice:
        raise KafkaError(f"Settings {sorted(twice)} are named more than once", ErrorCode.INVALID_REQUEST)
    checked = [SettingChange(name, _operation(number), value) for name, number, value in changes]
    valueless = [
        change.name for change in checked if change.value is None and change.operation is not ConfigOperation.DELETE
    ]
    if valueless:
        raise KafkaError(f"Settings {valueless} have no value", ErrorCode.INVALID_REQUEST)
    return checked


def _operation(number: int) -> ConfigOperation:
    try:
        return ConfigOperation(number)
    except ValueError as error:
        known = ", ".join(f"{operation:d} {operation.name}" for operation in ConfigOperation)
        raise KafkaError(f"There is no operation {number}; there are {known}", ErrorCode.INVALID_REQUEST) from error


async def _alter(resource: Resource, changes: list[SettingChange], keep: bool, validate_only: bool) -> None:
    def change(own: Mapping[str, str]) -> dict[str, str]:
        return _applied(own if keep else {}, changes, resource)

    if validate_only:
        resource.check(change)
    else:
        await resource.alter(change)


def _applied(own: Mapping[str, str], changes: Iterable[SettingChange], resource: Resource) -> dict[str, str]:
    try:
        result = apply(own, changes, resource.settings, resource.inherited())
    except ConfigError as error:
        raise KafkaError(str(error), ErrorCode.INVALID_CONFIG) from error
    return {name: text for name, text in result.items() if text is not None}
