"""Requests of a share consumer to its leaders, which answer when the test lets them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from pylogbroker.client import AcknowledgeType, ShareConsumer
from pylogbroker.client.errors import ConnectionLost
from pylogbroker.client.metadata import TopicInfo
from pylogbroker.client.share.acquired import ROWS_PER_STEP, AcquiredUnpacker, ShareMessage
from pylogbroker.client.share.exchange import Received, ShareExchange, ShareFetchSettings
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.records import Record, TimestampType, build
from pylogbroker.wire.messages.share_acknowledge import (
    ShareAcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from pylogbroker.wire.messages.share_fetch import (
    AcquiredRange,
    ShareFetchableTopicResponse,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)

T = UUID(int=1)
KEY = ("t", 0)


@attrs.define(eq=False)
class Harness:
    """An exchange, its cluster, its member and its reader."""

    clock: Clock = attrs.field(factory=Clock)
    leader: int = 1
    version: int = 2
    sent: list[tuple[int, Any, Deferred[Any]]] = attrs.field(factory=list)
    stale: list[TopicPartition] = attrs.field(factory=list)
    messages: list[ShareMessage] = attrs.field(factory=list)
    errors: list[Exception] = attrs.field(factory=list)
    dropped: list[TopicPartition] = attrs.field(factory=list)
    rejected: list[ErrorCode] = attrs.field(factory=list)
    member_id: str = "m"

    def exchange(self) -> ShareExchange:
        this: Any = self
        settings = ShareFetchSettings(500, 1, 1000, 500, 0, True, 0.1, 30.0, 60.0)
        return ShareExchange(this, this.clock, "g", settings, this, AcquiredUnpacker(None, None, True), this)

    # the cluster

    def topics(self) -> dict[str, TopicInfo]:
        return {"t": TopicInfo("t", T, ())}

    def leader_of(self, topic: str, partition: int) -> int:
        return self.leader

    def leader_is_stale(self, topic: str, partition: int) -> None:
        self.stale.append((topic, partition))

    async def find_version(self, node: int, kind: Any) -> int:
        return self.version

    def send(self, node: int, request: Any, *, timeout: float) -> Deferred[Any]:
        self.sent.append((node, request, Deferred()))
        return self.sent[-1][2]

    # the member

    def commit_rejected(self, code: ErrorCode) -> None:
        self.rejected.append(code)

    # the reader

    def received(self, received: Received) -> None:
        self.messages += received.messages
        self.errors += received.errors

    def released(self, partition: TopicPartition) -> None:
        self.dropped.append(partition)

    # what happens

    def last(self, kind: type[Any]) -> Any:
        request = self.sent[-1][1]
        assert isinstance(request, kind)
        return request

    def acknowledged(self) -> list[tuple[int, int, list[int]]]:
        [topic] = self.sent[-1][1].topics
        [partition] = topic.partitions
        return [
            (batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]

    def deliver(self, *offsets: int, **fields: Any) -> None:
        """Answer a fetch with these records."""
        records = [Record(offset, 1000, None, b"v") for offset in offsets]
        acquired = [AcquiredRange(offset, offset, 1) for offset in offsets]
        data = ShareFetchPartitionData(
            records=build(records, base_offset=None) if records else b"", acquired_records=acquired, **fields
        )
        self.sent[-1][2].callback(ShareFetchResponse(responses=[ShareFetchableTopicResponse(T, [data])]))

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answer acknowledgements."""
        data = ShareAcknowledgePartitionData(0, code)
        self.sent[-1][2].callback(ShareAcknowledgeResponse(responses=[ShareAcknowledgeTopicResponse(T, [data])]))


def given(*offsets: int, version: int = 2) -> tuple[Harness, ShareExchange]:
    """Return an exchange whose program has these records."""
    harness = Harness(version=version)
    exchange = harness.exchange()
    exchange.fetch([KEY])
    harness.deliver(*offsets)
    assert [message.offset for message in harness.messages] == list(offsets)
    for offset in offsets:
        exchange.acquired(*KEY).give(offset)
    return harness, exchange


def outcome_of(work: Any) -> list[Any]:
    outcome: list[Any] = []
    ensureDeferred(work).addBoth(outcome.append)
    return outcome


def test_a_fetch_takes_acknowledgements_along() -> None:
    harness, exchange = given(0, 1)
    exchange.accept_given()
    exchange.fetch([KEY])
    assert harness.last(ShareFetchRequest).share_session_epoch == 1
    assert harness.acknowledged() == [(0, 1, [1])]
    exchange.fetch([KEY])
    assert len(harness.sent) == 2  # one request at a time
    harness.deliver()
    exchange.fetch([KEY])
    assert harness.last(ShareFetchRequest).topics == []


def test_a_commit_waits_for_a_fetch_and_returns_errors() -> None:
    harness, exchange = given(0)
    exchange.fetch([KEY])
    exchange.acquired(*KEY).acknowledge(0, AcknowledgeType.REJECT)
    outcome = outcome_of(exchange.commit())
    assert len(harness.sent) == 2
    harness.deliver()
    assert harness.last(ShareAcknowledgeRequest).share_session_epoch == 2
    assert harness.acknowledged() == [(0, 0, [3])]
    harness.answer(ErrorCode.INVALID_RECORD_STATE)
    [errors] = outcome
    assert {key: error.code for key, error in errors.items()} == {KEY: ErrorCode.INVALID_RECORD_STATE}
    assert exchange.failures == 1


def test_a_renewal_fetches_nothing() -> None:
    harness, exchange = given(0)
    exchange.acquired(*KEY).acknowledge(0, AcknowledgeType.RENEW)
    exchange.fetch([KEY])
    assert harness.last(ShareAcknowledgeRequest).is_renew_ack
    assert harness.acknowledged() == [(0, 0, [4])]
    harness.answer()
    assert harness.last(ShareFetchRequest).topics == []


def test_broker_that_cannot_renew_any_more_leaves_messages_as_they_are() -> None:
    harness, exchange = given(0, 1)
    assert exchange.acquired(*KEY).may_renew
    harness.version = 1
    exchange.acquired(*KEY).acknowledge(0, AcknowledgeType.RENEW)
    exchange.acquired(*KEY).acknowledge(1, AcknowledgeType.ACCEPT)
    outcome = outcome_of(exchange.commit())
    assert harness.acknowledged() == [(1, 1, [1])]
    harness.answer()
    [errors] = outcome
    assert {key: error.code for key, error in errors.items()} == {KEY: ErrorCode.UNSUPPORTED_VERSION}
    assert [str(error) for error in harness.errors] == [str(errors[KEY])]
    assert exchange.given() == {KEY: {0}}
    assert not exchange.acquired(*KEY).may_renew
    assert (harness.dropped, exchange.failures) == ([], 0)


def test_consumer_cannot_renew_by_an_old_broker() -> None:
    harness, exchange = given(0, version=1)
    consumer = ShareConsumer("127.0.0.1:1", group="g", reactor=harness.clock)
    consumer._exchange = exchange
    [message] = harness.messages
    with pytest.raises(KafkaError, match="cannot renew the locks of messages") as raised:
        consumer.acknowledge(message, AcknowledgeType.RENEW)
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
    consumer.acknowledge(message, AcknowledgeType.ACCEPT)
    assert exchange.acquired(*KEY).is_ready


def test_long_answer_is_unpacked_in_steps() -> None:
    harness = Harness()
    exchange = harness.exchange()
    exchange.fetch([KEY])
    harness.deliver(*range(2 * ROWS_PER_STEP + 1))
    assert harness.messages == []
    harness.clock.advance(0)
    assert [message.offset for message in harness.messages] == list(range(2 * ROWS_PER_STEP + 1))


def test_messages_of_a_partition_that_moves_while_they_are_unpacked_are_dropped() -> None:
    harness = Harness()
    exchange = harness.exchange()
    exchange.fetch([KEY])
    harness.deliver(*range(ROWS_PER_STEP))
    harness.leader = 2
    exchange.fetch([KEY])
    harness.clock.advance(0)
    assert harness.messages == []
    assert harness.dropped == [KEY]


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("gone"),
        KafkaError(code=ErrorCode.SHARE_SESSION_NOT_FOUND),
        KafkaError(code=ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    ],
)
def test_a_broken_session_begins_again_without_its_records(error: Exception) -> None:
    harness, exchange = given(0, 1)
    exchange.acquired(*KEY).acknowledge(0, AcknowledgeType.ACCEPT)
    outcome = outcome_of(exchange.commit())
    harness.sent[-1][2].errback(error)
    [errors] = outcome
    assert set(errors) == {KEY}
    assert harness.dropped == [KEY]
    assert not exchange.acquired(*KEY).acknowledge(1, AcknowledgeType.ACCEPT)
    assert harness.errors == []  # a poll goes on
    exchange.fetch([KEY])
    assert len(harness.sent) == 2
    assert exchange.pause() == pytest.approx(0.1)
    harness.clock.advance(0.2)
    exchange.fetch([KEY])
    assert harness.last(ShareFetchRequest).share_session_epoch == 0


def test_records_of_a_former_leader_are_dropped() -> None:
    harness, exchange = given(0, 1)
    harness.leader = 2
    exchange.accept_given()
    exchange.fetch([KEY])
    assert harness.sent[-1][0] == 2
    assert harness.last(ShareFetchRequest).share_session_epoch == 0
    assert (harness.dropped, exchange.failures) == ([KEY], 1)
    [errors] = outcome_of(exchange.commit()) or [{}]
    assert errors == {}


def test_a_partition_that_has_moved_is_looked_for() -> None:
    harness = Harness()
    exchange = harness.exchange()
    exchange.fetch([KEY])
    harness.deliver(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (harness.stale, harness.errors) == ([KEY], [])


def test_an_error_that_stays_is_for_the_program() -> None:
    harness = Harness()
    exchange = harness.exchange()
    exchange.fetch([KEY])
    harness.deliver(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    [error] = harness.errors
    assert "t/0" in str(error)
    exchange.fetch([KEY])
    harness.sent[-1][2].callback(ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert [code_of(error) for error in harness.errors[1:]] == [ErrorCode.GROUP_AUTHORIZATION_FAILED]


def code_of(error: Exception) -> ErrorCode:
    assert isinstance(error, KafkaError)
    return error.code


def test_a_removed_member_hears_of_it() -> None:
    harness = Harness()
    exchange = harness.exchange()
    exchange.fetch([KEY])
    harness.sent[-1][2].callback(ShareFetchResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert (harness.rejected, harness.errors) == ([ErrorCode.UNKNOWN_MEMBER_ID], [])


def test_closing_sends_acknowledgements_and_the_last_epoch() -> None:
    harness, exchange = given(0, 1)
    exchange.acquired(*KEY).acknowledge(1, AcknowledgeType.ACCEPT)
    outcome = outcome_of(exchange.close())
    assert harness.last(ShareAcknowledgeRequest).share_session_epoch == -1
    assert harness.acknowledged() == [(1, 1, [1])]
    harness.answer()
    assert len(outcome) == 1


def test_messages_whose_lock_has_ended_are_not_delivered() -> None:
    clock = Clock()
    consumer = ShareConsumer("127.0.0.1:1", group="g", reactor=clock)
    consumer._topics = frozenset({"t"})
    messages = [ShareMessage("t", 0, offset, 0, TimestampType.CREATE_TIME, None, b"v", (), 1) for offset in (0, 1)]
    consumer.received(Received(messages[:1], lock_seconds=5))
    clock.advance(4)
    consumer.received(Received(messages[1:], lock_seconds=5))
    clock.advance(2)
    assert outcome_of(consumer.poll()) == [messages[1:]]
    outcome_of(consumer.close())
