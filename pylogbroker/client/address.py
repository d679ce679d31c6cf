"""Where a broker listens."""

from __future__ import annotations

import re

import attrs

from pylogbroker.errors import ConfigError

DEFAULT_PORT = 9092

_ADDRESS = re.compile(r"(?:[A-Za-z0-9_]+://)?(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^\[\]:/\s]+))(?::(?P<port>\d{1,5}))?")


@attrs.frozen
class Address:
    """A host, by name or by number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """The address that `host:port`, `[ipv6]:port` or `NAME://host:port` stands for; without a port it is 9092."""
    match = _ADDRESS.fullmatch(text.strip())
    port = int(match["port"] or DEFAULT_PORT) if match else 0
    if match is None or not 0 < port < 65536:
        raise ConfigError(f"bootstrap.servers: {text!r} is not accepted; expected host:port, separated by commas")
    return Address(match["ipv6"] or match["host"], port)
