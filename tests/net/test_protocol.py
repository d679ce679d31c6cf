"""A connection: answers in order, bounds, and what happens to those who don't keep to the protocol."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from math import inf
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.errors import ErrorCode, KafkaError, ProtocolViolation
from pylogbroker.long_loops import give_way, settled
from pylogbroker.net import latencies
from pylogbroker.net.answer_queue import REQUESTS_WAITING_MAX, UNSENT_BYTES_MAX, AnswerQueue
from pylogbroker.net.flow_control import FlowEvent
from pylogbroker.net.limits import MemoryLimit
from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.peer_log_limit import LINES_PER_MINUTE_MAX
from pylogbroker.wire import decode_response_header, response_codec
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pylogbroker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.broker.log_lines import logged_lines
from tests.net.fakes import FakeFactory, FakeTransport, connect, counted_slices, frame


class Handlers:
    """Heartbeat answers at once with the generation as throttle time, Metadata when the test says so."""

    def __init__(self) -> None:
        self.contexts: list[Any] = []
        self.waiting: list[Deferred[Any]] = []
        self.heartbeats = 0
        self.work: Callable[[], None] = lambda: None

    def heartbeat(self, broker: Any, context: Any, request: HeartbeatRequest) -> HeartbeatResponse:
        self.contexts.append(context)
        self.heartbeats += 1
        self.work()
        if request.group_id == "fail":
            raise ValueError("a defect")
        if request.group_id == "refuse":
            raise KafkaError("no", ErrorCode.UNKNOWN_MEMBER_ID)
        return HeartbeatResponse(throttle_time_ms=request.generation_id)

    def metadata(self, broker: Any, context: Any, request: MetadataRequest) -> Deferred[MetadataResponse]:
        self.work()
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def table(self) -> tuple[Api, ...]:
        return (
            Api.of(HeartbeatRequest, self.heartbeat),
            Api.of(MetadataRequest, self.metadata),
            Api.of(ApiVersionsRequest, lambda *_: ApiVersionsResponse()),
        )


def heartbeat(correlation_id: int, group: str = "g", version: int = 4) -> bytes:
    return frame(HeartbeatRequest(group_id=group, generation_id=correlation_id), version, correlation_id)


def metadata(correlation_id: int) -> bytes:
    return frame(MetadataRequest(topics=[]), 9, correlation_id)


def bucket_of(seconds: float) -> int:
    """Return n for durations from 2**(n-1) to 2**n nanoseconds."""
    return int(seconds * 1e9).bit_length()


def correlation_ids(transport: FakeTransport) -> list[int]:
    data = b"".join(map(bytes, transport.sent))
    ids = []
    while data:
        size, correlation_id = struct.unpack_from(">ii", data)
        ids.append(correlation_id)
        data = data[4 + size :]
    return ids


STEPS = 5


async def stepping(done: list[int], answer: Any) -> Any:
    """A handler's steps; `done` numbers those that have been taken."""
    for number in range(STEPS):
        done.append(number)
        await give_way()
    return await settled(answer)


class ProtocolTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.handlers = Handlers()
        self.factory = FakeFactory(self.handlers.table())
        self.protocol, self.transport = connect(self.factory)
        self.patch(KafkaProtocol, "round_seconds", inf)

    def settle(self) -> None:
        self.factory.reactor.advance(0)

    def test_requests_have_the_access_of_their_connection(self) -> None:
        """Requests share one, so that verdicts are remembered."""
        asked: list[tuple[str, str]] = []

        def access(principal: str, host: str) -> SimpleNamespace:
            asked.append((principal, host))
            return SimpleNamespace(principal=principal)

        self.factory.authorizer = SimpleNamespace(access=access)
        protocol, _ = connect(self.factory)
        protocol.dataReceived(heartbeat(1) + heartbeat(2, version=3))
        first, second = self.handlers.contexts
        self.assertEqual(asked, [("User:ANONYMOUS", "10.0.0.1")])
        self.assertIs(first.access, second.access)
        self.assertEqual(first.principal, "User:ANONYMOUS")

    def test_client_ids_are_distinguished(self) -> None:
        names = ["ab", None, "", "a", "ab", None, "", "a"]
        for name in names:
            self.protocol.dataReceived(frame(HeartbeatRequest(), 4, 1, name))
        self.assertEqual([context.client_id for context in self.handlers.contexts], names)
        self.assertEqual(len(self.protocol._headers.checked), 4)

    def test_a_cut_off_client_id_is_not_a_known_one(self) -> None:
        self.protocol.dataReceived(frame(HeartbeatRequest(), 4, 1, "ab"))
        for cut_off in (struct.pack(">ihhihs", 11, 12, 4, 1, 2, b"a"), struct.pack(">ihhih", 10, 12, 4, 1, -2)):
            other, transport = connect(self.factory)
            other._headers.checked = self.protocol._headers.checked
            with logged_lines() as lines:
                other.dataReceived(cut_off)
                self.settle()
            self.assertIn("a client id of", lines[0])
            self.assertEqual(transport.closed, "at once")

    def test_requests_without_a_client_id_in_their_header(self) -> None:
        """Their bodies begin where others have its size."""
        stopped: list[int] = []

        def stop(broker: Any, context: Any, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
            stopped.append(request.broker_id)
            return ControlledShutdownResponse()

        closing, transport = connect(FakeFactory((Api.of(ControlledShutdownRequest, stop),)))
        for broker_id in (-1, 7, -1, 7):
            closing.dataReceived(struct.pack(">ihhii", 12, 7, 0, 1, broker_id))
        self.assertEqual((stopped, transport.closed), ([-1, 7, -1, 7], ""))

    def test_durations_of_requests_are_counted(self) -> None:
        """A request waits for those of the same read, and an answer for those before it."""
        clock = Clock()
        self.patch(latencies, "perf_counter_ns", lambda: round(clock.seconds() * 1e9))
        self.handlers.work = lambda: clock.advance(0.003)
        clock.advance(1)
        self.protocol.dataReceived(heartbeat(1) + heartbeat(2) + metadata(3) + heartbeat(4))
        clock.advance(0.1)
        self.handlers.waiting.pop().callback(MetadataResponse())
        clock.advance(5)
        self.protocol.dataReceived(heartbeat(5))
        heartbeats, asked = (self.protocol._headers.routes.latencies[name] for name in ("Heartbeat", "Metadata"))
        self.assertEqual(sum(heartbeats.total.buckets), 4)
        self.assertEqual(heartbeats.local.buckets[bucket_of(0.003)], 4)
        self.assertAlmostEqual(heartbeats.local.sum / 1e9, 4 * 0.003)
        self.assertAlmostEqual(heartbeats.total.sum / 1e9, 0.003 + 0.006 + (0.012 + 0.1) + 0.003)
        self.assertAlmostEqual(heartbeats.queue.sum / 1e9, 0 + 0.003 + 0.009 + 0)
        self.assertAlmostEqual(heartbeats.remote.sum / 1e9, 0.1)  # the last of the read, behind Metadata
        self.assertEqual((sum(heartbeats.queue.buckets), sum(heartbeats.remote.buckets)), (4, 4))
        self.assertEqual(asked.total.buckets[bucket_of(0.112)], 1)
        self.assertAlmostEqual(asked.queue.sum / 1e9, 0.006)
        self.assertAlmostEqual(asked.remote.sum / 1e9, 0.112 - 0.009)
        self.assertAlmostEqual(asked.local.sum / 1e9, 0.003)

    def test_only_some_of_many_reads_are_measured(self) -> None:
        """They count as often as the others are left out."""
        clock = Clock()
        self.patch(latencies, "perf_counter_ns", lambda: round(clock.seconds() * 1e9))
        self.handlers.work = lambda: clock.advance(0.0001)
        for number in range(latencies.ALL_PER_SECOND_MAX):
            self.protocol.dataReceived(heartbeat(number))
        counted = self.protocol._headers.routes.latencies["Heartbeat"].total
        self.assertEqual(counted.buckets[bucket_of(0.0001)], latencies.ALL_PER_SECOND_MAX)
        for number in range(10 * latencies.SPARSE):
            self.protocol.dataReceived(heartbeat(number))
        self.assertEqual(sum(counted.buckets), latencies.ALL_PER_SECOND_MAX + 10 * latencies.SPARSE)
        self.assertEqual(counted.sum, sum(counted.buckets) * 100_000)
        clock.advance(2)
        for number in range(2 * latencies.SPARSE):  # the first of them is measured with the last of the busy time
            self.protocol.dataReceived(heartbeat(number))
        self.assertEqual(sum(counted.buckets), latencies.ALL_PER_SECOND_MAX + 12 * latencies.SPARSE)

    def test_requests_behind_a_full_buffer_wait(self) -> None:
        clock = Clock()
        self.patch(latencies, "perf_counter_ns", lambda: round(clock.seconds() * 1e9))
        self.protocol._flow.on(FlowEvent.BLOCK)
        self.transport.full = True
        self.transport.kept = [bytes(UNSENT_BYTES_MAX + 1)]
        self.protocol.dataReceived(heartbeat(1))
        clock.advance(2)
        self.transport.drain(self.protocol)
        latency = self.protocol._headers.routes.latencies["Heartbeat"]
        self.assertEqual((latency.total.sum, latency.local.sum), (2_000_000_000, 0))

    def test_requests_and_their_errors_are_counted(self) -> None:
        for number, group in enumerate(("g", "refuse", "refuse", "fail"), 1):
            self.protocol.dataReceived(heartbeat(number, group))
        self.protocol.dataReceived(metadata(5))
        self.handlers.waiting.pop().errback(KafkaError("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        self.assertEqual(self.transport.closed, "")
        routes = {(route.name, version): route for version, route in self.protocol._headers.routes}
        counts = routes["Heartbeat", 4]
        self.assertEqual(counts.requests, 4)
        self.assertEqual(counts.errors, {ErrorCode.UNKNOWN_MEMBER_ID: 2, ErrorCode.UNKNOWN_SERVER_ERROR: 1})
        self.assertEqual(routes["Metadata", 9].requests, 1)
        self.assertEqual(routes["Metadata", 9].errors, {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1})
        self.flushLoggedErrors()

    def test_an_unencodable_answer_is_logged_and_closes(self) -> None:
        """An error of the broker; many of them do not fill the log."""
        at_once, late = HeartbeatResponse(throttle_time_ms=2**40), MetadataResponse(throttle_time_ms=2**40)
        self.handlers.heartbeat = lambda *_: at_once  # type: ignore[method-assign]
        self.factory.apis = self.handlers.table()
        with logged_lines() as lines:
            for _ in range(20):
                protocol, transport = connect(self.factory)
                protocol.dataReceived(heartbeat(1))
                self.settle()
                self.assertEqual((transport.closed, transport.sent), ("at once", []))
            protocol, transport = connect(FakeFactory(self.handlers.table()))
            protocol.dataReceived(metadata(2))
            self.handlers.waiting.pop().callback(late)
            self.assertEqual(transport.sent, [])
        self.assertEqual(len(lines), LINES_PER_MINUTE_MAX + 1)
        for line in lines:
            self.assertIn("carried out, but its answer cannot be sent", line)

    def test_pipelined_requests_are_answered_in_order(self) -> None:
        self.protocol.dataReceived(b"".join(map(heartbeat, range(100))))
        self.assertEqual(correlation_ids(self.transport), list(range(100)))

    def test_answers_wait_for_an_earlier_one_but_are_handled_at_once(self) -> None:
        self.protocol.dataReceived(heartbeat(1) + metadata(2) + heartbeat(3) + metadata(4) + heartbeat(5))
        self.assertEqual(self.handlers.heartbeats, 3)
        self.assertEqual(correlation_ids(self.transport), [1])
        self.handlers.waiting[1].callback(MetadataResponse())
        self.assertEqual(correlation_ids(self.transport), [1])
        self.handlers.waiting[0].callback(MetadataResponse())
        self.assertEqual(correlation_ids(self.transport), [1, 2, 3, 4, 5])

    def test_one_context_serves_all_requests_of_a_caller(self) -> None:
        self.protocol.dataReceived(heartbeat(1) + heartbeat(2) + heartbeat(3, version=2))
        first, second, third = self.handlers.contexts
        self.assertIs(first, second)
        self.assertEqual((third.api_version, third.client_id, third.client_host), (2, "test", "10.0.0.1"))

    def test_a_handlers_error_is_answered_with_its_code(self) -> None:
        self.protocol.dataReceived(heartbeat(7, "refuse"))
        [sent] = self.transport.sent
        body = memoryview(sent)[4:]
        _, position = decode_response_header(body, 12, 4)
        self.assertEqual(response_codec(12, 4).decode(body, position).error_code, ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(self.transport.closed, "")

    def test_a_defect_is_answered_as_such_and_logged(self) -> None:
        self.protocol.dataReceived(heartbeat(7, "fail"))
        [sent] = self.transport.sent
        body = memoryview(sent)[4:]
        _, position = decode_response_header(body, 12, 4)
        self.assertEqual(response_codec(12, 4).decode(body, position).error_code, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_a_failure_that_no_answer_can_report_closes_the_connection(self) -> None:
        self.protocol.dataReceived(metadata(1))
        self.handlers.waiting[0].errback(KafkaError("no"))
        self.settle()
        self.assertEqual(self.transport.closed, "at once")

    def test_an_invalid_request_closes_the_connection_after_answers(self) -> None:
        unknown_api = struct.pack(">ihhih", 10, 999, 0, 2, -1)
        unknown_version = struct.pack(">ihhih", 10, 12, 99, 2, -1)
        too_short = struct.pack(">ib", 1, 0)
        long_client_id = struct.pack(">ihhih", 10, 12, 0, 2, 500)
        cut_off = bytearray(heartbeat(2)[:-3])
        struct.pack_into(">i", cut_off, 0, len(cut_off) - 4)
        negative = struct.pack(">i", -1)
        for bad in (unknown_api, unknown_version, too_short, long_client_id, bytes(cut_off), negative):
            protocol, transport = connect(self.factory)
            protocol.dataReceived(heartbeat(1) + bad)
            protocol.dataReceived(heartbeat(3))
            self.settle()
            self.assertEqual(correlation_ids(transport), [1])
            self.assertEqual(transport.closed, "at once")
        self.assertEqual(self.transport.closed, "")

    def test_invalid_requests_are_logged_at_a_limited_rate(self) -> None:
        bad = struct.pack(">ib", 1, 0), struct.pack(">i", -1)
        with logged_lines() as lines:
            for number in range(200):
                protocol, transport = connect(self.factory)
                protocol.dataReceived(bad[number % 2])
                self.factory.reactor.advance(0)
                self.assertEqual(transport.closed, "at once")
            self.factory.bad_requests.log_suppressed()
        reported = [line for line in lines if line.startswith("closing the connection from 10.0.0.1")]
        self.assertTrue(2 <= len(reported) <= 10, reported)
        self.assertEqual(lines[len(reported) :], [f"{200 - len(reported)} more from 10.0.0.1"])

    def test_an_api_that_is_not_offered_is_logged_once_a_minute(self) -> None:
        telemetry, orders = (struct.pack(">ihhih", 10, key, 0, 1, -1) for key in (71, 4))
        old_metadata = struct.pack(">ihhih", 10, 3, 99, 1, -1)
        with logged_lines() as lines:
            for _ in range(50):
                for bad in (telemetry, orders, old_metadata):
                    protocol, transport = connect(self.factory)
                    protocol.dataReceived(bad)
                    self.factory.reactor.advance(0)
                    self.assertEqual(transport.closed, "at once")
            self.factory.not_offered.log_suppressed()
        peer = "closing the connection from 10.0.0.1:5000 on PLAINTEXT: "
        self.assertEqual(
            lines,
            [
                peer + "GetTelemetrySubscriptions (71) is not offered",
                peer + "LeaderAndIsr (4) is not offered",
                peer + "Metadata is not offered in version 99, but in 0 to 13",
                "49 more from 10.0.0.1, for GetTelemetrySubscriptions (71)",
                "49 more from 10.0.0.1, for LeaderAndIsr (4)",
                "49 more from 10.0.0.1, for Metadata",
            ],
        )

    def test_a_peer_that_does_not_read_answers_is_not_read_from(self) -> None:
        self.transport.full = True
        self.protocol.dataReceived(b"".join(map(heartbeat, range(2000))))
        self.assertFalse(self.transport.reading)
        handled = self.handlers.heartbeats
        self.assertLess(handled, 1000)
        self.transport.drain(self.protocol)
        self.assertEqual(correlation_ids(self.transport), list(range(2000)))
        self.assertTrue(self.transport.reading)

    def test_the_number_of_waiting_requests_is_bounded(self) -> None:
        self.protocol.dataReceived(b"".join(map(metadata, range(REQUESTS_WAITING_MAX + 50))))
        self.assertEqual(len(self.handlers.waiting), REQUESTS_WAITING_MAX)
        self.assertFalse(self.transport.reading)
        self.handlers.waiting[0].callback(MetadataResponse())
        self.assertEqual(len(self.handlers.waiting), REQUESTS_WAITING_MAX + 1)

    def test_immediate_answers_at_the_limit_do_not_block_later_requests(self) -> None:
        self.patch(AnswerQueue, "slots_max", 1)
        protocol, transport = connect(FakeFactory((Api.of(MetadataRequest, lambda *_: succeed(MetadataResponse())),)))
        protocol.dataReceived(metadata(1) + metadata(2))
        self.assertEqual((correlation_ids(transport), transport.reading), ([1, 2], True))

    def test_finish_sends_pending_answers_before_it_closes(self) -> None:
        self.protocol.dataReceived(metadata(1) + heartbeat(2))
        self.protocol.finish()
        self.assertEqual(self.transport.closed, "")
        self.handlers.waiting[0].callback(MetadataResponse())
        self.assertEqual(correlation_ids(self.transport), [1, 2])
        self.assertEqual(self.transport.closed, "after sending")

    def test_answers_completed_by_another_connection_are_sent_together(self) -> None:
        def complete(*_: Any) -> HeartbeatResponse:
            for each in self.handlers.waiting:
                each.callback(MetadataResponse())
            return HeartbeatResponse()

        factory = FakeFactory((Api.of(MetadataRequest, self.handlers.metadata), Api.of(HeartbeatRequest, complete)))
        protocol, transport = connect(factory)
        other, _ = connect(factory)
        protocol.dataReceived(metadata(1) + metadata(2))
        with patch.object(transport, "send_chunks", wraps=transport.send_chunks) as send:
            other.dataReceived(heartbeat(3))
        self.assertEqual((correlation_ids(transport), send.call_count), ([1, 2], 1))

    def test_the_last_answer_of_a_connection_does_not_wait_for_the_requests_at_work(self) -> None:
        sent: list[int] = []

        def complete(*_: Any) -> HeartbeatResponse:
            self.handlers.waiting.pop().callback(MetadataResponse())
            sent.append(len(transport.sent))
            return HeartbeatResponse()

        factory = FakeFactory((Api.of(MetadataRequest, self.handlers.metadata), Api.of(HeartbeatRequest, complete)))
        protocol, transport = connect(factory)
        other, _ = connect(factory)
        protocol.dataReceived(metadata(1))
        other.dataReceived(heartbeat(2))
        self.assertEqual((sent, factory.memory.total), ([1], 0))

    def test_finishing_an_idle_connection_closes_it(self) -> None:
        self.protocol.finish()
        self.assertEqual(self.transport.closed, "after sending")

    def test_answers_for_a_connection_that_is_gone_are_dropped(self) -> None:
        self.protocol.dataReceived(metadata(1))
        self.protocol.connectionLost()
        self.handlers.waiting[0].callback(MetadataResponse())
        self.assertEqual(self.transport.sent, [])
        self.assertEqual(self.factory.lost, ["10.0.0.1"])

    def test_a_lost_connection_cancels_reads_but_not_changes(self) -> None:
        for is_read in (True, False):
            handlers = Handlers()
            protocol, transport = connect(FakeFactory((Api.of(MetadataRequest, handlers.metadata, is_read=is_read),)))
            protocol.dataReceived(metadata(1) + metadata(2))
            protocol.connectionLost()
            self.assertEqual([waiting.called for waiting in handlers.waiting], [is_read] * 2)
            self.assertEqual(transport.sent, [])
            self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_defect_in_work_that_outlives_its_connection_is_logged(self) -> None:
        self.protocol.dataReceived(metadata(1) + metadata(2))
        self.protocol.connectionLost()
        self.handlers.waiting[0].errback(ValueError("a defect"))
        self.handlers.waiting[1].errback(KafkaError("refused"))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.assertEqual(self.factory.memory.total, 0)


class LongTests(SynchronousTestCase):
    """Long requests and answers, in steps: each iteration of the reactor does one."""

    def setUp(self) -> None:
        self.handlers = Handlers()
        self.factory = FakeFactory(self.handlers.table())
        self.protocol, self.transport = connect(self.factory)
        self.slices = counted_slices(self.factory.reactor)
        self.factory.services = SimpleNamespace(runtime=SimpleNamespace(slices=self.slices))

    def settle(self) -> None:
        self.factory.reactor.advance(0)

    def iterate(self) -> None:
        """Run one iteration of the reactor (`Clock.advance` would run several)."""
        scheduled, self.factory.reactor.calls = self.factory.reactor.calls, []
        for call in scheduled:
            call.func(*call.args)

    def iterations(self, answers: int) -> int:
        """Number of iterations until so many answers are sent."""
        count = 0
        while len(correlation_ids(self.transport)) < answers:
            self.iterate()
            count += 1
        return count

    def test_a_long_answer_is_encoded_in_slices_and_sent_in_order(self) -> None:
        self.protocol.dataReceived(metadata(1) + heartbeat(2))
        long = MetadataResponse(topics=[MetadataResponseTopic(name=str(number)) for number in range(2000)])
        self.handlers.waiting[0].callback(long)
        self.protocol.dataReceived(heartbeat(3))
        self.assertEqual((self.handlers.heartbeats, self.transport.sent), (2, []))
        self.assertGreater(self.iterations(3), 10)
        self.assertEqual(correlation_ids(self.transport), [1, 2, 3])
        data = b"".join(map(bytes, self.transport.sent))
        self.assertTrue(data.startswith(b"".join(map(bytes, response_codec(3, 9).frame(1, long)))))

    def test_a_long_answer_that_is_there_at_once(self) -> None:
        long = MetadataResponse(topics=[MetadataResponseTopic(name=str(number)) for number in range(2000)])
        self.factory.apis = (Api.of(MetadataRequest, lambda *_: long),)
        protocol, transport = connect(self.factory)
        protocol.dataReceived(metadata(1))
        self.assertEqual(transport.sent, [])
        self.settle()
        self.assertEqual(correlation_ids(transport), [1])

    def test_a_handler_that_does_not_pause_is_answered_in_the_same_call(self) -> None:
        async def handle(services: Any, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
            await give_way()
            return MetadataResponse()

        self.slices.seconds = inf
        self.factory.apis = (Api.of(MetadataRequest, handle),)
        protocol, transport = connect(self.factory)
        protocol.dataReceived(metadata(1))
        self.assertEqual(correlation_ids(transport), [1])
        self.assertEqual(self.factory.reactor.getDelayedCalls(), [])

    def test_a_paused_handler_ends_with_the_connection(self) -> None:
        ended = list[type[BaseException]]()

        async def handle(services: Any, context: RequestContext, request: MetadataRequest) -> None:
            try:
                await give_way()
            except CancelledError as error:
                ended.append(type(error))
                raise

        self.factory.apis = (Api.of(MetadataRequest, handle, is_read=True),)
        protocol, _ = connect(self.factory)
        protocol.dataReceived(metadata(1))
        protocol.connectionLost()
        self.settle()
        self.assertEqual((ended, self.flushLoggedErrors()), ([CancelledError], []))

    def test_the_encoding_ends_with_the_connection(self) -> None:
        self.protocol.dataReceived(metadata(1))
        self.handlers.waiting[0].callback(MetadataResponse(topics=[MetadataResponseTopic(name="t")] * 2000))
        self.protocol.connectionLost()
        self.settle()
        self.assertEqual((self.transport.sent, self.flushLoggedErrors()), ([], []))

    def long_request(self, correlation_id: int) -> bytes:
        topics = [MetadataRequestTopic(name=f"a topic's name {number}") for number in range(5000)]
        return frame(MetadataRequest(topics), 9, correlation_id)

    def test_a_long_request_is_decoded_in_slices_before_later_ones(self) -> None:
        self.protocol.dataReceived(heartbeat(1) + self.long_request(2) + heartbeat(3))
        self.assertEqual(correlation_ids(self.transport), [1])
        self.assertFalse(self.transport.reading)
        while not self.handlers.waiting:
            self.assertEqual(self.handlers.heartbeats, 1)
            self.iterate()
        self.assertEqual((self.handlers.heartbeats, self.transport.reading), (2, True))
        self.handlers.waiting[0].callback(MetadataResponse())
        self.assertEqual(correlation_ids(self.transport), [1, 2, 3])
        self.assertEqual(self.factory.memory.total, 0)

    def test_a_long_request_that_is_cut_off(self) -> None:
        whole = self.long_request(1)
        self.protocol.dataReceived(struct.pack(">i", len(whole) - 9) + whole[4:-5] + heartbeat(2))
        self.settle()
        self.assertEqual((self.transport.closed, self.handlers.heartbeats), ("at once", 0))

    def test_a_long_request_of_another_protocol_is_named(self) -> None:
        self.patch(KafkaProtocol, "_describe_other_protocol", lambda *_: "this looks like something else")
        whole = self.long_request(1)
        with logged_lines() as lines:
            self.protocol.dataReceived(struct.pack(">i", len(whole) - 9) + whole[4:-5])
            self.settle()
        self.assertIn("bad request: MetadataRequest v9 is cut off; this looks like something else", lines[0])

    def test_an_unencodable_long_answer_is_logged_and_closes(self) -> None:
        wrong = [MetadataResponseTopic(name="t")] * 2000 + [MetadataResponseTopic(error_code=2**20, name="t")]
        self.protocol.dataReceived(metadata(1) + heartbeat(2))
        with logged_lines() as lines:
            self.handlers.waiting[0].callback(MetadataResponse(topics=wrong))
            self.settle()
        self.assertEqual((self.transport.closed, self.transport.sent), ("at once", []))
        self.assertEqual(["carried out, but its answer cannot be sent" in line for line in lines], [True])

    def test_a_request_that_was_decoded_too_late_is_not_handled(self) -> None:
        self.protocol.dataReceived(self.long_request(1))
        self.protocol.close_because("a test")
        while self.protocol._requests.at_work_bytes:
            self.iterate()
        self.assertEqual(self.handlers.waiting, [])

    def test_the_decoding_ends_with_the_connection(self) -> None:
        self.protocol.dataReceived(self.long_request(1))
        self.protocol.connectionLost()
        self.settle()
        self.assertEqual((self.handlers.waiting, self.flushLoggedErrors()), ([], []))

    def test_requests_do_not_overtake_the_steps_of_a_handler(self) -> None:
        done: list[int] = []
        later: Deferred[MetadataResponse] = Deferred()
        protocol, transport = self.connect_with(lambda *_: stepping(done, later))
        protocol.dataReceived(heartbeat(1) + metadata(2) + heartbeat(3))
        while len(done) < STEPS:
            self.assertEqual((self.handlers.heartbeats, transport.reading), (1, False))
            self.iterate()
        self.settle()
        self.assertEqual((self.handlers.heartbeats, transport.reading), (2, True))
        self.assertEqual(correlation_ids(transport), [1])
        later.callback(MetadataResponse())
        self.assertEqual(correlation_ids(transport), [1, 2, 3])
        self.assertEqual(self.factory.memory.total, 0)

    def test_steps_after_which_nothing_is_sent(self) -> None:
        protocol, transport = self.connect_with(lambda *_: stepping([], None))
        protocol.dataReceived(metadata(1) + heartbeat(2))
        self.settle()
        self.assertEqual(correlation_ids(transport), [2])

    def test_steps_that_find_a_violation(self) -> None:
        async def failing() -> None:
            await give_way()
            raise ProtocolViolation("a reason")

        protocol, transport = self.connect_with(lambda *_: failing())
        with logged_lines() as lines:
            protocol.dataReceived(metadata(1) + heartbeat(2))
            self.settle()
        self.assertEqual((transport.closed, self.handlers.heartbeats), ("at once", 0))
        self.assertEqual(["a reason" in line for line in lines], [True])

    def test_steps_that_fail(self) -> None:
        async def failing() -> None:
            await give_way()
            raise KeyError("a defect")

        protocol, transport = self.connect_with(lambda *_: failing())
        protocol.dataReceived(metadata(1))
        self.settle()
        self.assertEqual(transport.closed, "at once")
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_the_steps_of_a_change_go_on_without_their_connection(self) -> None:
        done: list[int] = []
        protocol, transport = self.connect_with(lambda *_: stepping(done, MetadataResponse()))
        protocol.dataReceived(metadata(1) + heartbeat(2))
        self.assertGreater(self.factory.memory.total, 0)
        protocol.connectionLost()
        self.settle()
        self.assertEqual((len(done), self.handlers.heartbeats, transport.sent), (STEPS, 0, []))
        self.assertEqual(self.factory.memory.total, 0)

    def test_a_long_request_with_a_handler_that_works_in_steps(self) -> None:
        done: list[int] = []
        protocol, transport = self.connect_with(lambda *_: stepping(done, MetadataResponse()))
        protocol.dataReceived(self.long_request(1) + heartbeat(2))
        while len(done) < STEPS:
            self.assertEqual(self.handlers.heartbeats, 0)
            self.iterate()
        self.settle()
        self.assertEqual(correlation_ids(transport), [1, 2])

    def connect_with(self, handle: Callable[..., Any]) -> tuple[KafkaProtocol, FakeTransport]:
        """A connection on which Metadata is handled in that way."""
        self.factory.apis = (Api.of(MetadataRequest, handle), Api.of(HeartbeatRequest, self.handlers.heartbeat))
        return connect(self.factory)

    def test_many_requests_at_once_give_way(self) -> None:
        time = itertools.count()
        with patch("pylogbroker.net.protocol.perf_counter", lambda: next(time) / 1000):
            self.protocol.dataReceived(b"".join(map(heartbeat, range(20))))
            self.assertLess(self.handlers.heartbeats, 10)
            self.assertFalse(self.transport.reading)
            self.assertGreater(self.iterations(20), 2)
        self.assertEqual(correlation_ids(self.transport), list(range(20)))
        self.assertTrue(self.transport.reading)


class MemoryTests(SynchronousTestCase):
    def test_the_least_recently_active_connection_is_closed_at_the_limit(self) -> None:
        factory = FakeFactory(Handlers().table(), memory=MemoryLimit(250_000))
        connections = [connect(factory) for _ in range(3)]
        stalled, moving, last = (protocol for protocol, _ in connections)
        start = struct.pack(">i", 100_000) + b"x" * 10
        stalled.dataReceived(start)
        moving.dataReceived(start)
        moving.buffer_filled(10)
        last.dataReceived(start)
        factory.reactor.advance(0)
        self.assertEqual([transport.closed for _, transport in connections], ["at once", "", ""])
        self.assertLessEqual(factory.memory.total, 250_000)
