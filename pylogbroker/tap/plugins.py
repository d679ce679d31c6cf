"""Installed plugins of the broker, by their names in settings."""

from __future__ import annotations

from collections.abc import Mapping

from pylogbroker.assignors.group import BUILT_IN, KAFKA_CLASSES
from pylogbroker.broker.partitions.delete_policies import DeletePolicies
from pylogbroker.broker.requests.client_telemetry import telemetry_problem
from pylogbroker.config import BrokerConfig
from pylogbroker.discovery import installed
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import IClientTelemetryReceiver, IDeletePolicyFactory, IGroupAssignor


def group_assignors(config: BrokerConfig) -> Mapping[str, IGroupAssignor]:
    """Return the assignors of consumer groups, the default one first; raise ConfigError for an unknown name."""
    names = [KAFKA_CLASSES.get(name, name) for name in config.group_consumer_assignors]
    assignors: Mapping[str, IGroupAssignor] = BUILT_IN
    if not all(name in assignors for name in names):
        assignors = {**installed("group assignor", IGroupAssignor), **assignors}
    for name in names:
        if name not in assignors:
            expected = ", ".join(assignors)
            raise ConfigError(f"group.consumer.assignors: {name!r} is not accepted; expected some of {expected}")
    if not names:
        raise ConfigError("group.consumer.assignors: it is empty; expected at least one assignor")
    return {name: assignors[name] for name in names}


def telemetry_receivers(config: BrokerConfig) -> tuple[IClientTelemetryReceiver, ...]:
    """Return the receivers of clients' metrics; raise ConfigError for a name that cannot be used."""
    names = config.client_telemetry_receivers
    receivers = installed("client telemetry receiver", IClientTelemetryReceiver) if names else {}
    for name in names:
        if name not in receivers:
            expected = f"some of {', '.join(sorted(receivers))}" if receivers else "none: no receiver is installed"
            raise ConfigError(f"client.telemetry.receivers: {name!r} is not accepted; expected {expected}")
        problem = telemetry_problem(receivers[name])
        if problem:
            raise ConfigError(f"client.telemetry.receivers: the receiver {name!r} cannot be used: {problem}")
    return tuple(receivers[name] for name in dict.fromkeys(names))


def delete_policies() -> DeletePolicies:
    return DeletePolicies(installed("delete policy", IDeletePolicyFactory))
