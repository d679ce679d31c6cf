"""One connection to a broker: requests out, answers in, in the order of the requests.

    connection = await connect(reactor, Address("localhost", 9092), settings)
    response = await connection.request(MetadataRequest(topics=None))
    connection.close()

    dialled --ApiVersions--> ready --request--> waiting (first in, first out) --answer--> its Deferred
                                |
                                +-- lost, timed out, not Kafka's protocol --> every waiting Deferred fails, once

Many requests may be under way. One that is not answered in time ends the connection: what comes after it would be
answered later still. Nothing is sent again from here.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from pylogbroker import __version__
from pylogbroker.client.errors import Closed, ConnectionLost, NotConnected, RequestTimedOut, error_of
from pylogbroker.client.memory import keep_what_is_freed
from pylogbroker.client.transport import ChunkClient, endpoint, set_options
from pylogbroker.config import Values
from pylogbroker.errors import ErrorCode
from pylogbroker.wire import (
    EncodingError,
    FrameSplitter,
    Request,
    UnsupportedVersion,
    WireError,
    decode_response_header,
    request_codec,
    response_codec,
)
from pylogbroker.wire.headers import RequestHeader, encode_request_header
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

T = TypeVar("T", bound=Request)

_pack_start = struct.Struct(">ihhi").pack
_unpack_id = struct.Struct(">i").unpack_from
_START_SIZE = 8  # of a header, up to its client id
_IDS = 2**31


@attrs.frozen
class Address:
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _Speaker:
    """How one API is spoken in one version: the start of its requests, what encodes them, what decodes answers."""

    __slots__ = ("api_key", "chunks", "decode", "header_rest", "name", "version")

    def __init__(self, kind: type[Request], version: int, client_id: str) -> None:
        self.name = kind.__name__.removesuffix("Request")
        self.api_key = kind.api_key
        self.version = version
        header = encode_request_header(RequestHeader(kind.api_key, version, 0, client_id))
        self.header_rest = header[_START_SIZE:]
        self.chunks = request_codec(kind.api_key, version).chunks
        self.decode = response_codec(kind.api_key, version).decode_first


class _Waiting:
    """A request that was sent and is not answered yet."""

    __slots__ = ("correlation_id", "deadline", "deferred", "speaker")

    def __init__(self, correlation_id: int, speaker: _Speaker, deadline: float) -> None:
        self.correlation_id = correlation_id
        self.speaker = speaker
        self.deadline = deadline
        self.deferred: Deferred[Any] = Deferred()


class BrokerConnection(Protocol):
    """The client's side of one connection; made by `connect`."""

    def __init__(self, clock: Any, address: Address, settings: Values) -> None:
        self.address = address
        self.sent = 0
        self.when_lost: Callable[[Failure], object] | None = None
        self._clock = clock
        self._seconds: Callable[[], float] = clock.seconds
        self._client_id = settings.text("client.id")
        self._timeout = settings.integer("request.timeout.ms") / 1000
        self._buffers = settings.integer("send.buffer.bytes"), settings.integer("receive.buffer.bytes")
        self._frames = FrameSplitter(settings.integer("receive.message.max.bytes"))
        self._ranges: dict[int, tuple[int, int]] = {}
        self._newest: dict[type[Request], _Speaker] = {}
        self._speakers: dict[tuple[type[Request], int], _Speaker] = {}
        self._waiting: deque[_Waiting] = deque()
        self._timer: IDelayedCall | None = None
        self._timer_due = float("inf")
        self._ended: Exception | None = None
        self._send: Callable[[list[Any]], object]

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
        self._end(ConnectionLost(f"the connection to {self.address} was lost: {reason.getErrorMessage()}"))
        if self.when_lost is not None:
            told, self.when_lost = self.when_lost, None
            told(reason)

    def dataReceived(self, data: bytes) -> None:
        frames = self._frames
        buffer = frames.rest()
        if buffer is not None:  # a transport that does not receive into buffers
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.buffer_filled(count)
            data = data[count:]
        for frame in frames.split(data):
            self._answered(frame)
        if frames.violation is not None:
            self._violated("of an impossible length")

    def receive_buffer(self) -> memoryview | None:
        return self._frames.rest()

    def buffer_filled(self, count: int) -> None:
        frame = self._frames.filled(count)
        if frame is not None:
            self._answered(frame)

    # -- requests ------------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._waiting)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._ended is None

    def version_of(self, kind: type[Request]) -> int:
        """The newest version of an API that both sides know; UnsupportedVersion if there is none."""
        return (self._newest.get(kind) or self._meet(kind)).version

    def request(
        self,
        request: Request,
        *,
        version: int | None = None,
        expect_answer: bool = True,
        timeout: float | None = None,
    ) -> Deferred[Any]:
        """Send a request; a Deferred of its response, or of None at once if none is expected.

        It fails with ConnectionLost or RequestTimedOut (after `timeout` seconds, or else request.timeout.ms), and with
        UnsupportedVersion or EncodingError if the broker cannot be asked that. Records in the request are not copied:
        they must not be changed until then.
        """
        kind = type(request)
        if self._ended is not None:
            return fail(NotConnected(f"not connected to {self.address} any more: {self._ended}"))
        try:
            if version is None:
                speaker = self._newest.get(kind) or self._meet(kind)
            else:
                speaker = self._speakers.get((kind, version)) or self._meet(kind, version)
            chunks: list[Any] = speaker.chunks(request)
        except (UnsupportedVersion, EncodingError) as error:
            return fail(error)
        correlation_id = self.sent
        self.sent = (correlation_id + 1) % _IDS
        rest = speaker.header_rest
        size = _START_SIZE + len(rest) + sum(map(len, chunks))
        chunks[0] = _pack_start(size, speaker.api_key, speaker.version, correlation_id) + rest + chunks[0]
        if not expect_answer:
            self._send(chunks)
            return succeed(None)
        deadline = self._seconds() + (self._timeout if timeout is None else timeout)
        waiting = _Waiting(correlation_id, speaker, deadline)
        self._waiting.append(waiting)
        if deadline < self._timer_due:
            self._watch(deadline)
        self._send(chunks)
        return waiting.deferred

    def close(self, reason: Exception | None = None) -> None:
        """Drop the connection; what waits for answers fails."""
        self._end(reason or Closed(f"the connection to {self.address} was closed"))
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()

    async def shake_hands(self, timeout: float) -> None:
        """Ask the broker what it speaks: the first thing on every connection."""
        request = ApiVersionsRequest(client_software_name="pylogbroker", client_software_version=__version__)
        version = ApiVersionsRequest.versions.last
        while True:
            key = ApiVersionsRequest.api_key
            self._ranges[key] = 0, version
            response: ApiVersionsResponse = await self.request(request, version=version, timeout=timeout)
            self._ranges.update({api.api_key: (api.min_version, api.max_version) for api in response.api_keys})
            if response.error_code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
                break
            version = min(self._ranges[key][1], version - 1)
        if response.error_code:
            raise error_of(response.error_code, f"{self.address} does not tell what it speaks")

    def _meet(self, kind: type[Request], version: int | None = None) -> _Speaker:
        """Make ready to send requests of a kind."""
        low, high = self._ranges.get(kind.api_key, (0, -1))
        low, high = max(low, kind.versions.first), min(high, kind.versions.last)
        chosen = high if version is None else version
        if not low <= chosen <= high:
            name = kind.__name__ if version is None else f"{kind.__name__} v{version}"
            raise UnsupportedVersion(f"the broker at {self.address} cannot be asked {name}")
        speaker = _Speaker(kind, chosen, self._client_id)
        self._speakers[kind, chosen] = speaker
        if version is None:
            self._newest[kind] = speaker
        return speaker

    # -- answers -------------------------------------------------------------------------------------------------

    def _answered(self, frame: memoryview) -> None:
        if self._ended is not None:
            return
        if not self._waiting:
            self._violated("that nobody asked for")
            return
        waiting = self._waiting[0]
        speaker = waiting.speaker
        try:
            correlation_id, position = decode_response_header(frame, speaker.api_key, speaker.version)
            if correlation_id != waiting.correlation_id:
                self._violated("to another question")
                return
            if speaker.api_key == ApiVersionsRequest.api_key:
                response = _decode_versions(speaker, frame, position)
            else:
                response = speaker.decode(frame, position)
        except WireError as error:
            self._violated(f"that is none: {error}")
            return
        self._waiting.popleft()
        waiting.deferred.callback(response)

    def _violated(self, what: str) -> None:
        self.close(ConnectionLost(f"{self.address} does not speak Kafka's protocol: it sent an answer {what}"))

    def _end(self, error: Exception) -> None:
        """Nothing more is sent or answered; what waits fails."""
        if self._ended is not None:
            return
        self._ended = error
        self._frames.forget()
        self._newest.clear()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.deferred.errback(Failure(error))

    # -- time ----------------------------------------------------------------------------------------------------

    def _watch(self, due: float) -> None:
        """See to the deadlines at `due`. Most requests are answered long before: the timer is not moved for them."""
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

    def _timed_out(self, late: list[_Waiting]) -> None:
        names = ", ".join(sorted({waiting.speaker.name for waiting in late}))
        error = RequestTimedOut(f"{self.address} did not answer in time: {names}")
        self._waiting = deque(waiting for waiting in self._waiting if waiting not in late)
        self.close(ConnectionLost(f"the connection to {self.address} was given up: it did not answer in time"))
        for waiting in late:
            waiting.deferred.errback(Failure(error))


def _decode_versions(speaker: _Speaker, frame: memoryview, position: int) -> Any:
    """A broker that does not know the version of an ApiVersionsRequest answers in the layout of version 0."""
    if speaker.version and frame[position : position + 2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
        return response_codec(speaker.api_key, 0).decode_first(frame, position)
    return speaker.decode(frame, position)


class _ConnectionFactory(Factory):
    """Makes one `BrokerConnection` for each attempt at an address."""

    noisy = False

    def __init__(self, clock: Any, address: Address, settings: Values) -> None:
        self._making = clock, address, settings

    def buildProtocol(self, addr: Any) -> BrokerConnection:
        return BrokerConnection(*self._making)


async def connect(reactor: Any, address: Address, settings: Values) -> BrokerConnection:
    """A connection that is ready for requests; NotConnected says why there is none."""
    keep_what_is_freed()
    seconds = settings.integer("socket.connection.setup.timeout.ms") / 1000
    started = reactor.seconds()
    try:
        factory = _ConnectionFactory(reactor, address, settings)
        dialling = endpoint(reactor, address.host, address.port, seconds).connect(factory)
        made: Any = await dialling.addTimeout(seconds, reactor)  # to look a name up has no limit of its own
    except Exception as error:
        raise NotConnected(f"cannot connect to {address}: {_reason(error)}") from error
    connection: BrokerConnection = made
    try:
        await connection.shake_hands(max(0.001, started + seconds - reactor.seconds()))
    except BaseException as error:
        connection.close()
        if isinstance(error, ConnectionLost | RequestTimedOut):
            raise NotConnected(str(error)) from error
        raise
    return connection


def _reason(error: Exception) -> str:
    return Failure(error).getErrorMessage().rstrip(".")
