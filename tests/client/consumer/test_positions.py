"""Positions of partitions whose offset is out of range. Without a broker."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from pylogbroker.client.consumer import positions as module
from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.client.consumer.positions import Positions
from pylogbroker.client.errors import TopicRecreated
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST
from tests.broker.log_lines import logged_lines

KEY = ("t", 0)


@pytest.mark.parametrize(
    ("answers", "position", "reported"),
    [
        ([7], 7, []),
        ([ErrorCode.LEADER_NOT_AVAILABLE, 7], 7, []),
        ([ErrorCode.TOPIC_AUTHORIZATION_FAILED], -1, [ErrorCode.TOPIC_AUTHORIZATION_FAILED]),
    ],
)
def test_an_offset_out_of_range_is_reset_unless_that_is_rejected_for_good(
    answers: list[int | ErrorCode], position: int, reported: list[ErrorCode], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def list_offsets(*_: Any) -> tuple[dict[Any, int], dict[Any, ErrorCode]]:
        answer = answers.pop(0) if answers else ErrorCode.LEADER_NOT_AVAILABLE
        return ({}, {KEY: answer}) if isinstance(answer, ErrorCode) else ({KEY: answer}, {})

    def report(_: FetchBuffer, error: Exception) -> None:
        assert isinstance(error, KafkaError)
        codes.append(error.code)

    codes: list[ErrorCode] = []
    clock, nothing, buffer = Clock(), object(), FetchBuffer(*KEY, 100)
    monkeypatch.setattr(module, "list_offsets", list_offsets)
    buffer.begin(99)
    reset: Any = Positions(nothing, clock, "earliest", False, 0.1, nothing, report)  # type: ignore[arg-type]
    done = ensureDeferred(reset.out_of_range(buffer))
    clock.advance(0.1)
    assert (done.called, buffer.position, codes) == (True, position, reported)


@pytest.mark.parametrize(("policy", "position"), [("earliest", 7), ("latest", 9), ("none", -1)])
def test_a_topic_that_was_created_again_is_read_by_the_policy(
    policy: str, position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def list_offsets(_: Any, wanted: dict[Any, int], *__: Any) -> tuple[dict[Any, int], dict[Any, ErrorCode]]:
        return {KEY: {EARLIEST: 7, LATEST: 9}[wanted[KEY]]}, {}

    monkeypatch.setattr(module, "list_offsets", list_offsets)
    errors: list[Exception] = []
    buffer, error = FetchBuffer(*KEY, 100), TopicRecreated("t", UUID(int=1), UUID(int=2))
    positions: Any = Positions(
        object(),
        Clock(),
        policy,
        False,
        0.1,
        object(),
        lambda _, found: errors.append(found),  # type: ignore[arg-type]
    )
    with logged_lines() as lines:
        ensureDeferred(positions.recreated(buffer, error))
    assert buffer.position == position
    assert errors == [error] * (policy == "none")
    assert [str(error) in line for line in lines] == [True] * (policy != "none")
