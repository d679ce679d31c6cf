"""One side of a TLS connection, without I/O: bytes of the network in and out, plain bytes out and in.

| state        | feed                     | read               | write   | output                       |
|--------------|--------------------------|--------------------|---------|------------------------------|
| handshaking  | goes on: established     | nothing            | error   | handshake messages           |
| established  | taken                    | what is complete   | encrypt | records                      |
| closed       | dropped                  | nothing            | dropped | the rest, and `close_notify` |

Every state ends with `TlsFailed`, whose text is the cause; the output then has the alert for the peer. `close` ends an
established connection; the peer's `close_notify` sets `is_closed_by_peer`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from pylogbroker.security.tls.failures import TlsFailed, describe

_HANDSHAKE: Final = 22  # first byte of every TLS connection
_HTTP: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"CONN", b"PRI ")
_RECORD_BYTES_MAX: Final = 16 * 1024
_FLIGHTS_MAX: Final = 3  # of each side in a handshake

Buffer = bytes | bytearray | memoryview


MakeEngine = Callable[[str], "TlsEngine"]
"""Makes the engine of a client's connection to a host."""


class TlsEngine:
    __slots__ = (
        "_incoming",
        "_is_closed",
        "_is_server",
        "_outgoing",
        "_read_into",
        "_seen",
        "_tls",
        "is_closed_by_peer",
        "is_established",
    )

    def __init__(self, context: ssl.SSLContext, *, is_server: bool, host: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, is_server, host)
        self._read_into = cast(Callable[[int, memoryview], int], self._tls.read)  # its annotations know bytes alone
        self._is_server = is_server
        self._is_closed = False
        self._seen = b""  # of a connection that may not be TLS
        self.is_established = False
        self.is_closed_by_peer = False

    @property
    def peer_certificate(self) -> bytes | None:
        """DER of the peer's verified certificate, if it sent one."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def has_begun(self) -> bool:
        """True if a client has sent anything to this server."""
        return bool(self._seen)

    @property
    def has_input(self) -> bool:
        """True if bytes of the network were fed and not read; they may be a part of a record."""
        return bool(self._tls.pending() or self._incoming.pending)

    @property
    def version(self) -> str:
        return self._tls.version() or ""

    def start(self) -> None:
        """Begin the handshake: a client's first message becomes output."""
        self._shake_hands()

    def feed(self, data: Buffer) -> None:
        """Take bytes of the network; go on with the handshake."""
        if self._is_closed:
            return
        if self._is_server and not self.is_established:
            self._check_start(data)
        self._incoming.write(data)
        if not self.is_established:
            self._shake_hands()

    def read(self, size: int = _RECORD_BYTES_MAX) -> bytes:
        """Return plain bytes, of one record at most; nothing if none is complete."""
        if self._cannot_read:
            return b""
        try:
            data = self._tls.read(size)
        except ssl.SSLError as error:
            self._failed(error)
            return b""
        self.is_closed_by_peer = not data
        return data

    def read_into(self, buffer: memoryview) -> int:
        """Fill the buffer as far as there are plain bytes; return their number."""
        if self._cannot_read:
            return 0
        filled, size, read = 0, len(buffer), self._read_into
        try:
            while filled < size:
                count = read(size - filled, buffer[filled:])
                if not count:
                    self.is_closed_by_peer = True
                    break
                filled += count
        except ssl.SSLError as error:
            self._failed(error)
        return filled

    def write(self, data: Buffer) -> None:
        """Encrypt; needs an established connection."""
        view = memoryview(data)
        while view and not self._is_closed:
            try:
                view = view[self._tls.write(view) :]
            except ssl.SSLError as error:
                self._failed(error)
                return

    def take_output(self) -> bytes:
        """Return the bytes for the network."""
        return self._outgoing.read()

    def close(self) -> None:
        """Add a `close_notify` to the output; no more is read or written."""
        if self.is_established and not self._is_closed:
            self._is_closed = True
            with suppress(ssl.SSLError):  # as a rule the peer's has not come yet, and nobody waits for it
                self._tls.unwrap()

    @property
    def _cannot_read(self) -> bool:
        return self._is_closed or self.is_closed_by_peer or not self.is_established

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLError as error:
            self._failed(error)
        else:
            self.is_established = True

    def _failed(self, error: ssl.SSLError) -> None:
        """Wait for more bytes, or raise TlsFailed."""
        if isinstance(error, ssl.SSLWantReadError):
            return
        self._is_closed = True
        raise TlsFailed(describe(error, self._is_server)) from None

    def _check_start(self, data: Buffer) -> None:
        """Raise TlsFailed if a connection does not begin with TLS: OpenSSL would name no cause."""
        if len(self._seen) >= 4:
            return
        self._seen += bytes(data[:4])
        if self._seen[0] == _HANDSHAKE:
            return
        self._is_closed = True
        what = "HTTP" if self._seen.startswith(_HTTP) else "plaintext: connect with security.protocol=SSL"
        raise TlsFailed(f"the listener speaks TLS, and the client sent {what}")


def check_handshake(server: TlsEngine, client: TlsEngine) -> None:
    """Let two sides shake hands without a network; raise TlsFailed if they cannot."""
    client.start()
    for _ in range(_FLIGHTS_MAX):
        for receiver, sender in ((server, client), (client, server)):
            output = sender.take_output()
            if output:
                receiver.feed(output)
