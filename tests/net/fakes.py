"""A transport in memory with a bound on what it takes, and a factory around a table of APIs of the test's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Final

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from pylogbroker.broker.requests.deferred_actions import DeferredActions
from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.net.joined_reads import JoinedReads
from pylogbroker.net.large_requests import LargeRequests
from pylogbroker.net.latencies import ReadSampler
from pylogbroker.net.limits import MemoryLimit
from pylogbroker.net.protocol import KafkaProtocol, Unmetered
from pylogbroker.net.routes import Routes
from pylogbroker.peer_log_limit import PeerLogLimit
from pylogbroker.wire import request_codec

_LOOK_SECONDS: Final = 0.0004  # three looks are more than the time until the next slice


class FakeTransport:
    """Takes chunks; with `full` set it keeps them back, as a socket does whose peer doesn't read."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.kept: list[Any] = []
        self.full = False
        self.reading = True
        self.closed = ""

    @property
    def unsent_bytes(self) -> int:
        return sum(map(len, self.kept))

    @property
    def unsent_chunks(self) -> int:
        return len(self.kept)

    def send_chunks(self, chunks: Iterable[Any]) -> None:
        (self.kept if self.full else self.sent).extend(chunks)

    def drain(self, protocol: KafkaProtocol) -> None:
        self.full = False
        self.sent += self.kept
        self.kept = []
        protocol.chunks_sent()

    def stopReading(self) -> None:
        self.reading = False

    def startReading(self) -> None:
        self.reading = True

    def loseConnection(self) -> None:
        self.closed = "after sending"

    def abortConnection(self) -> None:
        self.closed = "at once"

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.1", 9092)


@attrs.define(eq=False)
class FakeFactory:
    """Stand-in for a `KafkaFactory`."""

    apis: tuple[Any, ...]
    reactor: Clock = attrs.field(factory=Clock)
    services: Any = None
    authorizer: Any = None
    quotas: Any = attrs.field(factory=Unmetered)
    listener_name: str = "PLAINTEXT"
    max_request_bytes: int = 1_000_000
    idle_tick: int = 0
    memory: MemoryLimit = attrs.field(factory=lambda: MemoryLimit(10_000_000))
    connections: dict[Any, None] = attrs.field(factory=dict)
    bad_requests: PeerLogLimit = attrs.field(factory=lambda: PeerLogLimit(Clock(), "{count} more from {host}"))
    not_offered: PeerLogLimit = attrs.field(factory=lambda: PeerLogLimit(Clock(), "{count} more from {host}", 1))
    deferred_actions: DeferredActions = attrs.field(factory=lambda: DeferredActions(Clock()))
    large_requests: LargeRequests = attrs.field(init=False)
    read_sampler: ReadSampler = attrs.field(factory=ReadSampler)
    joined_reads: JoinedReads = attrs.field(factory=JoinedReads)
    lost: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.large_requests = LargeRequests(self.reactor)

    @property
    def routes(self) -> Routes:
        return Routes(self.apis, self.services)

    def connection_made(self, protocol: KafkaProtocol) -> None:
        self.connections[protocol] = None

    def connection_lost(self, protocol: KafkaProtocol) -> None:
        self.lost.append(protocol.host)


def counted_slices(clock: Clock, seconds: float = 0.0) -> Slices:
    """Slices by a time that depends on how often they look at it, and not on the machine's speed."""
    looks = itertools.count()
    return Slices(clock, seconds, lambda: next(looks) * _LOOK_SECONDS)


def connect(factory: FakeFactory) -> tuple[KafkaProtocol, FakeTransport]:
    """A connected protocol and its transport."""
    protocol = KafkaProtocol("10.0.0.1", 5000)
    protocol.factory = factory  # type: ignore[assignment]
    transport = FakeTransport()
    protocol.makeConnection(transport)  # type: ignore[arg-type]
    return protocol, transport


def frame(request: Any, version: int, correlation_id: int, client_id: str | None = "test") -> bytes:
    """A request as it stands on the wire."""
    chunks = request_codec(request.api_key, version).frame(correlation_id, client_id, request)
    return b"".join(map(bytes, chunks))
