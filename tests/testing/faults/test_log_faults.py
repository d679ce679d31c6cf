"""Faults of logs and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer

from pylogbroker.errors import ErrorCode, KafkaError, OffsetOutOfRange
from pylogbroker.storage.compaction.process import CleanerProcess
from pylogbroker.testing import Broker
from pylogbroker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.waiting import wait_until
from tests.testing.faults.raw import RawClient

TIMEOUT = 120


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker of the test's own."""
    with Broker(broker_id=0) as broker:
        yield broker


@pytest.fixture
def raw(broker: Broker) -> Iterator[RawClient]:
    """A connection that sends requests by hand."""
    with RawClient(broker.bootstrap) as client:
        client.create_topic("t")
        yield client


def poll_until(consumer: Consumer, condition: Callable[[], bool]) -> None:
    """Poll until the condition holds."""
    wait_until(condition, TIMEOUT, meanwhile=lambda: consumer.poll(0.05))


def test_records_are_gone(broker: Broker, raw: RawClient) -> None:
    for _ in range(3):
        raw.produce("t")
    broker.faults.logs.delete_records("t", before=2)
    assert raw.fetch("t", 1).responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert raw.fetch("t", 2).responses[0].partitions[0].log_start_offset == 2
    with pytest.raises(OffsetOutOfRange):
        broker.faults.logs.delete_records("t", before=4)
    with pytest.raises(ValueError, match="there is no topic 'tt': did you mean 't'"):
        broker.faults.logs.delete_records("tt", before=1)


def test_an_unclean_election(broker: Broker, raw: RawClient) -> None:
    for _ in range(5):
        raw.produce("t")
    broker.faults.logs.truncate("t", to=3)
    assert raw.end_offset("t") == 3
    assert raw.produce("t").base_offset == 3
    partitions = [OffsetForLeaderPartition(0, 1, 0)]
    answer = raw.ask(OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("t", partitions)]), 3)
    found = answer.topics[0].partitions[0]
    assert (found.leader_epoch, found.end_offset) == (0, 3)


def test_retention_at_once() -> None:
    with Broker(log_retention_check_interval_ms=10_000_000) as broker, RawClient(broker.bootstrap) as client:
        broker.create_topic("old", retention_ms=1)
        client.produce("old")
        broker.clock.advance("1h")
        broker.faults.logs.retain()
        assert client.fetch("old", 0).responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_compaction_at_once(broker: Broker) -> None:
    broker.create_topic("compacted", cleanup_policy="compact")
    for value in ("1", "2", "3"):
        broker.produce("compacted", value, key=b"key")
    assert broker.faults.broker.log_cleaner.new_cleaner is CleanerProcess
    broker.faults.logs.compact("compacted")
    assert [each.value for each in broker.records("compacted")] == [b"3"]


def test_a_full_disk(broker: Broker, raw: RawClient) -> None:
    fault = broker.faults.logs.fail_appends("t", times=2, must_fire=True)
    assert [raw.produce("t").error_code for _ in range(3)] == [56, 56, 0]
    assert fault.hits == 2
    with pytest.raises(ValueError, match="there is no error of disks 'ENOSPACE': did you mean 'ENOSPC'"):
        broker.faults.logs.fail_appends("t", error="ENOSPACE")


def test_a_failed_disk(broker: Broker, raw: RawClient) -> None:
    raw.create_topic("u")
    broker.faults.logs.fail_appends("t", error="EIO")
    assert [raw.produce("t").error_code for _ in range(2)] == [56, 56]
    assert raw.produce("u").error_code == 56  # the directory is offline
    broker.restart()
    with RawClient(broker.bootstrap) as client:
        assert [client.produce(topic).error_code for topic in ("t", "u")] == [0, 0]


def test_a_group_rebalances_and_its_members_are_fenced(broker: Broker, raw: RawClient) -> None:
    groups = broker.faults.groups
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "heartbeat.interval.ms": 100}
    consumer = Consumer({**settings, "session.timeout.ms": 60_000})
    assigned: list[int] = []
    lost: list[int] = []
    consumer.subscribe(
        ["t"], on_assign=lambda _, found: assigned.append(len(found)), on_lost=lambda _, found: lost.append(len(found))
    )
    poll_until(consumer, lambda: len(assigned) == 1)
    (member,) = groups.members("g")
    groups.rebalance("g")
    poll_until(consumer, lambda: len(assigned) == 2)
    assert (lost, groups.members("g")) == ([], [member])
    groups.fence("g")
    poll_until(consumer, lambda: len(assigned) == 3)
    assert lost == [1]
    assert groups.members("g") != [member]
    consumer.close()
    with pytest.raises(KafkaError, match="group h: GROUP_ID_NOT_FOUND"):
        groups.rebalance("h")
