"""Recognition of other protocols, so that an error can name the likely mistake.

Browsers, health checks and TLS clients reach listeners by mistake. Only invalid bytes are examined.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from pylogbroker.wire.errors import OtherProtocol

_HTTP: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")
TLS: Final = "TLS"
HTTP: Final = "HTTP"
_ADVICE: Final = {TLS: "without it (security.protocol=PLAINTEXT)", HTTP: "with a Kafka client"}
_TLS_RECORDS: Final = (b"\x16\x03", b"\x15\x03")  # handshake, alert
_descriptions: Final[list[Callable[[memoryview], str | None]]] = []


def register(describe: Callable[[memoryview], str | None]) -> None:
    """Add a function that describes frames of another protocol, or returns None."""
    _descriptions.append(describe)


def describe_other_protocol(frame: memoryview) -> str | None:
    return next((description for describe in _descriptions if (description := describe(frame)) is not None), None)


def protocol_of_length(length: int) -> str | None:
    """Return the protocol of a stream's first four bytes, if they are not a size and known."""
    start = struct.pack(">i", length)
    if start[:2] in _TLS_RECORDS:
        return TLS
    return HTTP if start in _HTTP else None


def other_protocol(length: int) -> OtherProtocol | None:
    """Return an error for a stream's first four bytes, if they are not a size and known."""
    name = protocol_of_length(length)
    if name is None:
        return None
    text = f"this looks like {name}, which this listener does not speak: connect {_ADVICE[name]}"
    return OtherProtocol(name, text)
