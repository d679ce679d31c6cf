"""Settings of listeners of 0.7's protocol."""

from __future__ import annotations

import pytest

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError


def protocols(**settings: str) -> dict[str, str]:
    config = BrokerConfig({name.replace("_", "."): text for name, text in settings.items()})
    return {listener.name: listener.protocol for listener in config.listeners}


def test_a_listener_named_simple_has_the_protocol() -> None:
    assert protocols(listeners="SIMPLE://:9090,PLAINTEXT://:9092") == {"SIMPLE": "SIMPLE", "PLAINTEXT": "PLAINTEXT"}


def test_a_listener_named_simple_needs_no_map_entry() -> None:
    found = protocols(listeners="SIMPLE://:1,IN://:2", listener_security_protocol_map="IN:PLAINTEXT")
    assert found == {"SIMPLE": "SIMPLE", "IN": "PLAINTEXT"}


def test_the_map_gives_the_protocol() -> None:
    found = protocols(listeners="OLD://:1,SIMPLE://:2", listener_security_protocol_map="OLD:SIMPLE,SIMPLE:PLAINTEXT")
    assert found == {"OLD": "SIMPLE", "SIMPLE": "PLAINTEXT"}


def test_another_listener_name_needs_a_map_entry() -> None:
    with pytest.raises(ConfigError):
        protocols(listeners="OLD://:1")
