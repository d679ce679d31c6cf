"""Requests of a member whose coordinator assigns, with a coordinator that answers when the test lets it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

import pytest
from twisted.internet.defer import Deferred, ensureDeferred, fail
from twisted.internet.task import Clock

from pylogbroker.client.consumer.actions import MemberSubscription, Partitions
from pylogbroker.client.consumer.epoch_member import EpochMemberState
from pylogbroker.client.consumer.epoch_member_driver import EpochMemberDriver, EpochMemberSettings
from pylogbroker.client.consumer.group_heartbeats import ConsumerGroupHeartbeats
from pylogbroker.client.errors import ConnectionLost
from pylogbroker.client.metadata import TopicInfo
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire import UnsupportedVersion
from pylogbroker.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    OwnedTopicPartitions,
)

TOPICS = MemberSubscription(frozenset({"t"}))
T, U, INTERNAL = UUID(int=1), UUID(int=2), UUID(int=3)


class Harness:
    """A member, its cluster and its reader."""

    def __init__(self, subscription: MemberSubscription = TOPICS, version: int = 1) -> None:
        self.clock = Clock()
        self.version = version
        self.subscription = subscription
        self.sent: list[tuple[ConsumerGroupHeartbeatRequest, Deferred[Any]]] = []
        self.looked_up: list[tuple[frozenset[UUID], Deferred[Any]]] = []
        self.unreachable = False
        self.taken: set[TopicPartition] = set()
        self.failures: list[Exception] = []
        cluster: Any = self
        heartbeats = ConsumerGroupHeartbeats(cluster, "g", "i", "r1", "range", 60_000)
        settings = EpochMemberSettings("g", "i")
        self.member = EpochMemberDriver(
            cluster,
            self.clock,  # type: ignore[arg-type]
            settings,
            heartbeats,
            lambda: self.subscription,
            lambda topic: not topic.startswith("__"),
            self,
            lambda: "me",
        )
        self.member.start()

    # the cluster

    def forget_coordinator(self, group: str, kind: Any) -> None:
        pass

    async def coordinator(self, group: str, kind: Any) -> int:
        return 1

    async def find_version(self, node: int, kind: Any) -> int:
        return self.version

    def topics(self) -> dict[str, TopicInfo]:
        return {"t": TopicInfo("t", T, ())}

    def topics_by_id(self, topic_ids: Collection[UUID]) -> Deferred[dict[UUID, str]]:
        self.looked_up.append((frozenset(topic_ids), Deferred()))
        return self.looked_up[-1][1]

    def send(self, node: int, request: ConsumerGroupHeartbeatRequest, *, timeout: float) -> Deferred[Any]:
        if self.unreachable:
            return fail(ConnectionLost("gone"))
        self.sent.append((request, Deferred()))
        return self.sent[-1][1]

    # the reader

    async def revoke(self, partitions: Partitions, lost: bool) -> None:
        self.taken -= partitions

    def assign(self, partitions: Partitions) -> None:
        self.taken |= partitions

    def failed(self, error: Exception) -> None:
        self.failures.append(error)

    # what happens

    def answer(self, *assigned: tuple[UUID, int], epoch: int = 1) -> None:
        topics = [OwnedTopicPartitions(topic_id, [number]) for topic_id, number in assigned]
        response = ConsumerGroupHeartbeatResponse(
            member_id="me", member_epoch=epoch, heartbeat_interval_ms=5000, assignment=HeartbeatAssignment(topics)
        )
        self.sent[-1][1].callback(response)

    def reject(self, code: ErrorCode, text: str | None = None) -> None:
        self.sent[-1][1].callback(ConsumerGroupHeartbeatResponse(error_code=code, error_message=text))

    @property
    def last(self) -> ConsumerGroupHeartbeatRequest:
        return self.sent[-1][0]


def test_the_first_heartbeat_has_everything_and_the_next_what_has_changed() -> None:
    harness = Harness()
    first = harness.last
    assert (first.group_id, first.member_id, first.member_epoch, first.instance_id) == ("g", "me", 0, "i")
    assert (first.rack_id, first.server_assignor, first.rebalance_timeout_ms) == ("r1", "range", 60_000)
    assert (first.subscribed_topic_names, first.subscribed_topic_regex, first.topic_partitions) == (["t"], "", [])
    harness.answer((T, 0), (T, 1))
    assert harness.taken == {("t", 0), ("t", 1)}
    second = harness.last
    assert second.member_epoch == 1
    assert (second.rack_id, second.server_assignor, second.rebalance_timeout_ms) == (None, None, -1)
    assert (second.subscribed_topic_names, second.subscribed_topic_regex) == (None, None)
    assert second.topic_partitions == [OwnedTopicPartitions(T, [0, 1])]
    harness.answer((T, 0), (T, 1))
    harness.clock.advance(4.9)
    assert len(harness.sent) == 2
    harness.clock.advance(0.2)
    assert harness.last.topic_partitions is None


def test_names_of_topics_are_looked_up_and_internal_topics_not_read() -> None:
    harness = Harness(MemberSubscription(expression=".*"))
    assert harness.last.subscribed_topic_regex == ".*"
    harness.answer((T, 0), (U, 0), (INTERNAL, 0))
    assert harness.taken == {("t", 0)}
    [(asked, answer)] = harness.looked_up
    assert asked == {U, INTERNAL}
    answer.callback({U: "u", INTERNAL: "__consumer_offsets"})
    assert harness.taken == {("t", 0), ("u", 0)}
    harness.clock.advance(5)
    assert len(harness.looked_up) == 1


def test_names_that_cannot_be_looked_up_are_looked_up_again() -> None:
    harness = Harness()
    harness.answer((U, 0))
    harness.looked_up[-1][1].errback(ConnectionLost("gone"))
    harness.clock.advance(1.1)
    harness.looked_up[-1][1].callback({U: "u"})
    assert harness.taken == {("u", 0)}


def test_a_lost_connection_is_followed_by_a_full_heartbeat() -> None:
    harness = Harness()
    harness.answer((T, 0))
    harness.sent[-1][1].errback(ConnectionLost("gone"))
    harness.clock.advance(0.2)
    assert (harness.last.member_epoch, harness.last.rebalance_timeout_ms) == (1, 60_000)
    assert harness.last.topic_partitions == [OwnedTopicPartitions(T, [0])]
    assert harness.taken == {("t", 0)}


@pytest.mark.parametrize("is_missing", [True, False])
def test_an_old_broker_is_reported_with_what_to_do(is_missing: bool) -> None:
    harness = Harness()
    if is_missing:
        harness.sent[-1][1].errback(UnsupportedVersion("the broker at b:1 does not support ConsumerGroupHeartbeat"))
    else:
        harness.reject(ErrorCode.UNSUPPORTED_VERSION)
    [error] = harness.failures
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.UNSUPPORTED_VERSION
    assert "group.protocol=classic" in str(error)
    assert "group.version" in str(error)


def test_an_expression_needs_a_broker_that_evaluates_it() -> None:
    harness = Harness(MemberSubscription(expression="a.*"), version=0)
    [error] = harness.failures
    assert "subscribe to topics by their names" in str(error)
    assert Harness(version=0).last.subscribed_topic_names == ["t"]


def test_the_text_of_the_broker_is_kept() -> None:
    harness = Harness()
    harness.reject(ErrorCode.UNSUPPORTED_ASSIGNOR, "magic is not one of uniform, range")
    [error] = harness.failures
    assert "magic is not one of uniform, range" in str(error)


def test_leaving_waits_for_the_answer_and_no_longer_than_its_timeout() -> None:
    harness = Harness()
    harness.answer((T, 0))
    harness.answer((T, 0))
    left = ensureDeferred(harness.member.leave())
    assert harness.last.member_epoch == -2  # a static member keeps its place
    assert not left.called
    harness.sent[-1][1].errback(ConnectionLost("gone"))
    assert left.called
    assert harness.member.state is EpochMemberState.GONE
    assert harness.clock.getDelayedCalls() == []
    assert harness.taken == set()
