"""Listeners: names, addresses and protocols.

listeners                       INSIDE://0.0.0.0:9092,OUTSIDE://[::1]:0    addresses to listen on
advertised.listeners            INSIDE://broker1:9092                      addresses for clients
listener.security.protocol.map  INSIDE:PLAINTEXT,OUTSIDE:SSL               protocols
"""

from __future__ import annotations

import re

import attrs

from pylogbroker.config.value_kinds import NotAccepted
from pylogbroker.java.text import parse_whole, split_list, trim

_ENDPOINT = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.%a-z]+\]|[^\s\[\]:/,]*):([0-9]+)")
_PORT_RANGE = re.compile(r":[0-9]+-[0-9]+$")
PORT_MAX = 65535
_PORT_DIGITS = 5
_ANY_HOSTS = ("", "0.0.0.0", "::")
LISTENER_PREFIX = "listener.name."
PLAINTEXT = "PLAINTEXT"
SSL = "SSL"
SASL_PLAINTEXT = "SASL_PLAINTEXT"
SASL_SSL = "SASL_SSL"
SIMPLE = "SIMPLE"  # of Kafka 0.7; others are Kafka's own
TREE = "ZOOKEEPER"  # the coordination tree of several brokers on one machine


@attrs.frozen
class SecurityProtocol:
    """Layers of a listener's protocol below its requests."""

    has_tls: bool = False
    has_sasl: bool = False

    @property
    def has_setup(self) -> bool:
        """True if clients authenticate themselves, or have a handshake, before their first request."""
        return self.has_tls or self.has_sasl


PROTOCOLS = {
    PLAINTEXT: SecurityProtocol(),
    SSL: SecurityProtocol(has_tls=True),
    SASL_PLAINTEXT: SecurityProtocol(has_sasl=True),
    SASL_SSL: SecurityProtocol(has_tls=True, has_sasl=True),
    SIMPLE: SecurityProtocol(),
}


@attrs.frozen
class Endpoint:
    """Named address. An empty host means every interface, port 0 any free port."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@attrs.frozen
class Listener:
    """Address to listen on, and the address for clients.

    An empty `advertised_host` is the address that the client connected to; port 0 the port listened on.
    """

    name: str
    host: str
    port: int
    protocol: str
    advertised_host: str
    advertised_port: int

    @property
    def security(self) -> SecurityProtocol:
        return PROTOCOLS[self.protocol]

    @property
    def prefix(self) -> str:
        """Start of the names of settings for this listener alone."""
        return f"{LISTENER_PREFIX}{self.name.lower()}."


def parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Parse `NAME://host:port,...`; raise ValueError if malformed or for a repeated name."""
    endpoints = parse_each_endpoint(text, _ENDPOINT, "NAME://host:port")
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise ValueError("a name occurs twice")
    return endpoints


def parse_each_endpoint(text: str, form: re.Pattern[str], expected: str) -> tuple[Endpoint, ...]:
    """Parse endpoints with commas between them; `form` has the groups name, host and port. Names become upper case.

    Raise NotAccepted, or ValueError for what is not `expected`.
    """
    return tuple(_parse_endpoint(item, form, expected) for item in split_list(trim(text)) if item)


def _parse_endpoint(text: str, form: re.Pattern[str], expected: str) -> Endpoint:
    match = form.fullmatch(text)
    if match is None and _PORT_RANGE.search(text):
        raise NotAccepted(f"{text!r} has a range of ports, which only --brokers takes")
    if match is None:
        raise ValueError(f"not {expected}")
    if len(match[3]) > _PORT_DIGITS or int(match[3]) > PORT_MAX:
        raise NotAccepted(f"port {match[3]} is out of range, expected 0 to {PORT_MAX}")
    return Endpoint(name=match[1].upper(), host=match[2].strip("[]"), port=int(match[3]))


def parse_protocols(text: str) -> dict[str, str]:
    protocols: dict[str, str] = {}
    for item in filter(None, split_list(trim(text))):
        name, _, protocol = (trim(part).upper() for part in item.partition(":"))
        if not name or protocol not in PROTOCOLS or name in protocols:
            raise ValueError("not NAME:PROTOCOL, or a name occurs twice")
        protocols[name] = protocol
    return protocols


def parse_address_limits(text: str) -> dict[str, int]:
    limits: dict[str, int] = {}
    for item in filter(None, split_list(trim(text))):
        host, _, number = item.rpartition(":")
        if not host:
            raise ValueError("not host:number")
        limits[host] = parse_whole(trim(number), 32)
        if limits[host] < 0:
            raise ValueError("not a number of connections")
    return limits


def resolve(
    listeners: str, advertised: str | None, protocols: str, without: frozenset[str] = frozenset()
) -> tuple[Listener, ...]:
    """Return the listeners, except names in `without`; ValueError names the wrong setting."""
    endpoints = tuple(endpoint for endpoint in parse_endpoints(listeners) if endpoint.name not in without)
    advertised_endpoints = {
        point.name: point for point in parse_endpoints(advertised or "") if point.name not in without
    }
    if not endpoints:
        raise ValueError("listeners: expected one that is not in controller.listener.names")
    _check_ports(endpoints)
    _check_advertised(endpoints, advertised_endpoints)
    spoken = parse_protocols(protocols)
    return tuple(
        _listener(endpoint, advertised_endpoints.get(endpoint.name), _protocol(endpoint, spoken))
        for endpoint in endpoints
    )


def _listener(endpoint: Endpoint, advertised_endpoints: Endpoint | None, protocol: str) -> Listener:
    host = advertised_endpoints.host if advertised_endpoints else "" if endpoint.host in _ANY_HOSTS else endpoint.host
    return Listener(
        name=endpoint.name,
        host=endpoint.host,
        port=endpoint.port,
        protocol=protocol,
        advertised_host=host,
        advertised_port=advertised_endpoints.port if advertised_endpoints else 0,
    )


def _check_ports(endpoints: tuple[Endpoint, ...]) -> None:
    addresses = [(endpoint.host, endpoint.port) for endpoint in endpoints if endpoint.port]
    if len(set(addresses)) < len(addresses):
        raise ValueError("listeners: expected each host and port once")


def _check_advertised(endpoints: tuple[Endpoint, ...], advertised_endpoints: dict[str, Endpoint]) -> None:
    unknown = set(advertised_endpoints) - {endpoint.name for endpoint in endpoints}
    if unknown:
        raise ValueError(f"advertised.listeners: expected names of `listeners` only, not {', '.join(sorted(unknown))}")
    if any(endpoint.host in _ANY_HOSTS for endpoint in advertised_endpoints.values()):
        raise ValueError("advertised.listeners: expected an address that clients can connect to")


def _protocol(endpoint: Endpoint, spoken: dict[str, str]) -> str:
    if endpoint.name == TREE:
        raise ValueError(f"listeners: {TREE} is served only with --brokers; leave it out, or start with --brokers 1")
    protocol = spoken.get(endpoint.name, SIMPLE if endpoint.name == SIMPLE else None)
    if protocol is None:
        raise ValueError(f"listener.security.protocol.map: expected a protocol for the listener {endpoint.name}")
    return protocol
