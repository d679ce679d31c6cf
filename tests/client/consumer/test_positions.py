"""Positions of partitions whose offset is out of range. Without a broker."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from pylogbroker.client.consumer import positions as module
from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.client.consumer.positions import Positions
from pylogbroker.errors import ErrorCode, KafkaError

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
