"""Markers, time-outs, forgetting: what happens by itself."""

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.transactions import TimedOut, TransactionSettings, layout
from tests.transactions.rooms import SETTINGS, T0, TIMEOUT, U0, Table

E = ErrorCode
DAY = 86_400_000


class TestMarkers:
    @pytest.mark.parametrize("committed", [True, False])
    def test_every_partition_gets_one(self, committed: bool) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        table.end(pair, committed)
        (marker,) = table.store.markers
        assert (marker.producer_id, marker.producer_epoch) == pair
        assert (marker.committed, marker.partitions) == (committed, (T0, U0))

    def test_they_tell_the_partitions_leader_epoch(self) -> None:
        table = Table().restarted(coordinator_epoch=7)
        table.in_state("CompleteCommit")
        assert [marker.coordinator_epoch for marker in table.store.markers] == [7]

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
    def test_the_ones_that_failed_are_written_again(self, error: ErrorCode) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        table.store.marker_errors[U0] = error
        assert table.end(pair) is E.NONE
        assert table.state() == "PrepareCommit"
        assert table.coordinator.describe("x").partitions == (U0,)
        table.advance(30_000)
        assert table.state() == "PrepareCommit"
        assert {marker.partitions for marker in table.store.markers[1:]} == {(U0,)}
        table.store.marker_errors.clear()
        table.advance(10_000)
        assert table.state() == "CompleteCommit"
        assert [partition for partition, _ in table.store.written] == [T0, U0]

    def test_ever_more_rarely(self) -> None:
        table = Table()
        table.in_state("PrepareAbort")
        begun, times = table.now, []
        while table.now < begun + 60_000:
            due = table.coordinator.next_deadline()
            assert due is not None
            table.advance(due - table.now)
            times.append(table.now - begun)
        gaps = [later - earlier for earlier, later in zip([0, *times], times, strict=False)]
        assert gaps == sorted(gaps)
        assert (gaps[0], gaps[-1]) == (100, 10_000)

    def test_the_next_transaction_does_not_pay_for_it(self) -> None:
        table = Table()
        pair = table.in_state("PrepareCommit")
        table.advance(60_000)
        table.store.marker_errors.clear()
        table.advance(10_000)
        assert table.state() == "CompleteCommit"
        table.add(pair)
        table.store.marker_errors[T0] = E.NOT_LEADER_OR_FOLLOWER
        table.end(pair)
        table.store.marker_errors.clear()
        table.advance(100)
        assert table.state() == "CompleteCommit"

    @pytest.mark.parametrize(
        "error",
        [
            E.UNKNOWN_TOPIC_OR_PARTITION,
            E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            E.UNSUPPORTED_VERSION,
            E.INVALID_PRODUCER_EPOCH,
        ],
    )
    def test_partitions_that_cannot_have_one_are_given_up(self, error: ErrorCode) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        table.store.marker_errors[T0] = error
        table.end(pair)
        assert table.state() == "CompleteCommit"
        assert len(table.store.markers) == 1

    def test_if_another_has_taken_over_it_is_left_alone(self) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        table.store.marker_errors[T0] = E.TRANSACTION_COORDINATOR_FENCED
        table.end(pair)
        table.advance(DAY)
        assert len(table.store.markers) == 1
        assert table.init().error is E.CONCURRENT_TRANSACTIONS

    def test_a_completion_that_cannot_be_stored_is_tried_again(self) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        table.store.hold()
        table.ask_end(pair)
        table.store.step()
        table.store.error = E.KAFKA_STORAGE_ERROR
        table.store.release()
        assert table.state() == "PrepareCommit"
        table.advance(10_000)
        assert table.init().error is E.CONCURRENT_TRANSACTIONS
        assert table.add(pair) is E.CONCURRENT_TRANSACTIONS
        assert table.end(pair) is E.CONCURRENT_TRANSACTIONS
        table.store.error = E.NONE
        table.advance(10_000)
        assert table.state() == "CompleteCommit"
        assert len(table.store.markers) == 1


class TestATimeout:
    INTERVAL = SETTINGS.abort_interval_ms

    def test_aborts_and_fences(self) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        table.advance(TIMEOUT)
        assert table.state() == "Ongoing"
        table.advance(self.INTERVAL)
        assert table.state() == "CompleteAbort"
        (marker,) = table.store.markers
        assert (marker.producer_id, marker.producer_epoch, marker.committed) == (pair[0], pair[1] + 1, False)
        assert table.end(pair) is E.PRODUCER_FENCED
        assert table.init(pair=pair).error is E.PRODUCER_FENCED
        assert table.pair() == (pair[0], pair[1] + 2)

    @pytest.mark.parametrize("committed", [True, False])
    def test_a_transaction_that_has_ended_is_not_touched(self, committed: bool) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        table.end(pair, committed)
        table.advance(10 * TIMEOUT)
        assert table.now_has() == pair
        assert len(table.store.markers) == 1

    def test_each_transaction_has_its_own(self) -> None:
        table = Table()
        pair = table.pair()
        for _ in range(5):
            table.add(pair)
            table.advance(TIMEOUT - 1)
            assert table.end(pair) is E.NONE
        table.add(pair)
        table.advance(TIMEOUT - 1)
        assert table.state() == "Ongoing"
        table.advance(self.INTERVAL + 1)
        assert table.state() == "CompleteAbort"

    def test_a_shorter_one_than_before_is_kept(self) -> None:
        table = Table()
        table.in_state("CompleteCommit")
        result = table.init(timeout_ms=1_000)
        table.add((result.producer_id, result.producer_epoch))
        table.advance(1_000 + self.INTERVAL)
        assert table.state() == "CompleteAbort"

    def test_partitions_that_are_added_do_not_put_it_off(self) -> None:
        table = Table()
        pair = table.pair()
        for index in range(10):
            table.add(pair, [("t", index)])
            table.advance(TIMEOUT // 10)
        table.advance(self.INTERVAL)
        assert table.state() == "CompleteAbort"

    def test_it_is_told_of_once_when_it_is_decided(self) -> None:
        table = Table()
        producer_id, _ = table.in_state("Ongoing")
        begun = table.coordinator.describe("x").start_ms
        table.store.hold()
        table.advance(TIMEOUT + self.INTERVAL)
        assert table.timed_out == []
        decided = table.now
        table.store.release()
        table.advance(5 * TIMEOUT)
        assert table.timed_out == [TimedOut("x", producer_id, decided - begun, TIMEOUT, 2)]
        assert TIMEOUT < decided - begun <= TIMEOUT + self.INTERVAL

    def test_other_ends_are_not_told_of(self) -> None:
        table = Table()
        table.end(table.in_state("Ongoing"), committed=False)
        table.in_state("Ongoing")
        table.init()  # aborts what is open
        table.advance(5 * TIMEOUT)
        assert table.timed_out == []

    def test_one_that_cannot_be_stored_comes_again(self) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        table.store.error = E.NOT_ENOUGH_REPLICAS
        table.advance(TIMEOUT + 5 * self.INTERVAL)
        assert (table.state(), table.now_has()) == ("Ongoing", pair)
        assert table.timed_out == []
        table.store.error = E.NONE
        table.advance(self.INTERVAL)
        assert table.state() == "CompleteAbort"
        assert len(table.timed_out) == 1
        assert table.now_has() == (pair[0], pair[1] + 1)

    def test_a_commit_that_is_being_stored_goes_first(self) -> None:
        table = Table()
        pair = table.in_state("Ongoing")
        table.store.hold()
        answer = table.ask_end(pair)
        table.advance(TIMEOUT + self.INTERVAL)
        table.store.release()
        assert answer.value is E.NONE
        table.advance(10 * TIMEOUT)
        assert [marker.committed for marker in table.store.markers] == [True]

    def test_the_driver_is_woken(self) -> None:
        table = Table()
        table.in_state("Ongoing")
        assert table.now + TIMEOUT < min(table.woken) <= table.now + TIMEOUT + self.INTERVAL


class TestForgetting:
    def expire(self, table: Table) -> None:
        table.advance(SETTINGS.expiration_ms + SETTINGS.expiration_interval_ms)

    @pytest.mark.parametrize("label", ["Empty", "CompleteCommit", "CompleteAbort"])
    def test_what_is_not_used_is_forgotten(self, label: str) -> None:
        table = Table()
        pair = table.in_state(label)
        table.advance(SETTINGS.expiration_ms - 1)
        assert table.state() == label
        table.advance(SETTINGS.expiration_interval_ms)
        assert table.coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND
        last = table.log()[-1]
        assert (last.key, last.value) == (layout.encode_key("x"), None)
        assert table.restarted().coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND
        assert table.add(pair) is E.INVALID_PRODUCER_ID_MAPPING
        assert table.pair()[0] != pair[0]

    @pytest.mark.parametrize("label", ["PrepareCommit", "PrepareAbort"])
    def test_what_is_under_way_is_not(self, label: str) -> None:
        table = Table()
        table.in_state(label)
        self.expire(table)
        assert table.state() == label

    def test_nor_is_a_transaction_that_may_last_longer(self) -> None:
        table = Table(TransactionSettings(partitions=3, expiration_ms=1_000, expiration_interval_ms=10))
        table.in_state("Ongoing")
        table.advance(5_000)
        assert table.state() == "Ongoing"

    def test_nor_one_that_begins_just_then(self) -> None:
        table = Table()
        pair = table.pair()
        table.store.hold()
        answer = table.ask_add(pair)
        self.expire(table)
        table.store.release()
        assert answer.value is E.NONE
        assert table.log()[-1].value is not None

    def test_what_is_used_is_not(self) -> None:
        table = Table()
        for _ in range(10):
            table.pair()
            table.advance(SETTINGS.expiration_ms // 2)
        assert table.now_has() == (1000, 9)

    def test_what_could_not_be_forgotten_stays(self) -> None:
        table = Table()
        table.pair()
        table.store.error = E.NOT_ENOUGH_REPLICAS
        self.expire(table)
        table.store.error = E.NONE
        assert table.pair() == (1000, 1)
        self.expire(table)
        assert table.coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND

    def test_while_it_is_being_forgotten_everybody_is_put_off(self) -> None:
        table = Table()
        pair = table.pair()
        table.store.hold()
        self.expire(table)
        assert table.init().error is E.CONCURRENT_TRANSACTIONS
        assert table.add(pair) is E.CONCURRENT_TRANSACTIONS
        table.store.release()
        assert table.coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND

    def test_a_great_many_are_forgotten_in_several_appends(self) -> None:
        table = Table()
        for number in range(40):
            table.pair(f"{number:040}" * 500)
        self.expire(table)
        assert table.coordinator.list().transactions == ()
        sizes = [len(batch) for batches in table.store.batches.values() for batch in batches]
        assert max(sizes) < 400_000
        assert len(sizes) < 40 + 10
