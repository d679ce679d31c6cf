"""TCP connections, for server and client, that receive into the protocol's buffer and send unjoined chunks.

    socket --recv_into--> receive_buffer(), if there is one --> buffer_filled(count)
           --recv-------> dataReceived(data)
    send_chunks(chunks) --> unsent --sendmsg--> socket

Twisted's own transport joins and copies output, in steps of 128 KiB, and delivers input in pieces. Here output is sent
from its place in memory: a chunk must not change before the peer has received it. The connection registers for
writability only when the socket is full.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from itertools import islice, takewhile
from typing import Any, Final, Protocol

from twisted.internet import main, tcp

from pylogbroker.system import MSG_MORE

BUFFERS: Final = (bytes, memoryview, bytearray)
"""Chunks in memory; subclasses may send others."""

RECEIVED_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes received in an iteration of the reactor: they take two milliseconds, and other connections wait."""

_BUFFER_TYPES: Final = frozenset(BUFFERS)
_MOST_VECTORS: Final = os.sysconf("SC_IOV_MAX")


class ChunkReceiver(Protocol):
    """Protocol's side of a connection, set by `deliver_to`."""

    def receive_buffer(self) -> memoryview | None:
        """Return the unfilled rest of the frame; None if its size is unknown."""

    def buffer_filled(self, count: int) -> None:
        """Handle `count` bytes received into `receive_buffer()`."""

    def dataReceived(self, data: bytes) -> None:
        """Handle at most `bufferSize` bytes received without a buffer."""

    def chunks_sent(self) -> None:
        """The socket has taken all chunks."""


class ReceivedBound:
    """Bytes received at once into a protocol's buffer; a reactor may divide them among connections.

    An attribute of a class would not do: each change of one discards what the interpreter knows of all attributes of
    the class and its subclasses.
    """

    __slots__ = ("bytes_max",)

    def __init__(self) -> None:
        self.bytes_max = RECEIVED_BYTES_MAX


RECEIVED_BOUND: Final = ReceivedBound()
"""Shared by all connections."""


class ChunkConnection(tcp.Connection):
    """Mixin before `tcp.Server` or `tcp.Client`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._receiver: ChunkReceiver | None = None
        self._unsent: deque[Any] = deque()
        super().__init__(*args, **kwargs)

    @property
    def unsent_chunks(self) -> int:
        return len(self._unsent)

    def deliver_to(self, receiver: ChunkReceiver) -> None:
        self._receiver = receiver

    def doRead(self) -> Any:
        receiver = self._receiver
        if receiver is None:
            return super().doRead()
        buffer = receiver.receive_buffer()
        try:
            if buffer is None:
                data = self.socket.recv(self.bufferSize)
                count = len(data)
            else:
                count = self.socket.recv_into(buffer, min(len(buffer), RECEIVED_BOUND.bytes_max))
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        if not count:
            return main.CONNECTION_DONE
        return receiver.dataReceived(data) if buffer is None else receiver.buffer_filled(count)

    def send_chunks(self, chunks: Iterable[Any]) -> None:
        if not self.connected:
            return
        unsent = self._unsent
        waiting = bool(unsent)
        unsent.extend(filter(None, chunks))  # after MSG_MORE the kernel would wait for an empty chunk
        if waiting or (len(unsent) == 1 and self._is_sent_at_once(unsent[0])):
            return
        if not self._send_unsent():
            self.abortConnection()
        elif unsent:
            self.startWriting()

    def _is_sent_at_once(self, chunk: Any) -> bool:
        """Send the only chunk, if it is in memory: as a rule the socket takes it, which costs no further call."""
        if type(chunk) is not bytes:
            return False
        try:
            count = self.socket.send(chunk)
        except OSError:  # the next attempt finds the cause
            return False
        if count == len(chunk):
            self._unsent.clear()
            return True
        self._unsent[0] = memoryview(chunk)[count:]
        return False

    def write(self, data: bytes) -> None:
        self.send_chunks((data,))

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        self.send_chunks(iovec)

    def doWrite(self) -> Any:
        if not self._send_unsent():
            return main.CONNECTION_LOST
        if self._unsent:
            return None
        self.stopWriting()
        if self.disconnecting:
            return self._postLoseConnection()
        if self._receiver is not None:
            self._receiver.chunks_sent()
        return None

    def _send_unsent(self) -> bool:
        try:
            return self._send_on()
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _send_on(self) -> bool:
        """Send all chunks; raise BlockingIOError if the socket is full. Return False to end the connection."""
        while self._unsent:
            self._send_run()
        return True

    def _send_run(self) -> int:
        """Send chunks in memory up to one of another type, with one call; return the bytes taken."""
        unsent = self._unsent
        if len(unsent) == 1:
            count = self.socket.send(unsent[0])
        else:
            run = list(islice(unsent, _MOST_VECTORS))
            if not _BUFFER_TYPES.issuperset(map(type, run)):
                run = list(takewhile(lambda chunk: isinstance(chunk, BUFFERS), run))
            count = self.socket.sendmsg(run, (), MSG_MORE if len(run) < len(unsent) else 0)
        self._sent(count)
        return count

    def _sent(self, count: int) -> None:
        unsent = self._unsent
        if count == sum(map(len, unsent)):  # as a rule, and cheaper than chunk by chunk
            unsent.clear()
            return
        while unsent and count >= len(unsent[0]):
            count -= len(unsent.popleft())
        if count:
            unsent[0] = memoryview(unsent[0])[count:]

    def connectionLost(self, reason: Any) -> None:
        self._unsent.clear()
        super().connectionLost(reason)
        self._receiver = None
