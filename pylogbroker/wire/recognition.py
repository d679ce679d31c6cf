"""Recognition of other protocols, so that an error can name the likely mistake.

Browsers, health checks and clients with TLS reach listeners by mistake. Only invalid bytes are examined here.
"""

from __future__ import annotations

import struct
from typing import Final

from pylogbroker.wire.errors import WireError
from pylogbroker.wire.headers import decode_request_header
from pylogbroker.wire.messages import SUPPORTED
from pylogbroker.wire.simple import Fetch, MultiFetch, MultiProduce, Offsets, Produce, decode_legacy07_request

_HTTP: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")
_TLS_RECORDS: Final = (b"\x16\x03", b"\x15\x03")  # a handshake, and an alert


def describe_length(length: int) -> str | None:
    """Describe the first four bytes of a stream that are not a frame's size; None if unknown."""
    start = struct.pack(">i", length)
    if start[:2] in _TLS_RECORDS:
        return (
            "this looks like TLS, which this listener does not speak: connect without it (security.protocol=PLAINTEXT)"
        )
    if start in _HTTP:
        return "this looks like HTTP, which this listener does not speak: connect with a Kafka client"
    return None


def describe_kafka_request(frame: memoryview) -> str | None:
    """Describe a frame that looks like a request of Kafka's protocol; None if it does not."""
    try:
        header, _ = decode_request_header(frame)
    except WireError:
        return None
    client, api = header.client_id, SUPPORTED.get(header.api_key)
    if api is None or (client is not None and not client.isprintable()):
        return None
    name = api[0].__name__.removesuffix("Request")
    return (
        f"this looks like {name} {header.api_version} of Kafka's protocol, from the client {client!r}, and this "
        "listener speaks that of Kafka 0.7: connect to another listener"
    )


def describe_legacy07_request(frame: memoryview) -> str | None:
    """Say that a frame looks like a request of Kafka 0.7's protocol, if it does."""
    try:
        request = decode_legacy07_request(frame)
    except WireError:
        return None
    match request:
        case Produce(part) | Fetch(part) | MultiProduce([part, *_]) | MultiFetch([part, *_]):
            topic = part.topic
        case Offsets():
            topic = request.topic
        case _:
            return None
    if not topic.isprintable():
        return None
    return (
        f"this looks like a request of Kafka 0.7's protocol ({type(request).__name__} of topic {topic!r}), and this "
        "listener speaks Kafka's of today: connect to a SIMPLE listener"
    )
