"""Partitions that several leaders add to a transaction at the same time, and those of producers that come too late."""

from __future__ import annotations

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.transactions import record_schema
from tests.transactions.harness import T0, T1, U0, Harness, harness_with_epoch

NONE, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
LAST_EPOCH = 32_766


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.log_port.transaction_version = 2
    return harness


def states_of(harness: Harness) -> list[list[tuple[str, int]]]:
    """Return the partitions in each stored state that has some."""
    decoded = [record_schema.decode_value(record.value) for record in harness.log() if record.value is not None]
    return [sorted(metadata.partitions) for metadata in decoded if metadata.partitions]


def test_partitions_that_come_meanwhile_are_stored_together(harness: Harness) -> None:
    pair = harness.pair()
    harness.log_port.hold()
    answers = [harness.ask_add(pair, [key], client_version=2) for key in (T0, T1, U0, T0)]
    assert all(answer.waits for answer in answers)
    harness.log_port.release()
    assert [answer.value for answer in answers] == [NONE] * 4
    assert states_of(harness) == [[T0], [T0, T1, U0]]


def test_partitions_that_are_in_the_transaction_wait_for_nothing(harness: Harness) -> None:
    pair = harness.pair()
    harness.add(pair, [T0])
    harness.log_port.hold()
    harness.ask_add(pair, [T1])
    assert harness.ask_add(pair, [T0]).value is NONE


def test_a_record_that_cannot_be_stored_fails_all(harness: Harness) -> None:
    pair = harness.pair()
    harness.log_port.hold()
    answers = [harness.ask_add(pair, [key]) for key in (T0, T1)]
    harness.log_port.error = ErrorCode.NOT_ENOUGH_REPLICAS
    harness.log_port.release()
    assert [answer.value for answer in answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert harness.state() == "Empty"


def test_a_shard_that_leaves_answers_all(harness: Harness) -> None:
    pair = harness.pair()
    harness.log_port.hold()
    answers = [harness.ask_add(pair, [key]) for key in (T0, T1)]
    harness.runtime.unload(harness.coordinator.partition_for("x"), harness.now)
    harness.log_port.release()
    assert [answer.value for answer in answers] == [ErrorCode.NOT_COORDINATOR] * 2


def test_an_end_waits_for_partitions_that_are_stored(harness: Harness) -> None:
    pair = harness.pair()
    harness.log_port.hold()
    harness.ask_add(pair, [T0], client_version=2)
    assert harness.ask_end_for_next(pair).value.error is CONCURRENT


@pytest.mark.parametrize(("client_version", "error"), [(2, "TRANSACTION_ABORTABLE"), (0, "PRODUCER_FENCED")])
def test_a_partition_that_comes_after_the_timeout(harness: Harness, client_version: int, error: str) -> None:
    pair = harness.pair()
    harness.add(pair)
    harness.advance(100_000)
    assert harness.ask_add(pair, [T1], client_version=client_version).value.name == error
    assert harness.ask_add((pair[0], pair[1] + 5), [T1], client_version=2).value is ErrorCode.PRODUCER_FENCED
    assert harness.end_for_next(pair, committed=False) == (pair[0], pair[1] + 1)


def test_a_partition_of_a_committed_transaction_is_fenced(harness: Harness) -> None:
    pair = harness.pair()
    harness.add(pair)
    harness.end_for_next(pair)
    assert harness.ask_add(pair, [T1], client_version=2).value is ErrorCode.PRODUCER_FENCED


def test_the_next_producer_id_waits_for_the_markers_of_the_last_one() -> None:
    harness = harness_with_epoch(LAST_EPOCH)
    harness.log_port.transaction_version = 2
    harness.add((7, LAST_EPOCH))
    harness.log_port.marker_errors = {T0: ErrorCode.NOT_ENOUGH_REPLICAS}
    following = harness.end_for_next((7, LAST_EPOCH))
    assert isinstance(following, tuple)
    assert harness.ask_add(following, client_version=2).value is CONCURRENT
    assert harness.end_for_next(following, committed=False) is CONCURRENT
    assert harness.ask_add((following[0], 1), client_version=2).value is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    harness.log_port.marker_errors = {}
    harness.advance(1_000)
    assert harness.ask_add(following, client_version=2).value is NONE


def test_an_old_end_has_markers_that_partitions_take(harness: Harness) -> None:
    """The epoch is the same as that of the records, which a strict check of the marker would reject."""
    pair = harness.pair()
    harness.ask_add(pair, client_version=2)
    harness.end(pair)
    [marker] = harness.log_port.markers
    assert (marker.producer_epoch, marker.transaction_version) == (pair[1], 0)


def test_markers_of_an_abort_by_timeout_are_strict(harness: Harness) -> None:
    pair = harness.pair()
    harness.ask_add(pair, client_version=2)
    harness.advance(100_000)
    [marker] = harness.log_port.markers
    assert (marker.producer_epoch, marker.transaction_version) == (pair[1] + 1, 2)
