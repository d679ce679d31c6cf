"""Connections of a broker with faults."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol, cast

from twisted.internet.defer import ensureDeferred
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.logger import Logger

from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.context import Caller
from pylogbroker.broker.services import Services
from pylogbroker.config import Listener
from pylogbroker.long_loops import at_once
from pylogbroker.net.answer_queue import AnswerQueue
from pylogbroker.net.flow_control import FlowEvent
from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.net.response_slots import ResponseEncoder
from pylogbroker.net.routes import Routes
from pylogbroker.net.sasl_protocol import SaslProtocol
from pylogbroker.net.service import KafkaFactory, SharedLimits
from pylogbroker.rpc.transport import BUFFERS
from pylogbroker.testing.faults.handlers import faulty
from pylogbroker.testing.faults.network import Conditions, Flow
from pylogbroker.wire import Chunk

log = Logger()


class ConnectionFaults(Protocol):
    """Faults, as connections know them."""

    async def handle(self, api: Api, services: Services, context: Any, request: Any, /) -> Any: ...
    def admits(self, broker_id: int, /) -> bool:
        """Return whether clients may connect."""

    def entered(self, caller: Caller, connection: FaultyProtocol, /) -> int:
        """Note a connection; return its number."""

    def left(self, caller: Caller, /) -> None: ...
    def routes(self, apis: Sequence[Api], services: Services, /) -> Routes: ...


class _CutFrame(bytes):
    """Half of a frame: the connection ends with it."""


class FaultyAnswers(AnswerQueue):
    """Answers that leave as the conditions of their direction say; a fault may cut one."""

    __slots__ = ("_answer_to_cut", "_down", "_is_cut", "_on_cut")

    def __init__(self, connection: FaultyProtocol, transport: Any) -> None:
        super().__init__(connection, transport)
        self._down = connection.down
        self._on_cut = connection.end_soon
        self._answer_to_cut: Any = None
        self._is_cut = False

    def cut(self, answer: Any) -> None:
        self._answer_to_cut = answer

    def encode(self, route: ResponseEncoder, correlation_id: int, answer: Any) -> list[Chunk] | None:
        if answer is not self._answer_to_cut:
            return super().encode(route, correlation_id, answer)
        frame = b"".join(map(_bytes_of, at_once(route.encode_in_steps(correlation_id, answer))))
        return [_CutFrame(frame[: len(frame) // 2])]

    def send(self, chunks: list[Chunk]) -> None:
        if self._is_cut:
            return
        super().send(chunks)
        if chunks and type(chunks[0]) is _CutFrame:
            self._is_cut = True
            self._on_cut()

    def flush(self) -> bool:
        if self._down.is_shaped and self.out:
            chunks, self.out, self.out_bytes = self.out, [], 0
            self._down.put(b"".join(map(_bytes_of, chunks)))
        return super().flush()


class FaultyProtocol(KafkaProtocol):
    """Connection that faults may pause, close or cut."""

    answers_type = FaultyAnswers
    _answers: FaultyAnswers
    number = 0

    @property
    def broker_id(self) -> int:
        return self._faulty_factory.broker_id

    @property
    def is_of_client(self) -> bool:
        return self._faulty_factory.is_for_clients

    @property
    def timers(self) -> IReactorTime:
        """Real time, also if a test moves the broker's clock."""
        timers: IReactorTime = self.factory.reactor
        return timers

    @property
    def _faulty_factory(self) -> FaultyFactory:
        factory = self.factory
        assert isinstance(factory, FaultyFactory)
        return factory

    def connectionMade(self) -> None:
        clock = self.factory.reactor
        self._up = Flow(clock, super().dataReceived, self.reset)
        self.down = Flow(clock, lambda piece: self.transport.send_chunks([piece]), self.reset)
        super().connectionMade()
        self.number = self._faulty_factory.faults.entered(self._caller, self)

    def connectionLost(self, reason: Any = None) -> None:
        self._up.close()
        self.down.close()
        self._faulty_factory.faults.left(self._caller)
        super().connectionLost(reason)

    def shape(self, up: Conditions | None, down: Conditions | None) -> None:
        """Change the conditions of the directions that are not None."""
        if up is not None:
            self._up.shape(up)
        if down is not None:
            self.down.shape(down)

    def reset(self) -> None:
        """End the connection at once, without what was not sent."""
        self.transport.abortConnection()

    def receive_buffer(self) -> memoryview | None:
        return None if self._up.is_shaped else super().receive_buffer()

    def dataReceived(self, data: bytes) -> None:
        if self._up.is_shaped:
            self._up.put(data)
        else:
            super().dataReceived(data)

    def forget_routes(self) -> None:
        """Ask the factory's routes again: they have changed."""
        self._headers.checked.clear()

    def close_now(self) -> None:
        """Close; drop what was not sent."""
        if not self.is_closing:
            log.info("closing the connection from {peer}, by a fault", peer=self.peer)
            self._close()

    def cut(self, answer: Any) -> None:
        """Send half of the frame of an answer, then close."""
        self._answers.cut(answer)

    def end_soon(self) -> None:
        """End behind what has left of the answers."""
        self.factory.reactor.callLater(0, self._end)

    def _end(self) -> None:
        if not self.is_closing:
            log.info("closing the connection from {peer} within an answer, by a fault", peer=self.peer)
            self._flush()
            self._flow.on(FlowEvent.CLOSE)
            self.transport.loseConnection()


class FaultySaslProtocol(FaultyProtocol, SaslProtocol):
    """Connection of a listener with SASL. Until it is authenticated, no fault concerns it."""


class FaultyFactory(KafkaFactory):
    """Connections to the broker, or to one that it pretends to be."""

    def __init__(
        self,
        reactor: Any,
        services: Services,
        listener: Listener,
        bounds: SharedLimits,
        faults: ConnectionFaults,
        broker_id: int,
    ) -> None:
        super().__init__(reactor, services, listener, bounds)
        self.faults, self.broker_id = faults, broker_id
        self.is_for_clients = listener.name != services.config.inter_broker_listener_name
        self.protocol_class = FaultySaslProtocol if listener.security.has_sasl else FaultyProtocol
        self.routes = faults.routes([faulty(api, self._handle) for api in services.apis], services)

    def buildProtocol(self, addr: IAddress | None) -> KafkaProtocol | None:  # type: ignore[override]
        if self.is_for_clients and not self.faults.admits(self.broker_id):
            return None
        return cast(KafkaProtocol | None, super().buildProtocol(addr))

    def _handle(self, api: Api, context: Any, request: Any) -> Any:
        """Let faults see all services: they concern more than the API does."""
        return ensureDeferred(self.faults.handle(api, self.services, context, request))


def _bytes_of(chunk: Any) -> bytes:
    if isinstance(chunk, BUFFERS):
        return bytes(chunk)
    return os.pread(chunk.file.fd, len(chunk), chunk.position)
