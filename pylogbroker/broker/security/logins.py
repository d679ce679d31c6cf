"""Logins in Java's syntax of a broker's listeners: accounts of PLAIN, and the broker's own credentials.

They are in settings, or in the file that Java's programs name by the property `java.security.auth.login.config`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.errors import ConfigError
from pylogbroker.rpc.security import SecurityNames
from pylogbroker.security.sasl import jaas
from pylogbroker.security.sasl.credentials import Credentials, check_mechanism
from pylogbroker.security.sasl.users import MECHANISMS

FILE: Final = "java.security.auth.login.config"
_SECTION: Final = "KafkaServer"
_JAAS: Final = "sasl.jaas.config"
_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"


def login_of(config: BrokerConfig, listener: Listener, mechanism: str) -> tuple[str, jaas.Login] | None:
    """Return the setting with the login of a mechanism, and the login; raise ConfigError."""
    for name in (f"{listener.prefix}{mechanism.lower()}.{_JAAS}", listener.prefix + _JAAS, _JAAS):
        text = config.set_text(name)
        if text:
            return name, jaas.parse(text, name)
    path = config.java_security_auth_login_config
    return None if path is None else _login_in_file(path, listener, mechanism)


def _login_in_file(path: str, listener: Listener, mechanism: str) -> tuple[str, jaas.Login] | None:
    """Return the login of a mechanism in the listener's section, or else in that of all."""
    sections = read_file(path)
    for section in (f"{listener.name.lower()}.{_SECTION}", _SECTION):
        if section in sections:
            where = f"{FILE}: {path}: {section}"
            module = jaas.MODULES.get(mechanism, jaas.SCRAM_MODULE)
            return next(((where, login) for login in sections[section] if login.module == module), None)
    return None


@cache
def read_file(path: str) -> Mapping[str, Sequence[jaas.Login]]:
    """Read the file once for each start, which calls `cache_clear` before; raise ConfigError. Blocks."""
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{FILE}: {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{FILE}: {path}: is not UTF-8") from None
    return jaas.parse_file(text, f"{FILE}: {path}")


def credentials_of_broker(config: BrokerConfig) -> Credentials | None:
    """Return what this broker shows to others, None on a listener without SASL; raise ConfigError."""
    listener = config.inter_broker_listener
    if not listener.security.has_sasl:
        return None
    enabled = config.of_listener(listener).sasl_enabled_mechanisms
    mechanism = check_mechanism(config.sasl_mechanism_inter_broker_protocol, MECHANISMS, _MECHANISM)
    if mechanism not in enabled:
        raise ConfigError(f"{_MECHANISM}: {mechanism} is not in sasl.enabled.mechanisms of listener {listener.name}")
    return _credentials_on(config, listener, mechanism, "others")


def names_between_brokers(config: BrokerConfig) -> SecurityNames:
    """Return the settings of connections to other brokers, for errors; raise ConfigError."""
    if config.inter_broker_listener_name is None:
        return SecurityNames("security.inter.broker.protocol", _MECHANISM)
    return SecurityNames(_protocol_of(config.inter_broker_listener), _MECHANISM)


def _protocol_of(listener: Listener) -> str:
    return f"the protocol of {listener.name} in listener.security.protocol.map"


def names_at_controllers(config: BrokerConfig) -> SecurityNames:
    """Return the settings of connections to the controllers, for errors; raise ConfigError."""
    return SecurityNames(_protocol_of(config.controller_listener), _CONTROLLER_MECHANISM)


def credentials_at_controllers(config: BrokerConfig) -> Credentials | None:
    """Return what a member of a cluster shows to its controllers, None without SASL; raise ConfigError."""
    listener = config.controller_listener
    if not listener.security.has_sasl:
        return None
    mechanism = check_mechanism(config.sasl_mechanism_controller_protocol, MECHANISMS, _CONTROLLER_MECHANISM)
    return _credentials_on(config, listener, mechanism, "the controllers")


def _credentials_on(config: BrokerConfig, listener: Listener, mechanism: str, peers: str) -> Credentials:
    named_login = login_of(config, listener, mechanism)
    if named_login is None:
        name = f"{listener.prefix}{mechanism.lower()}.{_JAAS}"
        raise ConfigError(f"{name}: expected the user and the password with which this broker connects to {peers}")
    name, login = named_login
    return Credentials.of_login(mechanism, login, name)
