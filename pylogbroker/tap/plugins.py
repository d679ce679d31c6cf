"""Installed plugins of the broker, by their names in settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar, cast

import attrs

from pylogbroker.assignors.group import BUILT_IN, KAFKA_CLASSES
from pylogbroker.broker.partitions.delete_policies import DeletePolicies
from pylogbroker.broker.requests.client_telemetry import telemetry_problem
from pylogbroker.config import BrokerConfig
from pylogbroker.config.archive_settings import STORAGE
from pylogbroker.discovery import installed, not_declared
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import IClientTelemetryReceiver, IDeletePolicy, IDeletePolicyFactory, IGroupAssignor
from pylogbroker.interfaces.remote_storage import IRemoteStorage, IRemoteStorageFactory
from pylogbroker.named_plugins import Installed, why_unfit

T = TypeVar("T")


@attrs.frozen
class _Kind:
    name: str
    interface: Any


_ASSIGNOR: Final = _Kind("group assignor", IGroupAssignor)
_STORAGE: Final = _Kind("remote storage", IRemoteStorageFactory)
_RECEIVER: Final = _Kind("client telemetry receiver", IClientTelemetryReceiver)


def group_assignors(config: BrokerConfig) -> Mapping[str, IGroupAssignor]:
    """Return the assignors of consumer groups, the default one first; raise ConfigError for an unknown name."""
    names = [KAFKA_CLASSES.get(name, name) for name in config.group_consumer_assignors]
    if not names:
        raise ConfigError("group.consumer.assignors: it is empty; expected at least one assignor")
    return _named("group.consumer.assignors", names, _ASSIGNOR, BUILT_IN)


def telemetry_receivers(config: BrokerConfig) -> tuple[IClientTelemetryReceiver, ...]:
    """Return the receivers of clients' metrics; raise ConfigError for a name that cannot be used."""
    names = config.client_telemetry_receivers
    receivers: Mapping[str, IClientTelemetryReceiver] = _named("client.telemetry.receivers", names, _RECEIVER, {})
    for name, receiver in receivers.items():
        problem = telemetry_problem(receiver)
        if problem:
            raise _not_accepted("client.telemetry.receivers", name, problem)
    return tuple(receivers.values())


def _named(setting: str, names: Iterable[str], kind: _Kind, built_in: Mapping[str, T]) -> dict[str, T]:
    """Return the plugins that a setting names; raise ConfigError for a name that cannot be used."""
    plugins, others = built_in, Installed()
    names = dict.fromkeys(names)
    if not all(name in plugins for name in names):
        others = installed(kind.name, kind.interface)
        others.plugins = plugins = {**others.plugins, **built_in}
    for name in names:
        if name not in plugins:
            why = others.unknown(name)
            undeclared = "" if name in others.ignored else not_declared(kind.name, name, kind.interface)
            raise _not_accepted(setting, name, f"{why}; {undeclared}" if undeclared else why)
        unfit = why_unfit(kind.interface, plugins[name])
        if unfit is not None:
            raise _not_accepted(setting, name, unfit)
    return {name: plugins[name] for name in names}


def _not_accepted(setting: str, name: str, why: str) -> ConfigError:
    return ConfigError(f"{setting}: {name!r} is not accepted; {why}")


def remote_storage(config: BrokerConfig) -> IRemoteStorage | None:
    """Return the storage of archived topics; None if there is none. Raise ConfigError. Blocks."""
    text = config.remote_log_storage
    if not config.remote_log_storage_system_enable:
        return None
    name, _, argument = text.partition(":")
    if not name:
        raise ConfigError(f"{STORAGE}: it is empty; expected a name and a place, such as directory:/mnt/archive")
    factory: Any = _named(STORAGE, [name], _STORAGE, {})[name]
    try:
        storage = factory.make(argument)
    except ValueError as error:
        raise ConfigError(f"{STORAGE}: {name!r} is not accepted; {error}") from error
    unfit = why_unfit(IRemoteStorage, storage)
    if unfit is not None:
        raise _not_accepted(STORAGE, name, unfit)
    return cast(IRemoteStorage, storage)


def delete_policies() -> DeletePolicies:
    return DeletePolicies(installed("delete policy", IDeletePolicyFactory, IDeletePolicy))
