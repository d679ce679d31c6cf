"""Committing: what is tried again, and what no more, since others read the partition. Without a broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from pylogbroker.client.consumer.committer import Committer, NoLongerAssigned
from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.client.errors import RequestTimedOut
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.retries import Pauses

KEY = ("t", 0)


class Harness:
    """A committer, its group, and a store that answers when the test lets it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.generation = 5
        self.joined = True
        self.ours = True
        self.codes: list[ErrorCode] = []
        self.stored: list[tuple[Mapping[TopicPartition, int], Deferred[None]]] = []
        self.buffer = FetchBuffer("t", 0, 100)
        self.committer = Committer(
            Pauses(self.clock), self.store, self, lambda buffer: self.ours, Backoff(0.1, 0.1, lambda: 0.5), 60.0
        )

    def check(self) -> None:
        if not self.joined:
            raise KafkaError(code=ErrorCode.REBALANCE_IN_PROGRESS)

    def commit_rejected(self, code: ErrorCode) -> None:
        self.codes.append(code)

    def store(self, offsets: Mapping[TopicPartition, int]) -> Deferred[None]:
        answer: Deferred[None] = Deferred()
        self.stored.append((offsets, answer))
        return answer

    def commit(self, offset: int) -> list[Any]:
        outcome: list[Any] = []
        ensureDeferred(self.committer.commit({KEY: offset}, {KEY: self.buffer})).addBoth(outcome.append)
        return outcome

    def reject(self, code: ErrorCode) -> None:
        self.stored[-1][1].errback(KafkaError(code=code))

    def accept(self) -> None:
        self.stored[-1][1].callback(None)


def test_a_rebalance_is_waited_for() -> None:
    harness = Harness()
    outcome = harness.commit(7)
    harness.reject(ErrorCode.REBALANCE_IN_PROGRESS)
    harness.clock.advance(0.2)
    harness.accept()
    assert (outcome, len(harness.stored), harness.buffer.committed) == ([None], 2, 7)


def test_a_stale_epoch_is_reported_and_the_present_one_waited_for() -> None:
    harness = Harness()
    outcome = harness.commit(7)
    harness.reject(ErrorCode.STALE_MEMBER_EPOCH)
    assert harness.codes == [ErrorCode.STALE_MEMBER_EPOCH]
    harness.clock.advance(0.2)
    harness.accept()
    assert (outcome, len(harness.stored)) == ([None], 2)


def test_a_retry_stops_when_the_partition_is_assigned_elsewhere() -> None:
    harness = Harness()
    outcome = harness.commit(7)
    harness.reject(ErrorCode.REBALANCE_IN_PROGRESS)
    harness.ours = False
    harness.clock.advance(0.2)
    assert len(harness.stored) == 1
    assert outcome[0].check(NoLongerAssigned)
    assert harness.clock.getDelayedCalls() == []


def test_a_queued_commit_fails_when_the_partition_is_lost() -> None:
    harness = Harness()
    harness.commit(7)
    second = harness.commit(8)
    harness.ours = False
    harness.accept()
    assert len(harness.stored) == 1
    assert second[0].check(NoLongerAssigned)


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_generation_that_is_over_by_now_is_no_reason_to_stop(code: ErrorCode) -> None:
    harness = Harness()
    outcome = harness.commit(7)
    harness.generation = 6
    harness.reject(code)
    harness.clock.advance(0.2)
    harness.accept()
    assert (outcome, harness.codes) == ([None], [])


def test_a_fenced_member_learns_of_the_error() -> None:
    harness = Harness()
    outcome = harness.commit(7)
    harness.reject(ErrorCode.ILLEGAL_GENERATION)
    assert harness.codes == [ErrorCode.ILLEGAL_GENERATION]
    assert outcome[0].value.code is ErrorCode.ILLEGAL_GENERATION


def test_a_commit_waits_until_the_member_has_joined() -> None:
    harness = Harness()
    harness.joined = False
    outcome = harness.commit(7)
    assert harness.stored == []
    harness.joined = True
    harness.clock.advance(0.2)
    harness.accept()
    assert outcome == [None]


def test_a_store_that_does_not_answer_is_abandoned() -> None:
    harness = Harness()
    done = ensureDeferred(harness.committer.commit_quietly({KEY: 7}, {KEY: harness.buffer}, 5.0))
    waiting = harness.commit(8)
    harness.clock.advance(5.0)
    assert done.called
    assert harness.committer.failures == 1
    assert [offsets for offsets, _ in harness.stored] == [{KEY: 7}, {KEY: 8}]
    harness.clock.advance(60.0)
    assert waiting[0].check(RequestTimedOut)
    assert harness.clock.getDelayedCalls() == []


def test_a_hanging_earlier_commit_is_not_waited_for_for_ever() -> None:
    harness = Harness()
    harness.commit(7)
    done = ensureDeferred(harness.committer.commit_quietly({KEY: 8}, {KEY: harness.buffer}, 5.0))
    harness.clock.advance(4.9)
    assert not done.called
    harness.clock.advance(0.2)
    assert done.called
    assert harness.committer.failures == 1
    harness.accept()
    assert [offsets for offsets, _ in harness.stored] == [{KEY: 7}]
