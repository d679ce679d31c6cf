"""Sockets for kazoo's thread that cost few system calls.

kazoo reads a frame in two parts, sends each request by itself, and wakes its thread with one byte for each. It waits
with `select` before each of these. Here it finds what was read ahead, requests are collected until it has to wait, and
one byte wakes the thread for all requests that come before it runs.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

_RECEIVED_BYTES: Final = 64 * 1024
_COLLECTED_BYTES: Final = 64 * 1024  # more are sent at once


class BufferedSocket:
    """A connected socket without TLS, used by one thread."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._received = b""
        self._position = 0
        self._to_send = bytearray()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def pending(self) -> int:
        """Return how many bytes were read ahead."""
        return len(self._received) - self._position

    def recv(self, size: int) -> bytes:
        if not self.pending():
            self._received, self._position = self._socket.recv(_RECEIVED_BYTES), 0
        end = min(self._position + size, len(self._received))
        received = self._received[self._position : end]
        self._position = end
        return received

    def send(self, data: bytes | memoryview) -> int:
        self._to_send += data
        if len(self._to_send) > _COLLECTED_BYTES:
            self.flush()
        return len(data)

    def flush(self) -> bool:
        """Send what was collected, as far as the other side takes it; return whether that was all."""
        if self._to_send:
            try:
                sent = self._socket.send(self._to_send)
            except BlockingIOError:
                sent = 0
            del self._to_send[:sent]
        return not self._to_send


class Wakeups:
    """Both ends of a pair of sockets: any thread sends a byte for each request, kazoo's thread receives them."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._lock = threading.Lock()
        self._count = 0

    def send(self, data: bytes) -> int:
        with self._lock:
            if not self._count:
                self._writer.send(data)
            self._count += 1
        return len(data)

    def recv(self, size: int) -> bytes:
        with self._lock:
            if not self._count:
                raise BlockingIOError("no request waits")
            self._count -= 1
            if not self._count:
                self._reader.recv(size)
        return bytes(size)

    def pending(self) -> int:
        return self._count

    def fileno(self) -> int:
        return self._reader.fileno()

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


def wait_until_ready(
    readers: Sequence[Any], writers: Sequence[Any], timeout: float | None
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return what can be read and written, as `select` does; send first what was collected.

    kazoo's own function makes and closes an epoll for each of five calls per request.
    """
    readable = [reader for reader in readers if _pending(reader)]
    writable = [writer for writer in writers if isinstance(writer, BufferedSocket)]
    if readable or writable:
        return readable, writable, []
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        poll = select.poll()
        for reader in readers:
            is_sent = not isinstance(reader, BufferedSocket) or reader.flush()
            poll.register(reader, select.POLLIN if is_sent else select.POLLIN | select.POLLOUT)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        ready = dict(poll.poll(None if deadline is None else max(0.0, (deadline - time.monotonic()) * 1000)))
        readable = [reader for reader in readers if ready.get(reader.fileno(), 0) & ~select.POLLOUT]
        writable = [writer for writer in writers if writer.fileno() in ready]
        if readable or writable or not ready:
            return readable, writable, []


def _pending(reader: Any) -> bool:
    return hasattr(reader, "pending") and reader.pending() > 0
