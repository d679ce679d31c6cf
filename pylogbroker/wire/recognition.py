"""Recognition of other protocols, so that an error can name the likely mistake.

Browsers, health checks and TLS clients reach listeners by mistake. Only invalid bytes are examined.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

_HTTP: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")
_TLS_RECORDS: Final = (b"\x16\x03", b"\x15\x03")  # handshake, alert
_descriptions: Final[list[Callable[[memoryview], str | None]]] = []


def register(describe: Callable[[memoryview], str | None]) -> None:
    """Add a function that describes frames of another protocol, or returns None."""
    _descriptions.append(describe)


def describe_other_protocol(frame: memoryview) -> str | None:
    return next((found for describe in _descriptions if (found := describe(frame)) is not None), None)


def describe_length(length: int) -> str | None:
    """Describe a stream's first four bytes, if they are not a size and known."""
    start = struct.pack(">i", length)
    if start[:2] in _TLS_RECORDS:
        return (
            "this looks like TLS, which this listener does not speak: connect without it (security.protocol=PLAINTEXT)"
        )
    if start in _HTTP:
        return "this looks like HTTP, which this listener does not speak: connect with a Kafka client"
    return None
