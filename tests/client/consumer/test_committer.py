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
from pylogbroker.client.retries import Backoff, Pauses
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition

KEY = ("t", 0)


class Bench:
    """A committer, its group, and a store that answers when it is told to."""

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

    def refused(self, code: ErrorCode) -> None:
        self.codes.append(code)

    def store(self, offsets: Mapping[TopicPartition, int]) -> Deferred[None]:
        answer: Deferred[None] = Deferred()
        self.stored.append((offsets, answer))
        return answer

    def commit(self, offset: int) -> list[Any]:
        outcome: list[Any] = []
        ensureDeferred(self.committer.commit({KEY: offset}, {KEY: self.buffer})).addBoth(outcome.append)
        return outcome

    def refuse(self, code: ErrorCode) -> None:
        self.stored[-1][1].errback(KafkaError(code=code))

    def accept(self) -> None:
        self.stored[-1][1].callback(None)


def test_a_rebalance_is_waited_for() -> None:
    bench = Bench()
    outcome = bench.commit(7)
    bench.refuse(ErrorCode.REBALANCE_IN_PROGRESS)
    bench.clock.advance(0.2)
    bench.accept()
    assert (outcome, len(bench.stored), bench.buffer.committed) == ([None], 2, 7)


def test_what_others_read_meanwhile_is_not_committed_any_more() -> None:
    bench = Bench()
    outcome = bench.commit(7)
    bench.refuse(ErrorCode.REBALANCE_IN_PROGRESS)
    bench.ours = False
    bench.clock.advance(0.2)
    assert len(bench.stored) == 1
    assert outcome[0].check(NoLongerAssigned)
    assert bench.clock.getDelayedCalls() == []


def test_what_was_given_away_while_another_commit_was_under_way() -> None:
    bench = Bench()
    bench.commit(7)
    second = bench.commit(8)
    bench.ours = False
    bench.accept()
    assert len(bench.stored) == 1
    assert second[0].check(NoLongerAssigned)


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_generation_that_is_over_by_now_is_no_reason_to_give_up(code: ErrorCode) -> None:
    bench = Bench()
    outcome = bench.commit(7)
    bench.generation = 6
    bench.refuse(code)
    bench.clock.advance(0.2)
    bench.accept()
    assert (outcome, bench.codes) == ([None], [])


def test_who_is_thrown_out_hears_of_it() -> None:
    bench = Bench()
    outcome = bench.commit(7)
    bench.refuse(ErrorCode.ILLEGAL_GENERATION)
    assert bench.codes == [ErrorCode.ILLEGAL_GENERATION]
    assert outcome[0].value.code is ErrorCode.ILLEGAL_GENERATION


def test_nothing_is_committed_by_who_is_no_member_yet() -> None:
    bench = Bench()
    bench.joined = False
    outcome = bench.commit(7)
    assert bench.stored == []
    bench.joined = True
    bench.clock.advance(0.2)
    bench.accept()
    assert outcome == [None]


def test_a_store_that_does_not_answer_is_given_up() -> None:
    bench = Bench()
    done = ensureDeferred(bench.committer.commit_quietly({KEY: 7}, {KEY: bench.buffer}, 5.0))
    waiting = bench.commit(8)
    bench.clock.advance(5.0)
    assert done.called
    assert bench.committer.failures == 1
    assert [offsets for offsets, _ in bench.stored] == [{KEY: 7}, {KEY: 8}]
    bench.clock.advance(60.0)
    assert waiting[0].check(RequestTimedOut)
    assert bench.clock.getDelayedCalls() == []


def test_a_commit_before_it_that_hangs_is_not_waited_for_for_ever() -> None:
    bench = Bench()
    bench.commit(7)
    done = ensureDeferred(bench.committer.commit_quietly({KEY: 8}, {KEY: bench.buffer}, 5.0))
    bench.clock.advance(4.9)
    assert not done.called
    bench.clock.advance(0.2)
    assert done.called
    assert bench.committer.failures == 1
    bench.accept()
    assert [offsets for offsets, _ in bench.stored] == [{KEY: 7}]
