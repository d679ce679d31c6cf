"""A channel between brokers: order, requests in flight, what an ended connection does, and versions that are fixed."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import BrokerListener, BrokerRegistration
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.rpc.broker_channel import BrokerChannel, listener_address
from pylogbroker.rpc.connection import BrokerConnection
from pylogbroker.rpc.errors import Closed, ConnectionLost, NotConnected, RequestTimedOut
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.wire import EncodingError, UnsupportedVersion
from pylogbroker.wire.messages.controlled_shutdown import ControlledShutdownRequest
from pylogbroker.wire.messages.create_topics import CreateTopicsRequest
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pylogbroker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.clients.admin import create_topic
from tests.rpc.test_connection import MemoryTransport, frame
from tests.support.brokers import Broker
from tests.support.reactor_run import run

HEARTBEAT, SHUTDOWN = 12, 7
THERE = Address("there", 9092)
VERSIONS = {HEARTBEAT: 2, SHUTDOWN: 3}


class Attempt:
    """A connection that the channel asked for; the test makes it, or lets it fail."""

    def __init__(self, clock: Clock, settings: ConnectionSettings, versions: Mapping[int, int]) -> None:
        self.made: Deferred[BrokerConnection] = Deferred()
        self.transport = MemoryTransport()
        self.connection = BrokerConnection(clock, THERE, settings)
        self.connection.assume_versions(versions)

    def connect(self) -> None:
        self.connection.makeConnection(self.transport)  # type: ignore[arg-type]
        self.made.callback(self.connection)

    def sent(self) -> list[int]:
        """Return the broker ids of the requests sent since the last time."""
        data, found = self.transport.take(), []
        while data:
            size = struct.unpack_from(">i", data)[0]
            found.append(struct.unpack_from(">i", data, 4 + size - 13)[0])
            data = data[4 + size :]
        return found

    def answer(self, correlation_id: int, error: int = 0) -> None:
        self.connection.dataReceived(frame(struct.pack(">ixhBx", correlation_id, error, 1)))

    def lose(self) -> None:
        self.connection.connectionLost(Failure(ConnectionDone()))


class ChannelTests(SynchronousTestCase):
    in_flight_max = 1

    def setUp(self) -> None:
        self.clock = Clock()
        self.attempts: list[Attempt] = []
        self.channel = BrokerChannel(
            self.clock, THERE, ConnectionSettings("1"), VERSIONS, self.in_flight_max, dial=self.dial
        )

    async def dial(
        self, reactor: Any, address: Address, settings: ConnectionSettings, versions: Mapping[int, int] | None
    ) -> BrokerConnection:
        assert versions is not None
        attempt = Attempt(self.clock, settings, versions)
        self.attempts.append(attempt)
        return await attempt.made

    def ask(self, number: int, **options: Any) -> Deferred[Any]:
        """Send a request with a broker's number."""
        return self.channel.request(ControlledShutdownRequest(number, 0), **options)

    def connected(self) -> Attempt:
        self.attempts[-1].connect()
        return self.attempts[-1]


class TestOneInFlight(ChannelTests):
    def test_the_first_request_connects(self) -> None:
        self.assertEqual(self.attempts, [])
        answer = self.ask(1)
        attempt = self.connected()
        frame_start = struct.pack(">hhih1sx", SHUTDOWN, 3, 0, 1, b"1")  # the version, and the client id
        self.assertEqual(attempt.transport.chunks[0][4 : 4 + len(frame_start)], frame_start)
        attempt.answer(0, 41)
        self.assertEqual(self.successResultOf(answer).error_code, 41)

    def test_a_request_waits_for_the_response_before_it(self) -> None:
        answers = [self.ask(number) for number in (1, 2, 3)]
        self.assertEqual(len(self.attempts), 1)
        attempt = self.connected()
        for number, answer in enumerate(answers):
            self.assertEqual((attempt.sent(), self.channel.pending), ([number + 1], 3 - number))
            self.assertNoResult(answer)
            attempt.answer(number)
            self.successResultOf(answer)
        self.assertEqual((attempt.sent(), self.channel.pending), ([], 0))

    def test_a_response_that_asks_again_is_behind_the_others(self) -> None:
        self.ask(1).addCallback(lambda _: self.ask(3))
        self.ask(2)
        attempt = self.connected()
        attempt.answer(0)
        attempt.answer(1)
        self.assertEqual(attempt.sent(), [1, 2, 3])

    def test_a_lost_connection_fails_all_and_the_next_request_connects(self) -> None:
        answers = [self.ask(number) for number in (1, 2)]
        attempt = self.connected()
        attempt.lose()
        self.failureResultOf(answers[0], ConnectionLost)
        error = self.failureResultOf(answers[1], NotConnected)
        self.assertIn("not sent: the connection to there:9092 was lost", error.getErrorMessage())
        again = self.ask(3)
        second = self.connected()
        self.assertEqual((len(self.attempts), attempt.sent(), second.sent()), (2, [1], [3]))
        second.answer(0)
        self.successResultOf(again)

    def test_a_request_that_is_repeated_at_once_keeps_its_place(self) -> None:
        def repeat(failure: Failure, number: int) -> Deferred[Any]:
            failure.trap(ConnectionLost)
            return self.ask(number)

        for number in (1, 2, 3):
            self.ask(number).addErrback(repeat, number)
        self.connected().lose()
        second = self.connected()
        for number in range(3):
            self.assertEqual(second.sent(), [number + 1])
            second.answer(number)
        self.assertEqual(len(self.attempts), 2)

    def test_a_connection_that_ends_while_nothing_is_asked(self) -> None:
        self.ask(1)
        attempt = self.connected()
        attempt.answer(0)
        attempt.lose()
        self.ask(2)
        self.assertEqual((len(self.attempts), self.connected().sent()), (2, [2]))

    def test_a_connection_that_is_not_made(self) -> None:
        answers = [self.ask(number) for number in (1, 2)]
        self.attempts[0].made.errback(NotConnected("nobody there"))
        for answer in answers:
            self.assertEqual(self.failureResultOf(answer, NotConnected).getErrorMessage(), "nobody there")
        self.ask(3)
        self.assertEqual((len(self.attempts), self.connected().sent()), (2, [3]))

    def test_no_response_in_time(self) -> None:
        late, behind = self.ask(1, timeout=2), self.ask(2, timeout=1)
        attempt = self.connected()
        self.clock.advance(1.5)
        self.assertNoResult(behind)  # was not sent
        self.clock.advance(1)
        self.failureResultOf(late, RequestTimedOut)
        self.failureResultOf(behind, NotConnected)
        self.assertTrue(attempt.transport.aborted)

    def test_a_request_that_cannot_be_sent_fails_alone(self) -> None:
        unknown = self.channel.request(CreateTopicsRequest())
        too_large = self.ask(2**40)
        answer = self.ask(1)
        attempt = self.connected()
        self.failureResultOf(unknown, UnsupportedVersion)
        self.failureResultOf(too_large, EncodingError)
        attempt.answer(0)
        self.successResultOf(answer)

    def test_an_older_version(self) -> None:
        self.channel.request(HeartbeatRequest(group_id="g"), version=0)
        attempt = self.connected()
        self.assertEqual(struct.unpack_from(">hh", attempt.transport.take(), 4), (HEARTBEAT, 0))
        newer = self.channel.request(HeartbeatRequest(group_id="g"), version=3)
        attempt.connection.dataReceived(frame(struct.pack(">ih", 0, 0)))
        self.failureResultOf(newer, UnsupportedVersion)


class TestSeveralInFlight(ChannelTests):
    in_flight_max = 2

    def test_requests_in_flight_are_limited(self) -> None:
        answers = [self.ask(number) for number in (1, 2, 3)]
        attempt = self.connected()
        self.assertEqual(attempt.sent(), [1, 2])
        attempt.answer(0)
        self.assertEqual(attempt.sent(), [3])
        self.successResultOf(answers[0])

    def test_errors_come_in_the_order_of_the_requests(self) -> None:
        failed: list[int] = []
        for number in (1, 2, 3, 4):
            self.ask(number).addErrback(lambda _, number=number: failed.append(number))
        self.connected().lose()
        self.assertEqual(failed, [1, 2, 3, 4])


class TestClose(ChannelTests):
    def test_close_fails_requests_that_wait_for_a_connection(self) -> None:
        answer = self.ask(1)
        self.channel.close()
        self.failureResultOf(answer, Closed)
        self.assertTrue(self.attempts[0].made.called)  # was cancelled

    def test_close_fails_requests_that_wait_for_responses(self) -> None:
        answers = [self.ask(number) for number in (1, 2)]
        attempt = self.connected()
        self.channel.close()
        for answer in answers:
            self.failureResultOf(answer, Closed)
        self.assertTrue(attempt.transport.aborted)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_attempt_that_cannot_be_cancelled(self) -> None:
        made: Deferred[BrokerConnection] = Deferred()

        async def dial(*_: Any) -> BrokerConnection:
            waiting: Deferred[None] = Deferred(lambda _: None)
            try:
                await waiting
            except Exception:
                return await made
            raise AssertionError

        channel = BrokerChannel(self.clock, THERE, ConnectionSettings("1"), VERSIONS, dial=dial)
        answer = channel.request(ControlledShutdownRequest(1, 0))
        channel.close()
        attempt = Attempt(self.clock, ConnectionSettings("1"), VERSIONS)
        attempt.connection.makeConnection(attempt.transport)  # type: ignore[arg-type]
        made.callback(attempt.connection)
        self.failureResultOf(answer, Closed)
        self.assertTrue(attempt.transport.aborted)

    def test_a_closed_channel_sends_nothing(self) -> None:
        self.channel.close()
        self.channel.close()
        self.failureResultOf(self.ask(1), Closed)
        self.assertEqual(self.attempts, [])


class TestListeners(SynchronousTestCase):
    broker = BrokerRegistration(
        2, listeners={"OUT": BrokerListener("b", 1, "PLAINTEXT"), "IN": BrokerListener("::1", 2, "PLAINTEXT")}
    )

    def test_the_address_of_a_listener(self) -> None:
        self.assertEqual(listener_address(self.broker, "IN"), Address("::1", 2))

    def test_a_broker_without_the_listener(self) -> None:
        with self.assertRaisesRegex(NotConnected, "broker 2 has no listener CONTROL; its listeners: IN, OUT"):
            listener_address(self.broker, "CONTROL")


@pytest.mark.parametrize("text", ["2.7", "3.9", "negotiated"])
def test_a_broker_answers(broker: Broker, topic: str, text: str) -> None:
    create_topic(broker.bootstrap, topic)
    host, _, port = broker.bootstrap.rpartition(":")
    versions = None if text == "negotiated" else InterBrokerProtocol.parse(text).fixed_versions

    async def ask() -> None:
        from twisted.internet import reactor

        settings = ConnectionSettings("broker-2-fetcher-0")
        channel = BrokerChannel(reactor, Address(host, int(port)), settings, versions, in_flight_max=2)
        epochs = OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, -1, 0)])
        latest = ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, -1)])
        epochs_answer = channel.request(OffsetForLeaderEpochRequest(-2, [epochs]))
        offsets_answer = channel.request(ListOffsetsRequest(-1, 0, [latest]))
        [end] = (await epochs_answer).topics[0].partitions
        [offset] = (await offsets_answer).topics[0].partitions
        assert (end.error_code, end.end_offset) == (ErrorCode.NONE, 0)
        assert (offset.error_code, offset.offset) == (ErrorCode.NONE, 0)
        channel.close()

    run(ask)
