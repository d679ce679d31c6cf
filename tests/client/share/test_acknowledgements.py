"""Acknowledgements of one partition's records, as they are sent."""

from __future__ import annotations

from pylogbroker.client.share.acknowledgements import AcknowledgeType, AcquiredPartition
from pylogbroker.wire.messages.share_fetch import AcknowledgementBatch

ACCEPT, RELEASE, REJECT, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)


def given(*offsets: int) -> AcquiredPartition:
    partition = AcquiredPartition()
    for offset in offsets:
        partition.give(offset)
    return partition


def test_runs_of_offsets_are_batches() -> None:
    partition = given(1, 2, 3, 5, 6, 9)
    partition.accept_given()
    partition.acknowledge(6, REJECT)
    assert partition.is_ready
    assert partition.take() == [
        AcknowledgementBatch(1, 3, [1]),
        AcknowledgementBatch(5, 6, [1, 3]),
        AcknowledgementBatch(9, 9, [1]),
    ]
    assert not partition.is_ready
    assert partition.take() == []


def test_ranges_without_records_are_in_order() -> None:
    partition = given(5)
    partition.acknowledge(5, ACCEPT)
    partition.acknowledge_range(8, 2**40, AcknowledgeType.GAP)
    partition.acknowledge_range(1, 4, RELEASE)
    assert partition.take() == [
        AcknowledgementBatch(1, 4, [2]),
        AcknowledgementBatch(5, 5, [1]),
        AcknowledgementBatch(8, 2**40, [0]),
    ]


def test_only_records_of_this_member_are_acknowledged() -> None:
    partition = given(1)
    assert not partition.acknowledge(2, ACCEPT)
    assert partition.acknowledge(1, REJECT)
    assert partition.acknowledge(1, ACCEPT)  # the last word before it is sent
    assert partition.take() == [AcknowledgementBatch(1, 1, [1])]
    assert not partition.acknowledge(1, ACCEPT)


def test_a_renewed_record_is_acknowledged_later() -> None:
    partition = given(1, 2)
    partition.acknowledge(1, RENEW)
    assert partition.renews
    partition.accept_given()
    assert partition.take() == [AcknowledgementBatch(1, 2, [4, 1])]
    assert not partition.renews
    partition.accept_given()  # the next poll does not accept it
    assert partition.take() == []
    assert partition.given == frozenset()
    assert partition.acknowledge(1, RENEW)
    assert partition.take() == [AcknowledgementBatch(1, 1, [4])]
    assert partition.acknowledge(1, ACCEPT)
    assert partition.take() == [AcknowledgementBatch(1, 1, [1])]
    assert not partition.acknowledge(1, ACCEPT)
