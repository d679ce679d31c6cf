"""One Kafka connection: frames in, answers out in the order of the requests.

    received --> RequestQueue --> decoded --> handled --> AnswerQueue --> transport

Each part has one purpose and a module of its own:

    request_queue    requests that were read and have not begun
    request_headers  route and context of a request
    answer_queue     encoded answers, and places of those that are not ready
    flow_control     whether requests begin, and whether the connection is read

A round of work begins the requests of a read one by one while the flow is open, and sends their answers with one write.
The first of them may be handled together with those of other connections (`pylogbroker.net.joined_reads`).

Long requests are decoded, handled and encoded in slices (`pylogbroker.broker.runtime.slices`). Requests behind a long
one wait until it is decoded, and its handler has ended or waits for something else than a slice. A lost connection also
cancels decoding and encoding (see `pylogbroker.broker.requests.context`).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Coroutine
from functools import partial
from time import perf_counter
from types import CoroutineType
from typing import Any
from typing import Protocol as Structure

import attrs
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.requests.context import Caller, RequestContext
from pylogbroker.broker.requests.deferred_actions import DeferredActions
from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.broker.services import Authorization, QuotaMeters, Services
from pylogbroker.errors import ProtocolViolation
from pylogbroker.net.answer_queue import OUT_BYTES_MAX, OUT_CHUNKS_MAX, AnswerQueue
from pylogbroker.net.flow_control import CLOSED, FINISHING, OPEN, RUNNING, FlowControl, FlowEvent, Round
from pylogbroker.net.joined_reads import JoinedRead, JoinedReads
from pylogbroker.net.large_requests import LARGE_REQUEST_BYTES_MIN, LargeRequests
from pylogbroker.net.latencies import MeasuredRead, MeasuredWait, ReadSampler
from pylogbroker.net.limits import MemoryLimit
from pylogbroker.net.request_headers import RequestHeaders
from pylogbroker.net.request_queue import RequestQueue
from pylogbroker.net.response_slots import ResponseEncoder, ResponseSlot
from pylogbroker.net.routes import CLIENT_ID_AT, HEADER_BYTES_MIN, NotOffered, Route, Routes, unpack_header_start
from pylogbroker.net.transport import ChunkServer
from pylogbroker.peer_log_limit import PeerLogLimit
from pylogbroker.wire.headers import skip_tagged
from pylogbroker.wire.recognition import describe_other_protocol

log = Logger()

_DECODE_INLINE_BYTES_MAX = 64 * 1024  # longer ones with many elements are decoded in slices


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
    joined_reads: JoinedReads
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
    answers_type: type[AnswerQueue] = AnswerQueue
    round_seconds = 0.004  # then the next request waits for the reactor's next iteration

    def __init__(self, host: str, port: int = 0) -> None:
        self._host = host
        self._port = port
        self._quotas: HasMeters = Unmetered()
        self._measured: MeasuredRead | None = None  # what brought the requests at work
        self._accounted = 0
        self.idle_since = 0

    # -- what the transport calls --------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        factory, transport = self.factory, self.transport
        self._requests = RequestQueue(factory.max_request_bytes)
        self._answers = answers = self.answers_type(self, transport)
        self._flow = FlowControl(transport, factory.reactor, self._go_on)
        self._caller = caller = Caller(on_charge=self._account, unanswered=answers.slots)
        self._headers = RequestHeaders(
            factory.routes, caller, self._host, factory.listener_name, factory.authorizer, transport
        )
        self._quotas = factory.quotas
        self._joined_reads = factory.joined_reads
        self.idle_since = factory.idle_tick
        factory.connection_made(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._flow.leave()
        free = self._requests.leave()
        if free is not None:
            self.factory.services.runtime.in_thread(free)
        self._caller.leave()
        memory = self.factory.memory
        memory.leaves(self, self._answers.leave(memory))
        self.factory.connection_lost(self)

    def dataReceived(self, data: bytes) -> None:
        if (state := self._flow.state) is CLOSED or state is FINISHING:
            return
        self.idle_since = self.factory.idle_tick
        requests = self._requests
        requests.frames.extend(requests.splitter.split(data))
        if not (self._joined_reads.is_open and self._waits_for_other_reads(len(data))):
            self._work()
        if requests.splitter.violation is not None:
            self._joined_reads.handle()
            self.violated(str(requests.splitter.violation))

    def receive_buffer(self) -> memoryview | None:
        return self._requests.splitter.rest()

    def buffer_filled(self, count: int) -> None:
        self.idle_since = self.factory.idle_tick
        frame = self._requests.splitter.filled(count)
        if frame is None or self._flow.is_ending:
            self._account()
            return
        self._requests.frames.append(frame)
        if len(frame) < LARGE_REQUEST_BYTES_MIN:
            self._work()
        else:
            self._requests.at_work_bytes += len(frame)
            self._flow.hold()
            self.factory.large_requests.run(partial(self._begin_large, len(frame)))
            self._account()

    def _begin_large(self, held: int) -> None:
        self._requests.at_work_bytes -= held
        self._flow.release()

    def secured(self, certificate: bytes | None) -> None:
        self._headers.identify(self.factory.connection_secured(self, certificate))

    def tls_failed(self, cause: str) -> None:
        if self._flow.state is not CLOSED:
            self.factory.setup_failed(self, "TLS", cause)

    def chunks_sent(self) -> None:
        self.idle_since = self.factory.idle_tick
        self._work()

    # -- reads that are joined: see `net.joined_reads` ------------------------------------------------------------

    def _waits_for_other_reads(self, size: int) -> bool:
        """Begin the round of work after other connections are read, if its first requests may be joined."""
        form = self._headers.repeated.last  # as a rule, the next request has it, too
        if not form or (joinable := form[1].joinable) is None:
            return False
        flow, frames, meters = self._flow, self._requests.frames, self._quotas.meters
        if flow.state is not OPEN or flow.round is not Round.NONE or not frames:
            return False
        if (self._answers.slots and not joinable.takes_places) or (
            meters is not None and meters.limit(joinable.context)
        ):
            return False
        sampler = self.factory.read_sampler
        sampler.skipped -= 1
        self._measured = sampler.measure() if sampler.skipped < 0 else None
        flow.round = Round.WAITING
        self._joined_reads.add(JoinedRead(self, flow, frames, form[0], joinable), size)
        return True

    @property
    def deferred_actions(self) -> DeferredActions:
        return self.factory.deferred_actions

    def begin_joined_round(self, read: JoinedRead) -> None:
        flow, answers, outcome = self._flow, self._answers, read.outcome
        flow.round = Round.NONE
        if flow.state is CLOSED:
            return
        if outcome is not None:
            route = read.route
            if (measured := self._measured) is not None:
                measured.latency = route.latency
            count, chunks = read.form.answer_joined(outcome, partial(self._take_slot, route))
            route.requests += count
            if chunks:
                answers.send(chunks)
                if measured is not None:
                    for _ in range(count):
                        measured.answered()
        if read.frames or flow.state is not OPEN:
            self._work(is_sampled=True)
        else:
            self._flush()
            if flow.state is not OPEN:
                flow.update_reading()
            self._account()

    def abort(self) -> None:
        self.transport.abortConnection()

    # -- rounds of work ------------------------------------------------------------------------------------------

    def _work(self, is_sampled: bool = False) -> None:
        """Begin requests while the flow is open; send answers; pause or resume reading.

        `is_sampled` says that the read of the requests was already chosen to be measured, or not.
        """
        flow = self._flow
        if flow.round is RUNNING:
            return
        flow.round = RUNNING
        self.factory.deferred_actions.hold()
        try:
            answers, frames = self._answers, self._requests.frames
            if answers.out or flow.state is not OPEN:
                flow.on(FlowEvent.RESUME)
                self._flush()
            if frames and flow.is_reading and not is_sampled:
                sampler = self.factory.read_sampler
                sampler.skipped -= 1
                self._measured = sampler.measure() if sampler.skipped < 0 else None
            elif self._measured is not None:  # the requests are the rest of an earlier read
                self._measured.resume()
            until = perf_counter() + self.round_seconds if len(frames) > 1 else 0.0
            while frames and flow.state is OPEN:
                if not (self._headers.repeated and self._answer_repeated(frames)):
                    self._request(frames.popleft())
                if not frames:
                    break
                if flow.state is not OPEN or answers.out_bytes > OUT_BYTES_MAX or len(answers.out) > OUT_CHUNKS_MAX:
                    self._flush()
                if perf_counter() > until and flow.state is OPEN:
                    flow.on(FlowEvent.YIELD)
                    self.factory.reactor.callLater(0, self._work)
            if answers.out or flow.state is not OPEN:
                self._flush()
        finally:
            flow.round = Round.NONE
            self.factory.deferred_actions.run()
        if flow.state is not OPEN or not flow.is_reading:
            self._end_or_update_reading()
        self._account()

    def _work_if_due(self) -> None:
        if self._flow.round is Round.DUE:
            self._work()

    def _go_on(self) -> None:
        self.idle_since = self.factory.idle_tick
        self._work()

    def _end_or_update_reading(self) -> None:
        if self._flow.state is FINISHING and not self._answers.slots:
            self._flow.on(FlowEvent.CLOSE)
            self.transport.loseConnection()
        else:
            self._flow.update_reading()

    def answers_ready(self) -> None:
        """Send answers: at once, or together with others that the requests at work complete."""
        flow, answers = self._flow, self._answers
        if flow.round is not Round.NONE:
            return
        actions = self.factory.deferred_actions
        if flow.state is OPEN and flow.is_reading and not answers.slots:
            self._flush()  # it was the last answer, and no request waits for its place
            flow.update_reading()
            self._account()
        elif actions.is_collecting and answers.out_bytes <= OUT_BYTES_MAX and len(answers.out) <= OUT_CHUNKS_MAX:
            flow.round = Round.DUE
            actions.defer(self._work_if_due)
        else:
            self._work()

    def _flush(self) -> None:
        """Pass the answers to the transport; see whether the next request must wait."""
        flow = self._flow
        if flow.state is not CLOSED and self._answers.flush():
            flow.on(FlowEvent.BLOCK)
        elif flow.state is not OPEN:
            flow.on(FlowEvent.UNBLOCK)

    def _account(self) -> None:
        requests = self._requests
        held = requests.splitter.held + requests.at_work_bytes + self._answers.held
        held += self.transport.unsent_bytes + self._caller.charged
        if (held or self._accounted) and self._flow.state is not CLOSED:
            self._accounted = held
            self.factory.memory.holds(self, held)

    # -- requests ------------------------------------------------------------------------------------------------

    def _answer_repeated(self, frames: deque[memoryview]) -> bool:
        """Handle the first requests if they repeat an earlier one; return False if the first does not."""
        answers = self._answers
        if (form := self._headers.repeated.find(frames[0])) is None:
            return False
        route, repeated = form
        meters = self._quotas.meters
        if (answers.slots and not repeated.takes_places) or (meters is not None and meters.limit(repeated.context)):
            return False
        if (measured := self._measured) is not None:
            measured.latency = route.latency
        count, chunks = repeated.answer_run(frames, partial(self._take_slot, route))
        for _ in range(count):
            frames.popleft()
        route.requests += count
        if chunks:
            answers.send(chunks)
            if measured is not None:
                for _ in range(count):
                    measured.answered()
        return count > 0

    def _request(self, frame: memoryview) -> None:
        correlation_id = -1
        try:
            key, version, correlation_id, id_size = unpack_header_start(frame)
            position = HEADER_BYTES_MIN + id_size if id_size > 0 else HEADER_BYTES_MIN
            headers = self._headers
            resolved = headers.checked.get((key, version, frame[CLIENT_ID_AT:position].tobytes()))
            if resolved is None:  # else these bytes are those of a header that was checked
                resolved, position = headers.resolve(frame, key, version, id_size)
            route, context = resolved
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
            self.violated(self._with_hint(str(violation), frame), violation.api)
        except struct.error:
            reason = f"bad request: a frame of {len(frame)} bytes is too short for a request"
            self.violated(self._with_hint(reason, frame))
        except (ProtocolViolation, IndexError) as violation:  # IndexError: the header's tagged fields are cut off
            self.violated(self._with_hint(f"bad request: {violation}", frame))
        else:
            answer = self._handle(request, route, context, correlation_id, len(frame))
            if route.learn is not None:
                self._headers.repeated.learn(route, context, frame, position, request, answer)
            if isinstance(answer, Deferred):
                self._take_slot(route, correlation_id, len(frame)).await_answer(answer)

    def _await_decoding(
        self,
        decoding: Deferred[tuple[Any, int]],
        route: Route,
        context: RequestContext,
        correlation_id: int,
        frame: memoryview,
    ) -> None:
        held = len(frame)
        self._requests.at_work_bytes += held
        self._flow.hold()

        def decoded(message: tuple[Any, int]) -> None:
            if not self._flow.is_ending:
                self.factory.deferred_actions.hold()
                try:
                    answer = self._handle(message[0], route, context, correlation_id, held)
                    if isinstance(answer, Deferred):
                        self._take_slot(route, correlation_id, held).await_answer(answer)
                finally:
                    self.factory.deferred_actions.run()

        def failed(failure: Failure) -> None:
            if failure.check(ProtocolViolation):
                self.violated(self._with_hint(f"bad request: {failure.value}", frame))
            elif not failure.check(CancelledError):
                log.failure("a request of {peer} failed", failure, peer=self.peer)
                self.close_because("a request failed")

        def go_on(_: None) -> None:
            self._requests.at_work_bytes -= held
            self._flow.release()

        self._requests.cancel_with_connection(decoding)
        decoding.addCallback(decoded).addErrback(failed).addCallback(go_on)

    def _handle(self, request: Any, route: Route, context: RequestContext, correlation_id: int, held: int) -> Any:
        """Handle a request; return the answer if it leaves with the next write, or a Deferred that must be awaited."""
        route.requests += 1
        if (measured := self._measured) is not None:
            measured.latency = route.latency if route.latency_of is None else route.latency_of(request)
        meters = self._quotas.meters
        answers = self._answers
        try:
            if meters is None:
                answer = route.handle(route.services, context, request)
            else:
                answer = meters.handle(route.handle, route.services, context, request, held, self._flow.mute)
        except ProtocolViolation as violation:
            self.violated(str(violation))
            return None
        except Exception:
            answer = answers.failed(route, Failure())
        if type(answer) is route.response_type:
            if answers.slots:
                answers.answer_ready(self._take_slot(route, correlation_id, held), answer)
                return None
            if (chunks := answers.encode(route, correlation_id, answer)) is None:
                answers.encode_in_slices(self._take_slot(route, correlation_id, held), answer)
                return None
            answers.send(chunks)
            if measured is not None:
                measured.answered()
            return answer
        if type(answer) is CoroutineType:
            self._run(route, correlation_id, answer, held)
            return None
        if answer is None and measured is not None:
            measured.answered()
        return answer

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
            self._answers.answer_ready(slot, answer)

    def pause(self) -> None:
        """Begin no further request until `go_on`."""
        self._flow.hold()

    def go_on(self) -> None:
        self.factory.reactor.callLater(0, self._flow.release)

    def _take_slot(self, route: ResponseEncoder, correlation_id: int, held: int, requests: int = 1) -> ResponseSlot:
        slot = self._take_place(route, correlation_id, held)
        slot.measured = self._wait_begins(requests)
        return slot

    def _take_place(self, route: ResponseEncoder, correlation_id: int, held: int) -> ResponseSlot:
        """Return the slot of a request whose work goes on."""
        answers = self._answers
        slot = answers.take_slot(route, correlation_id, held)
        if answers.is_full:
            self._flow.on(FlowEvent.BLOCK)
        return slot

    def _wait_begins(self, requests: int = 1) -> MeasuredWait | None:
        return None if self._measured is None else self._measured.waits(requests)

    @property
    def _slices(self) -> Slices:
        return self.factory.services.runtime.slices

    def run_in_slices(self, work: Coroutine[Any, Any, Any]) -> Deferred[Any]:
        """Encode a long answer."""
        return self._slices.start(work)

    # -- endings -------------------------------------------------------------------------------------------------

    def close_because(self, reason: str, is_fault: bool = True) -> None:
        """Log the reason and close after the answers that are being sent."""
        if self._flow.state is not CLOSED:
            emit = log.warn if is_fault else log.info
            emit("closing the connection from {peer}: {reason}", peer=self.peer, reason=reason)
            self._close()

    def violated(self, reason: str, api: str = "") -> None:
        """Close after a protocol violation; log a few lines per minute and host, one per `api`."""
        if self._flow.state is not CLOSED:
            if api:
                is_due = self.factory.not_offered.is_due(f"{self._host}, for {api}")
            else:
                is_due = self.factory.bad_requests.is_due(self._host)
            if is_due:
                log.warn("closing the connection from {peer}: {reason}", peer=self.peer, reason=reason)
            self._close()

    def _with_hint(self, reason: str, frame: memoryview) -> str:
        other_protocol = self._describe_other_protocol(frame)
        return reason if other_protocol is None else f"{reason}; {other_protocol}"

    def _describe_other_protocol(self, frame: memoryview) -> str | None:
        return describe_other_protocol(frame)

    def _close(self) -> None:
        self._flush()
        self._flow.on(FlowEvent.CLOSE)
        self._requests.frames.clear()
        self.factory.reactor.callLater(0, self.transport.abortConnection)

    def finish(self) -> None:
        """Stop reading, send outstanding answers, and close."""
        self._flow.on(FlowEvent.FINISH)
        self._requests.frames.clear()
        self._work()

    # -- what others see -----------------------------------------------------------------------------------------

    @property
    def is_closing(self) -> bool:
        return self._flow.state is CLOSED

    @property
    def requests_queued(self) -> int:
        return len(self._requests.frames)

    @property
    def answers_waiting(self) -> int:
        return len(self._answers.slots)

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
