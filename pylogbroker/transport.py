"""TCP connections that receive into the protocol's own buffer and send chunks without joining them, for both sides.

Twisted's stock transport joins and copies what it is given, in steps of 128 KiB, and hands over what it received in
pieces. Here a protocol may hand over the buffer of a frame to receive into, and what it sends goes to the socket from
where it lies: whoever sends a chunk must not change it before it has arrived.

    socket --recv_into--> receive_buffer(), if there is one --> buffer_filled(count)
           --recv-------> dataReceived(data)
    send_chunks(chunks) --> unsent --sendmsg--> socket

What is sent goes out in the same call; the reactor is asked to tell of writability only when the socket is full.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable
from itertools import islice, takewhile
from typing import Any, Final, Protocol

from twisted.internet import main, tcp

BUFFERS: Final = (bytes, memoryview, bytearray)
"""The chunks that lie in memory; how others are sent, a subclass knows."""

_MOST_VECTORS: Final = os.sysconf("SC_IOV_MAX")


class ChunkReceiver(Protocol):
    """What a connection asks of its protocol, once that has called `deliver_to`."""

    def receive_buffer(self) -> memoryview | None:
        """The unfilled rest of a frame that has begun, or None if it is not known yet what comes."""

    def buffer_filled(self, count: int) -> None:
        """`count` bytes were received into the start of `receive_buffer()`."""

    def dataReceived(self, data: bytes) -> None:
        """Bytes that no buffer was waiting for; `bufferSize` of them at most."""

    def chunks_sent(self) -> None:
        """All that the socket did not take at once has been taken now."""


class ChunkConnection(tcp.Connection):
    """What stands before `tcp.Server` or `tcp.Client` among the bases of a connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._receiver: ChunkReceiver | None = None
        self._unsent: deque[Any] = deque()
        super().__init__(*args, **kwargs)

    @property
    def unsent_chunks(self) -> int:
        """The number of chunks that the socket did not take yet."""
        return len(self._unsent)

    def deliver_to(self, receiver: ChunkReceiver) -> None:
        """From now on what is received goes to the receiver."""
        self._receiver = receiver

    def doRead(self) -> Any:
        """Receive once; larger frames go straight into their own buffer."""
        receiver = self._receiver
        if receiver is None:
            return super().doRead()
        buffer = receiver.receive_buffer()
        try:
            if buffer is None:
                data = self.socket.recv(self.bufferSize)
                count = len(data)
            else:
                count = self.socket.recv_into(buffer)
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        if not count:
            return main.CONNECTION_DONE
        return receiver.dataReceived(data) if buffer is None else receiver.buffer_filled(count)

    def send_chunks(self, chunks: Iterable[Any]) -> None:
        """Send the chunks, after those that still wait."""
        if not self.connected:
            return
        unsent = self._unsent
        waiting = bool(unsent)
        unsent.extend(filter(None, chunks))  # an empty one would be waited for after MSG_MORE
        if waiting:
            return
        if not self._send_unsent():
            self.abortConnection()  # type: ignore[no-untyped-call]
        elif unsent:
            self.startWriting()  # type: ignore[no-untyped-call]

    def write(self, data: bytes) -> None:
        """Twisted's way of sending; the same queue."""
        self.send_chunks((data,))

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        """Twisted's way of sending several; the same queue."""
        self.send_chunks(iovec)

    def doWrite(self) -> Any:
        """The socket takes more."""
        if not self._send_unsent():
            return main.CONNECTION_LOST
        if self._unsent:
            return None
        self.stopWriting()  # type: ignore[no-untyped-call]
        if self.disconnecting:
            return self._postLoseConnection()  # type: ignore[no-untyped-call]
        if self._receiver is not None:
            self._receiver.chunks_sent()
        return None

    def _send_unsent(self) -> bool:
        """Send what can be sent now; False if the connection is gone."""
        try:
            return self._send_on()
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _send_on(self) -> bool:
        """Send until nothing is left, or the socket is full, which is a BlockingIOError; False if it cannot go on."""
        while self._unsent:
            self._send_run()
        return True

    def _send_run(self) -> int:
        """Send the bytes up to the next chunk of another kind, or to the end, with one call; how many were taken."""
        unsent = self._unsent
        if len(unsent) == 1:
            count = self.socket.send(unsent[0])
        else:
            run = list(islice(takewhile(lambda chunk: isinstance(chunk, BUFFERS), unsent), _MOST_VECTORS))
            count = self.socket.sendmsg(run, (), socket.MSG_MORE if len(run) < len(unsent) else 0)
        self._sent(count)
        return count

    def _sent(self, count: int) -> None:
        """Take `count` bytes off the front of what is unsent, which is bytes."""
        unsent = self._unsent
        while unsent and count >= len(unsent[0]):
            count -= len(unsent.popleft())
        if count:
            unsent[0] = memoryview(unsent[0])[count:]

    def connectionLost(self, reason: Any) -> None:
        """Let go of everything that was waiting."""
        self._unsent.clear()
        super().connectionLost(reason)
        self._receiver = None
