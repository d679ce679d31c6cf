"""Checks of a broker's settings that depend on each other: they come from its file and command line."""

from __future__ import annotations

from typing import Final

from pylogbroker.config.broker_values import BrokerValues
from pylogbroker.errors import ConfigError
from pylogbroker.java.text import split_list

CONTROLLER_LISTENERS: Final = "controller.listener.names"
BROKER_ROLE, CONTROLLER_ROLE = "broker", "controller"
_BOUNDED: Final = (
    ("group.consumer", "session.timeout.ms"),
    ("group.consumer", "heartbeat.interval.ms"),
    ("group.share", "session.timeout.ms"),
    ("group.share", "heartbeat.interval.ms"),
    ("group.share", "assignment.interval.ms"),
    ("group.share", "record.lock.duration.ms"),
    ("group.share", "delivery.count.limit"),
    ("group.share", "partition.max.record.locks"),
    ("group.streams", "session.timeout.ms"),
    ("group.streams", "heartbeat.interval.ms"),
    ("group.streams", "assignment.interval.ms"),
)
"""Settings of groups with a minimum and a maximum for the settings of single groups."""


def check_static(config: BrokerValues) -> None:
    if not config.log_dirs:
        raise ConfigError(f"log.dirs: {config.log_dirs_text!r} is not accepted; expected at least one directory")
    if len(set(config.log_dirs)) < len(config.log_dirs):
        raise ConfigError(f"log.dirs: {config.log_dirs_text!r} is not accepted; expected each directory once")
    least, most = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if least > most:
        raise ConfigError(
            f"group.min.session.timeout.ms: {least} is not accepted; "
            f"expected at most group.max.session.timeout.ms, {most}"
        )
    _check_group_times(config)
    _check_roles(config)
    _check_broker_id(config)


def _check_group_times(config: BrokerValues) -> None:
    """Raise ConfigError unless the settings of groups are within their bounds."""
    for kind, name in _BOUNDED:
        low, high = f"{kind}.min.{name}", f"{kind}.max.{name}"
        least, value, most = config.integer(low), config.integer(f"{kind}.{name}"), config.integer(high)
        if not least <= value <= most:
            raise ConfigError(
                f"{kind}.{name}: {value} is not accepted; expected {least} to {most}, by {low} and {high}"
            )
    for kind in ("group.consumer", "group.share", "group.streams"):
        interval, timeout = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        if config.integer(interval) >= config.integer(timeout):
            raise ConfigError(
                f"{interval}: {config.integer(interval)} is not accepted;"
                f" expected less than {timeout}, {config.integer(timeout)}"
            )


def _check_roles(config: BrokerValues) -> None:
    """Raise ConfigError for roles that a broker here cannot have, or whose settings are missing or contradict."""
    roles = config.process_roles
    if not roles:
        return
    if sorted(roles) not in ([BROKER_ROLE], [BROKER_ROLE, CONTROLLER_ROLE]):
        raise ConfigError(
            f"process.roles: {','.join(roles)!r} is not accepted; expected broker, or broker,controller: controllers "
            "alone are Apache Kafka's"
        )
    if config.zookeeper_connect:
        raise ConfigError(
            "process.roles: is not accepted together with zookeeper.connect; remove the one by which the brokers do "
            "not form their cluster"
        )
    if not config.in_kraft:
        if max(len(config.controller_quorum_voters), len(config.controller_quorum_bootstrap_servers)) > 1:
            raise ConfigError(
                "process.roles: broker,controller is not accepted together with controllers of a quorum, which are "
                "Apache Kafka's; set process.roles=broker to join their cluster"
            )
        return
    if not (config.controller_quorum_bootstrap_servers or config.controller_quorum_voters):
        raise ConfigError(
            "process.roles: broker needs the addresses of the controllers; set controller.quorum.bootstrap.servers"
        )
    if not config.controller_listeners:
        raise ConfigError(
            "process.roles: broker needs the name of the controllers' listener; set " + CONTROLLER_LISTENERS
        )
    _check_own_listeners(config)
    if config.broker_id < 0:
        raise ConfigError("process.roles: broker needs a number that no other broker or controller has; set node.id")


def _check_own_listeners(config: BrokerValues) -> None:
    """Raise ConfigError if a broker that is no controller would listen as one."""
    controllers = {name.upper() for name in config.controller_listeners}
    for item in split_list(config.listeners_text):
        name = item.partition("://")[0].strip().upper()
        if name in controllers:
            raise ConfigError(
                f"listeners: {name} is not accepted, it is in {CONTROLLER_LISTENERS}: the controllers listen there, "
                "and this broker connects to them; remove it from listeners"
            )


def _check_broker_id(config: BrokerValues) -> None:
    number, reserved = config.broker_id, config.reserved_broker_max_id
    other = config.node_id
    if other not in (-1, number):
        raise ConfigError(f"broker.id: {number} is not accepted; expected the same as node.id, {other}")
    if not config.broker_id_generation_enable:
        if number < 0:
            raise ConfigError("broker.id: -1 is not accepted; expected a number, because none is generated")
    elif number > reserved and not config.in_kraft:
        raise ConfigError(f"broker.id: {number} is not accepted; expected at most reserved.broker.max.id, {reserved}")
