"""A blocking socket with TLS, as far as `BlockingConnection` needs one."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from pylogbroker.security.tls.engine import TlsEngine
from pylogbroker.security.tls.failures import CLOSED_IN_HANDSHAKE, TlsFailed

_RECEIVED_BYTES: Final = 64 * 1024


class TlsSocket:
    """Methods are those of a socket; failures of TLS are ConnectionResetError, whose text is the cause."""

    def __init__(self, connected: socket.socket, engine: TlsEngine) -> None:
        self._socket = connected
        self._engine = engine
        self.fileno = connected.fileno
        self.setsockopt = connected.setsockopt

    @property
    def has_received(self) -> bool:
        """True if there are bytes that were received and not read."""
        return self._engine.has_input

    def shake_hands(self, until: float = float("inf")) -> None:
        """Finish the handshake; raise TimeoutError at a monotonic time."""
        try:
            self._engine.start()
            self._flush()
            while not self._engine.is_established:
                if until < float("inf"):
                    self._set_timeout(until - time.monotonic())
                if not self._feed():
                    raise ConnectionResetError
                self._flush()
        except TlsFailed as failure:
            with suppress(OSError):
                self._flush()  # the alert
            raise ConnectionResetError(f"TLS: {failure}") from None
        except (ConnectionResetError, BrokenPipeError):
            raise ConnectionResetError(f"{CLOSED_IN_HANDSHAKE} See security.protocol") from None

    def recv(self, size: int, flags: int = 0) -> bytearray:
        """Return `size` bytes, or fewer at the end: MSG_WAITALL."""
        data = bytearray(size)
        view = memoryview(data)
        filled = 0
        while filled < size and (count := self.recv_into(view[filled:])):
            filled += count
        view.release()
        del data[filled:]
        return data

    def recv_into(self, buffer: memoryview) -> int:
        try:
            while not (count := self._engine.read_into(buffer)):
                if self._engine.is_closed_by_peer or not self._feed():
                    return 0
        except TlsFailed as failure:
            raise ConnectionResetError(f"TLS: {failure}") from None
        return count

    def sendmsg(self, chunks: Sequence[Any]) -> int:
        """Send all chunks."""
        size = 0
        try:
            for chunk in chunks:
                self._engine.write(chunk)
                size += len(chunk)
                self._flush()
        except TlsFailed as failure:
            raise ConnectionResetError(f"TLS: {failure}") from None
        return size

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def close(self) -> None:
        self._engine.close()
        with suppress(OSError):
            self._socket.send(self._engine.take_output(), socket.MSG_DONTWAIT)
        self._socket.close()

    def _set_timeout(self, seconds: float) -> None:
        if seconds <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(seconds)

    def _feed(self) -> bool:
        data = self._socket.recv(_RECEIVED_BYTES)
        self._engine.feed(data)
        return bool(data)

    def _flush(self) -> None:
        output = self._engine.take_output()
        if output:
            self._socket.sendall(output)
