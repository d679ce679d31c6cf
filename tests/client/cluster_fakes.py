"""A cluster in memory: brokers that answer what their test says, and a clock; connections are real, sockets are not.

world = World()
world.broker(1).leads("topic", 0)
cluster = world.cluster(bootstrap="b1:9092")
...
world.kill(1)                       # connections end, new ones fail
world.broker(1).answers[MetadataRequest] = lambda request: MetadataResponse(...)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.errors import NotConnected
from pylogbroker.client.settings import CLIENT, read
from pylogbroker.client.sources import BrokerSource, StaticBrokers
from pylogbroker.rpc.connection import BrokerConnection
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.wire import SUPPORTED, FrameSplitter, Request, Response, decode_request_header, response_codec
from pylogbroker.wire import codec as codec_of
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.find_coordinator import Coordinator as CoordinatorAnswer
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pylogbroker.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Answer = Callable[[Any], Response | None]


class FakeTransport:
    """A transport between one connection and its broker that hands each request to the broker at once."""

    def __init__(self, network: FakeNetwork, node: int, connection: BrokerConnection) -> None:
        self.network = network
        self.node = node
        self.connection = connection
        self.frames = FrameSplitter(10**8)
        self.held: list[tuple[int, int, int, Response]] = []
        self.gone = False

    def writeSequence(self, chunks: list[Any]) -> None:
        for frame in self.frames.split(b"".join(chunks)):
            header, position = decode_request_header(frame)
            request = codec_of(SUPPORTED[header.api_key][0], header.api_version).decode(frame, position)
            response = self.network.broker(self.node).answer(request)
            if response is not None:
                data = response_codec(header.api_key, header.api_version).frame(header.correlation_id, response)
                seconds = self.network.broker(self.node).answer_seconds
                self.network.clock.callLater(seconds, self.deliver, b"".join(data))  # type: ignore[arg-type]

    def deliver(self, data: bytes) -> None:
        if not self.gone:
            self.connection.dataReceived(data)

    def abortConnection(self) -> None:
        self.network.clock.callLater(0, self.lose)

    loseConnection = abortConnection

    def lose(self) -> None:
        if not self.gone:
            self.gone = True
            self.connection.connectionLost(Failure(ConnectionDone()))


@attrs.define(eq=False)
class FakeBroker:
    """One broker: what it was asked, and what it answers."""

    network: FakeNetwork
    node: int
    address: Address
    alive: bool = True
    asked: list[Request] = attrs.field(factory=list)
    answers: dict[type[Request], Answer] = attrs.field(factory=dict)
    wires: list[FakeTransport] = attrs.field(factory=list)
    dialled: int = 0
    answer_seconds: float = 0

    def leads(self, topic: str, *partitions: int) -> None:
        for partition in partitions:
            self.network.leaders[topic, partition] = self.node

    def asked_for(self, kind: type[Request]) -> list[Any]:
        return [request for request in self.asked if isinstance(request, kind)]

    @property
    def connections(self) -> int:
        return sum(not wire.gone for wire in self.wires)

    def answer(self, request: Request) -> Response | None:
        self.asked.append(request)
        if type(request) in self.answers:
            return self.answers[type(request)](request)
        if isinstance(request, ApiVersionsRequest):
            apis = [ApiVersion(key, one.versions.first, one.versions.last) for key, (one, _) in SUPPORTED.items()]
            return ApiVersionsResponse(api_keys=apis)
        if isinstance(request, MetadataRequest):
            return self.network.metadata(request)
        if isinstance(request, FindCoordinatorRequest):
            return self.network.coordinator_is(request, self.node)
        return SUPPORTED[request.api_key][1]()


class FakeNetwork:
    """The brokers, the clock, and who leads what."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.brokers: dict[int, FakeBroker] = {}
        self.leaders: dict[tuple[str, int], int] = {}

    def broker(self, node: int) -> FakeBroker:
        if node not in self.brokers:
            self.brokers[node] = FakeBroker(self, node, Address(f"b{node}", 9092))
        return self.brokers[node]

    def cluster(self, bootstrap: str | BrokerSource = "b1:9092", **settings: Any) -> Cluster:
        source = StaticBrokers(bootstrap) if isinstance(bootstrap, str) else bootstrap
        return Cluster(self.clock, read(CLIENT, None, **settings), source, dial=self.dial)

    def run(self, seconds: float = 0) -> None:
        """Let time pass, in small steps."""
        for _ in range(20):
            self.clock.advance(0)
        for _ in range(round(seconds / 0.05)):
            self.clock.advance(0.05)

    async def dial(self, reactor: Any, address: Address, settings: ConnectionSettings) -> BrokerConnection:
        broker = next((each for each in self.brokers.values() if each.address == address), None)
        if broker is not None:
            broker.dialled += 1
        if broker is None or not broker.alive:
            raise NotConnected(f"cannot connect to {address}: refused")
        connection = BrokerConnection(self.clock, address, settings)
        wire = FakeTransport(self, broker.node, connection)
        broker.wires.append(wire)
        connection.makeConnection(wire)  # type: ignore[arg-type]
        try:
            await connection.negotiate_versions(10)
        except BaseException:
            connection.close()
            raise
        return connection

    def kill(self, node: int) -> None:
        broker = self.broker(node)
        broker.alive = False
        for wire in broker.wires:
            wire.lose()

    def revive(self, node: int) -> None:
        self.broker(node).alive = True

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = {name for name, _ in self.leaders}
        asked = sorted(names) if request.topics is None else [str(topic.name) for topic in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(each.node, each.address.host, each.address.port)
                for each in self.brokers.values()
                if each.alive
            ],
            cluster_id="world",
            topics=[
                MetadataResponseTopic(name=name, partitions=self.partitions(name))
                if name in names
                else MetadataResponseTopic(name=name, error_code=3)
                for name in asked
            ],
        )

    def partitions(self, topic: str) -> list[MetadataResponsePartition]:
        return [
            MetadataResponsePartition(
                partition_index=number,
                leader_id=node if self.broker(node).alive else -1,
                error_code=0 if self.broker(node).alive else 5,
                replica_nodes=[node],
                isr_nodes=[node],
            )
            for (name, number), node in self.leaders.items()
            if name == topic
        ]

    def coordinator_is(self, request: FindCoordinatorRequest, node: int, error: int = 0) -> FindCoordinatorResponse:
        host, port = self.broker(node).address.host, self.broker(node).address.port
        found = [CoordinatorAnswer(key, node, host, port, error, None) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
