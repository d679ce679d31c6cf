"""Partitions are added, transactions end: what is answered in which state, and when."""

import pytest

from pylogbroker.config import BrokerConfig
from pylogbroker.coordinators import IllegalTransition, check_transition
from pylogbroker.errors import ErrorCode
from pylogbroker.long_loops import at_once
from pylogbroker.transactions import TransactionSettings
from pylogbroker.transactions.states import PREDECESSORS, TransactionState
from tests.transactions.harness import T0, T1, TIMEOUT, U0, Answer, Harness

E = ErrorCode
LABELS = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")

ANSWERS = {  # to a producer with the right pair: AddPartitions, EndTxn commit, EndTxn abort
    "Empty": (E.NONE, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
    "Ongoing": (E.NONE, E.NONE, E.NONE),
    "PrepareCommit": (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    "PrepareAbort": (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    "CompleteCommit": (E.NONE, E.NONE, E.INVALID_TXN_STATE),
    "CompleteAbort": (E.NONE, E.INVALID_TXN_STATE, E.NONE),
}
VERIFIED = {  # of a partition that was added, of one that was not
    "Empty": (E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE),
    "Ongoing": (E.NONE, E.TRANSACTION_ABORTABLE),
    "PrepareCommit": (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    "PrepareAbort": (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    "CompleteCommit": (E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE),
    "CompleteAbort": (E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE),
}


@pytest.mark.parametrize("label", LABELS)
class TestInEveryState:
    def test_adding_partitions(self, label: str) -> None:
        harness = Harness()
        pair = harness.in_state(label)
        assert harness.add(pair, [T1]) is ANSWERS[label][0]
        assert (harness.state() == "Ongoing") == (ANSWERS[label][0] is E.NONE)

    @pytest.mark.parametrize("committed", [True, False])
    def test_ending(self, label: str, committed: bool) -> None:
        harness = Harness()
        pair = harness.in_state(label)
        before = len(harness.log())
        assert harness.end(pair, committed) is ANSWERS[label][1 if committed else 2]
        if label == "Ongoing":
            assert harness.state() == ("CompleteCommit" if committed else "CompleteAbort")
        else:
            assert (harness.state(), len(harness.log())) == (label, before)

    def test_verifying(self, label: str) -> None:
        harness = Harness()
        pair = harness.in_state(label)
        assert tuple(harness.coordinator.verify("x", *pair, [T0, T1]).values()) == VERIFIED[label]

    def test_requests_with_another_id_or_epoch(self, label: str) -> None:
        harness = Harness()
        producer_id, epoch = harness.in_state(label)
        for pair, error in (
            ((producer_id + 1, epoch), E.INVALID_PRODUCER_ID_MAPPING),
            ((producer_id, epoch + 1), E.PRODUCER_FENCED),
            ((producer_id, epoch - 1), E.PRODUCER_FENCED),
        ):
            assert harness.add(pair) is error
            assert harness.end(pair) is error
            assert harness.coordinator.verify("x", *pair, [T0]) == {T0: error}
        assert harness.state() == label

    def test_requests_while_the_next_state_is_stored(self, label: str) -> None:
        harness = Harness()
        pair = harness.in_state(label)
        harness.log_port.hold()
        first = harness.ask_add(pair, [T1])
        if ANSWERS[label][0] is not E.NONE:
            assert first.value is E.CONCURRENT_TRANSACTIONS
            return
        assert first.waits
        second = harness.ask_add(pair, [T1])
        assert second.waits
        assert harness.end(pair) is E.CONCURRENT_TRANSACTIONS
        assert harness.init().error is E.CONCURRENT_TRANSACTIONS
        assert harness.state() == label
        assert harness.coordinator.verify("x", *pair, [T1]) == {T1: E.TRANSACTION_ABORTABLE}
        harness.log_port.release()
        assert first.value is second.value is E.NONE
        assert harness.state() == "Ongoing"

    def test_the_next_state_cannot_be_stored(self, label: str) -> None:
        harness = Harness()
        pair = harness.in_state(label)
        harness.log_port.error = E.KAFKA_STORAGE_ERROR
        assert harness.add(pair, [T1]) is (ANSWERS[label][0] or E.NOT_COORDINATOR)
        assert harness.end(pair) is (ANSWERS[label][1] or (E.NOT_COORDINATOR if label == "Ongoing" else E.NONE))
        assert harness.state() == label


def test_requests_with_an_unknown_transactional_id() -> None:
    harness = Harness()
    assert harness.add((1, 0)) is E.INVALID_PRODUCER_ID_MAPPING
    assert harness.end((1, 0)) is E.INVALID_PRODUCER_ID_MAPPING
    assert harness.coordinator.verify("x", 1, 0, [T0]) == {T0: E.INVALID_PRODUCER_ID_MAPPING}


def test_requests_without_a_transactional_id() -> None:
    harness = Harness()
    assert harness.add((1, 0), name="") is E.INVALID_REQUEST
    assert harness.end((1, 0), name="") is E.INVALID_REQUEST
    assert harness.coordinator.verify("", 1, 0, [T0]) == {T0: E.INVALID_REQUEST}
    assert harness.coordinator.describe("").error is E.INVALID_REQUEST


class TestATransaction:
    def test_a_transaction_begins_with_its_first_partition(self) -> None:
        harness = Harness()
        pair = harness.pair()
        assert harness.coordinator.describe("x").start_ms == -1
        harness.advance(5)
        begun = harness.now
        harness.add(pair, [T0])
        harness.advance(5)
        harness.add(pair, [U0, T0])
        described = harness.coordinator.describe("x")
        assert (described.start_ms, described.partitions) == (begun, (T0, U0))

    def test_partitions_that_it_has_are_not_stored_again(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        before = len(harness.log())
        assert harness.add(pair, [U0]) is E.NONE
        assert len(harness.log()) == before

    def test_added_partitions_belong_to_the_transaction(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        assert harness.add(pair, [T1]) is E.NONE
        assert set(harness.coordinator.verify("x", *pair, [T0, T1, U0]).values()) == {E.NONE}
        harness.end(pair)
        (marker,) = harness.log_port.markers
        assert marker.partitions == (T0, T1, U0)

    def test_the_next_transaction_begins_without_partitions(self) -> None:
        harness = Harness()
        pair = harness.in_state("CompleteCommit")
        harness.add(pair, [T1])
        assert harness.coordinator.describe("x").partitions == (T1,)
        assert harness.end(pair, committed=False) is E.NONE
        assert [(each.committed, each.partitions) for each in harness.log_port.markers] == [
            (True, (T0, U0)),
            (False, (T1,)),
        ]

    @pytest.mark.parametrize("committed", [True, False])
    def test_an_end_is_answered_once_decided(self, committed: bool) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        harness.log_port.hold()
        answer = harness.ask_end(pair, committed)
        assert answer.waits
        assert harness.log_port.markers == []
        harness.log_port.step()
        assert answer.value is E.NONE
        assert harness.state() == ("PrepareCommit" if committed else "PrepareAbort")
        assert len(harness.log_port.markers) == 1
        harness.log_port.release()
        assert harness.state() == ("CompleteCommit" if committed else "CompleteAbort")

    def test_an_answer_may_send_the_next_request_at_once(self) -> None:
        """Connections do so that have read several requests."""
        harness = Harness()
        pair = harness.in_state("Ongoing")
        asked: list[Answer[ErrorCode]] = []

        def ask_more(error: ErrorCode) -> None:
            asked.extend([harness.ask_add(pair, [T1]), harness.ask_end(pair)])

        harness.coordinator.end("x", *pair, True, ask_more, harness.now)
        assert [answer.value for answer in asked] == [E.CONCURRENT_TRANSACTIONS] * 2
        assert harness.state() == "CompleteCommit"

    def test_many_names_at_once(self) -> None:
        harness = Harness()
        names = [f"name-{number}" for number in range(20)]
        pairs = {name: harness.in_state("Ongoing", name) for name in names}
        assert len(set(pairs.values())) == 20
        for number, name in enumerate(names):
            harness.end(pairs[name], committed=number % 2 == 0, name=name)
        assert {marker.producer_id: marker.committed for marker in harness.log_port.markers} == {
            pairs[name][0]: number % 2 == 0 for number, name in enumerate(names)
        }

    def test_too_many_names_of_topics_for_a_record(self) -> None:
        harness = Harness()
        pair = harness.pair()
        assert harness.add(pair, [("t" * 40_000, 0)]) is E.UNKNOWN_SERVER_ERROR
        assert harness.add(pair, [T0]) is E.NONE


class TestListing:
    def test_a_description(self) -> None:
        harness = Harness()
        pair = harness.in_state("Ongoing")
        described = harness.coordinator.describe("x")
        assert (described.error, described.transactional_id, described.state) == (E.NONE, "x", "Ongoing")
        assert (described.producer_id, described.producer_epoch, described.timeout_ms) == (*pair, TIMEOUT)
        assert (described.start_ms, described.partitions) == (harness.now, (T0, U0))

    def test_describing_an_unknown_transactional_id(self) -> None:
        assert Harness().coordinator.describe("x").error is E.TRANSACTIONAL_ID_NOT_FOUND

    def listed(self, harness: Harness, **filters: object) -> set[str]:
        listed = at_once(harness.coordinator.list(**filters, now_ms=harness.now))  # type: ignore[arg-type]
        assert listed.error is E.NONE
        return {each.transactional_id for each in listed.transactions}

    def test_a_list(self) -> None:
        harness = Harness()
        (producer_id, _), _ = harness.in_state("Ongoing", "one"), harness.in_state("CompleteCommit", "two")
        harness.pair("three")
        harness.advance(500)
        harness.in_state("Ongoing", "four")
        harness.advance(500)
        assert self.listed(harness) == {"one", "two", "three", "four"}
        assert self.listed(harness, states=["Ongoing"]) == {"one", "four"}
        assert self.listed(harness, states=["Ongoing", "Empty"]) == {"one", "three", "four"}
        assert self.listed(harness, producer_ids=[producer_id, 5]) == {"one"}
        assert self.listed(harness, states=["Ongoing"], duration_ms=500) == {"one"}
        assert self.listed(harness, states=["Ongoing"], duration_ms=499) == {"one", "four"}
        assert self.listed(harness, states=["Ongoing"], duration_ms=0) == {"one", "four"}
        (overview,) = at_once(harness.coordinator.list(producer_ids=[producer_id])).transactions
        assert (overview.transactional_id, overview.producer_id, overview.state) == ("one", producer_id, "Ongoing")

    def test_states_that_are_not_known_are_named(self) -> None:
        listed = at_once(Harness().coordinator.list(["ongoing", "Ongoing", "Odd", "Odd"]))
        assert listed.unknown_states == ("ongoing", "Odd")
        assert listed.transactions == ()


FOLLOWS = {  # written down from the picture of the states: what each may be followed by
    "Empty": {"Empty", "Ongoing", "PrepareAbort", "Dead"},
    "Ongoing": {"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"},
    "PrepareCommit": {"CompleteCommit"},
    "PrepareAbort": {"CompleteAbort"},
    "CompleteCommit": {"Empty", "Ongoing", "PrepareAbort", "Dead"},
    "CompleteAbort": {"Empty", "Ongoing", "PrepareAbort", "Dead"},
    "Dead": set(),
    "PrepareEpochFence": {"PrepareAbort"},
}


def test_state_transitions() -> None:
    allowed = {
        present.label: {wanted.label for wanted in TransactionState if present in PREDECESSORS[wanted]}
        for present in TransactionState
    }
    assert allowed == FOLLOWS
    with pytest.raises(IllegalTransition, match="ONGOING does not follow PREPARE_COMMIT"):
        check_transition(TransactionState.PREPARE_COMMIT, TransactionState.ONGOING, PREDECESSORS)


def test_the_settings_come_from_the_brokers() -> None:
    named = {
        "transaction.state.log.num.partitions": 1,
        "transaction.max.timeout.ms": 2,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 3,
        "transactional.id.expiration.ms": 4,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 5,
    }
    assert TransactionSettings.of(
        BrokerConfig({name: str(value) for name, value in named.items()})
    ) == TransactionSettings(1, 2, 3, 4, 5)
