"""What is asked of a new leader, and what its answer means, without a broker."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from pylogbroker.client.consumer.fetch_buffer import Chunk, FetchBuffer
from pylogbroker.client.consumer.positions import Positions
from pylogbroker.client.consumer.truncation import TruncationChecks
from pylogbroker.client.errors import ConnectionLost, Truncated
from pylogbroker.errors import ErrorCode
from pylogbroker.wire import UnsupportedVersion
from pylogbroker.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


class Bench:
    """A feed that was read to offset 20, the last of it written by the leader of epoch 3; and its brokers."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.requests: list[tuple[int, Any, Deferred[Any]]] = []
        self.truncation_checks = TruncationChecks(
            self,  # type: ignore[arg-type]
            lambda buffer, end: self.told.append(("truncated", end)),
            lambda buffer: self.told.append("out of range"),
            lambda buffer: self.told.append("retry"),
            lambda: self.told.append("settled"),
        )
        self.buffer = FetchBuffer("a", 0, limit=100)
        self.buffer.begin(10)
        self.buffer.add(Chunk(iter(()), 1, 20, epoch=3))
        self.buffer.checked_epoch = 4

    def send(self, node: int, request: Any) -> Deferred[Any]:
        self.requests.append((node, request, Deferred()))
        return self.requests[-1][2]

    def answer(self, end: int, code: int = 0) -> None:
        found = EpochEndOffset(code, 0, 3, end)
        self.requests[-1][2].callback(
            OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult("a", [found])]),
        )


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_same_leader_is_not_asked(bench: Bench) -> None:
    assert not bench.truncation_checks.must_wait(bench.buffer, 1, 4)
    assert not bench.truncation_checks.must_wait(bench.buffer, 1, -1)
    assert bench.requests == []


def test_nothing_that_was_read_is_nothing_to_doubt(bench: Bench) -> None:
    bench.buffer.begin(15)
    assert not bench.truncation_checks.must_wait(bench.buffer, 2, 5)
    bench.buffer.add(Chunk(iter(()), 1, 20, epoch=3))
    bench.buffer.jump(0)
    assert not bench.truncation_checks.must_wait(bench.buffer, 2, 5)


def test_a_new_leader_is_asked_once_where_the_epoch_ends(bench: Bench) -> None:
    assert bench.truncation_checks.must_wait(bench.buffer, 2, 5)
    assert bench.truncation_checks.must_wait(bench.buffer, 2, 5)
    [(node, request, _)] = bench.requests
    [topic] = request.topics
    [asked] = topic.partitions
    assert (node, request.replica_id, topic.topic) == (2, -1, "a")
    assert (asked.partition, asked.current_leader_epoch, asked.leader_epoch) == (0, 5, 3)


@pytest.mark.parametrize(
    ("end", "told"), [(25, []), (20, []), (19, [("truncated", 19)]), (0, [("truncated", 0)]), (-1, ["out of range"])]
)
def test_what_the_answer_means(bench: Bench, end: int, told: list[Any]) -> None:
    bench.truncation_checks.must_wait(bench.buffer, 2, 5)
    bench.answer(end)
    assert bench.told == [*told, "settled"]
    assert not bench.truncation_checks.must_wait(bench.buffer, 2, 5)
    assert bench.truncation_checks.must_wait(bench.buffer, 3, 6)


def test_a_leader_that_is_none_is_looked_for(bench: Bench) -> None:
    bench.truncation_checks.must_wait(bench.buffer, 2, 5)
    bench.answer(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert bench.told == ["retry", "settled"]
    bench.truncation_checks.must_wait(bench.buffer, 2, 5)
    bench.requests[-1][2].errback(ConnectionLost("gone"))
    assert bench.told == ["retry", "settled"] * 2
    assert bench.truncation_checks.must_wait(bench.buffer, 3, 5)


def test_brokers_that_do_not_tell_are_trusted(bench: Bench) -> None:
    bench.truncation_checks.must_wait(bench.buffer, 2, 5)
    bench.requests[-1][2].errback(UnsupportedVersion("too old"))
    assert not bench.truncation_checks.must_wait(bench.buffer, 2, 5)
    bench.truncation_checks.must_wait(bench.buffer, 2, 6)
    bench.answer(-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert bench.told == ["settled"] * 2


def test_who_has_gone_elsewhere_meanwhile_does_not_care(bench: Bench) -> None:
    bench.truncation_checks.must_wait(bench.buffer, 2, 5)
    bench.buffer.begin(3)
    bench.answer(19)
    assert bench.told == ["settled"]


def test_closing(bench: Bench) -> None:
    bench.truncation_checks.must_wait(bench.buffer, 2, 5)
    bench.truncation_checks.close()
    assert bench.told == ["settled"]


@pytest.mark.parametrize(("policy", "goes_back"), [("earliest", True), ("latest", True), ("none", False)])
def test_who_wants_no_offsets_chosen_is_told_the_safe_one(bench: Bench, policy: str, goes_back: bool) -> None:
    told: list[Exception] = []
    nothing: Any = None
    positions = Positions(nothing, nothing, policy, False, 0.1, nothing, lambda buffer, error: told.append(error))
    assert positions.goes_back(bench.buffer, 20, 19) is goes_back
    if goes_back:
        assert told == []
        return
    [error] = told
    assert isinstance(error, Truncated)
    assert (error.topic, error.partition, error.offset, error.safe) == ("a", 0, 20, 19)
    assert "19" in str(error)
    assert bench.buffer.position == -1
