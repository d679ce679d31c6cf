"""Changes of settings for AlterConfigs and IncrementalAlterConfigs; each resource succeeds or fails alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import attrs

from pylogbroker.broker.metadata.config_resources import Resource, find_resource, is_allowed
from pylogbroker.broker.requests.limits import duplicate_error, duplicates, find_duplicates
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.services import HasConfig, HasController, HasMetadata, HasNode, HasTls
from pylogbroker.config import ConfigOperation, SettingChange, apply
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.resource_types import ResourceType

_SETTINGS_MAX: Final = 1000
"""Settings that one resource may name: more than exist."""


class _Services(HasConfig, HasMetadata, HasController, HasNode, HasTls, Protocol):
    """Services that this module uses."""


class RequestedResource(Protocol):
    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


Q = TypeVar("Q", bound=RequestedResource)
R = TypeVar("R")


@attrs.frozen
class ConfigAlteration:
    """Changes of a resource: (setting, operation code, value) each; without `keep`, others are removed."""

    kind: int
    name: str
    changes: Sequence[tuple[str, int, str | None]]
    keep: bool


def may_alter(access: Access, resource: RequestedResource) -> bool:
    return is_allowed(access, AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)


async def alter(
    services: _Services,
    resources: Sequence[Q],
    alteration: Callable[[Q], ConfigAlteration],
    respond: Callable[[ErrorCode, str | None, int, str], R],
    validate_only: bool,
) -> list[R]:
    """Make or validate the alteration of each resource; `respond` gets the outcome."""
    responses = []
    twice = await find_duplicates((named.resource_type, named.resource_name) for named in resources)
    async for resource in over(resources):
        kind, name = resource.resource_type, resource.resource_name
        error = await _attempt(services, alteration(resource), (kind, name) in twice, validate_only)
        code, message = (error.code, error.detail) if error else (ErrorCode.NONE, None)
        responses.append(respond(code, message, kind, name))
    return responses


async def _attempt(
    services: _Services, alteration: ConfigAlteration, twice: bool, validate_only: bool
) -> KafkaError | None:
    try:
        if twice:
            raise duplicate_error()
        check_number_of_settings(len(alteration.changes))
        _check_kind(alteration)
        resource = find_resource(services, alteration.kind, alteration.name)
        await _alter(resource, _checked(alteration.changes), alteration.keep, validate_only)
    except KafkaError as error:
        return error
    return None


def check_number_of_settings(count: int) -> None:
    """Raise INVALID_CONFIG for more than `_SETTINGS_MAX`, which would take long to look up."""
    if count > _SETTINGS_MAX:
        raise KafkaError(f"{count} settings are named; nothing has more than {_SETTINGS_MAX}", ErrorCode.INVALID_CONFIG)


def _check_kind(alteration: ConfigAlteration) -> None:
    if alteration.kind == ResourceType.TOPIC and not alteration.name:
        raise KafkaError("There are no settings of all topics: name one", ErrorCode.INVALID_REQUEST)
    if alteration.kind == ResourceType.BROKER_LOGGER and not alteration.keep:
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
        names = ", ".join(f"{operation:d} {operation.name}" for operation in ConfigOperation)
        raise KafkaError(f"There is no operation {number}; there are {names}", ErrorCode.INVALID_REQUEST) from error


async def _alter(resource: Resource, changes: list[SettingChange], keep: bool, validate_only: bool) -> None:
    def change(own: Mapping[str, str]) -> dict[str, str]:
        return _applied(own if keep else {}, changes, resource)

    if validate_only:
        await resource.check(change)
    else:
        await resource.alter(change)


def _applied(own: Mapping[str, str], changes: Iterable[SettingChange], resource: Resource) -> dict[str, str]:
    try:
        result = apply(own, changes, resource.settings, resource.inherited())
    except ConfigError as error:
        raise KafkaError(str(error), ErrorCode.INVALID_CONFIG) from error
    return {name: text for name, text in result.items() if text is not None}
