"""Addresses of hosts within a time that is given: the system's resolver may wait for name servers much longer."""

from __future__ import annotations

import socket
import threading

from pylogbroker.java.text import is_digits
from pylogbroker.rpc.settings import Address

Addresses = list[tuple[str, int]]


def looked_up(address: Address, seconds: float) -> Addresses:
    """Return addresses and ports of a host; raise OSError, such as TimeoutError, or UnicodeError."""
    if _is_number(address.host):
        return [(address.host, address.port)]
    outcome: list[Addresses | OSError | UnicodeError] = []

    def look_up() -> None:
        try:
            outcome.append(_resolved(address))
        except (OSError, UnicodeError) as error:
            outcome.append(error)

    thread = threading.Thread(target=look_up, name=f"addresses of {address.host}", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError(
            f"no name server has answered for {address.host} within {seconds:g} s: is the name right?"
            " bootstrap.connect.max.ms may be longer"
        )
    [addresses] = outcome
    if isinstance(addresses, Exception):
        raise addresses
    return addresses


def _resolved(address: Address) -> Addresses:
    rows = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((str(row[4][0]), int(row[4][1])) for row in rows))


def _is_number(host: str) -> bool:
    return is_digits(host.replace(".", "")) or ":" in host
