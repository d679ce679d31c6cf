"""Queues of a controller's requests: order, repetitions, and what a close drops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.membership.controller_channels import RETRY_SECONDS, ChannelSettings, ControllerChannels
from pylogbroker.controller.requests import BrokerRequest, StoppedReplica, StopReplica, UpdateMetadata
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import BrokerListener, BrokerRegistration, PartitionKey
from pylogbroker.metadata.inter_broker_protocol import NEWEST_PROTOCOL
from pylogbroker.rpc.errors import ConnectionLost, NotConnected
from pylogbroker.wire import EncodingError, Request
from pylogbroker.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from tests.broker.log_lines import logged_lines

BROKER = BrokerRegistration(2, 9, {"INTERNAL": BrokerListener("there", 1, "PLAINTEXT")})


def stop(number: int) -> StopReplica:
    return StopReplica(1, 2, 9, (StoppedReplica("t", number, 0, False),))


class FakeChannel:
    def __init__(self) -> None:
        self.sent: list[tuple[int, Deferred[Any]]] = []
        self.is_closed = False

    def request(self, request: Request) -> Deferred[Any]:
        assert isinstance(request, StopReplicaRequest)
        answer: Deferred[Any] = Deferred()
        self.sent.append((request.topic_states[0].partition_states[0].partition_index, answer))
        return answer

    def close(self) -> None:
        self.is_closed = True

    def numbers(self) -> list[int]:
        return [number for number, _ in self.sent]

    def answer(self, error: int = 0) -> None:
        """Answer the request that was sent last."""
        number, answer = self.sent[-1]
        answer.callback(StopReplicaResponse(0, [StopReplicaPartitionError("t", number, error)]))

    def fail(self, error: Exception) -> None:
        self.sent[-1][1].errback(error)


class ControllerChannelsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.made: list[FakeChannel] = []
        self.answers: list[tuple[int, int, ErrorCode]] = []
        settings = ChannelSettings(self.clock, NEWEST_PROTOCOL, "INTERNAL", "1")
        self.channels = ControllerChannels(
            self.clock, self.connect, settings.to_wire, self.answered, lambda about: True
        )
        self.unreachable = False
        self.channels.open(BROKER)

    def connect(self, broker: BrokerRegistration) -> FakeChannel:
        if self.unreachable:
            raise NotConnected("no such listener")
        self.made.append(FakeChannel())
        return self.made[-1]

    def answered(self, broker: int, request: BrokerRequest, errors: Mapping[PartitionKey, ErrorCode]) -> None:
        [((_, number), error)] = errors.items()
        self.answers.append((broker, number, error))

    def test_one_request_is_in_flight(self) -> None:
        for number in (0, 1, 2):
            self.channels.send(2, stop(number))
        [channel] = self.made
        self.assertEqual(channel.numbers(), [0])
        channel.answer(56)
        self.assertEqual(channel.numbers(), [0, 1])
        channel.answer()
        channel.answer()
        self.assertEqual(
            self.answers,
            [(2, 0, ErrorCode.KAFKA_STORAGE_ERROR), (2, 1, ErrorCode.NONE), (2, 2, ErrorCode.NONE)],
        )

    def test_a_lost_request_is_repeated_before_the_next_one(self) -> None:
        self.channels.send(2, stop(0))
        self.channels.send(2, stop(1))
        [channel] = self.made
        with logged_lines() as lines:
            channel.fail(ConnectionLost("the cable"))
        self.assertIn("cannot reach broker 2: the cable", lines[0])
        self.clock.advance(RETRY_SECONDS / 2)
        self.assertEqual(channel.numbers(), [0])
        self.clock.advance(RETRY_SECONDS / 2)
        self.assertEqual(channel.numbers(), [0, 0])
        channel.answer()
        self.assertEqual(channel.numbers(), [0, 0, 1])

    def test_a_broker_without_the_listener_is_tried_again(self) -> None:
        self.unreachable = True
        self.channels.send(2, stop(0))
        self.clock.advance(RETRY_SECONDS)
        self.assertEqual(self.made, [])
        self.unreachable = False
        self.clock.advance(RETRY_SECONDS)
        self.assertEqual(self.made[0].numbers(), [0])

    def test_metadata_that_cannot_be_written_are_dropped(self) -> None:
        self.channels.send(2, UpdateMetadata(2**40, 1, 1, (), ()))
        self.assertEqual(len(self.flushLoggedErrors(EncodingError)), 1)
        self.channels.send(2, stop(0))
        self.assertEqual(self.made[0].numbers(), [0])

    def test_a_request_that_cannot_be_written_is_dropped(self) -> None:
        self.channels.send(2, stop(0))
        self.channels.send(2, stop(1))
        self.made[0].fail(EncodingError("no"))
        self.assertEqual(len(self.flushLoggedErrors(EncodingError)), 1)
        self.assertEqual(self.made[0].numbers(), [0, 1])

    def test_a_new_registration_drops_all_requests(self) -> None:
        self.channels.send(2, stop(0))
        self.channels.send(2, stop(1))
        self.channels.open(BROKER)
        self.assertTrue(self.made[0].is_closed)
        self.made[0].answer()
        self.channels.send(2, stop(2))
        self.assertEqual([channel.numbers() for channel in self.made], [[0], [2]])
        self.assertEqual(self.answers, [])

    def test_a_closed_queue_does_not_try_again(self) -> None:
        self.channels.send(2, stop(0))
        self.made[0].fail(ConnectionLost("the cable"))
        self.channels.close_all()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.channels.send(2, stop(1))
        self.assertEqual(self.made[0].numbers(), [0])
