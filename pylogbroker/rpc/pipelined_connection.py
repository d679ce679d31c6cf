"""Connection to a broker: pending requests and responses, in order.

    connected --request--> pending (first in, first out) --response--> its Deferred
                              |         ^                    |
                              |         +- FollowingRequest -+
                              |
                              +-- lost, timed out, invalid response --> every pending Deferred fails, once

A timeout ends the connection, since later responses would be even later. Nothing is retried. Subclasses define the
format.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from pylogbroker.rpc.endpoint import ChunkClient, set_options
from pylogbroker.rpc.errors import Closed, ConnectionLost, NotConnected, RequestTimedOut
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.wire import FrameSplitter, OtherProtocol, WireError
from pylogbroker.wire.recognition import TLS

Read = Callable[[memoryview], Any]


class FollowingRequest(NamedTuple):
    """Request that is sent as soon as a response is read, in place of that one's: the Deferred waits for the last."""

    chunks: Iterable[Any]
    read: Read


class _PendingRequest:
    __slots__ = ("deadline", "deferred", "name", "read")

    def __init__(self, name: str, read: Read, deadline: float) -> None:
        self.name = name
        self.read = read
        self.deadline = deadline
        self.deferred: Deferred[Any] = Deferred()


class PipelinedConnection(Protocol):
    protocol_name: ClassVar[str]

    def __init__(self, clock: Any, address: Address, settings: ConnectionSettings) -> None:
        self.address = address
        self.when_lost: Callable[[Failure], object] | None = None
        self._clock = clock
        self._seconds: Callable[[], float] = clock.seconds
        self._timeout = settings.request_timeout
        self._security = settings.security
        self._buffers = settings.send_buffer, settings.receive_buffer
        self._frames = FrameSplitter(settings.response_bytes_max)
        self._waiting: deque[_PendingRequest] = deque()
        self._timer: IDelayedCall | None = None
        self._timer_due = float("inf")
        self._has_responses = False
        self._ended: Exception | None = None
        self._unsent: list[Deferred[None]] = []
        self._send: Callable[[Iterable[Any]], object]

    # -- what the transport calls --------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        transport: Any = self.transport
        if isinstance(transport, ChunkClient):
            transport.deliver_to(self)
            set_options(transport, *self._buffers)
            self._send = transport.send_chunks
        else:
            self._send = transport.writeSequence

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        why = reason.getErrorMessage().rstrip(".")
        self._end(ConnectionLost(f"the connection to {self.address} was lost: {why}{self._loss_hint()}"))
        if self.when_lost is not None:
            notify, self.when_lost = self.when_lost, None
            notify(reason)

    def dataReceived(self, data: bytes) -> None:
        for frame in self._frames.split(data):
            self._response_received(frame)
        if self._frames.violation is not None:
            self._protocol_violated(self._description(self._frames.violation))

    def receive_buffer(self) -> memoryview | None:
        return self._frames.rest()

    def buffer_filled(self, count: int) -> None:
        frame = self._frames.filled(count)
        if frame is not None:
            self._response_received(frame)

    def chunks_sent(self) -> None:
        notify, self._unsent = self._unsent, []
        for deferred in notify:
            deferred.callback(None)

    # -- requests -----------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    @property
    def is_open(self) -> bool:
        return self._ended is None

    def close(self, reason: Exception | None = None) -> None:
        self._end(reason or Closed(f"the connection to {self.address} was closed"))
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()

    def _send_request(
        self, name: str, chunks: Iterable[Any], read: Read, timeout: float | None = None
    ) -> Deferred[Any]:
        """Send a request; return a Deferred of the response, decoded by `read`.

        It fails with ConnectionLost, or RequestTimedOut after `timeout` seconds (default request.timeout.ms).
        """
        deadline = self._seconds() + (self._timeout if timeout is None else timeout)
        waiting = _PendingRequest(name, read, deadline)
        self._waiting.append(waiting)
        if deadline < self._timer_due:
            self._watch(deadline)
        self._send(chunks)
        return waiting.deferred

    def _send_unanswered(self, chunks: Iterable[Any]) -> Deferred[None]:
        """Send a request; fire once the socket has accepted it: this bounds the data that waits."""
        self._send(chunks)
        transport: Any = self.transport
        if not isinstance(transport, ChunkClient) or not transport.unsent_chunks:
            return succeed(None)
        sent: Deferred[None] = Deferred()
        self._unsent.append(sent)
        return sent

    def _not_connected(self) -> Deferred[Any]:
        return fail(NotConnected(f"not connected to {self.address}: {self._ended}"))

    # -- answers -------------------------------------------------------------------------------------------------

    def _response_received(self, frame: memoryview) -> None:
        if self._ended is not None:
            return
        if not self._waiting:
            self._protocol_violated("without a request")
            return
        waiting = self._waiting[0]
        try:
            answer = waiting.read(frame)
        except WireError as error:
            self._protocol_violated(f"that cannot be decoded: {error}")
            return
        if self._ended is not None:  # what read it has closed the connection
            return
        self._waiting.popleft()
        self._has_responses = True
        if type(answer) is FollowingRequest:
            waiting.read, waiting.deadline = answer.read, self._seconds() + self._timeout
            self._waiting.append(waiting)
            self._send(answer.chunks)
        else:
            waiting.deferred.callback(answer)

    def _description(self, violation: WireError) -> str:
        if isinstance(violation, OtherProtocol) and violation.name == TLS:
            return f"in TLS; see {self._security.names.protocol}"
        return "with an invalid length"

    def _protocol_violated(self, what: str) -> None:
        self.close(ConnectionLost(f"{self.address} does not speak {self.protocol_name}: it sent an answer {what}"))

    def _protocol_hint(self) -> str:
        return f"; does it speak {self.protocol_name}?" if self._waiting and not self._has_responses else ""

    def _loss_hint(self) -> str:
        """Return what may be wrong if the broker closes the connection."""
        return self._protocol_hint()

    def _end(self, error: Exception) -> None:
        if self._ended is not None:
            return
        self._ended = error
        self._frames.forget()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        waiting, self._waiting = self._waiting, deque()
        unsent, self._unsent = self._unsent, []
        for deferred in [*(request.deferred for request in waiting), *unsent]:
            deferred.errback(Failure(error))

    # -- time ----------------------------------------------------------------------------------------------------

    def _watch(self, due: float) -> None:
        """Check deadlines at `due`. Responses do not move the timer: most are much earlier."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._clock.callLater(max(0.0, due - self._seconds()), self._due)

    def _due(self) -> None:
        self._timer_due = float("inf")
        now = self._seconds()
        late = [waiting for waiting in self._waiting if waiting.deadline <= now]
        if late:
            self._timed_out(late)
        elif self._waiting:
            self._watch(min(waiting.deadline for waiting in self._waiting))

    def _timed_out(self, late: list[_PendingRequest]) -> None:
        names = ", ".join(sorted({waiting.name for waiting in late}))
        error = RequestTimedOut(f"{self.address} did not answer in time: {names}{self._protocol_hint()}")
        self._waiting = deque(waiting for waiting in self._waiting if waiting not in late)
        self.close(ConnectionLost(f"dropped the connection to {self.address}: it did not answer in time"))
        for waiting in late:
            waiting.deferred.errback(Failure(error))
