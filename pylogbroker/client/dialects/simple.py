"""The protocol of 0.7 for a `SimpleConsumer`: requests out, answers in, in the order of the requests.

Answers do not say what they answer. A request that is not answered in time ends the connection; so does, on the
broker's side, one that it does not like.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred, fail, succeed
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from pylogbroker.client.connection import Address
from pylogbroker.client.dialects import Fetched, Wait, Wanted
from pylogbroker.client.errors import Closed, ConnectionLost, NotConnected, RequestTimedOut
from pylogbroker.client.messages import Decode
from pylogbroker.client.simple_messages import SimpleMessageSet
from pylogbroker.client.transport import endpoint
from pylogbroker.config import Values
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire import FrameSplitter, WireError
from pylogbroker.wire.simple import (
    Fetch,
    FetchRange,
    MultiFetch,
    Offsets,
    SimpleError,
    SimpleRequest,
    decode_offsets,
    decode_set,
    decode_sets,
    encode_simple_request,
)

T = TypeVar("T")

_CODES: Final[Mapping[int, ErrorCode]] = {
    SimpleError.OFFSET_OUT_OF_RANGE: ErrorCode.OFFSET_OUT_OF_RANGE,
    SimpleError.INVALID_MESSAGE: ErrorCode.CORRUPT_MESSAGE,
    SimpleError.WRONG_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    SimpleError.INVALID_FETCH_SIZE: ErrorCode.INVALID_FETCH_SIZE,
}
_MEANINGS: Final[Mapping[int, str]] = {code.value: code.name.lower().replace("_", " ") for code in SimpleError}


class SimpleConnection(Protocol):
    """One connection; made by `connect_simply`."""

    def __init__(self, clock: Any, address: Address, settings: Values) -> None:
        self.address = address
        self.gone: Deferred[None] = Deferred()
        self._clock = clock
        self._timeout = settings.integer("request.timeout.ms") / 1000
        self._frames = FrameSplitter(settings.integer("receive.message.max.bytes"))
        self._waiting: deque[tuple[Callable[[memoryview], Any], Deferred[Any]]] = deque()
        self._ended: Exception | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._ended is None

    def ask(self, request: SimpleRequest, read: Callable[[memoryview], T]) -> Deferred[T]:
        """Send a request; a Deferred of what `read` makes of the answer."""
        if self._ended is not None:
            return fail(NotConnected(f"not connected to {self.address} any more: {self._ended}"))
        try:
            data = encode_simple_request(request)
        except WireError as error:
            return fail(error)
        answered: Deferred[T] = Deferred()
        self._waiting.append((read, answered))
        timer = self._clock.callLater(self._timeout, self._late, type(request).__name__)
        transport: Any = self.transport
        transport.write(data)
        return answered.addBoth(_cancel, timer)

    def close(self, reason: Exception | None = None) -> None:
        """Drop the connection; what waits for answers fails."""
        self._end(reason or Closed(f"the connection to {self.address} was closed"))
        transport: Any = self.transport
        transport.abortConnection()

    # -- what the transport calls --------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        transport: Any = self.transport
        deliver_to = getattr(transport, "deliver_to", None)
        if deliver_to is not None:
            deliver_to(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._end(ConnectionLost(f"the connection to {self.address} was lost: {reason.getErrorMessage()}"))
        self.gone.callback(None)

    def dataReceived(self, data: bytes) -> None:
        buffer = self._frames.rest()
        if buffer is not None:  # a transport that does not receive into buffers
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.buffer_filled(count)
            data = data[count:]
        for frame in self._frames.split(data):
            self._answered(frame)
        if self._frames.violation is not None:
            self.close(self._violation("of an impossible length"))

    def receive_buffer(self) -> memoryview | None:
        return self._frames.rest()

    def buffer_filled(self, count: int) -> None:
        frame = self._frames.filled(count)
        if frame is not None:
            self._answered(frame)

    def _answered(self, frame: memoryview) -> None:
        if self._ended is not None:
            return
        if not self._waiting:
            self.close(self._violation("that nobody asked for"))
            return
        read, answered = self._waiting[0]
        try:
            answer = read(frame)
        except WireError as error:
            self.close(self._violation(f"that is none: {error}"))
            return
        self._waiting.popleft()
        answered.callback(answer)

    def _violation(self, what: str) -> ConnectionLost:
        return ConnectionLost(f"{self.address} does not speak the protocol of 0.7: it sent an answer {what}")

    def _late(self, name: str) -> None:
        self.close(RequestTimedOut(f"{self.address} did not answer in time: {name}"))

    def _end(self, error: Exception) -> None:
        if self._ended is not None:
            return
        self._ended = error
        self._frames.forget()
        waiting, self._waiting = self._waiting, deque()
        for _, answered in waiting:
            answered.errback(Failure(error))


class SimpleDialect:
    """See `pylogbroker.client.dialects.Dialect`."""

    def __init__(self, connection: SimpleConnection, settings: Values, decode_value: Decode | None) -> None:
        self._connection = connection
        self._decode_value = decode_value
        self._check_crcs = settings.boolean("check.crcs")

    def fetch(self, wanted: Sequence[Wanted], wait: Wait) -> Deferred[list[Fetched]]:
        return ensureDeferred(self._fetch(wanted))

    async def _fetch(self, wanted: Sequence[Wanted]) -> list[Fetched]:
        ranges = [FetchRange(each.topic, each.partition, each.offset, each.max_bytes) for each in wanted]
        if len(ranges) == 1:
            answers = [await self._connection.ask(Fetch(ranges[0]), decode_set)]
        else:
            error, answers = await self._connection.ask(MultiFetch(ranges), decode_sets)
            if error or len(answers) != len(ranges):
                raise _error_of(error, f"a multifetch of {len(ranges)}, answered with {len(answers)} sets")
        return [self._fetched(each, *answer) for each, answer in zip(wanted, answers, strict=True)]

    def _fetched(self, wanted: Wanted, code: int, data: memoryview) -> Fetched:
        messages = SimpleMessageSet(
            wanted.topic,
            wanted.partition,
            data,
            wanted.offset,
            decode_value=self._decode_value,
            check_crcs=self._check_crcs,
        )
        if code:
            return Fetched(messages, False, _error_of(code, f"{wanted.topic}/{wanted.partition}"))
        return Fetched(messages, bool(data) and not messages.valid_bytes)

    def offsets_before(self, topic: str, partition: int, time: int, most: int) -> Deferred[list[int]]:
        return ensureDeferred(self._offsets_before(topic, partition, time, most))

    async def _offsets_before(self, topic: str, partition: int, time: int, most: int) -> list[int]:
        error, offsets = await self._connection.ask(Offsets(topic, partition, time, most), decode_offsets)
        if error:
            raise _error_of(error, f"{topic}/{partition}")
        return offsets

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str) -> Deferred[None]:
        return fail(_no_groups())

    def committed(self, group: str, partitions: Sequence[TopicPartition]) -> Deferred[dict[TopicPartition, int | None]]:
        return fail(_no_groups())

    def is_open(self) -> bool:
        return self._connection.is_open

    def close(self) -> Deferred[None]:
        if self._connection.gone.called:
            return succeed(None)
        self._connection.close()
        return self._connection.gone


class _Factory(Factory):
    noisy = False

    def __init__(self, clock: Any, address: Address, settings: Values) -> None:
        self._making = clock, address, settings

    def buildProtocol(self, addr: Any) -> SimpleConnection:
        return SimpleConnection(*self._making)


async def connect_simply(reactor: Any, address: Address, settings: Values) -> SimpleConnection:
    """A connection; NotConnected says why there is none. The protocol has no greeting: nobody knows who is there."""
    seconds = settings.integer("socket.connection.setup.timeout.ms") / 1000
    try:
        made: Any = await endpoint(reactor, address.host, address.port, seconds).connect(
            _Factory(reactor, address, settings)
        )
    except Exception as error:
        reason = Failure(error).getErrorMessage().rstrip(".")
        raise NotConnected(f"cannot connect to {address}: {reason}") from error
    connection: SimpleConnection = made
    return connection


def _cancel(result: T, timer: Any) -> T:
    if timer.active():
        timer.cancel()
    return result


def _error_of(code: int, what: str) -> KafkaError:
    return KafkaError(
        f"{what}: {_MEANINGS.get(code, f'error {code}')}", _CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
    )


def _no_groups() -> KafkaError:
    detail = "the protocol of 0.7 has no offsets of groups: keep them in the coordination tree"
    return KafkaError(detail, ErrorCode.UNSUPPORTED_VERSION)
