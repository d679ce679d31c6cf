"""Probe of a listener: for the error of a client whose settings do not fit it.

A SaslHandshake that names no mechanism is sent without TLS, and then with it. A listener with SASL answers with its
mechanisms, one without it with ILLEGAL_SASL_STATE. Nothing secret is sent, so no certificate is checked.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from contextlib import suppress
from typing import Final

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.rpc.settings import Address

_SECONDS: Final = 1.0  # of each attempt
_SASL_HANDSHAKE: Final = 17
_CLIENT_ID: Final = b"pylogbroker"
_HEADER: Final = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id
_ANSWER: Final = struct.Struct(">ihi")  # correlation id, error code, number of mechanisms
_ANSWER_BYTES_MAX: Final = 4096


@attrs.frozen
class SeenListener:
    """`mechanisms` is empty without SASL, and None if it is unknown, as before a client shows its certificate."""

    has_tls: bool
    mechanisms: tuple[str, ...] | None

    @property
    def protocol(self) -> str:
        return ("SASL_" if self.mechanisms else "") + ("SSL" if self.has_tls else "PLAINTEXT")


def explained(why: str, address: Address, protocol: str) -> str:
    """Return how the client's `security.protocol` should be for a listener, or `why` if that is not the reason."""
    listener = probe(address)
    if listener is None or _fits(listener, protocol):
        return why
    settings = [f"security.protocol={listener.protocol}"]
    kind = listener.protocol
    if listener.mechanisms is None:
        settings, kind = ["security.protocol=SSL or SASL_SSL"], "one with TLS"
    elif listener.mechanisms and not protocol.startswith("SASL_"):
        kind = f"{listener.protocol} with {', '.join(listener.mechanisms)}"
        settings += ["sasl.mechanism", "sasl.username", "sasl.password"]
    if listener.has_tls and not protocol.endswith("SSL"):
        settings.append("ssl.ca.location, the file of its certificate's authority")
    return f"the listener at {address} is {kind}, but security.protocol is {protocol}: set {', '.join(settings)}"


def probe(address: Address) -> SeenListener | None:
    """Return what a listener of Kafka's protocol demands; None if nothing there speaks it."""
    with suppress(OSError, ValueError):
        return SeenListener(False, _mechanisms(address, with_tls=False))
    try:
        return SeenListener(True, _mechanisms(address, with_tls=True))
    except (OSError, ValueError) as error:
        return SeenListener(True, None) if isinstance(error, _SilentAfterTls) else None


def _fits(listener: SeenListener, protocol: str) -> bool:
    if listener.mechanisms is None:
        return protocol.endswith("SSL") is listener.has_tls
    return protocol == listener.protocol


class _SilentAfterTls(OSError):
    """The handshake of TLS succeeded, but no answer of Kafka's protocol came."""


def _mechanisms(address: Address, *, with_tls: bool) -> tuple[str, ...]:
    """Return the SASL mechanisms of a listener; raise OSError or ValueError without an answer."""
    until = time.monotonic() + _SECONDS
    with socket.create_connection((address.host, address.port), _SECONDS) as connected:
        if not with_tls:
            return _asked(connected, until)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with context.wrap_socket(connected, server_hostname=address.host) as stream:
            try:
                return _asked(stream, until)
            except (OSError, ValueError) as error:
                raise _SilentAfterTls(str(error)) from error


def _asked(stream: socket.socket, until: float) -> tuple[str, ...]:
    request = _HEADER.pack(_SASL_HANDSHAKE, 1, 0, len(_CLIENT_ID)) + _CLIENT_ID + struct.pack(">h", 0)
    stream.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _received(stream, 4, until))
    if not _ANSWER.size <= size <= _ANSWER_BYTES_MAX:
        raise ValueError(size)
    return _read(_received(stream, size, until))


def _received(stream: socket.socket, size: int, until: float) -> bytes:
    data = b""
    while len(data) < size:
        stream.settimeout(max(0.001, until - time.monotonic()))
        received = stream.recv(size - len(data))
        if not received:
            raise ConnectionResetError
        data += received
    return data


def _read(answer: bytes) -> tuple[str, ...]:
    """Return the mechanisms in an answer; raise ValueError for bytes that are none."""
    correlation_id, code, count = _ANSWER.unpack_from(answer)
    if correlation_id or code not in (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE):
        raise ValueError(code)
    mechanisms, position = [], _ANSWER.size
    for _ in range(count):
        if position + 2 > len(answer):
            raise ValueError(count)
        (length,) = struct.unpack_from(">h", answer, position)
        name = answer[position + 2 : position + 2 + length]
        if len(name) != length or not name.isascii():
            raise ValueError(length)
        mechanisms.append(name.decode())
        position += 2 + length
    return () if code == ErrorCode.ILLEGAL_SASL_STATE else tuple(mechanisms)
