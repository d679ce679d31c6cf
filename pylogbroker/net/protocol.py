"""One Kafka connection: frames in, answers out in the order of the requests.

    received --> todo --> decoded --> handled --+--> encoded ------------------------------------> out --> transport
                                                |                                                  ^
                                                +--> awaited, encoded, in its slot of `_waiting` --+  if it is the first

While the peer does not take its answers, or too many requests wait, no more requests are handled or read.

Long requests are decoded and handled, and long answers encoded, in slices (`pylogbroker.broker.slices`). Requests
behind a long one wait until it is decoded, and its handler has ended or waits for something else than a slice.

A lost connection also cancels decoding and encoding (see `pylogbroker.broker.context`).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Coroutine
from functools import partial
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any
from typing import Protocol as Structure

import attrs
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.context import Caller, RequestContext
from pylogbroker.broker.deferred_actions import DeferredActions
from pylogbroker.broker.services import Authorization, QuotaMeters, Services
from pylogbroker.broker.slices import Slices
from pylogbroker.errors import ErrorCode, KafkaError, ProtocolViolation
from pylogbroker.net.large_requests import LARGE_REQUEST_BYTES_MIN, LargeRequests
from pylogbroker.net.latencies import MeasuredRead, MeasuredWait, ReadSampler
from pylogbroker.net.limits import MemoryLimit
from pylogbroker.net.response_slots import ResponseEncoder, ResponseSlot
from pylogbroker.net.routes import (
    CLIENT_ID_AT,
    HEADER_BYTES_MIN,
    NotOffered,
    Route,
    Routes,
    has_client_id,
    read_client_id,
    unpack_header_start,
)
from pylogbroker.net.transport import ChunkServer
from pylogbroker.peer_log_limit import PeerLogLimit
from pylogbroker.rpc.transport import BUFFERS
from pylogbroker.security.principals import ANONYMOUS
from pylogbroker.wire import Chunk, EncodingError
from pylogbroker.wire.frame_splitter import FrameSplitter
from pylogbroker.wire.headers import skip_tagged
from pylogbroker.wire.recognition import describe_other_protocol

if TYPE_CHECKING:
    from pylogbroker.broker.security.access import Access

log = Logger()

REQUESTS_WAITING_MAX = 1000
"""Requests that may wait for their answer."""

UNSENT_BYTES_MAX = 512 * 1024
"""With more unsent answers, no request is handled."""

_OUT_BYTES = 128 * 1024
_OUT_CHUNKS = 256
_CALLERS_MAX = 64
_ID_SIZE = struct.Struct(">h")
_CALLER_ID_BYTES_MAX = 249  # longer client ids are not remembered: they may have 32 KB
_DECODE_INLINE_BYTES_MAX = 64 * 1024  # longer ones with many elements are decoded in slices
_ENCODE_INLINE_STRUCTS_MAX = 500  # some hundred microseconds; longer answers are encoded in slices


class HasMeters(Structure):
    @property
    def meters(self) -> QuotaMeters | None: ...


@attrs.frozen
class Unmetered:
    """Quotas of connections that are not measured."""

    meters: None = None


class ConnectionFactory(Structure):
    """State of the connections of one listener."""

    reactor: Any
    services: Services
    authorizer: Authorization | None
    listener_name: str
    deferred_actions: DeferredActions
    memory: MemoryLimit
    large_requests: LargeRequests
    bad_requests: PeerLogLimit
    not_offered: PeerLogLimit
    routes: Routes
    read_sampler: ReadSampler
    max_request_bytes: int
    idle_tick: int

    quotas: HasMeters

    def connection_made(self, protocol: KafkaProtocol, /) -> None: ...
    def connection_secured(self, protocol: KafkaProtocol, certificate: bytes | None, /) -> str: ...
    def setup_failed(self, protocol: KafkaProtocol, step: str, cause: str, /) -> None: ...
    def connection_lost(self, protocol: KafkaProtocol, /) -> None: ...


class KafkaProtocol(Protocol):
    transport: ChunkServer
    factory: ConnectionFactory
    requests_waiting_max = REQUESTS_WAITING_MAX
    work_seconds = 0.004  # then the next request waits for the reactor's next iteration

    def __init__(self, host: str, port: int = 0) -> None:
        self._host = host
        self._port = port
        self._todo: deque[memoryview] = deque()
        self._waiting: deque[ResponseSlot] = deque()
        self._out: list[Chunk] = []
        self._out_bytes = 0
        self._quotas: HasMeters = Unmetered()
        self._unmute: IDelayedCall | None = None
        self._callers: dict[tuple[int, int, bytes], tuple[Route, RequestContext]] = {}
        self._blocked = False
        self._busy = 0  # unfinished parts of long requests; the next requests wait
        self._decoding: Deferred[Any] | None = None  # of a long request
        self._paused = False
        self._caller = Caller(on_charge=self._account, unanswered=self._waiting)
        self._principal = ANONYMOUS
        self._by_token = False
        self._access: Access | None = None
        self._closing = False
        self._finishing = False
        self._working = False
        self._is_work_deferred = False
        self._held = 0
        self._waiting_bytes = 0
        self._measured: MeasuredRead | None = None  # what brought the requests at work
        self.idle_since = 0

    # -- what the transport calls --------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        self._frames = FrameSplitter(self.factory.max_request_bytes)
        self._routes = self.factory.routes
        self._quotas = self.factory.quotas
        self.idle_since = self.factory.idle_tick
        self.factory.connection_made(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._closing = True
        self._todo.clear()
        free = self._frames.forget()  # now: protocol and transport form a reference cycle
        if free is not None:
            self.factory.services.runtime.in_thread(free)
        self._caller.leave()
        if self._decoding is not None:
            self._decoding.cancel()
        if self._unmute is not None:
            self._unmute.cancel()
        waiting, self._waiting = self._waiting, deque()
        memory = self.factory.memory
        memory.leaves(self, sum([slot.detach(memory) for slot in waiting]))
        self.factory.connection_lost(self)

    def dataReceived(self, data: bytes) -> None:
        if self._closing:
            return
        self.idle_since = self.factory.idle_tick
        self._todo.extend(self._frames.split(data))
        self._work()
        if self._frames.violation is not None:
            self._violated(str(self._frames.violation))

    def receive_buffer(self) -> memoryview | None:
        return self._frames.rest()

    def buffer_filled(self, count: int) -> None:
        self.idle_since = self.factory.idle_tick
        frame = self._frames.filled(count)
        if frame is None:
            self._account()
            return
        self._todo.append(frame)
        if len(frame) < LARGE_REQUEST_BYTES_MIN:
            self._work()
        else:
            self._busy += 1
            self._waiting_bytes += len(frame)
            self.factory.large_requests.run(partial(self._handle_large, len(frame)))
            self._account()

    def _handle_large(self, held: int) -> None:
        self._waiting_bytes -= held
        self._go_on()

    def secured(self, certificate: bytes | None) -> None:
        self._principal = self.factory.connection_secured(self, certificate)

    def tls_failed(self, cause: str) -> None:
        if not self._closing:
            self.factory.setup_failed(self, "TLS", cause)

    def chunks_sent(self) -> None:
        self.idle_since = self.factory.idle_tick
        self._work()

    # -- requests ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Handle requests while the peer takes its answers; pause or resume reading."""
        if self._working:
            return
        self._working = True
        self.factory.deferred_actions.hold()
        try:
            todo = self._todo
            if self._out or self._blocked:
                self._flush()
            if todo and not self._paused:
                sampler = self.factory.read_sampler
                sampler.skipped -= 1
                self._measured = sampler.measure() if sampler.skipped < 0 else None
            elif self._measured is not None:  # the requests are the rest of an earlier read
                self._measured.resume()
            until = perf_counter() + self.work_seconds if len(todo) > 1 else 0.0
            while todo and not (self._blocked or self._closing or self._busy):
                self._request(todo.popleft())
                if not todo:
                    break
                if self._blocked or self._out_bytes > _OUT_BYTES or len(self._out) > _OUT_CHUNKS:
                    self._flush()
                if perf_counter() > until and not self._blocked:
                    self.factory.reactor.callLater(0, self._work)
                    break
            if self._out or self._blocked:
                self._flush()
        finally:
            self._working = False
            self.factory.deferred_actions.run()
        if todo or self._blocked or self._paused or self._finishing or self._busy:
            self._read_on_or_not()
        self._account()

    def _read_on_or_not(self) -> None:
        if self._finishing and not self._waiting and not self._closing:
            self._closing = True
            self.transport.loseConnection()
        pause = bool(self._todo) or self._blocked or self._finishing or self._busy > 0
        if pause != self._paused and not self._closing:
            self._paused = pause
            if pause:
                self.transport.stopReading()
            else:
                self.transport.startReading()

    def _request(self, frame: memoryview) -> None:
        correlation_id = -1
        try:
            key, version, correlation_id, id_size = unpack_header_start(frame)
            position = HEADER_BYTES_MIN + id_size if id_size > 0 else HEADER_BYTES_MIN
            caller = self._callers.get((key, version, frame[CLIENT_ID_AT:position].tobytes()))
            if caller is None:  # else these bytes are those of a header that was checked
                id_size, client_id, position = read_client_id(frame, key, version, id_size)
                caller = self._resolve(key, version, id_size, client_id)
            route, context = caller
            if route.flexible:  # as a rule without tagged fields, which costs no call
                position = skip_tagged(frame, position) if frame[position] else position + 1
            if len(frame) <= _DECODE_INLINE_BYTES_MAX or route.decode_in_steps is None:
                request, _ = route.decode(frame, position)
            else:
                decoded = self._slices.attempt(route.decode_in_steps(frame, position))
                if isinstance(decoded, Deferred):
                    self._await_decoding(decoded, route, context, correlation_id, frame)
                    return
                request, _ = decoded
        except NotOffered as violation:
            self._violated(self._with_hint(str(violation), frame), violation.api)
        except struct.error:
            reason = f"bad request: a frame of {len(frame)} bytes is too short for a request"
            self._violated(self._with_hint(reason, frame))
        except (ProtocolViolation, IndexError) as violation:  # IndexError: the header's tagged fields are cut off
            self._violated(self._with_hint(f"bad request: {violation}", frame))
        else:
            self._handle(request, route, context, correlation_id, len(frame))

    def _await_decoding(
        self,
        decoding: Deferred[tuple[Any, int]],
        route: Route,
        context: RequestContext,
        correlation_id: int,
        frame: memoryview,
    ) -> None:
        held = len(frame)
        self._waiting_bytes += held

        def decoded(message: tuple[Any, int]) -> None:
            if not self._closing:
                self.factory.deferred_actions.hold()
                try:
                    self._handle(message[0], route, context, correlation_id, held)
                finally:
                    self.factory.deferred_actions.run()

        def failed(failure: Failure) -> None:
            if failure.check(ProtocolViolation):
                self._violated(self._with_hint(f"bad request: {failure.value}", frame))
            elif not failure.check(CancelledError):
                log.failure("a request of {peer} failed", failure, peer=self.peer)
                self.close_because("a request failed")

        def go_on(_: None) -> None:
            self._decoding = None
            self._waiting_bytes -= held
            self._go_on()

        self._busy += 1
        self._decoding = decoding
        decoding.addCallback(decoded).addErrback(failed).addCallback(go_on)

    def _handle(self, request: Any, route: Route, context: RequestContext, correlation_id: int, held: int) -> None:
        route.requests += 1
        if (measured := self._measured) is not None:
            measured.latency = route.latency if route.latency_of is None else route.latency_of(request)
        meters = self._quotas.meters
        try:
            if meters is None:
                answer = route.handle(self.factory.services, context, request)
            else:
                answer = meters.handle(route.handle, self.factory.services, context, request, held, self.mute)
        except ProtocolViolation as violation:
            self._violated(str(violation))
            return
        except Exception:
            answer = self._failed(route)
        if type(answer) is route.response_type:
            if self._waiting:
                self.answer_ready(self._take_slot(route, correlation_id, held), answer)
                return
            if (chunks := self._encoded(route, correlation_id, answer)) is None:
                self._encode_in_slices(self._take_slot(route, correlation_id, held), answer)
                return
            self._send(chunks)
        elif type(answer) is CoroutineType:
            self._run(route, correlation_id, answer, held)
            return
        elif answer is not None:
            self._take_slot(route, correlation_id, held).await_answer(answer)
            return
        if measured is not None:
            measured.answered()

    def _run(self, route: ResponseEncoder, correlation_id: int, work: Coroutine[Any, Any, Any], held: int) -> None:
        """Run a handler in slices; the next requests wait until it ends, or waits for something else."""
        slot = self._take_place(route, correlation_id, held)
        try:
            answer = self._slices.attempt(work, self.pause, self.go_on)
        except Exception:
            answer = fail()
        slot.measured = self._wait_begins()
        if isinstance(answer, Deferred):
            slot.await_answer(answer)
        else:
            self.answer_ready(slot, answer)

    @property
    def _slices(self) -> Slices:
        return self.factory.services.runtime.slices

    def pause(self) -> None:
        """Handle no further request until `go_on`."""
        self._busy += 1

    def go_on(self) -> None:
        self.factory.reactor.callLater(0, self._go_on)

    def mute(self, ms: int) -> None:
        """Handle and read no more requests for a time; answers are sent."""
        if self._closing:
            return
        reactor = self.factory.reactor
        if self._unmute is None:
            self._busy += 1
            self._unmute = reactor.callLater(ms / 1000, self._unmuted)
        elif self._unmute.getTime() < reactor.seconds() + ms / 1000:
            self._unmute.reset(ms / 1000)

    def _unmuted(self) -> None:
        self._unmute = None
        self.idle_since = self.factory.idle_tick
        self._go_on()

    def _go_on(self) -> None:
        self._busy -= 1
        self._work()

    def _resolve(self, key: int, version: int, id_size: int, client_id: bytes) -> tuple[Route, RequestContext]:
        route = self._routes.find(key, version)
        try:
            name = client_id.decode() if id_size >= 0 else None
        except UnicodeDecodeError:
            raise ProtocolViolation("the client id is not UTF-8") from None
        local = self.transport.getHost().host
        listener, access = self.factory.listener_name, self._current_access()
        who = self._principal, self._caller, access, self._by_token
        context = RequestContext(version, name, self._host, local, listener, *who)
        if id_size <= _CALLER_ID_BYTES_MAX and has_client_id(key, version):
            if len(self._callers) >= _CALLERS_MAX:
                self._callers.clear()
            self._callers[key, version, _ID_SIZE.pack(id_size) + client_id] = route, context
        return route, context

    def _current_access(self) -> Access | None:
        """Return what the connection's principal may do; None without an authorizer."""
        authorizer = self.factory.authorizer
        if authorizer is not None and (self._access is None or self._access.principal != self._principal):
            self._access = authorizer.access(self._principal, self._host)
        return self._access

    # -- answers -------------------------------------------------------------------------------------------------

    def _send(self, chunks: list[Chunk]) -> None:
        self._out += chunks
        self._out_bytes += sum(map(len, chunks))

    def _take_slot(self, route: ResponseEncoder, correlation_id: int, held: int) -> ResponseSlot:
        slot = self._take_place(route, correlation_id, held)
        slot.measured = self._wait_begins()
        return slot

    def _take_place(self, route: ResponseEncoder, correlation_id: int, held: int) -> ResponseSlot:
        """Return the slot of a request whose work goes on."""
        slot = ResponseSlot(self, route, correlation_id, held)
        self._waiting.append(slot)
        self._waiting_bytes += held
        if len(self._waiting) >= self.requests_waiting_max:
            self._blocked = True
        return slot

    def _wait_begins(self) -> MeasuredWait | None:
        return None if self._measured is None else self._measured.waits()

    def answer_failed(self, slot: ResponseSlot, failure: Failure) -> None:
        self.answer_ready(slot, self._failed(slot.route, failure))

    def answer_ready(self, slot: ResponseSlot, answer: Any) -> None:
        """Encode, in slices if the answer is long; None stands for no answer."""
        chunks = [] if answer is None else self._encoded(slot.route, slot.correlation_id, answer)
        if chunks is None:
            self._encode_in_slices(slot, answer)
        else:
            self.answer_encoded(slot, chunks)

    def _encode_in_slices(self, slot: ResponseSlot, answer: Any) -> None:
        slot.await_encoding(self._slices.start(slot.route.encode_in_steps(slot.correlation_id, answer)))

    def answer_encoded(self, slot: ResponseSlot, chunks: list[Chunk]) -> None:
        waiting = self._waiting
        slot.work, slot.chunks = None, chunks
        if waiting[0] is not slot:
            self._hold_answer(slot, chunks)
        while waiting and waiting[0].chunks is not None:
            first = waiting.popleft()
            if first.measured is not None:
                first.measured.end()
            self._waiting_bytes -= first.held
            self._send(first.chunks or [])
        if not (self._working or self._is_work_deferred):
            self._send_soon()

    def _send_soon(self) -> None:
        """Send answers: at once, or together with others that the requests at work complete."""
        if not (self._waiting or self._todo or self._blocked or self._paused or self._finishing or self._busy):
            self._flush()  # it was the last answer, and no request waits for its place
            if self._blocked:
                self._read_on_or_not()
            self._account()
            return
        actions = self.factory.deferred_actions
        if actions.is_collecting and self._out_bytes <= _OUT_BYTES and len(self._out) <= _OUT_CHUNKS:
            self._is_work_deferred = True
            actions.defer(self._work_deferred)
        else:
            self._work()

    def _work_deferred(self) -> None:
        self._is_work_deferred = False
        self._work()

    def _hold_answer(self, slot: ResponseSlot, chunks: list[Chunk]) -> None:
        """Count the memory of an answer that waits for earlier ones, instead of its request's."""
        size = sum([len(chunk) for chunk in chunks if isinstance(chunk, BUFFERS)])
        self._waiting_bytes += size - slot.held
        slot.held = size

    def _failed(self, route: ResponseEncoder, failure: Failure | None = None) -> Any:
        """Return the answer to a failed request, or None after closing."""
        failure = failure or Failure()
        error = failure.value
        if isinstance(error, ProtocolViolation):
            self._violated(str(error))
            return None
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        if not isinstance(error, KafkaError):
            log.failure("{api} of {peer} failed", failure, api=route.name, peer=self.peer)
        if not route.has_error_code:
            route.errors[code] += 1
            self.close_because(f"{route.name} cannot be answered: {error}")
            return None
        return route.response_type(error_code=code)

    def _encoded(self, route: ResponseEncoder, correlation_id: int, answer: Any) -> list[Chunk] | None:
        """Count the error, and encode; return None for a long answer. Close the connection if that fails."""
        if route.has_error_code and answer.error_code:
            route.errors[answer.error_code] += 1
        try:
            return route.encode_if_short(correlation_id, answer, _ENCODE_INLINE_STRUCTS_MAX)
        except EncodingError:
            self.answer_broken(Failure())
            return []

    def answer_broken(self, failure: Failure) -> None:
        if failure.check(EncodingError):
            self._violated(f"a request was carried out, but its answer cannot be sent: {failure.value}")
        else:
            log.failure("an answer could not be sent to {peer}", failure, peer=self.peer)
            self.close_because("an answer could not be sent")

    def _flush(self) -> None:
        """Pass the answers to the transport; see whether the next request must wait."""
        if self._out and not self._closing:
            chunks, self._out, self._out_bytes = self._out, [], 0
            self.transport.send_chunks(chunks)
        transport = self.transport
        self._blocked = (
            transport.unsent_bytes > UNSENT_BYTES_MAX
            or transport.unsent_chunks > _OUT_CHUNKS
            or len(self._waiting) >= self.requests_waiting_max
        )

    # -- bounds and endings --------------------------------------------------------------------------------------

    def _account(self) -> None:
        held = self._frames.held + self.transport.unsent_bytes + self._waiting_bytes + self._caller.charged
        if (held or self._held) and not self._closing:
            self._held = held
            self.factory.memory.holds(self, held)

    def close_because(self, reason: str, is_fault: bool = True) -> None:
        """Log the reason and close after the answers that are being sent."""
        if not self._closing:
            emit = log.warn if is_fault else log.info
            emit("closing the connection from {peer}: {reason}", peer=self.peer, reason=reason)
            self._close()

    def _violated(self, reason: str, api: str = "") -> None:
        """Close after a protocol violation; log a few lines per minute and host, one per `api`."""
        if not self._closing:
            if api:
                is_due = self.factory.not_offered.is_due(f"{self._host}, for {api}")
            else:
                is_due = self.factory.bad_requests.is_due(self._host)
            if is_due:
                log.warn("closing the connection from {peer}: {reason}", peer=self.peer, reason=reason)
            self._close()

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    def requests_queued(self) -> int:
        return len(self._todo)

    @property
    def answers_waiting(self) -> int:
        return len(self._waiting)

    @property
    def software(self) -> tuple[str, str] | None:
        """Name and version of the client, if it has said them."""
        return self._caller.software

    @property
    def host(self) -> str:
        """Address of the peer."""
        return self._host

    @property
    def peer(self) -> str:
        """Address of the peer and its listener."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port} on {self.factory.listener_name}"

    def _with_hint(self, reason: str, frame: memoryview) -> str:
        other_protocol = self._describe_other_protocol(frame)
        return reason if other_protocol is None else f"{reason}; {other_protocol}"

    def _describe_other_protocol(self, frame: memoryview) -> str | None:
        return describe_other_protocol(frame)

    def _close(self) -> None:
        self._flush()
        self._closing = True
        self.factory.reactor.callLater(0, self.transport.abortConnection)

    def finish(self) -> None:
        """Stop reading, send outstanding answers, and close."""
        self._finishing = True
        self._todo.clear()
        self._work()
