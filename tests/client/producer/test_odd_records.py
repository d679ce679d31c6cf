"""Records that cannot be sent as they are given: they fail alone, whether their topic is known or not."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from pylogbroker.client.producer import Producer
from pylogbroker.client.producer.accumulator import Accumulator
from pylogbroker.errors import InvalidRecords
from tests.client.producer.fake_cluster import FakeCluster, Make, failure, result_of, run_due


def sends_still(producer: Producer, cluster: FakeCluster, clock: Clock) -> None:
    sent = producer.send("t", b"good", partition=0)
    run_due(clock)
    cluster.acknowledge(5)
    run_due(clock)
    assert result_of(sent).offset == 5
    assert producer.counts.queued == producer.counts.queued_bytes == 0


@pytest.mark.parametrize("callback_handlers", [(), ("logging",)], ids=["plainly", "as events"])
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("partition", ["0", 0.0, b"0", [0]])
def test_an_invalid_partition_fails_alone(
    make: Make, clock: Clock, partition: Any, is_known: bool, callback_handlers: tuple[str, ...]
) -> None:
    producer, cluster = make(callback_handlers=callback_handlers)
    if is_known:
        sends_still(producer, cluster, clock)
    sent = producer.send("t", b"odd", partition=partition)
    run_due(clock)
    error = failure(sent)
    assert isinstance(error, InvalidRecords)
    assert f"partition: {partition!r}" in str(error)
    sends_still(producer, cluster, clock)
    assert producer.counts.failed == 1


def test_every_send_completes_when_its_topic_is_found(
    make: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer, cluster = make()
    append = Accumulator.append

    def fail_for_one(self: Accumulator, queue: Any, key: Any, value: Any, *rest: Any) -> Any:
        if value == b"odd":
            raise ZeroDivisionError("odd")
        return append(self, queue, key, value, *rest)

    finding: Deferred[None] = Deferred()
    monkeypatch.setattr(Accumulator, "append", fail_for_one)
    monkeypatch.setattr(cluster, "find_topic", lambda topic: _until(finding))
    odd, even = producer.send("t", b"odd", partition=0), producer.send("t", b"even", partition=0)
    run_due(clock)
    assert not odd.called
    finding.callback(None)
    run_due(clock)
    assert isinstance(failure(odd), ZeroDivisionError)
    cluster.acknowledge(3)
    assert result_of(even).offset == 3
    sends_still(producer, cluster, clock)


async def _until(finding: Deferred[None]) -> None:
    await finding


def test_nobody_is_left_waiting_for_a_topic_that_cannot_be_taken_over(make: Make, clock: Clock) -> None:
    producer, cluster = make()
    partitions_of, cluster.partitions_of = cluster.partitions_of, lambda topic: 1 // 0  # type: ignore[method-assign]
    sent = producer.send("t", b"value", partition=0)
    run_due(clock)
    assert isinstance(failure(sent), ZeroDivisionError)
    cluster.partitions_of = partitions_of  # type: ignore[method-assign]
    sends_still(producer, cluster, clock)
