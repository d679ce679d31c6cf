"""A TCP transport that receives into the protocol's own buffer and sends bytes and file regions at once, in order.

Twisted's stock transport joins and copies what it is given in steps of 128 KiB.  Here a protocol may hand over a
frame's buffer to receive into, and what it sends is a list of chunks: bytes, written with `send`, and regions of
files, written with `sendfile`, so that a log's bytes go from the page cache to the socket without passing through
Python.

What is sent goes out in the same call; the reactor is asked to tell of writability only when the socket is full, or
when there is much to send from files and others wait: then it is their turn after `_PIECE` bytes.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable
from itertools import islice, takewhile
from typing import Any, Protocol, cast

from twisted.internet import main, tcp
from twisted.internet.defer import Deferred, execute
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IStreamServerEndpoint
from zope.interface import implementer

from pylogbroker.net.polling import others_wait
from pylogbroker.wire import Buffer, Chunk

RECEIVE_SIZE = 256 * 1024
"""Bytes asked of the socket at once, when no frame's own buffer is waiting to be filled."""

_BYTES = (bytes, memoryview, bytearray)
_PIECE = 256 * 1024  # of a file, which take the kernel about 50 us
_MOST_VECTORS = os.sysconf("SC_IOV_MAX")


class File(Protocol):
    """An open file, kept open by whoever holds a region of it."""

    @property
    def fd(self) -> int: ...


class FileRegion(Protocol):
    """A region of a file, to be sent as it lies there: so many bytes from `position` on."""

    @property
    def file(self) -> File: ...
    @property
    def position(self) -> int: ...
    def __len__(self) -> int: ...


class ChunkReceiver(Protocol):
    """What the transport asks of its protocol, beside Twisted's IProtocol."""

    def receive_buffer(self) -> memoryview | None:
        """The unfilled rest of a frame that has begun, or None if it is not known yet what comes."""

    def buffer_filled(self, count: int) -> None:
        """`count` bytes were received into the start of `receive_buffer()`."""

    def chunks_sent(self) -> None:
        """All that was waiting to be sent has been taken by the socket."""


class ChunkServer(tcp.Server):
    """The server's side of one connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._receiver = cast(ChunkReceiver, self.protocol)
        self._unsent: deque[Chunk] = deque()
        self._head_sent = 0
        self.unsent_bytes = 0
        self.setTcpNoDelay(True)

    @property
    def unsent_chunks(self) -> int:
        """The number of chunks that the socket did not take yet."""
        return len(self._unsent)

    def doRead(self) -> Any:
        """Receive once; larger frames go straight into their own buffer."""
        buffer = self._receiver.receive_buffer()
        try:
            if buffer is None:
                return self._dataReceived(self.socket.recv(RECEIVE_SIZE))
            count = self.socket.recv_into(buffer)
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        if not count:
            return main.CONNECTION_DONE
        self._receiver.buffer_filled(count)
        return None

    def send_chunks(self, chunks: Iterable[Chunk]) -> None:
        """Send the chunks, after those that still wait.

        `unsent_bytes` afterwards tells how many bytes in memory (file regions do not count) the socket did not take.
        """
        if not self.connected:
            return
        waiting = bool(self._unsent)
        for chunk in chunks:
            if not chunk:
                continue
            self._unsent.append(chunk)
            if isinstance(chunk, _BYTES):
                self.unsent_bytes += len(chunk)
        if waiting:
            return
        if not self._send_unsent():
            # Dropping a connection while its protocol is at work would re-enter it: the reactor does it.
            self.reactor.callLater(0, self.abortConnection)  # type: ignore[attr-defined]
        elif self._unsent:
            self.startWriting()

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
        self.stopWriting()
        if self.disconnecting:
            return self._postLoseConnection()
        self._receiver.chunks_sent()
        return None

    def _send_unsent(self) -> bool:
        """Send until there is nothing left, the socket is full or others wait; False if the connection is gone."""
        unsent = self._unsent
        try:
            while unsent:
                if not isinstance(unsent[0], _BYTES):
                    if not self._send_region(cast(FileRegion, unsent[0])):
                        return False
                    if self._head_sent and others_wait(self.reactor, self.socket.fileno()):
                        return True
                elif len(unsent) == 1:
                    self._sent(self.socket.send(unsent[0]))
                else:
                    self._send_run()
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def _send_run(self) -> None:
        """Send the bytes up to the next region, or to the end, with one call."""
        run = list(islice(takewhile(lambda chunk: isinstance(chunk, _BYTES), self._unsent), _MOST_VECTORS))
        more = socket.MSG_MORE if len(run) < len(self._unsent) else 0
        self._sent(self.socket.sendmsg(cast(list[Buffer], run), (), more))

    def _sent(self, count: int) -> None:
        """Take `count` bytes off the front of what is unsent, which is bytes."""
        unsent = self._unsent
        self.unsent_bytes -= count
        while count:
            chunk = cast(Buffer, unsent[0])
            if count < len(chunk):
                unsent[0] = memoryview(chunk)[count:]
                return
            count -= len(chunk)
            unsent.popleft()

    def _send_region(self, region: FileRegion) -> bool:
        done = self._head_sent
        left = len(region) - done
        sent = os.sendfile(self.socket.fileno(), region.file.fd, region.position + done, min(left, _PIECE))
        if sent == left:
            self._head_sent = 0
            self._unsent.popleft()
        else:
            self._head_sent = done + sent
        return sent > 0  # a file that ends before its region does cannot be sent as promised

    def connectionLost(self, reason: Any) -> None:
        """Let go of everything that was waiting."""
        self._unsent.clear()
        self.unsent_bytes = 0
        super().connectionLost(reason)


class ChunkPort(tcp.Port):
    """A listening socket whose connections are `ChunkServer`s."""

    transport = ChunkServer


@implementer(IStreamServerEndpoint)
class ChunkServerEndpoint:
    """A TCP server endpoint like Twisted's `TCP4ServerEndpoint`, with the transport above.

    `host` is an address or a name to bind; empty for every interface.  IPv6 is chosen by an address with colons.
    """

    def __init__(self, reactor: Any, host: str, port: int, backlog: int) -> None:
        self._reactor = reactor
        self._host = host
        self._port = port
        self._backlog = backlog

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        """A Deferred of the listening port; fails with CannotListenError."""
        return execute(self._start, protocolFactory)

    def _start(self, factory: IProtocolFactory) -> ChunkPort:
        port = ChunkPort(self._port, factory, self._backlog, self._host, self._reactor)
        port.startListening()
        return port
