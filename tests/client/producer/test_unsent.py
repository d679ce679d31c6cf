"""A producer that is closed before all was sent says how many records that concerns, and why."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from pylogbroker.client.errors import Closed
from pylogbroker.client.producer import NotAllSent
from pylogbroker.errors import ErrorCode
from tests.client.producer.fake_cluster import Make, failure, result_of, run_due


def test_close_reports_records_not_acknowledged_in_time(
    make: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer, cluster = make()
    closed: list[int] = []

    async def close() -> None:
        closed.append(1)
        cluster.lose()

    monkeypatch.setattr(cluster, "close", close)
    sent = [producer.send("t", b"%d" % number, partition=0) for number in range(3)]
    run_due(clock)
    cluster.trouble = "the dog ate it"
    end = producer.close(timeout=3)
    assert isinstance(failure(producer.send("t", b"late", partition=0)), Closed)  # which is reported already
    run_due(clock, 3)
    error = failure(end)
    assert isinstance(error, NotAllSent)
    assert error.count == 3
    assert "3 (not done within 3 s; the dog ate it)" in str(error)
    assert [type(failure(each)) for each in sent] == [Closed] * 3
    assert closed == [1]  # it is closed all the same
    result_of(producer.close())


def test_close_reports_records_that_are_rejected(make: Make, clock: Clock) -> None:
    producer, cluster = make()
    early = producer.send("t", b"early", partition=0)
    run_due(clock)
    cluster.acknowledge(code=ErrorCode.INVALID_RECORD)
    assert failure(early) is not None  # long before the end
    sent = [producer.send("t", b"value", partition=0), producer.send("t", b"value", partition=1)]
    end = producer.close()
    run_due(clock)
    cluster.acknowledge(code=ErrorCode.INVALID_RECORD)
    run_due(clock)
    error = failure(end)
    assert isinstance(error, NotAllSent)
    assert error.count == 2
    assert {str(failure(each)) in str(error) for each in sent} == {True}


@pytest.mark.parametrize("timeout", [None, 3])
def test_close_succeeds_when_all_records_are_sent(make: Make, clock: Clock, timeout: float | None) -> None:
    producer, cluster = make()
    sent = producer.send("t", b"value", partition=0)
    end: Deferred[None] = producer.close(timeout)
    run_due(clock)
    cluster.acknowledge(1)
    run_due(clock)
    assert result_of(end) is None
    assert result_of(sent).offset == 1
