"""Logins in Java's syntax of a broker's listeners: accounts of PLAIN, and the broker's own credentials."""

from __future__ import annotations

from typing import Final

from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.errors import ConfigError
from pylogbroker.security.sasl import jaas
from pylogbroker.security.sasl.credentials import Credentials, check_mechanism
from pylogbroker.security.sasl.users import MECHANISMS

_JAAS: Final = "sasl.jaas.config"
_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"


def login_of(config: BrokerConfig, listener: Listener, mechanism: str) -> tuple[str, jaas.Login] | None:
    """Return the setting with the login of a mechanism, and the login; raise ConfigError."""
    for name in (f"{listener.prefix}{mechanism.lower()}.{_JAAS}", listener.prefix + _JAAS, _JAAS):
        text = config.set_text(name)
        if text:
            return name, jaas.parse(text, name)
    return None


def credentials_of_broker(config: BrokerConfig) -> Credentials | None:
    """Return what this broker shows to others, None on a listener without SASL; raise ConfigError."""
    listener = config.inter_broker_listener
    if not listener.security.has_sasl:
        return None
    enabled = config.of_listener(listener).texts("sasl.enabled.mechanisms")
    mechanism = check_mechanism(config.optional_text(_MECHANISM), MECHANISMS, _MECHANISM)
    if mechanism not in enabled:
        raise ConfigError(f"{_MECHANISM}: {mechanism} is not in sasl.enabled.mechanisms of listener {listener.name}")
    found = login_of(config, listener, mechanism)
    if found is None:
        name = f"{listener.prefix}{mechanism.lower()}.{_JAAS}"
        raise ConfigError(f"{name}: expected the user and the password with which this broker connects to others")
    name, login = found
    return Credentials.of_login(mechanism, login, name)
