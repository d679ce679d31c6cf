"""InitProducerId: ids, epochs, and who is fenced."""

import pytest

from pylogbroker.errors import ErrorCode
from tests.transactions.harness import NO_PAIR, SETTINGS, T0, TIMEOUT, Harness, harness_with_epoch

LAST = 32_766  # the last epoch that a producer is given


class TestANewProducer:
    def test_first_producer_gets_an_id_at_epoch_0(self) -> None:
        harness = Harness()
        assert harness.pair("x") == (1000, 0)
        assert harness.pair("y") == (1001, 0)

    def test_next_producer_with_that_id_gets_the_next_epoch(self) -> None:
        harness = Harness()
        assert [harness.pair(), harness.pair(), harness.pair()] == [(1000, 0), (1000, 1), (1000, 2)]

    def test_answer_waits_for_the_id_and_the_record(self) -> None:
        harness = Harness()
        harness.log_port.hold()
        answer = harness.ask_init()
        assert answer.waits
        harness.log_port.step()
        assert answer.waits
        assert harness.log() == []
        harness.log_port.step()
        assert answer.value.producer_id == 1000
        assert len(harness.log()) == 1

    def test_the_second_of_two_concurrent_requests_is_rejected(self) -> None:
        harness = Harness()
        harness.log_port.hold()
        one, two = harness.ask_init(), harness.ask_init()
        harness.log_port.release()
        assert one.value.error is ErrorCode.NONE
        assert two.value.error is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.pair() == (one.value.producer_id, 1)

    def test_a_missing_producer_id_is_reported(self) -> None:
        harness = Harness()
        harness.log_port.id_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert harness.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert harness.coordinator.describe("x").error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    def test_a_claimed_pair_of_an_expired_id_is_accepted(self) -> None:
        """Its transactional id was forgotten while it was away."""
        assert Harness().init(pair=(55, 3)).error is ErrorCode.NONE

    @pytest.mark.parametrize(
        ("stored", "reported"),
        [
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
            (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
            (ErrorCode.INVALID_REQUIRED_ACKS, ErrorCode.INVALID_REQUIRED_ACKS),
        ],
    )
    def test_a_storage_error_is_reported(self, stored: ErrorCode, reported: ErrorCode) -> None:
        harness = Harness()
        harness.log_port.error = stored
        assert harness.init().error is reported
        harness.log_port.error = ErrorCode.NONE
        assert harness.pair() == (1000, 0)


class TestRejections:
    @pytest.mark.parametrize(
        ("timeout_ms", "good"), [(0, False), (-1, False), (1, True), (900_000, True), (900_001, False)]
    )
    def test_a_timeout_out_of_bounds(self, timeout_ms: int, good: bool) -> None:
        error = Harness().init(timeout_ms=timeout_ms).error
        assert error is (ErrorCode.NONE if good else ErrorCode.INVALID_TRANSACTION_TIMEOUT)

    def test_a_name_that_is_none_or_too_long_for_the_log(self) -> None:
        harness = Harness()
        assert harness.init("").error is ErrorCode.INVALID_REQUEST
        assert harness.init("é" * 16_384).error is ErrorCode.INVALID_REQUEST
        assert harness.init("é" * 16_383).error is ErrorCode.NONE

    @pytest.mark.parametrize("pair", [(7, -1), (-1, 7)])
    def test_half_a_producer_id_and_epoch_pair(self, pair: tuple[int, int]) -> None:
        assert Harness().init(pair=pair).error is ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize("pair", [(1000, 0), (1000, 2), (999, 1), (999, LAST)])
    def test_a_pair_that_is_not_the_present_one(self, pair: tuple[int, int]) -> None:
        harness = Harness()
        harness.pair()
        assert harness.pair() == (1000, 1)
        assert harness.init(pair=pair).error is ErrorCode.PRODUCER_FENCED
        assert harness.now_has() == (1000, 1)


class TestResumingProducer:
    def test_producer_gets_the_next_epoch(self) -> None:
        harness = Harness()
        pair = harness.pair()
        result = harness.init(pair=pair)
        assert (result.producer_id, result.producer_epoch) == (1000, 1)

    def test_a_repeated_request_gets_the_same_answer(self) -> None:
        harness = Harness()
        pair = harness.pair()
        results = [harness.init(pair=pair) for _ in range(3)]
        assert [(each.error, each.producer_id, each.producer_epoch) for each in results] == [
            (ErrorCode.NONE, 1000, 1)
        ] * 3

    def test_an_older_producer_is_fenced_after_a_newer_one(self) -> None:
        harness = Harness()
        pair = harness.pair()
        harness.init(pair=pair)
        harness.pair()
        assert harness.init(pair=pair).error is ErrorCode.PRODUCER_FENCED

    def test_a_producer_is_fenced_after_a_timeout(self) -> None:
        harness = Harness()
        first = harness.pair()
        second = harness.init(pair=first)
        pair = (second.producer_id, second.producer_epoch)
        harness.add(pair)
        harness.advance(TIMEOUT + SETTINGS.abort_interval_ms)
        assert harness.state() == "CompleteAbort"
        assert harness.init(pair=first).error is ErrorCode.PRODUCER_FENCED
        assert harness.init(pair=pair).error is ErrorCode.PRODUCER_FENCED

    def test_timeout_can_be_changed(self) -> None:
        harness = Harness()
        harness.pair()
        harness.init(timeout_ms=77)
        assert harness.coordinator.describe("x").timeout_ms == 77


class TestTheLastEpochs:
    def test_one_epoch_is_kept_for_a_fence(self) -> None:
        harness = harness_with_epoch(LAST - 1)
        assert harness.pair() == (7, LAST)
        assert harness.add((7, LAST)) is ErrorCode.NONE
        assert harness.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.now_has() == (7, LAST + 1)
        assert harness.pair() == (1000, 0)

    @pytest.mark.parametrize("pair", [NO_PAIR, (7, LAST)])
    def test_after_the_last_epoch_there_is_a_new_id(self, pair: tuple[int, int]) -> None:
        result = harness_with_epoch(LAST).init(pair=pair)
        assert (result.error, result.producer_id, result.producer_epoch) == (ErrorCode.NONE, 1000, 0)

    def test_a_repeated_request_gets_the_same_new_id(self) -> None:
        harness = harness_with_epoch(LAST)
        results = [harness.init(pair=(7, LAST)) for _ in range(3)]
        assert {(each.producer_id, each.producer_epoch) for each in results} == {(1000, 0)}

    def test_an_older_producer_is_fenced_after_a_newer_one(self) -> None:
        harness = harness_with_epoch(LAST)
        assert harness.pair() == (1000, 0)
        assert harness.init(pair=(7, LAST)).error is ErrorCode.PRODUCER_FENCED

    def test_a_repeated_request_gets_the_same_last_epoch(self) -> None:
        harness = harness_with_epoch(LAST - 1)
        for _ in range(2):
            result = harness.init(pair=(7, LAST - 1))
            assert (result.error, result.producer_id, result.producer_epoch) == (ErrorCode.NONE, 7, LAST)

    def test_a_fenced_producer_does_not_get_the_new_id(self) -> None:
        harness = harness_with_epoch(LAST)
        harness.add((7, LAST))
        harness.init()
        assert harness.init(pair=(7, LAST)).error is ErrorCode.PRODUCER_FENCED

    def test_a_missing_new_id_changes_nothing(self) -> None:
        harness = harness_with_epoch(LAST)
        harness.log_port.id_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert harness.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert harness.now_has() == (7, LAST)
        harness.log_port.id_error = ErrorCode.NONE
        assert harness.pair() == (1000, 0)

    def test_requests_while_a_new_id_is_awaited_are_concurrent(self) -> None:
        harness = harness_with_epoch(LAST)
        harness.log_port.hold()
        answer = harness.ask_init()
        assert harness.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.add((7, LAST)) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.end((7, LAST)) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.log_port.release()
        assert answer.value.producer_id == 1000


class TestDuringATransaction:
    @pytest.mark.parametrize("with_pair", [False, True])
    def test_an_open_transaction_is_aborted_first(self, with_pair: bool) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        assert harness.init(pair=pair if with_pair else NO_PAIR).error is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.state() == "CompleteAbort"
        (marker,) = harness.log_port.markers
        assert (marker.producer_id, marker.producer_epoch, marker.committed) == (pair[0], pair[1] + 1, False)
        assert harness.pair() == (pair[0], pair[1] + 2)

    def test_producer_of_the_aborted_transaction_is_fenced(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.init()
        assert harness.add(pair) is ErrorCode.PRODUCER_FENCED
        assert harness.end(pair) is ErrorCode.PRODUCER_FENCED
        assert harness.coordinator.verify("x", *pair, [T0]) == {T0: ErrorCode.PRODUCER_FENCED}

    def test_a_fenced_producer_does_not_abort_the_transaction(self) -> None:
        harness = Harness()
        old = harness.pair()
        harness.in_state("Ongoing")
        assert harness.init(pair=old).error is ErrorCode.PRODUCER_FENCED
        assert harness.state() == "Ongoing"

    def test_an_abort_that_is_not_stored_changes_nothing(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.log_port.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert harness.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        harness.log_port.error = ErrorCode.NONE
        assert (harness.state(), harness.now_has()) == ("Ongoing", pair)
        assert harness.log_port.markers == []
        assert harness.end(pair) is ErrorCode.NONE

    @pytest.mark.parametrize("label", ["PrepareCommit", "PrepareAbort"])
    def test_requests_while_a_transaction_ends_are_concurrent(self, label: str) -> None:
        harness = Harness()
        pair = harness.in_state(label)
        assert harness.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.init(pair=pair).error is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.log_port.marker_errors.clear()
        harness.advance(1_000)
        assert harness.pair() == (pair[0], pair[1] + 1)
