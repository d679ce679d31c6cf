"""Offsets that are committed in a transaction: who may, when they count, and what of them is left after a restart."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import GroupSettings, JoinResult
from pylogbroker.records import entries
from tests.groups.harness import PRODUCER, SETTINGS, Answer, Harness
from tests.support.examples import examples

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
OTHER = PRODUCER + 1
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def no_group(harness: Harness) -> JoinResult:
    return JoinResult(ErrorCode.NONE, "m", 0)


def empty(harness: Harness) -> JoinResult:
    harness.commit({T1: 1})
    return JoinResult(ErrorCode.NONE, "m", 0)


def completing(harness: Harness) -> JoinResult:
    answer = harness.join()
    harness.advance(0)
    return answer.value


def preparing(harness: Harness) -> JoinResult:
    leader, follower = harness.stable(2)
    harness.join(leader.member_id)
    return follower


def stable(harness: Harness) -> JoinResult:
    return harness.stable()[0]


ALONE: dict[str, object] = {"generation": -1, "member_id": ""}
OK, UNKNOWN, ILLEGAL = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("state", "claims", "expected"),
    [
        (no_group, ALONE, OK),
        (no_group, {}, UNKNOWN),
        (no_group, {"generation": -1}, OK),
        (no_group, {"generation": 3, "member_id": ""}, UNKNOWN),
        (empty, ALONE, OK),
        (empty, {}, UNKNOWN),
        (empty, {"generation": -1}, OK),
        (empty, {"generation": 0, "member_id": ""}, UNKNOWN),
        (empty, {**ALONE, "instance_id": "i"}, OK),
        (completing, ALONE, OK),
        (completing, {}, OK),
        (preparing, {}, OK),
        (stable, ALONE, OK),
        (stable, {}, OK),
        (stable, {"generation": 9}, ILLEGAL),
        (stable, {"generation": -1}, ILLEGAL),
        (stable, {"member_id": "stranger"}, UNKNOWN),
        (stable, {"member_id": ""}, UNKNOWN),
        (stable, {"instance_id": "i"}, UNKNOWN),
    ],
)
def test_transactional_commits_check_the_member(
    state: Callable[[Harness], JoinResult], claims: dict[str, object], expected: ErrorCode
) -> None:
    """Kafka 3.9 gives the same answers."""
    harness = Harness()
    member = state(harness)
    terms: dict[str, object] = {"generation": member.generation, "member_id": member.member_id} | claims
    answer = harness.commit_in_transaction({T0: 7}, **terms)  # type: ignore[arg-type]
    assert answer.value == {T0: expected}
    assert harness.stable_offset() == (None if expected else UNSTABLE)


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    harness = Harness()
    first = harness.join(instance_id="one", version=9)
    harness.advance(0)
    harness.sync(first.value, {first.value.member_id: b""})
    harness.join(instance_id="one", version=9)
    fenced = first.value
    answer = harness.commit_in_transaction(
        {T0: 7}, generation=fenced.generation, member_id=fenced.member_id, instance_id="one"
    )
    assert answer.value == {T0: ErrorCode.FENCED_INSTANCE_ID}


def test_a_rejected_commit_creates_no_group() -> None:
    harness = Harness()
    harness.commit_in_transaction({T0: 7}, generation=3, member_id="m")
    assert harness.state() == "Dead"
    harness.commit_in_transaction({T0: 7})
    assert harness.state() == "Empty"


def test_other_partitions_groups_are_rejected() -> None:
    harness = Harness(loaded=False)
    assert harness.commit_in_transaction({T0: 7}).value == {T0: ErrorCode.NOT_COORDINATOR}
    harness.begin_load(harness.coordinator.partition_for("g"))
    assert harness.commit_in_transaction({T0: 7}).value == {T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert harness.commit_in_transaction({T0: 7}, group_id="").value == {T0: ErrorCode.INVALID_GROUP_ID}


def test_too_much_metadata_is_rejected_alone() -> None:
    harness = Harness(attrs.evolve(SETTINGS, max_metadata_bytes=3))
    full = attrs.evolve(next(iter(harness._full({T0: 7}).values())), metadata="four")
    answer = harness.commit_in_transaction({T0: full, T1: 8})
    assert answer.value == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE, T1: ErrorCode.NONE}
    assert (harness.stable_offset(), harness.stable_offset("t", 1)) == (None, UNSTABLE)


@pytest.mark.parametrize(
    ("of_the_store", "reported"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
def test_offsets_that_cannot_be_stored_are_not_pending(of_the_store: ErrorCode, reported: ErrorCode) -> None:
    harness = Harness()
    harness.log_port.error = of_the_store
    assert harness.commit_in_transaction({T0: 7}).value == {T0: reported}
    assert harness.stable_offset() is None
    harness.end_transaction(committed=True)
    assert harness.offset() is None


class TestCommittedTransactions:
    def test_pending_offsets_do_not_count(self) -> None:
        harness = Harness()
        harness.commit({T0: 3})
        harness.commit_in_transaction({T0: 7, T1: 8})
        assert (harness.offset(), harness.offset("t", 1)) == (3, None)
        assert (harness.stable_offset(), harness.stable_offset("t", 1)) == (UNSTABLE, UNSTABLE)
        assert harness.stable_offset("u") is None

    def test_committed_offsets_count(self) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7})
        harness.commit_in_transaction({T1: 8})
        harness.end_transaction(committed=True)
        assert (harness.stable_offset(), harness.stable_offset("t", 1)) == (7, 8)

    def test_aborted_offsets_do_not_count(self) -> None:
        harness = Harness()
        harness.commit({T0: 3})
        harness.commit_in_transaction({T0: 7, T1: 8})
        harness.end_transaction(committed=False)
        assert (harness.stable_offset(), harness.stable_offset("t", 1)) == (3, None)

    def test_the_marker_of_another_producer_changes_nothing(self) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7})
        harness.end_transaction(committed=True, producer_id=OTHER)
        assert harness.stable_offset() is UNSTABLE

    def test_the_marker_in_another_partition_changes_nothing(self) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7})
        other = next(name for name in "abcdef" if harness.coordinator.partition_for(name) != 0)
        harness.commit_in_transaction({T0: 9}, group_id=other)
        harness.end_transaction(committed=True, group_id=other)
        assert harness.stable_offset(group_id=other) == 9
        assert harness.stable_offset() is UNSTABLE

    def test_one_marker_ends_a_transaction_in_every_group(self) -> None:
        harness = Harness(GroupSettings(initial_rebalance_delay_ms=0, partitions=1))
        for group_id in "abc":
            harness.commit_in_transaction({T0: 7}, group_id=group_id)
        harness.end_transaction(committed=True)
        assert [harness.stable_offset(group_id=group_id) for group_id in "abc"] == [7, 7, 7]

    def test_a_later_plain_commit_wins(self) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7, T1: 8})
        harness.commit({T0: 5})
        assert (harness.offset(), harness.stable_offset()) == (5, UNSTABLE)
        harness.end_transaction(committed=True)
        assert (harness.stable_offset(), harness.stable_offset("t", 1)) == (5, 8)

    def test_the_last_write_of_two_transactions_wins(self) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7})
        harness.commit_in_transaction({T0: 8}, producer_id=OTHER)
        harness.end_transaction(committed=True, producer_id=OTHER)
        assert (harness.offset(), harness.stable_offset()) == (8, UNSTABLE)
        harness.end_transaction(committed=True)
        assert harness.stable_offset() == 8

    def test_the_next_transaction_starts_without_pending_offsets(self) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7})
        harness.end_transaction(committed=False)
        harness.commit_in_transaction({T1: 8})
        harness.end_transaction(committed=True)
        assert (harness.stable_offset(), harness.stable_offset("t", 1)) == (None, 8)

    def test_fetching_all_offsets_reports_unstable_ones(self) -> None:
        harness = Harness()
        harness.commit({T0: 3, T1: 4})
        harness.commit_in_transaction({T0: 7, U0: 9})
        found = harness.coordinator.fetch("g", require_stable=True).offsets
        assert found.keys() == {T0, T1}
        assert found[T0] is UNSTABLE


class TestUnwrittenCommits:
    """While the store has not yet said that it is done."""

    def test_an_offset_being_stored_is_unstable(self) -> None:
        harness = Harness()
        harness.log_port.hold()
        answer = harness.commit_in_transaction({T0: 7})
        assert answer.waits
        assert harness.stable_offset() is UNSTABLE
        harness.log_port.release()
        assert answer.value == {T0: ErrorCode.NONE}

    def test_a_failed_commit_keeps_the_earlier_pending_offset(self) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7})
        harness.log_port.error = ErrorCode.NOT_ENOUGH_REPLICAS
        harness.commit_in_transaction({T0: 8})
        assert harness.stable_offset() is UNSTABLE
        harness.end_transaction(committed=True)
        assert harness.stable_offset() == 7

    def test_a_commit_that_fails_at_once_does_not_harm_an_earlier_one(self) -> None:
        harness = Harness()
        harness.log_port.hold()
        first = harness.commit_in_transaction({T0: 1})
        with harness.log_port.failing_now(ErrorCode.NOT_ENOUGH_REPLICAS):
            harness.commit_in_transaction({T0: 2})
        harness.log_port.release()
        assert first.value == {T0: ErrorCode.NONE}
        assert harness.stable_offset() is ErrorCode.UNSTABLE_OFFSET_COMMIT
        harness.end_transaction(committed=True)
        assert harness.stable_offset() == harness.restarted().stable_offset() == 1

    def test_an_abort_drops_an_offset_being_stored(self) -> None:
        harness = Harness()
        harness.log_port.hold()
        answer = harness.commit_in_transaction({T0: 7})
        harness.coordinator.end_transaction(harness.coordinator.partition_for("g"), PRODUCER, False)
        harness.log_port.release()
        assert answer.value == {T0: ErrorCode.NONE}
        assert harness.stable_offset() is None

    def test_a_commit_includes_an_offset_being_stored(self) -> None:
        """The marker is behind it in the log."""
        harness = Harness()
        harness.log_port.hold()
        harness.commit_in_transaction({T0: 7})
        harness.coordinator.end_transaction(harness.coordinator.partition_for("g"), PRODUCER, True)
        assert harness.stable_offset() == 7
        harness.log_port.release()
        assert harness.stable_offset() == 7


class TestForgetting:
    def test_a_partition_with_a_pending_offset_does_not_expire(self) -> None:
        harness = Harness()
        harness.commit({T0: 3, T1: 4})
        harness.commit_in_transaction({T0: 7})
        harness.advance(SETTINGS.retention_ms + 2 * SETTINGS.check_interval_ms)
        assert (harness.offset(), harness.offset("t", 1)) == (3, None)
        harness.end_transaction(committed=False)
        harness.advance(2 * SETTINGS.check_interval_ms)
        assert harness.state() == "Dead"

    def test_a_group_with_pending_offsets_does_not_expire(self) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7})
        harness.advance(SETTINGS.retention_ms + 2 * SETTINGS.check_interval_ms)
        assert harness.state() == "Empty"
        harness.end_transaction(committed=False)
        harness.advance(2 * SETTINGS.check_interval_ms)
        assert harness.state() == "Dead"

    @pytest.mark.parametrize("reload", [False, True])
    def test_deleted_offsets_do_not_come_back_with_the_marker(self, reload: bool) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7, T1: 8})
        result = harness.coordinator.delete_offsets("g", [T0], harness.now)
        assert result.partitions == {T0: ErrorCode.NONE}
        assert harness.stable_offset() is None
        harness = harness.restarted() if reload else harness
        harness.end_transaction(committed=True)
        assert (harness.stable_offset(), harness.stable_offset("t", 1)) == (None, 8)

    @pytest.mark.parametrize("reload", [False, True])
    def test_a_deleted_group_drops_pending_offsets(self, reload: bool) -> None:
        harness = Harness()
        harness.commit({T0: 3})
        harness.commit_in_transaction({T0: 7, T1: 8})
        assert harness.coordinator.delete_group("g", harness.now) is ErrorCode.NONE
        harness = harness.restarted() if reload else harness
        harness.end_transaction(committed=True)
        assert harness.state() == "Dead"
        assert (harness.stable_offset(), harness.stable_offset("t", 1)) == (None, None)

    def test_deleted_topics_are_forgotten(self) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7, U0: 8})
        harness.delete_partitions([T0])
        harness.end_transaction(committed=True)
        assert (harness.stable_offset(), harness.stable_offset("u")) == (None, 8)

    @pytest.mark.parametrize("reload", [False, True])
    def test_a_commit_on_its_way_does_not_revive_a_deleted_topic(self, reload: bool) -> None:
        harness = Harness()
        harness.log_port.hold()
        harness.commit_in_transaction({T0: 7, U0: 8})
        harness.delete_partitions([T0])
        harness.log_port.release()
        harness = harness.restarted() if reload else harness
        harness.end_transaction(committed=True)
        assert (harness.stable_offset(), harness.stable_offset("u")) == (None, 8)

    def test_ended_and_failed_transactions_leave_no_state(self) -> None:
        harness = Harness()
        shard = harness.runtime.shard_for("g")
        for producer_id in range(10):
            harness.commit_in_transaction({T0: 7}, producer_id=producer_id)
            harness.end_transaction(committed=producer_id % 2 == 0, producer_id=producer_id)
        harness.log_port.error = ErrorCode.INVALID_PRODUCER_EPOCH
        harness.commit_in_transaction({T0: 7}, producer_id=99)
        assert shard.transactions == {}
        assert not any(shard.groups["g"].offsets.has_transaction(producer_id) for producer_id in range(100))


class TestAfterARestart:
    def test_open_transactions_are_still_open(self) -> None:
        harness = Harness()
        harness.commit({T0: 3})
        harness.commit_in_transaction({T0: 7})
        harness = harness.restarted()
        assert (harness.offset(), harness.stable_offset()) == (3, UNSTABLE)
        harness.end_transaction(committed=True)
        assert harness.stable_offset() == 7

    @pytest.mark.parametrize(("committed", "expected"), [(True, 7), (False, 3)])
    def test_ended_transactions_stay_ended(self, committed: bool, expected: int) -> None:
        harness = Harness()
        harness.commit({T0: 3})
        harness.commit_in_transaction({T0: 7})
        harness.end_transaction(committed)
        assert harness.restarted().stable_offset() == expected

    def test_a_group_with_nothing_but_aborted_offsets_is_not_there(self) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7})
        harness.end_transaction(committed=False)
        assert harness.restarted().state() == "Dead"

    def test_a_group_with_pending_offsets_exists(self) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7})
        assert harness.restarted().state() == "Empty"

    def test_a_marker_that_comes_while_loading_is_found_by_the_replay(self) -> None:
        harness = Harness()
        harness.commit_in_transaction({T0: 7})
        partition = harness.coordinator.partition_for("g")
        log = harness.log_port.batches[partition]
        other = Harness(loaded=False)
        loading = other.begin_load(partition)
        loading.replay(entries(log[0]))
        harness.end_transaction(committed=True)
        other.coordinator.end_transaction(partition, PRODUCER, True)
        loading.replay(entries(log[1]))
        other.activate(loading)
        assert other.stable_offset() == 7


class Interleavings(RuleBasedStateMachine):
    """Plain commits, transactions, deletions and restarts in any order, against the log read as the rules say it."""

    partitions = st.sets(st.sampled_from([T0, T1, U0]), min_size=1)
    producers = st.sampled_from([PRODUCER, OTHER])

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness()
        self.written: list[tuple[int | None, tuple[str, int], int]] = []  # by whom, of which partition, the offset
        self.open: set[int] = set()  # indexes of what is written and not decided
        self.void: set[int] = set()  # of what is aborted or deleted
        self.answers: list[Answer[dict[tuple[str, int], ErrorCode]]] = []
        self.next_offset = 1

    @rule(partitions=partitions)
    def commit(self, partitions: set[tuple[str, int]]) -> None:
        self.answers.append(self.harness.commit(self.write(None, partitions)))

    @rule(partitions=partitions, producer_id=producers)
    def commit_in_transaction(self, partitions: set[tuple[str, int]], producer_id: int) -> None:
        self.answers.append(self.harness.commit_in_transaction(self.write(producer_id, partitions), producer_id))

    @rule(partitions=partitions, producer_id=st.none() | producers)
    def a_commit_fails_at_once(self, partitions: set[tuple[str, int]], producer_id: int | None) -> None:
        offsets = dict.fromkeys(sorted(partitions), 0)
        with self.harness.log_port.failing_now(ErrorCode.NOT_ENOUGH_REPLICAS):
            if producer_id is None:
                answer = self.harness.commit(offsets)
            else:
                answer = self.harness.commit_in_transaction(offsets, producer_id)
        assert set(answer.value.values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}

    @rule(producer_id=producers, committed=st.booleans())
    def end(self, producer_id: int, committed: bool) -> None:
        self.harness.log_port.release()
        self.harness.end_transaction(committed, producer_id)
        ended = {index for index in self.open if self.written[index][0] == producer_id}
        self.open -= ended
        if not committed:
            self.void |= ended

    @rule(partitions=partitions)
    def delete(self, partitions: set[tuple[str, int]]) -> None:
        self.harness.log_port.release()
        self.harness.coordinator.delete_offsets("g", sorted(partitions), self.harness.now)
        gone = {index for index, (_, partition, _) in enumerate(self.written) if partition in partitions}
        self.void |= gone
        self.open -= gone

    @rule()
    def the_store_hesitates(self) -> None:
        if self.harness.log_port.held is None:
            self.harness.log_port.hold()

    @rule()
    def another_coordinator_takes_over(self) -> None:
        self.harness.log_port.release()
        batches, logs = self.harness.log_port.batches, self.harness.log_port.logs
        self.harness = self.harness.restarted()
        self.harness.log_port.batches, self.harness.log_port.logs = batches, logs

    @invariant()
    def what_counts_is_what_the_log_says(self) -> None:
        if self.harness.log_port.held:
            return
        assert all(set(answer.value.values()) == {ErrorCode.NONE} for answer in self.answers)
        for harness in (self.harness, self.harness.restarted()):
            for topic, partition in (T0, T1, U0):
                expected = None
                for index, (_, written, offset) in enumerate(self.written):
                    if written == (topic, partition) and index not in self.open | self.void:
                        expected = offset
                is_open = any(self.written[index][1] == (topic, partition) for index in self.open)
                assert harness.offset(topic, partition) == expected
                assert harness.stable_offset(topic, partition) == (UNSTABLE if is_open else expected)

    def write(self, producer_id: int | None, partitions: set[tuple[str, int]]) -> dict[tuple[str, int], int]:
        offsets = {}
        for partition in sorted(partitions):
            offsets[partition] = self.next_offset
            if producer_id is not None:
                self.open.add(len(self.written))
            self.written.append((producer_id, partition, self.next_offset))
            self.next_offset += 1
        return offsets


Interleavings.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
TestInterleavings = Interleavings.TestCase
