"""One connection over a transport in memory: what is sent, byte by byte, and whose answer is whose."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.client.errors import Closed, ConnectionLost, NotConnected, RequestTimedOut
from pylogbroker.errors import KafkaError
from pylogbroker.rpc.client_protocol import PreparedRequest
from pylogbroker.rpc.connection import BrokerConnection
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.wire import EncodingError, UnsupportedVersion, request_codec
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

API_VERSIONS, HEARTBEAT, METADATA, PRODUCE = 18, 12, 3, 0
RANGES = {API_VERSIONS: (0, 4), HEARTBEAT: (0, 2), PRODUCE: (3, 9)}


class MemoryTransport:
    """Keeps what is sent, in the chunks that it was sent in."""

    def __init__(self) -> None:
        self.chunks: list[Any] = []
        self.aborted = False

    def writeSequence(self, chunks: list[Any]) -> None:
        self.chunks += chunks

    def abortConnection(self) -> None:
        self.aborted = True

    def take(self) -> bytes:
        """All that was sent since the last time."""
        data, self.chunks = b"".join(self.chunks), []
        return data


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def versions_answer(correlation_id: int, ranges: Mapping[int, tuple[int, int]], error: int = 0) -> bytes:
    """An answer to ApiVersions in version 3 or 4, laid out by hand."""
    data = struct.pack(">ihB", correlation_id, error, len(ranges) + 1)
    for key, (low, high) in ranges.items():
        data += struct.pack(">hhhx", key, low, high)
    return frame(data + struct.pack(">ix", 0))


def old_versions_answer(correlation_id: int, ranges: Mapping[int, tuple[int, int]], error: int = 0) -> bytes:
    """Return an ApiVersions response of version 0."""
    data = struct.pack(">ihi", correlation_id, error, len(ranges))
    for key, (low, high) in ranges.items():
        data += struct.pack(">hhh", key, low, high)
    return frame(data)


def heartbeat_answer(correlation_id: int, error: int) -> bytes:
    """An answer to Heartbeat 2: a throttle time and an error."""
    return frame(struct.pack(">iih", correlation_id, 0, error))


class ConnectionTests(SynchronousTestCase):
    """Every test begins with a connection that has shaken hands."""

    def setUp(self) -> None:
        self.make()
        hands = self.shake()
        self.greeting = self.transport.take()
        self.connection.dataReceived(versions_answer(0, RANGES))
        self.successResultOf(hands)

    def make(self) -> None:
        self.clock = Clock()
        self.transport = MemoryTransport()
        self.connection = BrokerConnection(self.clock, Address("there", 9092), ConnectionSettings("me"))
        self.connection.makeConnection(self.transport)  # type: ignore[arg-type]

    def shake(self) -> Deferred[None]:
        return ensureDeferred(self.connection.negotiate_versions(5))

    def beat(self, **options: Any) -> Deferred[Any]:
        return self.connection.request(HeartbeatRequest(group_id="g", member_id="m"), **options)

    def lose(self) -> None:
        self.connection.connectionLost(Failure(ConnectionDone()))


class TestHandshake(ConnectionTests):
    def test_a_prepared_request_has_the_usual_header_and_its_own_decoder(self) -> None:
        usual = self.connection.request(HeartbeatRequest("g", 1, "m"), version=1)
        sent = self.transport.take()
        body = request_codec(HEARTBEAT, 1).encode(HeartbeatRequest("g", 1, "m"))
        prepared = PreparedRequest(HeartbeatRequest, 1, body, lambda data, at: bytes(data[at:]))
        answer = self.connection.request(prepared)
        again = self.transport.take()
        self.assertEqual(again, sent[:8] + (2).to_bytes(4) + sent[12:])
        self.connection.dataReceived(heartbeat_answer(1, 0) + heartbeat_answer(2, 5))
        self.successResultOf(usual)
        self.assertEqual(self.successResultOf(answer), bytes((0, 0, 0, 0, 0, 5)))

    def test_an_answer_to_another_request_than_the_prepared_one(self) -> None:
        prepared = PreparedRequest(HeartbeatRequest, 1, b"", lambda data, at: None)
        answer = self.connection.request(prepared)
        self.connection.dataReceived(heartbeat_answer(7, 0))
        self.failureResultOf(answer, ConnectionLost)

    def test_a_request_that_follows_up_a_response_is_sent_at_once(self) -> None:
        answers = self.follow_up(3)
        for correlation_id in range(1, 4):
            self.assertEqual(
                self.transport.take(), frame(struct.pack(">hhih2s", HEARTBEAT, 1, correlation_id, 2, b"me"))
            )
            self.assertNoResult(answers)
            self.clock.advance(20)  # each has a time of its own
            self.connection.dataReceived(frame(struct.pack(">i", correlation_id) + b"%d" % correlation_id))
        self.assertEqual(self.successResultOf(answers), [b"1", b"2", b"3"])
        self.assertEqual(self.transport.take(), b"")

    def test_a_follow_up_is_not_answered_in_time(self) -> None:
        answers = self.follow_up(2)
        self.clock.advance(20)
        self.connection.dataReceived(frame(struct.pack(">i", 1)))
        self.clock.advance(29)
        self.assertNoResult(answers)
        self.clock.advance(2)
        self.failureResultOf(answers, RequestTimedOut)

    def test_a_follow_up_that_closes_the_connection(self) -> None:
        answers = self.follow_up(1, self.connection.close)
        self.connection.dataReceived(frame(struct.pack(">i", 1)))
        self.failureResultOf(answers, Closed)

    def follow_up(self, count: int, then: Callable[[], object] = list) -> Deferred[Any]:
        """Send so many requests, each when the one before is answered; return a Deferred of all answers."""
        answers: list[bytes] = []

        def following(answer: bytes) -> PreparedRequest | list[bytes]:
            answers.append(answer)
            then()
            return prepared if len(answers) < count else answers

        prepared = PreparedRequest(HeartbeatRequest, 1, b"", lambda data, at: bytes(data[at:]), following)
        return self.connection.request(prepared)

    def test_the_first_request_asks_for_versions(self) -> None:
        size, key, version, correlation_id = struct.unpack_from(">ihhi", self.greeting)
        self.assertEqual((size, key, version, correlation_id), (len(self.greeting) - 4, API_VERSIONS, 4, 0))
        self.assertEqual(self.greeting[12:17], b"\0\2me\0")  # the client id, no tagged fields
        self.assertEqual(self.greeting[17:29], b"\x0cpylogbroker")

    def test_the_newest_version_that_both_know_is_spoken(self) -> None:
        self.assertEqual(self.connection.version_of(HeartbeatRequest), 2)
        self.beat()
        self.assertEqual(
            self.transport.take(), frame(struct.pack(">hhih2s", 12, 2, 1, 2, b"me") + b"\0\1g\0\0\0\0\0\1m")
        )

    def test_an_api_that_the_broker_does_not_have(self) -> None:
        with self.assertRaises(UnsupportedVersion):
            self.connection.version_of(ListGroupsRequest)
        self.failureResultOf(self.connection.request(ListGroupsRequest()), UnsupportedVersion)

    def test_a_version_that_the_broker_does_not_have(self) -> None:
        self.failureResultOf(self.beat(version=3), UnsupportedVersion)
        self.assertEqual(self.transport.take(), b"")

    def test_a_version_that_is_asked_for(self) -> None:
        self.beat(version=0)
        self.assertEqual(struct.unpack_from(">hh", self.transport.take(), 4), (HEARTBEAT, 0))
        self.beat()
        self.assertEqual(struct.unpack_from(">hh", self.transport.take(), 4), (HEARTBEAT, 2))

    def test_a_broker_that_does_not_know_the_version_of_the_question(self) -> None:
        self.make()
        hands = self.shake()
        self.transport.take()
        self.connection.dataReceived(old_versions_answer(0, {API_VERSIONS: (0, 2)}, error=35))
        self.assertEqual(struct.unpack_from(">hhi", self.transport.take(), 4), (API_VERSIONS, 2, 1))
        answer = old_versions_answer(1, {API_VERSIONS: (0, 2), HEARTBEAT: (0, 1)})
        self.connection.dataReceived(frame(answer[4:] + struct.pack(">i", 0)))  # version 2 has a throttle time
        self.successResultOf(hands)

    def test_versions_that_are_given_are_not_asked_for(self) -> None:
        self.make()
        self.connection.assume_versions({HEARTBEAT: 2})
        self.successResultOf(self.shake())
        self.assertEqual(self.transport.take(), b"")
        self.assertEqual(self.connection.version_of(HeartbeatRequest), 2)
        self.beat(version=1)
        self.assertEqual(struct.unpack_from(">hhi", self.transport.take(), 4), (HEARTBEAT, 1, 0))
        self.failureResultOf(self.beat(version=3), UnsupportedVersion)
        self.failureResultOf(self.connection.request(ListGroupsRequest()), UnsupportedVersion)

    def test_a_broker_that_does_not_report(self) -> None:
        self.make()
        hands = self.shake()
        self.connection.dataReceived(versions_answer(0, {}, error=58))
        self.assertEqual(self.failureResultOf(hands, KafkaError).value.code, 58)


class TestRequests(ConnectionTests):
    def test_answers_go_to_their_requests_however_they_are_cut(self) -> None:
        stream = b"".join(heartbeat_answer(number, number * 10) for number in (1, 2, 3))
        for step in range(1, len(stream) + 1):
            self.setUp()
            answers = [self.beat() for _ in range(3)]
            for position in range(0, len(stream), step):
                self.connection.dataReceived(stream[position : position + step])
            codes = [self.successResultOf(answer).error_code for answer in answers]
            self.assertEqual(codes, [10, 20, 30], f"in steps of {step}")
            self.assertEqual(self.connection.in_flight, 0)

    def test_an_answer_is_received_into_its_own_buffer(self) -> None:
        answer = self.beat()
        data = heartbeat_answer(1, 27)
        self.connection.dataReceived(data[:6])
        rest = self.connection.receive_buffer()
        assert rest is not None
        self.assertEqual(len(rest), len(data) - 6)
        rest[:] = data[6:]
        self.connection.buffer_filled(len(rest))
        self.assertEqual(self.successResultOf(answer).error_code, 27)
        self.assertIsNone(self.connection.receive_buffer())

    def test_an_answer_that_is_decoded_later(self) -> None:
        answer = self.beat(decode_later=True)
        self.connection.dataReceived(heartbeat_answer(1, 27))
        self.assertEqual(self.successResultOf(answer)().error_code, 27)

    def test_records_are_sent_from_where_they_lie(self) -> None:
        records = memoryview(bytearray(100_000))
        self.connection.request(produce(records))
        sent = [chunk for chunk in self.transport.chunks if len(chunk) == len(records)]
        records[0] = 77  # what is sent is what is there, not what was
        self.assertEqual([chunk[0] for chunk in sent], [77])

    def test_a_request_without_answer_does_not_wait(self) -> None:
        self.assertIsNone(self.successResultOf(self.connection.request(produce(b"", acks=0), expect_answer=False)))
        answer = self.beat()
        self.connection.dataReceived(heartbeat_answer(2, 27))
        self.assertEqual(self.successResultOf(answer).error_code, 27)

    def test_a_request_that_cannot_be_encoded_fails_alone(self) -> None:
        before = self.beat()
        self.failureResultOf(self.connection.request(HeartbeatRequest(generation_id=2**40)), EncodingError)
        after = self.beat()
        self.connection.dataReceived(heartbeat_answer(1, 10) + heartbeat_answer(2, 20))
        self.assertEqual(self.successResultOf(before).error_code, 10)
        self.assertEqual(self.successResultOf(after).error_code, 20)

    def test_a_cancelled_request_does_not_disturb_the_next_answer(self) -> None:
        aborted, answer = self.beat(), self.beat()
        aborted.addErrback(lambda _: None)
        aborted.cancel()
        self.connection.dataReceived(heartbeat_answer(1, 10) + heartbeat_answer(2, 20))
        self.assertEqual(self.successResultOf(answer).error_code, 20)


class TestTime(ConnectionTests):
    def test_no_answer_in_time_ends_the_connection(self) -> None:
        patient, impatient = self.beat(timeout=5), self.beat(timeout=1)
        self.clock.advance(0.99)
        self.assertNoResult(impatient)
        self.clock.advance(0.02)
        error = self.failureResultOf(impatient, RequestTimedOut)
        self.assertIn("there:9092 did not answer in time: Heartbeat", error.getErrorMessage())
        self.failureResultOf(patient, ConnectionLost)
        self.assertTrue(self.transport.aborted)
        self.connection.dataReceived(heartbeat_answer(1, 0))  # too late
        self.failureResultOf(self.beat(), NotConnected)
        self.lose()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_each_request_has_its_own_time(self) -> None:
        first = self.beat()
        self.clock.advance(20)
        second = self.beat()
        self.connection.dataReceived(heartbeat_answer(1, 10))
        self.successResultOf(first)
        self.clock.advance(29.9)
        self.assertNoResult(second)
        self.clock.advance(0.2)
        self.failureResultOf(second, RequestTimedOut)

    def test_an_idle_connection_does_not_time_out(self) -> None:
        self.beat()
        self.connection.dataReceived(heartbeat_answer(1, 10))
        self.clock.pump([10] * 10)
        self.assertFalse(self.transport.aborted)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class TestEnds(ConnectionTests):
    def lost_with(self, request: Deferred[Any]) -> str:
        self.lose()
        return self.failureResultOf(request, ConnectionLost).getErrorMessage()

    def test_an_end_without_any_answer_may_be_that_of_tls(self) -> None:
        self.make()
        error = self.failureResultOf(self.shake_and_lose(), ConnectionLost).getErrorMessage()
        self.assertIn("; does it speak Kafka's protocol without TLS? See security.protocol", error)

    def shake_and_lose(self) -> Deferred[None]:
        hands = self.shake()
        self.lose()
        return hands

    def test_an_end_after_the_versions_alone_may_be_that_of_sasl(self) -> None:
        self.assertIn("; does this listener have SASL? See security.protocol", self.lost_with(self.beat()))

    def test_an_end_after_other_answers_has_no_hint(self) -> None:
        answer = self.beat()
        self.connection.dataReceived(heartbeat_answer(1, 0))
        self.successResultOf(answer)
        self.assertNotIn("security.protocol", self.lost_with(self.beat()))

    def test_an_alert_of_tls(self) -> None:
        self.assertIn("an answer in TLS; see security.protocol", self.ended_by(b"\x15\3\3\0\2\2\x50"))

    def ended_by(self, data: bytes) -> str:
        """Return the error of the waiting requests after these bytes."""
        waiting = [self.beat(), self.beat()]
        self.connection.dataReceived(data)
        messages = {self.failureResultOf(each, ConnectionLost).getErrorMessage() for each in waiting}
        self.assertTrue(self.transport.aborted)
        self.failureResultOf(self.beat(), NotConnected)
        (message,) = messages
        return message

    def test_a_web_server(self) -> None:
        message = self.ended_by(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        self.assertIn("there:9092 does not speak Kafka's protocol", message)

    def test_an_answer_that_is_too_long(self) -> None:
        self.assertIn("with an invalid length", self.ended_by(struct.pack(">i", 2**28)))

    def test_an_answer_to_another_question(self) -> None:
        self.assertIn("that of another request", self.ended_by(heartbeat_answer(2, 0)))

    def test_an_answer_that_is_cut_off(self) -> None:
        self.assertIn("cut off", self.ended_by(frame(heartbeat_answer(1, 0)[4:-1])))

    def test_an_answer_without_even_a_header(self) -> None:
        self.assertIn("cut off", self.ended_by(frame(b"\0")))

    def test_an_answer_that_nobody_asked_for(self) -> None:
        self.connection.dataReceived(heartbeat_answer(1, 0))
        self.assertTrue(self.transport.aborted)
        self.assertIn("an answer without a request", self.failureResultOf(self.beat(), NotConnected).getErrorMessage())

    def test_bytes_after_garbage_are_ignored(self) -> None:
        first, second = self.beat(), self.beat()
        self.connection.dataReceived(heartbeat_answer(7, 0) + heartbeat_answer(1, 0) + heartbeat_answer(2, 0))
        self.failureResultOf(first, ConnectionLost)
        self.failureResultOf(second, ConnectionLost)

    def test_the_connection_is_lost(self) -> None:
        reported: list[Failure] = []
        self.connection.when_lost = reported.append
        waiting = [self.beat(), self.beat()]
        self.lose()
        for each in waiting:
            self.failureResultOf(each, ConnectionLost)
        self.assertEqual(len(reported), 1)
        self.assertFalse(self.connection.is_open)
        self.failureResultOf(self.beat(), NotConnected)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_request_during_the_disconnect_fails_at_once(self) -> None:
        again: list[Deferred[Any]] = []
        self.beat().addErrback(lambda _: again.append(self.beat()))
        self.lose()
        self.failureResultOf(again[0], NotConnected)

    def test_close(self) -> None:
        waiting = self.beat()
        self.connection.close()
        self.failureResultOf(waiting, Closed)
        self.assertTrue(self.transport.aborted)


class TestAddress(SynchronousTestCase):
    def test_as_text(self) -> None:
        self.assertEqual(str(Address("host", 1)), "host:1")
        self.assertEqual(str(Address("::1", 1)), "[::1]:1")


def produce(records: Any, acks: int = -1) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=acks, topic_data=[TopicProduceData(name="t", partition_data=[partition])])
