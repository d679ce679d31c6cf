"""The broker's settings for its own schema registry, and its topic settings for the validation of records."""

from __future__ import annotations

import re
from typing import Final

from pylogbroker.config.listeners import Endpoint, parse_each_endpoint
from pylogbroker.config.setting import fixed, rows_of
from pylogbroker.config.value_kinds import SHORT, ConfigType, NotAccepted, TypedKind, at_least
from pylogbroker.config.values import Values

HTTPS: Final = "https"
_SCHEMES: Final = ("http", HTTPS)
_LOOPBACK: Final = "127.0.0.1"
_URL: Final = re.compile(r"([a-zA-Z]+)://(\[[0-9A-Fa-f:.]+\]|[^\s\[\]:/,]*):([0-9]+)/?")
_FORM: Final = "http://host:port or https://host:port"


def parse_registry_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Parse `http://host:port,...`; raise NotAccepted, or ValueError. No host means loopback."""
    endpoints = tuple(_with_defaults(endpoint) for endpoint in parse_each_endpoint(text, _URL, _FORM))
    addresses = [(endpoint.host, endpoint.port) for endpoint in endpoints if endpoint.port]
    if len(set(addresses)) < len(addresses):
        raise ValueError("an address occurs twice")
    return endpoints


def _with_defaults(given: Endpoint) -> Endpoint:
    scheme = given.name.lower()
    if scheme not in _SCHEMES:
        raise NotAccepted(f"{scheme} is not served: expected {_FORM}")
    return Endpoint(scheme, given.host or _LOOPBACK, given.port)


_LISTENERS = TypedKind[str](
    ConfigType.STRING, check=parse_registry_endpoints, words=f"{_FORM}, separated by commas, each once"
)


class RegistryRows(Values):
    __slots__ = ()

    schema_registry_listeners_text = fixed(
        "schema.registry.listeners",
        _LISTENERS,
        None,
        "medium",
        "Addresses of the schema registry that is a part of this broker: http://host:port or https://host:port, "
        "separated by commas. Without the setting, there is none. It has Confluent's interface, and keeps schemas in "
        "the topic _schemas. Without a host, as in http://:8081, this machine alone reaches it. With https, it has the "
        "certificate of ssl.keystore.location. Users and ACLs are those of the broker. It needs the extra registry.",
    )
    schema_registry_advertised_url = fixed(
        "schema.registry.advertised.url",
        TypedKind[str](ConfigType.STRING, check=parse_registry_endpoints, words=_FORM),
        None,
        "low",
        "Address at which other brokers and the command reach this broker's schema registry. By default, that is the "
        "first of schema.registry.listeners, with the broker's advertised host if it listens on all interfaces.",
    )
    schema_registry_topic_replication_factor = fixed(
        "schema.registry.topic.replication.factor",
        at_least(1, SHORT),
        3,
        "low",
        "Number of replicas of _schemas, at most one per broker.",
    )


REGISTRY_SETTINGS = rows_of(RegistryRows)
