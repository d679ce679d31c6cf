"""Markers, time-outs, forgetting: what happens by itself."""

import attrs
import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import at_once
from pylogbroker.transactions import TransactionSettings, TransactionTimeout, record_schema
from pylogbroker.transactions.metadata import TransactionMetadata
from tests.transactions.harness import SETTINGS, T0, TIMEOUT, U0, Harness

E = ErrorCode
DAY = 86_400_000


class TestMarkers:
    @pytest.mark.parametrize("committed", [True, False])
    def test_every_partition_gets_a_marker(self, committed: bool) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.end(pair, committed)
        (marker,) = harness.log_port.markers
        assert (marker.producer_id, marker.producer_epoch) == pair
        assert (marker.committed, marker.partitions) == (committed, (T0, U0))

    def test_markers_carry_the_leader_epoch_of_the_partition(self) -> None:
        harness = Harness().restarted(coordinator_epoch=7)
        harness.in_state("CompleteCommit")
        assert [marker.coordinator_epoch for marker in harness.log_port.markers] == [7]

    @pytest.mark.parametrize(
        "error",
        [
            E.NOT_LEADER_OR_FOLLOWER,
            E.NOT_ENOUGH_REPLICAS,
            E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            E.REQUEST_TIMED_OUT,
            E.KAFKA_STORAGE_ERROR,
            E.COORDINATOR_LOAD_IN_PROGRESS,
            E.UNKNOWN_SERVER_ERROR,
        ],
    )
    def test_failed_markers_are_written_again(self, error: ErrorCode) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.log_port.marker_errors[U0] = error
        assert harness.end(pair) is E.NONE
        assert harness.state() == "PrepareCommit"
        assert harness.coordinator.describe("x").partitions == (U0,)
        harness.advance(30_000)
        assert harness.state() == "PrepareCommit"
        assert {marker.partitions for marker in harness.log_port.markers[1:]} == {(U0,)}
        harness.log_port.marker_errors.clear()
        harness.advance(10_000)
        assert harness.state() == "CompleteCommit"
        assert [partition for partition, _ in harness.log_port.written] == [T0, U0]

    def test_retries_of_markers_back_off(self) -> None:
        harness = Harness()
        harness.in_state("PrepareAbort")
        begun, times = harness.now, []
        while harness.now < begun + 60_000:
            due = harness.runtime.next_deadline()
            assert due is not None
            harness.advance(due - harness.now)
            times.append(harness.now - begun)
        gaps = [later - earlier for earlier, later in zip([0, *times], times, strict=False)]
        assert gaps == sorted(gaps)
        assert (gaps[0], gaps[-1]) == (100, 1_000)

    def test_the_backoff_restarts_with_the_next_transaction(self) -> None:
        harness = Harness()
        pair = harness.in_state("PrepareCommit")
        harness.advance(60_000)
        harness.log_port.marker_errors.clear()
        harness.advance(10_000)
        assert harness.state() == "CompleteCommit"
        harness.add(pair)
        harness.log_port.marker_errors[T0] = E.NOT_LEADER_OR_FOLLOWER
        harness.end(pair)
        harness.log_port.marker_errors.clear()
        harness.advance(100)
        assert harness.state() == "CompleteCommit"

    @pytest.mark.parametrize(
        "error",
        [
            E.UNKNOWN_TOPIC_OR_PARTITION,
            E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            E.UNSUPPORTED_VERSION,
            E.INVALID_PRODUCER_EPOCH,
        ],
    )
    def test_partitions_that_cannot_get_a_marker_are_dropped(self, error: ErrorCode) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.log_port.marker_errors[T0] = error
        harness.end(pair)
        assert harness.state() == "CompleteCommit"
        assert len(harness.log_port.markers) == 1

    def test_a_fenced_coordinator_stops_writing_markers(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.log_port.marker_errors[T0] = E.TRANSACTION_COORDINATOR_FENCED
        harness.end(pair)
        harness.advance(DAY)
        assert len(harness.log_port.markers) == 1
        assert harness.init().error is E.CONCURRENT_TRANSACTIONS

    def test_a_completion_that_cannot_be_stored_is_tried_again(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.log_port.hold()
        harness.ask_end(pair)
        harness.log_port.step()
        harness.log_port.error = E.KAFKA_STORAGE_ERROR
        harness.log_port.release()
        assert harness.state() == "PrepareCommit"
        harness.advance(10_000)
        assert harness.init().error is E.CONCURRENT_TRANSACTIONS
        assert harness.add(pair) is E.CONCURRENT_TRANSACTIONS
        assert harness.end(pair) is E.CONCURRENT_TRANSACTIONS
        harness.log_port.error = E.NONE
        harness.advance(10_000)
        assert harness.state() == "CompleteCommit"
        assert len(harness.log_port.markers) == 1


class TestATimeout:
    INTERVAL = SETTINGS.abort_interval_ms

    def test_a_timeout_aborts_and_fences(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.advance(TIMEOUT)
        assert harness.state() == "Ongoing"
        harness.advance(self.INTERVAL)
        assert harness.state() == "CompleteAbort"
        (marker,) = harness.log_port.markers
        assert (marker.producer_id, marker.producer_epoch, marker.committed) == (pair[0], pair[1] + 1, False)
        assert harness.end(pair) is E.PRODUCER_FENCED
        assert harness.init(pair=pair).error is E.PRODUCER_FENCED
        assert harness.pair() == (pair[0], pair[1] + 2)

    @pytest.mark.parametrize("committed", [True, False])
    def test_a_transaction_that_has_ended_is_not_touched(self, committed: bool) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.end(pair, committed)
        harness.advance(10 * TIMEOUT)
        assert harness.now_has() == pair
        assert len(harness.log_port.markers) == 1

    def test_each_transaction_has_its_own_timeout(self) -> None:
        harness = Harness()
        pair = harness.pair()
        for _ in range(5):
            harness.add(pair)
            harness.advance(TIMEOUT - 1)
            assert harness.end(pair) is E.NONE
        harness.add(pair)
        harness.advance(TIMEOUT - 1)
        assert harness.state() == "Ongoing"
        harness.advance(self.INTERVAL + 1)
        assert harness.state() == "CompleteAbort"

    def test_a_shorter_timeout_than_before_applies(self) -> None:
        harness = Harness()
        harness.in_state("CompleteCommit")
        result = harness.init(timeout_ms=1_000)
        harness.add((result.producer_id, result.producer_epoch))
        harness.advance(1_000 + self.INTERVAL)
        assert harness.state() == "CompleteAbort"

    def test_added_partitions_do_not_extend_the_timeout(self) -> None:
        harness = Harness()
        pair = harness.pair()
        for index in range(10):
            harness.add(pair, [("t", index)])
            harness.advance(TIMEOUT // 10)
        harness.advance(self.INTERVAL)
        assert harness.state() == "CompleteAbort"

    def test_a_timeout_is_logged_once_when_the_abort_is_decided(self) -> None:
        harness = Harness()
        producer_id, _ = harness.in_state("Ongoing")
        begun = harness.coordinator.describe("x").start_ms
        harness.log_port.hold()
        harness.advance(TIMEOUT + self.INTERVAL)
        assert harness.timed_out == []
        decided = harness.now
        harness.log_port.release()
        harness.advance(5 * TIMEOUT)
        assert harness.timed_out == [TransactionTimeout("x", producer_id, decided - begun, TIMEOUT, 2)]
        assert TIMEOUT < decided - begun <= TIMEOUT + self.INTERVAL

    def test_other_aborts_are_not_logged_as_timeouts(self) -> None:
        harness = Harness()
        harness.end(harness.in_state("Ongoing"), committed=False)
        harness.in_state("Ongoing")
        harness.init()  # aborts what is open
        harness.advance(5 * TIMEOUT)
        assert harness.timed_out == []

    def test_a_timeout_that_cannot_be_stored_is_repeated(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.log_port.error = E.NOT_ENOUGH_REPLICAS
        harness.advance(TIMEOUT + 5 * self.INTERVAL)
        assert (harness.state(), harness.now_has()) == ("Ongoing", pair)
        assert harness.timed_out == []
        harness.log_port.error = E.NONE
        harness.advance(self.INTERVAL)
        assert harness.state() == "CompleteAbort"
        assert len(harness.timed_out) == 1
        assert harness.now_has() == (pair[0], pair[1] + 1)

    def test_a_commit_that_is_being_stored_goes_first(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.log_port.hold()
        answer = harness.ask_end(pair)
        harness.advance(TIMEOUT + self.INTERVAL)
        harness.log_port.release()
        assert answer.value is E.NONE
        harness.advance(10 * TIMEOUT)
        assert [marker.committed for marker in harness.log_port.markers] == [True]

    def test_the_driver_is_woken(self) -> None:
        harness = Harness()
        harness.in_state("Ongoing")
        assert harness.now + TIMEOUT < min(harness.woken) <= harness.now + TIMEOUT + self.INTERVAL


class TestForgetting:
    def expire(self, harness: Harness) -> None:
        harness.advance(SETTINGS.expiration_ms + SETTINGS.expiration_interval_ms)

    @pytest.mark.parametrize("label", ["Empty", "CompleteCommit", "CompleteAbort"])
    def test_unused_ids_expire(self, label: str) -> None:
        harness = Harness()
        pair = harness.in_state(label)
        harness.advance(SETTINGS.expiration_ms - 1)
        assert harness.state() == label
        harness.advance(SETTINGS.expiration_interval_ms)
        assert harness.coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND
        last = harness.log()[-1]
        assert (last.key, last.value) == (record_schema.encode_key("x"), None)
        assert harness.restarted().coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND
        assert harness.add(pair) is E.INVALID_PRODUCER_ID_MAPPING
        assert harness.pair()[0] != pair[0]

    @pytest.mark.parametrize("label", ["PrepareCommit", "PrepareAbort"])
    def test_ids_with_an_open_transaction_do_not_expire(self, label: str) -> None:
        harness = Harness(TransactionSettings(partitions=3, expiration_ms=10_000, expiration_interval_ms=100))
        harness.in_state(label)
        harness.advance(20_000)
        assert harness.state() == label

    def test_a_long_transaction_does_not_expire(self) -> None:
        harness = Harness(TransactionSettings(partitions=3, expiration_ms=1_000, expiration_interval_ms=10))
        harness.in_state("Ongoing")
        harness.advance(5_000)
        assert harness.state() == "Ongoing"

    def test_a_transaction_begun_during_the_expiry_is_kept(self) -> None:
        harness = Harness()
        pair = harness.pair()
        harness.log_port.hold()
        answer = harness.ask_add(pair)
        self.expire(harness)
        harness.log_port.release()
        assert answer.value is E.NONE
        assert harness.log()[-1].value is not None

    def test_used_ids_do_not_expire(self) -> None:
        harness = Harness()
        for _ in range(10):
            harness.pair()
            harness.advance(SETTINGS.expiration_ms // 2)
        assert harness.now_has() == (1000, 9)

    def test_an_expiry_that_cannot_be_stored_is_repeated(self) -> None:
        harness = Harness()
        harness.pair()
        harness.log_port.error = E.NOT_ENOUGH_REPLICAS
        self.expire(harness)
        harness.log_port.error = E.NONE
        assert harness.pair() == (1000, 1)
        self.expire(harness)
        assert harness.coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND

    def test_requests_during_an_expiry_are_concurrent_transactions(self) -> None:
        harness = Harness()
        pair = harness.pair()
        harness.log_port.hold()
        self.expire(harness)
        assert harness.init().error is E.CONCURRENT_TRANSACTIONS
        assert harness.add(pair) is E.CONCURRENT_TRANSACTIONS
        harness.log_port.release()
        assert harness.coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND

    def test_very_many_ids_expire_in_several_appends(self) -> None:
        harness = Harness()
        for number in range(40):
            harness.pair(f"{number:040}" * 500)
        self.expire(harness)
        assert at_once(harness.coordinator.list()).transactions == ()
        sizes = [len(batch) for batches in harness.log_port.batches.values() for batch in batches]
        assert max(sizes) < 400_000
        assert len(sizes) < 40 + 10

    def test_very_many_ids_are_searched_in_steps(self) -> None:
        harness = Harness(attrs.evolve(SETTINGS, partitions=1), loaded=False)
        replay = harness.begin_load(0)
        unused = TransactionMetadata(1, updated_ms=harness.now)
        replay.state.metadata.update({f"x{number}": unused for number in range(4500)})
        harness.activate(replay)
        left, count = [], 4500
        while count:
            due = harness.runtime.next_deadline()
            assert due is not None
            harness.advance(max(due - harness.now, 0))
            count = sum(len(shard.transactions) for shard in harness.runtime.shards())
            left.append(count)
        assert not at_once(harness.coordinator.list()).transactions
        assert sorted({*left}, reverse=True) == [4500, 2500, 500, 0]
