"""Settings of one listener, and the listener that brokers use among themselves."""

from __future__ import annotations

import pytest

from pylogbroker.config import BrokerConfig, ConfigSource, Listener
from pylogbroker.errors import ConfigError

BROKER = ConfigSource.DYNAMIC_BROKER_CONFIG
TWO = {
    "listeners": "IN://:9092,OUT-1://:9093,SIMPLE://:9094",
    "listener.security.protocol.map": "IN:PLAINTEXT,OUT-1:SSL,SIMPLE:SIMPLE",
}


def named(config: BrokerConfig, name: str) -> Listener:
    return next(listener for listener in config.listeners if listener.name == name)


def test_listener_protocols_have_tls_and_sasl() -> None:
    config = BrokerConfig(TWO)
    assert [(each.name, each.security.has_tls, each.security.has_sasl) for each in config.listeners] == [
        ("IN", False, False),
        ("OUT-1", True, False),
        ("SIMPLE", False, False),
    ]


def test_listener_settings_override_general_ones() -> None:
    own = "listener.name.out-1."
    config = BrokerConfig(
        {**TWO, "ssl.client.auth": "requested", "ssl.keystore.type": "PEM", f"{own}ssl.client.auth": "required"}
    )
    out, inside = named(config, "OUT-1"), named(config, "IN")
    assert config.warnings == ()
    assert config.of_listener(out).text("ssl.client.auth") == "required"
    assert config.of_listener(inside).text("ssl.client.auth") == "requested"
    assert config.of_listener(out).text("ssl.keystore.type") == "PEM"
    reported: list[frozenset[str]] = []
    config.observe(reported.append)
    config.set_dynamic(BROKER, {f"{own}ssl.client.auth": "none", f"{own}ssl.key.password": "secret"})
    assert config.of_listener(out).text("ssl.client.auth") == "none"
    assert config.of_listener(out).text("ssl.key.password") == "secret"
    assert reported == [{f"{own}ssl.client.auth", f"{own}ssl.key.password"}]


def test_settings_of_a_listener_are_checked_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"listener\.name\.in\.ssl\.client\.auth: 'maybe' is not accepted"):
        BrokerConfig({**TWO, "listener.name.in.ssl.client.auth": "maybe"})


def test_the_number_of_connections_of_a_listener() -> None:
    config = BrokerConfig({**TWO, "listener.name.in.max.connections": "5", "max.connections": "7"})
    assert config.warnings == ()
    assert [config.connections_of(each) for each in config.listeners if each.name == "IN"] == [5]
    assert {config.connections_of(each) for each in config.listeners if each.name != "IN"} == {2**31 - 1}


def test_settings_of_no_listener_are_named() -> None:
    (warning,) = BrokerConfig({**TWO, "listener.name.OUT-1.ssl.client.auth": "required"}).warnings
    assert warning == (
        "listener.name.OUT-1.ssl.client.auth has no effect: there is no such listener; the listeners, in lower case: "
        "in, out-1, simple"
    )


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "IN"),
        ({"inter.broker.listener.name": "OUT-1"}, "OUT-1"),
        ({"listeners": "IN://:1,SSL://:2", "security.inter.broker.protocol": "SSL"}, "SSL"),
    ],
)
def test_the_listener_of_brokers(settings: dict[str, str], name: str) -> None:
    if "listeners" in settings:
        settings = {**settings, "listener.security.protocol.map": "IN:PLAINTEXT,SSL:SSL"}
    assert BrokerConfig({**TWO, **settings}).inter_broker_listener.name == name


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"inter.broker.listener.name": "IN", "security.inter.broker.protocol": "PLAINTEXT"},
            r"security\.inter\.broker\.protocol: inter\.broker\.listener\.name is set, too",
        ),
        ({"inter.broker.listener.name": "ELSEWHERE"}, "expected a listener named ELSEWHERE"),
        ({"inter.broker.listener.name": "SIMPLE"}, "expected a listener named SIMPLE"),
        ({"security.inter.broker.protocol": "SSL"}, "expected a listener named SSL"),
    ],
)
def test_no_listener_of_brokers(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        _ = BrokerConfig({**TWO, **settings}).inter_broker_listener
