"""A network between the brokers of a cluster, in which links are cut in one direction or delayed.

    network = Network()
    cluster = new_cluster(apache, own, network=network)
    network.cut(1, 2)               # nothing that broker 1 sends arrives at broker 2
    network.cut(1, ZOOKEEPER)
    network.isolate(2)              # broker 2 hears no other broker and not ZooKeeper, and they do not hear it
    network.delay(2, 1, 0.2)
    network.cut_after(1, 2, 1000)   # once about so many bytes have arrived
    network.heal()                  # what was held back arrives now

Each broker advertises a proxy's address, and reaches ZooKeeper by another proxy.  KRaft controllers advertise a proxy,
too.  A proxy reads the sender's id in the first request of a connection: brokers' client ids are `1` and
`broker-1-fetcher-0`, and at KRaft controllers `raft-client-1`.  Other clients are never cut off.  As in a network with
TCP, connections stay open and nothing is lost, but it arrives late.  Unlike there, the start of a connection succeeds.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Self

import attrs

ZOOKEEPER: Final = 0  # among the brokers' numbers
CLIENT: Final = -1
_CHUNK: Final = 1 << 16
#: Of a request: size, API key, version, correlation id, size of the client id.
_HEAD: Final = struct.Struct(">ihhih")
_BROKER: Final = re.compile(rb"(?:broker-|raft-client-)?(\d+)(?:-.*)?")

Link = tuple[int, int]  # sender, receiver


@attrs.define
class Network:
    """Links between nodes, and the proxies that obey them."""

    proxies: list[Proxy] = attrs.field(factory=list)
    _cut: set[Link] = attrs.field(factory=set)
    _delays: dict[Link, float] = attrs.field(factory=dict)
    _bytes_left: dict[Link, int] = attrs.field(factory=dict)
    """Until a link is cut."""
    _changed: threading.Condition = attrs.field(factory=threading.Condition)

    def cut(self, sender: int, receiver: int) -> None:
        """Hold back what `sender` sends to `receiver` from now on."""
        with self._changed:
            self._cut.add((sender, receiver))

    def isolate(self, node: int, others: Iterable[int] | None = None) -> None:
        """Cut a node off in both directions, from these nodes or from all."""
        nodes = {proxy.target for proxy in self.proxies} if others is None else {*others}
        for other in sorted(nodes - {node}):
            self.cut(node, other)
            self.cut(other, node)

    def delay(self, sender: int, receiver: int, seconds: float) -> None:
        """Let each piece of data take so long."""
        with self._changed:
            self._delays[sender, receiver] = seconds

    def cut_after(self, sender: int, receiver: int, count: int) -> None:
        """Cut a link once about so many bytes have arrived from now on."""
        with self._changed:
            self._bytes_left[sender, receiver] = count

    def heal(self) -> None:
        """End all cuts and delays."""
        with self._changed:
            self._cut.clear()
            self._delays.clear()
            self._bytes_left.clear()
            self._changed.notify_all()

    def proxy(self, target: int, port: int, source: int | None = None) -> Proxy:
        """Start a proxy for a node that listens, or will listen, on `port`."""
        self.proxies.append(Proxy.start(self, target, port, source))
        return self.proxies[-1]

    def close(self) -> None:
        """Close all proxies and their connections."""
        for proxy in self.proxies:
            proxy.close()
        self.heal()

    def carry(self, link: Link, count: int = 0) -> None:
        """Return when `count` bytes on this link arrive."""
        with self._changed:
            if link in self._bytes_left:
                self._bytes_left[link] -= count
                if self._bytes_left[link] < 0:
                    self._cut.add(link)
            arrival = time.monotonic() + self._delays.get(link, 0.0)
            while link in self._cut or (link in self._delays and time.monotonic() < arrival):
                self._changed.wait(None if link in self._cut else arrival - time.monotonic())


@attrs.define
class Proxy:
    """An address from which connections lead to one node."""

    network: Network
    target: int
    source: int | None  # the node that connects, if that is no question
    _target_port: int
    _listener: socket.socket
    _sockets: list[socket.socket] = attrs.field(factory=list)

    @classmethod
    def start(cls, network: Network, target: int, target_port: int, source: int | None = None) -> Self:
        """Listen on a port of the loopback address, until `close`."""
        listener = socket.create_server(("127.0.0.1", 0))
        proxy = cls(network, target, source, target_port, listener)
        threading.Thread(target=proxy._accept, name=f"proxy of {target}", daemon=True).start()
        return proxy

    @property
    def port(self) -> int:
        """The port to connect to."""
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        """Close the listener and all connections."""
        for each in [self._listener, *self._sockets]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                self._sockets.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Forward requests in this thread, and answers in another."""
        with connection, suppress(OSError):
            first = b"" if self.source is not None else receive_head(connection)
            source = sender_of(first) if self.source is None else self.source
            with socket.create_connection(("127.0.0.1", self._target_port)) as onward:
                self._sockets.append(onward)
                answers = threading.Thread(
                    target=self._forward, args=(onward, connection, (self.target, source)), daemon=True
                )
                answers.start()
                self._forward(connection, onward, (source, self.target), first)
                answers.join()

    def _forward(self, reader: socket.socket, writer: socket.socket, link: Link, data: bytes = b"") -> None:
        """Forward until one side closes its end; that is held back by a cut too."""
        with suppress(OSError):
            try:
                data = data or reader.recv(_CHUNK)
                while data:
                    self.network.carry(link, len(data))
                    writer.sendall(data)
                    data = reader.recv(_CHUNK)
            finally:
                self.network.carry(link)
                writer.shutdown(socket.SHUT_WR)


def receive_head(connection: socket.socket) -> bytes:
    """Return the first bytes of a connection: a request up to its client id, at least."""
    data = b""
    while len(data) < _HEAD.size or len(data) < _HEAD.size + _HEAD.unpack_from(data)[-1]:
        more = connection.recv(_CHUNK)
        if not more:
            break
        data += more
    return data


def sender_of(request: bytes) -> int:
    """Return the broker that sends a request, by its client id; CLIENT if no broker does."""
    if len(request) < _HEAD.size:
        return CLIENT
    size = _HEAD.unpack_from(request)[-1]
    match = _BROKER.fullmatch(request[_HEAD.size : _HEAD.size + max(size, 0)])
    return CLIENT if match is None else int(match[1])
