"""Installed plugins of the broker, by their names in settings."""

from __future__ import annotations

from collections.abc import Mapping

from pylogbroker.assignors.group import BUILT_IN, KAFKA_CLASSES
from pylogbroker.broker.partitions.delete_policies import DeletePolicies
from pylogbroker.config import BrokerConfig
from pylogbroker.discovery import installed
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import IDeletePolicyFactory, IGroupAssignor


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


def delete_policies() -> DeletePolicies:
    return DeletePolicies(installed("delete policy", IDeletePolicyFactory))
