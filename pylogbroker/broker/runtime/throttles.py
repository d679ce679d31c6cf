"""Throttles of replication with the rates of dynamic settings, and the replicas that they are for."""

from __future__ import annotations

from typing import Final

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.config import BrokerConfig
from pylogbroker.replication.throttle import ReplicationThrottle

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
MOVES_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"


def throttle_of(config: BrokerConfig, setting: str, runtime: Runtime) -> ReplicationThrottle:
    """Return a throttle that follows a setting."""
    throttle = ReplicationThrottle()

    def take_rate(changed: frozenset[str] = frozenset()) -> None:
        throttle.set_rate(config.integer(setting), runtime.now_ms())

    take_rate()
    config.observe(take_rate)
    return throttle


def is_throttled(replicas: frozenset[str], partition: int, broker_id: int) -> bool:
    """Return whether a topic's setting names a replica, by partition:broker or *. It may name thousands."""
    return f"{partition}:{broker_id}" in replicas or "*" in replicas
