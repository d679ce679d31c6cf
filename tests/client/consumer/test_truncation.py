"""Truncation checks with a new leader: requests, and the meaning of answers. Without a broker."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

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


class Harness:
    """A feed that was read to offset 20, the last of it written by the leader of epoch 3; and its brokers."""

    def __init__(self) -> None:
        self.reported: list[Any] = []
        self.requests: list[tuple[int, Any, Deferred[Any]]] = []
        self.truncation_checks = TruncationChecks(
            self,  # type: ignore[arg-type]
            lambda buffer, end: self.reported.append(("truncated", end)),
            lambda buffer: self.reported.append("out of range"),
            lambda buffer: self.reported.append("retry"),
            lambda buffer: self.reported.append("settled"),
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
def harness() -> Harness:
    return Harness()


def test_the_same_leader_is_not_asked(harness: Harness) -> None:
    assert not harness.truncation_checks.must_wait(harness.buffer, 1, 4)
    assert not harness.truncation_checks.must_wait(harness.buffer, 1, -1)
    assert harness.requests == []


def test_an_unexpected_error_is_logged(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness.truncation_checks, "_settled", Mock(side_effect=ZeroDivisionError))
    with capturedLogs() as events:
        harness.truncation_checks.must_wait(harness.buffer, 2, 5)
        harness.answer(20)
    assert [event["log_format"] for event in events] == ["whether {topic}-{partition} was truncated is not known"]


def test_an_empty_buffer_needs_no_truncation_check(harness: Harness) -> None:
    harness.buffer.begin(15)
    assert not harness.truncation_checks.must_wait(harness.buffer, 2, 5)
    harness.buffer.add(Chunk(iter(()), 1, 20, epoch=3))
    harness.buffer.jump(0)
    assert not harness.truncation_checks.must_wait(harness.buffer, 2, 5)


def test_a_new_leader_is_asked_once_where_the_epoch_ends(harness: Harness) -> None:
    assert harness.truncation_checks.must_wait(harness.buffer, 2, 5)
    assert harness.truncation_checks.must_wait(harness.buffer, 2, 5)
    [(node, request, _)] = harness.requests
    [topic] = request.topics
    [asked] = topic.partitions
    assert (node, request.replica_id, topic.topic) == (2, -1, "a")
    assert (asked.partition, asked.current_leader_epoch, asked.leader_epoch) == (0, 5, 3)


@pytest.mark.parametrize(
    ("end", "reported"),
    [(25, []), (20, []), (19, [("truncated", 19)]), (0, [("truncated", 0)]), (-1, ["out of range"])],
)
def test_end_offsets_decide_about_truncation(harness: Harness, end: int, reported: list[Any]) -> None:
    harness.truncation_checks.must_wait(harness.buffer, 2, 5)
    harness.answer(end)
    assert harness.reported == [*reported, "settled"]
    assert not harness.truncation_checks.must_wait(harness.buffer, 2, 5)
    assert harness.truncation_checks.must_wait(harness.buffer, 3, 6)


def test_a_former_leader_is_looked_up_again(harness: Harness) -> None:
    harness.truncation_checks.must_wait(harness.buffer, 2, 5)
    harness.answer(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert harness.reported == ["retry", "settled"]
    harness.truncation_checks.must_wait(harness.buffer, 2, 5)
    harness.requests[-1][2].errback(ConnectionLost("gone"))
    assert harness.reported == ["retry", "settled"] * 2
    assert harness.truncation_checks.must_wait(harness.buffer, 3, 5)


def test_brokers_that_do_not_report_are_trusted(harness: Harness) -> None:
    harness.truncation_checks.must_wait(harness.buffer, 2, 5)
    harness.requests[-1][2].errback(UnsupportedVersion("too old"))
    assert not harness.truncation_checks.must_wait(harness.buffer, 2, 5)
    harness.truncation_checks.must_wait(harness.buffer, 2, 6)
    harness.answer(-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert harness.reported == ["settled"] * 2


def test_an_answer_after_a_seek_is_ignored(harness: Harness) -> None:
    harness.truncation_checks.must_wait(harness.buffer, 2, 5)
    harness.buffer.begin(3)
    harness.answer(19)
    assert harness.reported == ["settled"]


def test_closing(harness: Harness) -> None:
    harness.truncation_checks.must_wait(harness.buffer, 2, 5)
    harness.truncation_checks.close()
    assert harness.reported == ["settled"]


@pytest.mark.parametrize(("policy", "goes_back"), [("earliest", True), ("latest", True), ("none", False)])
def test_a_query_without_a_choice_of_offsets_names_the_safe_one(harness: Harness, policy: str, goes_back: bool) -> None:
    reported: list[Exception] = []
    nothing: Any = None
    positions = Positions(nothing, nothing, policy, False, 0.1, nothing, lambda buffer, error: reported.append(error))
    assert positions.goes_back(harness.buffer, 20, 19) is goes_back
    if goes_back:
        assert reported == []
        return
    [error] = reported
    assert isinstance(error, Truncated)
    assert (error.topic, error.partition, error.offset, error.safe) == ("a", 0, 20, 19)
    assert "19" in str(error)
    assert harness.buffer.position == -1
