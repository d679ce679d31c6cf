"""Large requests: one in an iteration of the reactor. Connections that receive share what an iteration reads."""

from __future__ import annotations

import select
from types import SimpleNamespace
from typing import Any

import attrs
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.runtime.slices import SLICE_SECONDS
from pylogbroker.net import poller
from pylogbroker.net.large_requests import LARGE_REQUEST_BYTES_MIN
from pylogbroker.net.limits import MemoryLimit
from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.rpc.transport import RECEIVED_BOUND
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.net.fakes import FakeFactory, connect, counted_slices, frame
from tests.net.test_transport import Pair

SMALL = frame(HeartbeatRequest(group_id="small"), 4, 1)
LARGE = frame(HeartbeatRequest(group_id="large"), 4, 1) + bytes(LARGE_REQUEST_BYTES_MIN)
LARGE = (len(LARGE) - 4).to_bytes(4, "big") + LARGE[4:]


def receive(protocol: KafkaProtocol, data: bytes) -> None:
    """Deliver a request as the transport does."""
    protocol.dataReceived(data[:100])
    rest = protocol.receive_buffer()
    if rest is not None:
        rest[:] = data[100:]
        protocol.buffer_filled(len(data) - 100)


def iterate(clock: Clock) -> None:
    """Make the delayed calls that are due now, without those that they add."""
    calls, clock.calls = clock.calls, []
    for call in calls:
        call.func(*call.args, **call.kw)


class LargeRequestTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.handled: list[str] = []
        self.factory = FakeFactory((Api.of(HeartbeatRequest, self.heartbeat),), max_request_bytes=1 << 27)
        self.factory.memory = MemoryLimit(1 << 30)
        self.factory.services = SimpleNamespace(
            runtime=SimpleNamespace(slices=counted_slices(self.factory.reactor, SLICE_SECONDS))
        )

    def heartbeat(self, broker: Any, context: Any, request: HeartbeatRequest) -> HeartbeatResponse:
        self.handled.append(request.group_id)
        return HeartbeatResponse()

    def test_one_is_handled_in_an_iteration_and_small_ones_meanwhile(self) -> None:
        connections = [connect(self.factory) for _ in range(3)]
        for protocol, _ in connections:
            receive(protocol, LARGE)
        self.assertEqual(self.handled, ["large"])
        self.assertEqual(self.factory.memory.total, 2 * (len(LARGE) - 4))
        connect(self.factory)[0].dataReceived(SMALL)
        self.assertEqual(self.handled, ["large", "small"])
        for count in (2, 3, 3):
            iterate(self.factory.reactor)
            self.assertEqual(self.handled.count("large"), count)
        self.assertEqual(self.factory.memory.total, 0)
        self.assertEqual([len(transport.sent) > 0 for _, transport in connections], [True] * 3)
        self.assertEqual(self.factory.reactor.getDelayedCalls(), [])

    def test_requests_behind_a_large_one_keep_their_order(self) -> None:
        first, second = connect(self.factory)[0], connect(self.factory)[0]
        receive(first, LARGE)
        receive(second, LARGE)
        second.dataReceived(SMALL)
        self.assertEqual(self.handled, ["large"])
        self.factory.reactor.advance(0)
        self.assertEqual(self.handled, ["large", "large", "small"])

    def test_a_lost_connection_does_not_keep_the_others_waiting(self) -> None:
        protocols = [connect(self.factory)[0] for _ in range(3)]
        for protocol in protocols:
            receive(protocol, LARGE)
        protocols[1].connectionLost()
        self.factory.reactor.pump([0, 0, 0])
        self.assertEqual(self.handled, ["large", "large"])
        self.assertEqual(self.factory.memory.total, 0)


class SharedReadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.addCleanup(setattr, RECEIVED_BOUND, "bytes_max", RECEIVED_BOUND.bytes_max)

    def test_a_connection_receives_a_bounded_piece(self) -> None:
        pair = Pair()
        self.addCleanup(pair.close)
        RECEIVED_BOUND.bytes_max = 1000
        pair.peer.sendall(bytes(2500))
        for _ in range(3):
            select.select([pair.transport], [], [], 30)
            pair.receiver.buffer = memoryview(bytearray(1 << 20))
            self.assertIsNone(pair.transport.doRead())
        self.assertEqual([len(piece) for piece in pair.receiver.received], [1000, 1000, 500])

    def test_the_pieces_of_many_connections_are_small(self) -> None:
        class Reactor:
            _selectables: dict[int, object] = {}

        @attrs.frozen
        class Poller:
            connections: int

            def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
                return [(fd, select.EPOLLIN) for fd in range(self.connections)]

        def piece(connections: int) -> int:
            poller._iterate(Reactor(), poller.EagerPoller(Poller(connections)), 0)
            return RECEIVED_BOUND.bytes_max

        alone = piece(1)
        self.assertEqual([piece(2) * 2, piece(8) * 8], [alone, alone])
        self.assertEqual(piece(40), alone // 40)
        self.assertEqual(piece(10_000), 32 * 1024)
        self.assertEqual(piece(1), alone)
