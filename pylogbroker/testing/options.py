"""PluginOptions of the plugin for pytest: flags, and their names in pytest's ini file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from pylogbroker.features import on_first_use
from pylogbroker.java.text import is_digits

if TYPE_CHECKING:
    from pylogbroker import config
else:
    config = on_first_use("pylogbroker.config")

_OPTIONS = (
    ("kafka_bootstrap", "HOST:PORT", "run tests against this Kafka; those that need more than a Kafka has are skipped"),
    ("kafka_brokers", "N", "number of brokers, which make a cluster; default 1"),
    ("kafka_engine", "ENGINE", "own, or kraft: brokers join Apache Kafka's controller; default own"),
    ("kafka_home", "PATH", "installation of Apache Kafka for the controller; default KAFKA_HOME of the environment"),
    (
        "kafka_client",
        "LIBRARY",
        "library of producers and consumers: confluent, kafka-python, aiokafka, pylogbroker",
    ),
)
_SETTINGS = "kafka_settings"
_CLIENT_SETTINGS = "kafka_client_settings"
_REGISTRY = "kafka_schema_registry"


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "a Kafka broker for tests (pylogbroker)")
    for name, metavar, meaning in _OPTIONS:
        group.addoption(f"--{name.replace('_', '-')}", dest=name, metavar=metavar, default=None, help=meaning)
        parser.addini(name, meaning, default="")
    meaning = "give the broker a schema registry"
    group.addoption("--kafka-schema-registry", dest=_REGISTRY, action="store_true", default=False, help=meaning)
    parser.addini(_REGISTRY, meaning, type="bool", default=False)
    meaning = "setting of the broker; may be repeated"
    group.addoption("--kafka-setting", dest=_SETTINGS, metavar="NAME=VALUE", action="append", default=[], help=meaning)
    parser.addini(_SETTINGS, "settings of the broker, a line name=value for each", type="linelist", default=[])
    meaning = "setting of clients of --kafka-bootstrap, such as security.protocol; may be repeated"
    group.addoption(
        "--kafka-client-setting",
        dest=_CLIENT_SETTINGS,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help=meaning,
    )
    parser.addini(
        _CLIENT_SETTINGS, "settings of clients of kafka_bootstrap, a line name=value for each", "linelist", default=[]
    )


@attrs.frozen
class PluginOptions:
    _config: pytest.Config

    @property
    def bootstrap(self) -> str:
        return self._text("kafka_bootstrap")

    @property
    def client(self) -> str:
        return self._text("kafka_client")

    def of_broker(self, settings: Mapping[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        """Return the arguments of `Broker`: these ones, over those of flags and ini file, setting by setting."""
        given = self._given()
        return {**given, **arguments, "settings": {**given["settings"], **config.texts_of(settings or {})}}

    def _given(self) -> dict[str, Any]:
        settings = self._pairs(_SETTINGS)
        brokers = self._text("kafka_brokers")
        if brokers and not (is_digits(brokers) and int(brokers)):
            raise pytest.UsageError(f"kafka_brokers: {brokers!r} is not accepted; expected a number from 1 on")
        arguments: dict[str, Any] = {"settings": settings, "schema_registry": self._has_registry}
        texts = {"engine": self._text("kafka_engine"), "kafka_home": self._text("kafka_home")}
        arguments |= {name: text for name, text in texts.items() if text}
        return arguments | ({"brokers": int(brokers)} if brokers else {})

    @property
    def _has_registry(self) -> bool:
        return bool(self._config.getoption(_REGISTRY) or self._config.getini(_REGISTRY))

    @property
    def client_settings(self) -> dict[str, str]:
        """Return the settings of clients of a Kafka that runs elsewhere."""
        return self._pairs(_CLIENT_SETTINGS)

    def _pairs(self, option: str) -> dict[str, str]:
        """Return the settings of the ini file, then those of flags."""
        pairs = {}
        for line in (*self._config.getini(option), *self._config.getoption(option)):
            name, equals, value = line.partition("=")
            if not equals:
                raise pytest.UsageError(f"{option}: {line!r} is not accepted; expected name=value")
            pairs[name.strip()] = value
        return pairs

    def _text(self, name: str) -> str:
        given = self._config.getoption(name)
        return str(self._config.getini(name) if given is None else given)
