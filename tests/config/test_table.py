"""The table against Kafka's own definitions, printed by Kafka 3.9.0's classes into kafka_3_9.tsv."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from pylogbroker.config import BROKER, SETTINGS, TOPIC, BrokerConfig, Mode, Setting
from pylogbroker.config.foreign import reason_to_refuse, reason_without_effect
from pylogbroker.config.kinds import render


@attrs.frozen
class Defined:
    """A row of Kafka's definitions."""

    scope: str
    name: str
    type: str
    default: str
    importance: str
    mode: str
    synonyms: str


def _definitions() -> list[Defined]:
    lines = Path(__file__).with_name("kafka_3_9.tsv").read_text().splitlines()
    return [Defined(*line.split("\t")) for line in lines if not line.startswith("#")]


KAFKA = {(defined.scope, defined.name): defined for defined in _definitions()}

# Where the table differs from Kafka, and why.
OTHER_DEFAULTS = {
    "log.dir": "data",  # /tmp/kafka-logs is another layout's, and is gone after a restart of the machine
    "socket.receive.buffer.bytes": -1,  # Kafka's 100 KiB keep the system from adapting the buffers
    "socket.send.buffer.bytes": -1,
    "socket.listen.backlog.size": 1024,  # beyond 50 connections at once each waits a second
    "listener.security.protocol.map": BROKER["listener.security.protocol.map"].default,  # Kafka's has no order
}

# Settings that Kafka does not have, and why.
OWN = {
    ("broker", "log.delete.policies"),  # delete policies are plugins
    ("topic", "delete.policies"),
}
SHARED = [setting for setting in SETTINGS if (setting.scope, setting.name) not in OWN]


def _named(setting: Setting) -> str:
    return f"{setting.scope}-{setting.name}"


@pytest.mark.parametrize("setting", SHARED, ids=_named)
def test_a_setting_is_as_kafka_defines_it(setting: Setting) -> None:
    kafka = KAFKA[setting.scope, setting.name]
    assert setting.kind.type.name == kafka.type
    assert setting.importance.name == kafka.importance
    if setting.name in OTHER_DEFAULTS:
        assert setting.default == OTHER_DEFAULTS[setting.name]
    else:
        assert (render(setting.default) if setting.default is not None else "null") == kafka.default.strip("[]")


@pytest.mark.parametrize("setting", [setting for setting in SHARED if setting.scope == "broker"], ids=_named)
def test_what_can_be_changed_at_run_time_can_be_in_kafka(setting: Setting) -> None:
    assert setting.mode in (Mode.READ_ONLY, KAFKA["broker", setting.name].mode)


@pytest.mark.parametrize("setting", [setting for setting in SHARED if setting.scope == "topic"], ids=_named)
def test_a_topic_setting_has_kafkas_synonyms(setting: Setting) -> None:
    factors = {"1": 1, "60000": 60_000, "3600000": 3_600_000}
    defined = [item.rsplit(":", 1) for item in KAFKA["topic", setting.name].synonyms.split() if item != "-"]
    assert [(s.name, s.factor) for s in setting.synonyms] == [(name, factors[factor]) for name, factor in defined]


def test_every_setting_of_a_topic_is_there() -> None:
    assert {name for scope, name in KAFKA if scope == "topic"} == {name for name in TOPIC if ("topic", name) not in OWN}


def test_settings_of_our_own_are_no_settings_of_kafkas() -> None:
    assert {(setting.scope, setting.name) for setting in SETTINGS} - set(KAFKA) == OWN


def test_a_topics_own_default_is_the_brokers() -> None:
    assert BrokerConfig({"log.delete.policies": "size"}).topic({}).texts("delete.policies") == ("size",)


def test_every_other_setting_of_kafkas_broker_is_known_as_one() -> None:
    others = [name for scope, name in KAFKA if scope == "broker" and name not in BROKER]
    assert [name for name in others if not reason_without_effect(name) and not reason_to_refuse(name)] == []


@pytest.mark.parametrize("setting", SETTINGS, ids=_named)
def test_the_default_is_itself_accepted(setting: Setting) -> None:
    text = render(setting.default)
    assert text is None or setting.kind.parse(text) == setting.default


@pytest.mark.parametrize("setting", SETTINGS, ids=_named)
def test_a_setting_says_what_it_means(setting: Setting) -> None:
    assert setting.doc.endswith(".")
    assert setting.kind.expected


@pytest.mark.parametrize("setting", [setting for setting in SHARED if setting.scope == "topic"], ids=_named)
def test_the_brokers_defaults_for_topics_are_kafkas(setting: Setting) -> None:
    in_force = render(BrokerConfig({}).topic({})[setting.name])
    assert in_force == KAFKA["topic", setting.name].default.strip("[]")
