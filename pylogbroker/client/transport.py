"""The client's side of a TCP connection: receives into the protocol's own buffer, sends chunks without joining them.

Twisted's stock transport joins and copies what it is given, in steps of 128 KiB, and hands over what it received in
pieces. Here the buffer of a large answer is received into directly, and a request's records go to the socket from where
they lie: whoever sends them must not change them before the answer is there.

`endpoint` finds a broker's address and connects to it with this transport.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, Protocol, cast

from twisted.internet import main, tcp
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.interfaces import IReactorPluggableNameResolver, IReactorTime, IStreamClientEndpoint
from zope.interface import implementer

from pylogbroker.wire import Buffer

RECEIVE_SIZE = 64 * 1024
"""Bytes asked of the socket at once, when no answer's own buffer is waiting to be filled."""

_MOST_VECTORS = os.sysconf("SC_IOV_MAX")
_ATTEMPT_DELAY = 0.05  # seconds from one address of a name to the next


class ChunkReceiver(Protocol):
    """What the transport asks of its protocol, once that has called `deliver_to`."""

    def receive_buffer(self) -> memoryview | None:
        """The unfilled rest of a frame that has begun, or None if it is not known yet what comes."""

    def buffer_filled(self, count: int) -> None:
        """`count` bytes were received into the start of `receive_buffer()`."""

    def dataReceived(self, data: bytes) -> None:
        """Bytes that no buffer was waiting for."""


class ChunkClient(tcp.Client):
    """One connection to a broker."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._receiver: ChunkReceiver | None = None
        self._unsent: deque[Buffer] = deque()
        super().__init__(*args, **kwargs)

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
                data = self.socket.recv(RECEIVE_SIZE)
                if not data:
                    return main.CONNECTION_DONE
                return receiver.dataReceived(data)
            count = self.socket.recv_into(buffer)
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        if not count:
            return main.CONNECTION_DONE
        return receiver.buffer_filled(count)

    def send_chunks(self, chunks: Iterable[Buffer]) -> None:
        """Send the chunks, after those that still wait for the socket to take them."""
        if not self.connected or self.disconnecting:
            return
        unsent = self._unsent
        waiting = bool(unsent)
        unsent.extend(chunks)
        if waiting:
            return
        if not self._send_unsent():
            self.abortConnection()
        elif unsent:
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
        return self._postLoseConnection() if self.disconnecting else None

    def _send_unsent(self) -> bool:
        """Send until there is nothing left or the socket is full; False if the connection is gone."""
        unsent = self._unsent
        try:
            while unsent:
                if len(unsent) == 1:
                    self._sent(self.socket.send(unsent[0]))
                else:
                    self._sent(self.socket.sendmsg(list(islice(unsent, _MOST_VECTORS))))
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def _sent(self, count: int) -> None:
        """Take `count` bytes off the front of what is unsent."""
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


class ChunkConnector(tcp.Connector):
    """Makes `ChunkClient`s."""

    def _makeTransport(self) -> ChunkClient:
        return ChunkClient(self.host, self.port, self.bindAddress, self, self.reactor)


@implementer(IReactorTime, IReactorPluggableNameResolver)
class _ChunkReactor:
    """A reactor as Twisted's endpoints use it, whose connections are `ChunkClient`s."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float, bindAddress: Any) -> ChunkConnector:
        connector = ChunkConnector(host, port, factory, timeout, bindAddress, self._reactor)
        connector.connect()
        return connector


def endpoint(reactor: Any, host: str, port: int, timeout: float) -> IStreamClientEndpoint:
    """Where a broker listens; of a name with several addresses, the first one that answers counts."""
    chunks = cast(Any, _ChunkReactor(reactor))
    if isIPAddress(host):
        return TCP4ClientEndpoint(chunks, host, port, timeout)
    if isIPv6Address(host):
        return TCP6ClientEndpoint(chunks, host, port, timeout)
    return HostnameEndpoint(chunks, host, port, timeout, attemptDelay=_ATTEMPT_DELAY)


def set_options(transport: Any, send_buffer: int, receive_buffer: int) -> None:
    """No delays for small requests, signs of life for idle connections, and the buffers' sizes (-1: as they are)."""
    transport.setTcpNoDelay(True)
    transport.setTcpKeepAlive(True)
    for option, size in ((socket.SO_SNDBUF, send_buffer), (socket.SO_RCVBUF, receive_buffer)):
        if size > 0:
            transport.socket.setsockopt(socket.SOL_SOCKET, option, size)
