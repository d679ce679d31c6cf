"""Which settings go with which `group.protocol`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from pylogbroker.config import Values
from pylogbroker.errors import ConfigError

CONSUMER: Final = "consumer"
_OF_OTHERS: Final[Mapping[str, Mapping[str, str]]] = {
    "classic": {"group.remote.assignor": "the members assign: use partition.assignment.strategy"},
    CONSUMER: {
        "partition.assignment.strategy": "the broker assigns: use group.remote.assignor",
        "session.timeout.ms": "the broker decides: use its setting group.consumer.session.timeout.ms",
        "heartbeat.interval.ms": "the broker decides: use its setting group.consumer.heartbeat.interval.ms",
    },
}
"""Settings that a protocol does not have, and what to use instead."""


def check_group_protocol(settings: Values, given: Collection[str], has_tree: bool) -> str:
    """Return the protocol; raise ConfigError for given settings that have no effect with it."""
    protocol = settings.text("group.protocol")
    for name, cure in _OF_OTHERS[protocol].items():
        if name in given:
            raise ConfigError(f"{name} has no effect with group.protocol={protocol}: {cure}, or leave it out")
    if protocol == CONSUMER and has_tree:
        raise ConfigError(
            "group.protocol=consumer is for groups that brokers keep; with zookeeper.connect or coordination= the"
            " coordination tree keeps the group: leave one of both out"
        )
    return protocol
