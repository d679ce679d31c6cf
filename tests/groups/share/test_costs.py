"""Costs of 2,000 records in flight, each of which has its own state: counts of calls, which no machine changes.

A call takes about 0.1 us. So 20 ms have 200,000 of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from pylogbroker.groups.share.partition import SharePartition, SharePartitionSettings, StateChange
from pylogbroker.groups.share.stored_state import StoredState
from pylogbroker.groups.share.values import Acknowledgement, LogBatch, RecordState, StateBatch

RECORDS = 2_000
CALLS_MAX = 60
CALLS_PER_RECORD_MAX = 30
T = TypeVar("T")


def calls_of(work: Callable[[], T]) -> tuple[int, T]:
    """Return how many functions are called, also those of C, and the result."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    former = sys.getprofile()
    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(former)
    return calls, result


@pytest.fixture
def partition() -> SharePartition:
    """Return a partition of which a member has acquired single records."""
    partition = SharePartition(SharePartitionSettings(), 0, 0)
    batches = [LogBatch(offset, offset) for offset in range(RECORDS)]
    assert len(partition.acquire("a", 0, batches, RECORDS, 0)) == RECORDS
    return partition


def accept(partition: SharePartition, first: int, last: int, *types: int) -> tuple[int, StateChange]:
    calls, change = calls_of(lambda: partition.acknowledge("a", [Acknowledgement(first, last, types or (1,))], 0))
    assert isinstance(change, StateChange)
    return calls, change


def test_fetch_that_is_woken_looks_at_few_records(partition: SharePartition) -> None:
    calls, _ = calls_of(lambda: (partition.can_acquire, partition.next_fetch_offset, partition.is_idle))
    assert calls < CALLS_MAX
    _, change = accept(partition, RECORDS - 1, RECORDS - 1, 2)  # released
    change.commit()
    calls_of(lambda: partition.next_fetch_offset)
    calls, offset = calls_of(lambda: partition.next_fetch_offset)
    assert (offset, calls < CALLS_MAX) == (RECORDS - 1, True)


@pytest.mark.parametrize("offset", [0, RECORDS // 2, RECORDS - 1])
def test_acknowledgement_of_a_record_looks_at_few_others(partition: SharePartition, offset: int) -> None:
    calls, change = accept(partition, offset, offset)
    committing, _ = calls_of(change.commit)
    assert calls + committing < 2 * CALLS_MAX


def test_acknowledgement_of_all_records_takes_a_few_calls_for_each(partition: SharePartition) -> None:
    calls, change = accept(partition, 0, RECORDS - 1, *[1 + number % 3 for number in range(RECORDS)])
    committing, _ = calls_of(change.commit)
    assert calls + committing < CALLS_PER_RECORD_MAX * RECORDS


def test_records_are_acquired_again_with_a_few_calls_for_each(partition: SharePartition) -> None:
    released, change = calls_of(lambda: partition.release("a"))
    change.commit()
    batches = [LogBatch(offset, offset) for offset in range(RECORDS)]
    calls, acquired = calls_of(lambda: partition.acquire("b", 0, batches, RECORDS, 0, batch_size=RECORDS))
    assert [(records.first, records.last) for records in acquired] == [(0, RECORDS - 1)]
    assert max(released, calls) < CALLS_PER_RECORD_MAX * RECORDS


def test_write_of_a_state_looks_at_few_others() -> None:
    alternating = (RecordState.ACKNOWLEDGED, RecordState.AVAILABLE)
    batches = tuple(StateBatch(offset, offset, alternating[offset % 2], 1) for offset in range(RECORDS))
    state = StoredState(start_offset=0, batches=batches)
    change = (StateBatch(999, 999, RecordState.ACKNOWLEDGED, 2),)
    calls, written = calls_of(lambda: state.written(0, 0, 0, change))
    assert written.batches == (*batches[:999], *change, *batches[1000:])
    assert calls < 2 * CALLS_MAX
