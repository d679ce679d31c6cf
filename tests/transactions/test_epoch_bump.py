"""EndTxn 5: each transaction has an epoch of its own; late requests of one do not reach the next (KIP-890)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.records import build
from pylogbroker.transactions import record_schema
from tests.transactions.harness import T0, U0, Harness, harness_with_epoch

LAST_EPOCH = 32_766
Pair = tuple[int, int]


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.log_port.transaction_version = 2
    return harness


def next_of(pair: Pair) -> Pair:
    return pair[0], pair[1] + 1


def begun(harness: Harness, pair: Pair) -> Pair:
    assert harness.add(pair, (T0, U0)) is ErrorCode.NONE
    return pair


def unmarked(harness: Harness) -> None:
    """Let no partition get its marker."""
    harness.log_port.marker_errors = dict.fromkeys((T0, U0), ErrorCode.NOT_ENOUGH_REPLICAS)


@pytest.mark.parametrize("committed", [True, False])
def test_end_returns_the_next_epoch(harness: Harness, committed: bool) -> None:
    pair = begun(harness, harness.pair())
    assert harness.end_for_next(pair, committed) == next_of(pair)
    assert harness.state() == ("CompleteCommit" if committed else "CompleteAbort")
    assert harness.now_has() == next_of(pair)
    begun(harness, next_of(pair))


def test_markers_have_the_raised_epoch(harness: Harness) -> None:
    pair = begun(harness, harness.pair())
    harness.end_for_next(pair)
    [marker] = harness.log_port.markers
    assert (marker.producer_id, marker.producer_epoch, marker.committed) == (*next_of(pair), True)
    assert marker.partitions == (T0, U0)
    assert marker.transaction_version == 2


@pytest.mark.parametrize("committed", [True, False])
def test_retry_gets_the_same_answer(harness: Harness, committed: bool) -> None:
    pair = begun(harness, harness.pair())
    harness.end_for_next(pair, committed)
    assert harness.end_for_next(pair, committed) == next_of(pair)
    assert harness.restarted().end_for_next(pair, committed) == next_of(pair)
    assert len(harness.log_port.markers) == 1


def test_retry_while_markers_are_written_waits(harness: Harness) -> None:
    pair = begun(harness, harness.pair())
    unmarked(harness)
    assert harness.end_for_next(pair) == next_of(pair)
    assert harness.state() == "PrepareCommit"
    assert harness.end_for_next(pair) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert harness.end_for_next(pair, committed=False) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("committed", [True, False])
def test_late_end_does_not_reach_the_next_transaction(harness: Harness, committed: bool) -> None:
    first = begun(harness, harness.pair())
    second = begun(harness, next_of(first)) if harness.end_for_next(first) == next_of(first) else first
    assert harness.end_for_next(first, committed) is ErrorCode.PRODUCER_FENCED
    assert harness.state() == "Ongoing"
    assert harness.end_for_next(second) == next_of(second)
    assert harness.end_for_next(first, committed) is ErrorCode.PRODUCER_FENCED


def test_late_partition_does_not_reach_the_next_transaction(harness: Harness) -> None:
    first = begun(harness, harness.pair())
    harness.end_for_next(first)
    assert harness.add(first) is ErrorCode.PRODUCER_FENCED
    begun(harness, next_of(first))
    assert harness.add(first) is ErrorCode.PRODUCER_FENCED


def test_opposite_retry_of_a_commit_is_invalid(harness: Harness) -> None:
    pair = begun(harness, harness.pair())
    harness.end_for_next(pair)
    assert harness.end_for_next(pair, committed=False) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("label", ["Empty", "CompleteCommit", "CompleteAbort"])
def test_transaction_without_partitions_can_be_aborted_only(harness: Harness, label: str) -> None:
    pair = harness.pair()
    if label != "Empty":
        harness.end_for_next(begun(harness, pair), label == "CompleteCommit")
        pair = next_of(pair)
    assert harness.end_for_next(pair) is ErrorCode.INVALID_TXN_STATE
    before = len(harness.log_port.markers)
    assert harness.end_for_next(pair, committed=False) == next_of(pair)
    assert len(harness.log_port.markers) == before
    assert harness.state() == "CompleteAbort"


def test_commit_after_a_timeout_can_go_on(harness: Harness) -> None:
    pair = begun(harness, harness.pair())
    harness.advance(100_000)
    assert harness.state() == "CompleteAbort"
    assert harness.end_for_next(pair) is ErrorCode.TRANSACTION_ABORTABLE
    after = harness.end_for_next(pair, committed=False)
    assert after == next_of(pair)
    begun(harness, next_of(pair))


def test_producer_is_fenced_by_another_one(harness: Harness) -> None:
    pair = begun(harness, harness.pair())
    assert harness.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    other = harness.pair()
    assert other == (pair[0], pair[1] + 2)
    for committed in (True, False):
        assert harness.end_for_next(pair, committed) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("committed", [True, False])
def test_last_epoch_leads_to_a_new_id(committed: bool) -> None:
    harness = harness_with_epoch(LAST_EPOCH)
    harness.log_port.transaction_version = 2
    begun(harness, (7, LAST_EPOCH))
    unmarked(harness)
    following = harness.end_for_next((7, LAST_EPOCH), committed)
    assert isinstance(following, tuple)
    assert following[0] >= 1_000
    assert following[1] == 0
    marker = harness.log_port.markers[0]
    assert (marker.producer_id, marker.producer_epoch) == (7, LAST_EPOCH + 1)
    harness.log_port.marker_errors = {}
    harness = harness.restarted()
    assert harness.now_has() == following
    assert harness.end_for_next((7, LAST_EPOCH), committed) == following
    begun(harness, following)
    assert harness.end_for_next((7, LAST_EPOCH), committed) is ErrorCode.PRODUCER_FENCED


def test_timeout_in_the_last_epoch_leads_to_a_new_id() -> None:
    harness = harness_with_epoch(LAST_EPOCH)
    harness.log_port.transaction_version = 2
    begun(harness, (7, LAST_EPOCH))
    harness.advance(100_000)
    assert harness.now_has() == (7, LAST_EPOCH + 1)
    following = harness.end_for_next((7, LAST_EPOCH), committed=False)
    assert isinstance(following, tuple)
    assert following[1] == 0
    assert harness.now_has() == following
    assert harness.end_for_next((7, LAST_EPOCH), committed=False) == following


def test_missing_new_id_leaves_the_transaction_open() -> None:
    harness = harness_with_epoch(LAST_EPOCH)
    begun(harness, (7, LAST_EPOCH))
    harness.log_port.id_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.end_for_next((7, LAST_EPOCH)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.state() == "Ongoing"
    harness.log_port.id_error = ErrorCode.NONE
    assert isinstance(harness.end_for_next((7, LAST_EPOCH)), tuple)


def test_decision_that_is_not_stored_changes_nothing(harness: Harness) -> None:
    pair = begun(harness, harness.pair())
    harness.log_port.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert harness.end_for_next(pair) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.log_port.error = ErrorCode.NONE
    assert harness.now_has() == pair
    assert harness.end_for_next(pair) == next_of(pair)


@pytest.mark.parametrize(
    ("name", "pair", "error"),
    [
        ("unknown", (7, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("", (7, 0), ErrorCode.INVALID_REQUEST),
        ("x", (5, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("x", (1_000, 9), ErrorCode.PRODUCER_FENCED),
        ("x", (1_000, -1), ErrorCode.PRODUCER_FENCED),
    ],
)
def test_strange_producers_are_rejected(harness: Harness, name: str, pair: Pair, error: ErrorCode) -> None:
    begun(harness, harness.pair())
    assert harness.end_for_next(pair, name=name) is error
    assert harness.state() == "Ongoing"


def test_old_and_new_ends_may_alternate(harness: Harness) -> None:
    pair = begun(harness, harness.pair())
    assert harness.end(pair) is ErrorCode.NONE
    begun(harness, pair)
    assert harness.end_for_next(pair) == next_of(pair)
    assert harness.end(begun(harness, next_of(pair))) is ErrorCode.NONE
    assert harness.now_has() == next_of(pair)


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 1), (2, 1)])
def test_version_of_records_follows_the_level(harness: Harness, level: int, version: int) -> None:
    harness.log_port.transaction_version = level
    harness.end_for_next(begun(harness, harness.pair()))
    values = [record.value for record in harness.log() if record.value is not None]
    assert {bytes(value[:2]) for value in values} == {version.to_bytes(2, "big")}
    last = record_schema.decode_value(values[-1])
    assert last.client_version == (2 if version else 0)
    assert harness.restarted().now_has() == harness.now_has()


def after_power_failures(harness: Harness, name: str = "x") -> Iterator[Harness]:
    """Coordinators that have loaded what was synced, and more and more of what was not."""
    port, partition = harness.log_port, harness.coordinator.partition_for(name)
    records = port.records[partition]
    for kept in range(port.synced[partition], len(records) + 1):
        port.records[partition] = records[:kept]
        port.batches[partition] = [build(records[:kept])]
        yield harness.restarted(2)


def newer(harness: Harness, pair: Pair) -> Pair:
    """Return what the next producer is given, which must not be what another one has."""
    harness.init()  # aborts an open transaction
    after = harness.pair()
    assert after[0] != pair[0] or after[1] > pair[1]
    return after


@pytest.mark.parametrize("ends", [1, 2, 50, 100, 101, 102, 250])
def test_no_epoch_is_assigned_twice_after_a_power_failure(harness: Harness, ends: int) -> None:
    pair = harness.pair()
    for _ in range(ends):
        pair = next_after(harness, pair)
    for other in after_power_failures(harness):
        after = newer(other, pair)
        newer(other.restarted(3), next_after(other, after))


def next_after(harness: Harness, pair: Pair) -> Pair:
    """Run a transaction v2; return the pair of the next one."""
    assert harness.ask_add(pair, (T0, U0), client_version=2).value is ErrorCode.NONE
    following = harness.end_for_next(pair)
    assert isinstance(following, tuple)
    return following


def test_most_ends_are_not_synced(harness: Harness) -> None:
    pair = harness.pair()
    synced = set()
    for _ in range(301):
        pair = next_after(harness, pair)
        synced.add(harness.log_port.synced[harness.coordinator.partition_for("x")])
    assert len(synced) == 3


@pytest.mark.parametrize("level", [0, 2])
def test_old_ends_between_new_ones_cost_no_epoch(harness: Harness, level: int) -> None:
    """Their records do not say that the producer uses transactions v2."""
    harness.log_port.transaction_version = level
    pair = harness.pair()
    for _ in range(3):
        pair = next_after(harness, pair)
        assert harness.end(begun(harness, pair)) is ErrorCode.NONE
        pair = next_after(harness, pair)
        following = harness.end_for_next(begun(harness, pair))
        assert isinstance(following, tuple)
        pair = following
    for other in after_power_failures(harness):
        newer(other, pair)


def test_a_new_id_follows_if_the_epochs_that_are_left_out_are_the_last() -> None:
    harness = harness_with_epoch(LAST_EPOCH - 50)
    harness.log_port.transaction_version = 2
    assert next_after(harness, (7, LAST_EPOCH - 50)) == (7, LAST_EPOCH - 49)
    after = harness.restarted(2).pair()
    assert (after[0] != 7, after[1]) == (True, 0)
