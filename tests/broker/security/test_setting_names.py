"""Names of the settings that secure connections between brokers and to controllers, as errors give them."""

from __future__ import annotations

import pytest

from pylogbroker.broker.security.logins import names_at_controllers, names_between_brokers
from pylogbroker.config import BrokerConfig
from pylogbroker.rpc.security import SecurityNames

MECHANISM = "sasl.mechanism.inter.broker.protocol"


@pytest.mark.parametrize(
    ("settings", "protocol"),
    [
        ({}, "security.inter.broker.protocol"),
        (
            {
                "listeners": "IN://:9092,OUT://:9093",
                "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
                "inter.broker.listener.name": "IN",
            },
            "the protocol of IN in listener.security.protocol.map",
        ),
    ],
)
def test_connections_between_brokers(settings: dict[str, str], protocol: str) -> None:
    assert names_between_brokers(BrokerConfig(settings)) == SecurityNames(protocol, MECHANISM)


def test_connections_to_controllers() -> None:
    config = BrokerConfig({"controller.listener.names": "CONTROLLER"})
    expected = "the protocol of CONTROLLER in listener.security.protocol.map", "sasl.mechanism.controller.protocol"
    assert names_at_controllers(config) == SecurityNames(*expected)
