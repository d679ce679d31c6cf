"""Addresses of brokers, and settings of connections."""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING

import attrs

from pylogbroker.config import Values
from pylogbroker.errors import ConfigError
from pylogbroker.java.text import trim
from pylogbroker.rpc.security import OPEN, ConnectionSecurity

if TYPE_CHECKING:
    from pylogbroker.interfaces import ITokenProvider

DEFAULT_PORT = 9092
PORT_MAX = 65535
_PORT_DIGITS = 5
_LOOKUP_SECONDS_MIN = 3.0

_ADDRESS = re.compile(r"(?:[A-Za-z0-9_]+://)?(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^\[\]:/\s]+))(?::(?P<port>[0-9]+))?")


@attrs.frozen
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse `host:port`, `[ipv6]:port` or `NAME://host:port`; the default port is 9092."""
    match = _ADDRESS.fullmatch(trim(text))
    if match is None:
        raise ConfigError(f"bootstrap.servers: {text!r} is not accepted; expected host:port, separated by commas")
    port = match["port"] or str(DEFAULT_PORT)
    if len(port) > _PORT_DIGITS or not 0 < int(port) <= PORT_MAX:
        raise ConfigError(
            f"bootstrap.servers: {text!r} is not accepted; port {port} is out of range, expected 1 to {PORT_MAX}"
        )
    return Address(match["ipv6"] or match["host"], int(port))


def first_contact_seconds(settings: Values) -> float:
    """Return how long a client looks for a first broker while none answers."""
    limit_ms = settings.integer("bootstrap.connect.max.ms")
    return inf if limit_ms < 0 else limit_ms / 1000


@attrs.frozen
class ConnectionSettings:
    """Times in seconds, sizes in bytes."""

    client_id: str = "pylogbroker"
    setup_timeout: float = 10.0  # of connecting, version negotiation and authentication
    lookup_timeout: float = 10.0  # of a host's addresses, for blocking connections
    request_timeout: float = 30.0
    send_buffer: int = -1  # of the socket; -1: the system chooses
    receive_buffer: int = -1
    response_bytes_max: int = (1 << 28) - 1
    security: ConnectionSecurity = attrs.field(default=OPEN, eq=False)

    @classmethod
    def of(cls, settings: Values, provider: ITokenProvider | None = None) -> ConnectionSettings:
        """Return the settings of a client's connections; raise ConfigError. With TLS, it reads files."""
        return cls(
            settings.text("client.id"),
            settings.integer("socket.connection.setup.timeout.ms") / 1000,
            max(_LOOKUP_SECONDS_MIN, first_contact_seconds(settings)),  # a wrong name is to be known soon, too
            settings.integer("request.timeout.ms") / 1000,
            settings.integer("send.buffer.bytes"),
            settings.integer("receive.buffer.bytes"),
            settings.integer("receive.message.max.bytes"),
            ConnectionSecurity.of(settings, provider),
        )
