"""States of a share group's partitions: made for subscribed topics, set to offsets, deleted; and what fails."""

from __future__ import annotations

import attrs
import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.share import states
from pylogbroker.groups.share.port import StatesDone
from pylogbroker.groups.share.states import INITIALIZED_AT_ONCE_MAX
from tests.groups.share.harness import GROUP, KeptState, ShareHarness

NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def harness() -> ShareHarness:
    return ShareHarness()


def test_partition_is_assigned_when_it_has_a_state(harness: ShareHarness) -> None:
    topic_id = harness.share.id("t")
    harness.share.errors = {(topic_id, 2): NOT_AVAILABLE}
    assert set(harness.join_group("a").value.assignment or ()) == harness.share.partitions("t") - {(topic_id, 2)}
    assert harness.share.failures == [NOT_AVAILABLE]
    harness.share.errors = {}
    harness.advance(1_000)
    assert set(harness.next_beat("a").assignment or ()) == harness.share.partitions("t")
    assert harness.share.starts("t") == dict.fromkeys(range(4), -1)


def test_failures_are_repeated_at_growing_intervals(harness: ShareHarness) -> None:
    harness.share.errors = dict.fromkeys(harness.share.partitions("t"), NOT_AVAILABLE)
    harness.join_group("a")
    attempts = []
    for _ in range(30):
        before = len(harness.share.failures)
        harness.advance(10_000)
        harness.next_beat("a")
        attempts.append(len(harness.share.failures) - before)
    assert attempts[0] > 3
    assert sum(attempts[-6:]) == 2  # every 30 seconds


def test_new_partitions_of_a_topic_begin_at_their_first_record(harness: ShareHarness) -> None:
    harness.join_group("a")
    harness.share.extend("t", 6)
    harness.topics_changed("t")
    assert harness.share.starts("t") == {**dict.fromkeys(range(4), -1), 4: 0, 5: 0}
    assert set(harness.next_beat("a").assignment or ()) == harness.share.partitions("t")


def test_topic_that_is_created_later_is_assigned(harness: ShareHarness) -> None:
    assert harness.join_group("a", "later").value.assignment == frozenset()
    harness.share.create("later", 2)
    harness.topics_changed("later")
    assert set(harness.next_beat("a").assignment or ()) == harness.share.partitions("later")


def test_deleted_topic_is_forgotten_with_its_states(harness: ShareHarness) -> None:
    harness.share.create("u", 1)
    harness.join_group("a", "t", "u")
    deleted = harness.share.id("t")
    del harness.share.topics["t"]
    harness.topics_changed("t", deleted=[deleted])
    assert set(harness.next_beat("a").assignment or ()) == harness.share.partitions("u")
    assert {topic_id for topic_id, _ in harness.share.states[GROUP]} == {harness.share.id("u")}
    assert set(harness.group.states.names) == {harness.share.id("u")}


def test_states_of_an_earlier_group_of_the_name_are_replaced(harness: ShareHarness) -> None:
    harness.share.states[GROUP] = {partition: KeptState(99, 7) for partition in harness.share.partitions("t")}
    assert set(harness.join_group("a").value.assignment or ()) == harness.share.partitions("t")
    assert harness.share.starts("t") == dict.fromkeys(range(4), -1)


def test_states_of_a_successor_are_not_deleted_by_a_former_coordinator(harness: ShareHarness) -> None:
    made_by_successor = {partition: KeptState(99, 7) for partition in harness.share.partitions("t")}
    harness.log_port.hold()
    harness.join_group("a")
    harness.share.states[GROUP] = dict(made_by_successor)
    assert harness.log_port.held
    harness.log_port.held.pop(0)()  # the last record that it can store
    harness.log_port.error = ErrorCode.NOT_COORDINATOR
    harness.log_port.release()
    assert harness.share.failures
    assert harness.share.states[GROUP] == made_by_successor


def test_states_are_made_in_an_epoch_that_is_stored(harness: ShareHarness) -> None:
    """Another coordinator must not begin with an earlier one: a late request would void its states."""
    harness.log_port.hold()
    harness.join_group("a")
    harness.join_group("b")  # begins another epoch while that of "a" is being stored
    while not harness.share.states.get(GROUP):
        assert harness.log_port.held
        harness.log_port.held.pop(0)()
    epochs = {kept.epoch for kept in harness.share.states[GROUP].values()}
    harness.share.hold()
    assert epochs == {harness.restarted().group.epoch}


def test_offsets_are_set_for_a_group_without_members(harness: ShareHarness) -> None:
    harness.join_group("a")
    topic_id = harness.share.id("t")
    assert harness.set_starts({(topic_id, 1): 5}).value.error is ErrorCode.NON_EMPTY_GROUP
    harness.leave_group("a")
    for start in (5, 3):
        result = harness.set_starts({(topic_id, 1): start}).value
        assert (result.error, result.partitions) == (ErrorCode.NONE, {(topic_id, 1): ErrorCode.NONE})
        assert harness.share.starts("t") == {0: -1, 1: start, 2: -1, 3: -1}
    epochs = {number: kept.epoch for (_, number), kept in harness.share.states[GROUP].items()}
    assert epochs[1] > epochs[0]
    assert set(harness.join_group("a").value.assignment or ()) == harness.share.partitions("t")
    assert harness.share.starts("t")[1] == 3


def test_group_is_created_to_set_its_offsets(harness: ShareHarness) -> None:
    topic_id = harness.share.id("t")
    harness.set_starts({(topic_id, 0): 8})
    assert harness.coordinator.shares.partitions_with_states(GROUP) == {topic_id: {0}}
    assert harness.restarted().coordinator.shares.describe(GROUP).state == "Empty"


def test_offsets_that_could_not_be_set_are_reported_and_set_later(harness: ShareHarness) -> None:
    topic_id = harness.share.id("t")
    harness.share.errors = {(topic_id, 1): NOT_AVAILABLE}
    result = harness.set_starts({(topic_id, 0): 8, (topic_id, 1): 9}).value
    assert result.partitions == {(topic_id, 0): ErrorCode.NONE, (topic_id, 1): NOT_AVAILABLE}
    harness.share.errors = {}
    harness.advance(1_000)
    assert harness.share.starts("t") == {0: 8, 1: 9}


def test_offsets_set_while_states_are_made_hold(harness: ShareHarness) -> None:
    harness.share.hold()
    harness.join_group("a")
    harness.leave_group("a")
    answer = harness.set_starts({(harness.share.id("t"), 2): 6})
    assert answer.waits
    while answer.waits:
        harness.share.release_one()
    harness.share.release()
    assert answer.value.error is ErrorCode.NONE
    assert harness.share.starts("t") == {0: -1, 1: -1, 2: 6, 3: -1}


def test_topics_are_forgotten_by_a_group_without_members(harness: ShareHarness) -> None:
    unread = harness.share.create("u", 1)
    harness.join_group("a")
    topic_id = harness.share.id("t")
    assert harness.delete_starts(topic_id).value.error is ErrorCode.NON_EMPTY_GROUP
    harness.leave_group("a")
    result = harness.delete_starts(topic_id, unread).value
    errors = {of: error for (of, _), error in result.partitions.items()}
    assert errors == {topic_id: ErrorCode.NONE, unread: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert harness.share.states[GROUP] == {}
    assert harness.delete_starts(topic_id).value.partitions == {(topic_id, 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_deletion_of_states_is_finished_after_a_restart(harness: ShareHarness) -> None:
    harness.join_group("a")
    harness.leave_group("a")
    topic_id = harness.share.id("t")
    harness.share.errors = {(topic_id, 3): NOT_AVAILABLE}
    assert harness.delete_starts(topic_id).value.partitions[topic_id, 3] is NOT_AVAILABLE
    harness.share.errors = {}
    restarted = harness.restarted()
    assert harness.share.states[GROUP] == {}
    assert restarted.group.states.names == {}


def test_states_are_made_after_a_restart(harness: ShareHarness) -> None:
    harness.share.hold()
    harness.join_group("a")
    harness.share.held = None  # the broker dies before the share coordinator answers
    restarted = harness.restarted()
    assert harness.share.starts("t") == dict.fromkeys(range(4), -1)
    assert set(restarted.join_group("a").value.assignment or ()) == harness.share.partitions("t")


def test_group_is_deleted_with_its_states(harness: ShareHarness) -> None:
    harness.join_group("a")
    assert harness.delete_group().value is ErrorCode.NON_EMPTY_GROUP
    harness.leave_group("a")
    assert harness.delete_group().value is ErrorCode.NONE
    assert harness.share.states[GROUP] == {}
    assert harness.coordinator.count_groups() == 0
    assert harness.restarted().coordinator.count_groups() == 0
    assert harness.delete_group().value is ErrorCode.GROUP_ID_NOT_FOUND


def test_group_stays_while_its_states_cannot_be_deleted(harness: ShareHarness) -> None:
    harness.join_group("a")
    harness.leave_group("a")
    harness.share.errors = {(harness.share.id("t"), 0): NOT_AVAILABLE}
    assert harness.delete_group().value is NOT_AVAILABLE
    assert harness.coordinator.count_groups() == 1


def test_member_that_joins_while_a_group_is_deleted_keeps_it(harness: ShareHarness) -> None:
    harness.join_group("a")
    harness.leave_group("a")
    harness.share.hold()
    deleted = harness.delete_group()
    harness.join_group("b")
    harness.share.release()
    assert deleted.value is ErrorCode.NON_EMPTY_GROUP
    harness.advance(1_000)
    harness.next_beat("b")
    assert harness.assigned() == {"b": harness.share.partitions("t")}
    assert harness.share.starts("t").keys() == {0, 1, 2, 3}


def test_unloaded_group_answers_requests_that_wait(harness: ShareHarness) -> None:
    harness.share.hold()
    joined = harness.join_group("a")
    harness.unload(harness.coordinator.partition_for(GROUP))
    assert joined.value.error is ErrorCode.NOT_COORDINATOR
    harness.share.release()


def test_replayed_group_is_the_stored_one(harness: ShareHarness) -> None:
    harness.share.create("u", 2)
    harness.join_group("a", "t", rack_id="r")
    harness.join_group("b", "t", "u")
    harness.next_beat("a")
    restarted = harness.restarted()
    assert restarted.coordinator.shares.describe(GROUP) == harness.coordinator.shares.describe(GROUP)
    assert attrs.asdict(restarted.group.states) == attrs.asdict(harness.group.states)
    assert restarted.next_beat("a").assignment is None


def test_deletions_follow_each_other_and_spare_members_that_join_between_them(harness: ShareHarness) -> None:
    harness.join_group("a")
    harness.leave_group("a")
    harness.share.hold()
    first, second = harness.delete_starts(harness.share.id("t")), harness.delete_group()
    harness.join_group("b")
    harness.share.release()
    assert set(first.value.partitions.values()) == {ErrorCode.NONE}
    assert second.value is ErrorCode.NON_EMPTY_GROUP
    harness.advance(1_000)
    harness.next_beat("b")
    assert harness.assigned() == {"b": harness.share.partitions("t")}
    assert harness.share.starts("t").keys() == {0, 1, 2, 3}


def test_states_that_could_not_be_deleted_are_deleted_later(harness: ShareHarness) -> None:
    harness.join_group("a")
    harness.leave_group("a")
    topic_id = harness.share.id("t")
    harness.share.errors = {(topic_id, 3): NOT_AVAILABLE}
    harness.delete_starts(topic_id)
    harness.join_group("b")
    assert harness.assigned() == {"b": set()}
    harness.share.errors = {}
    harness.advance(30_000)
    harness.next_beat("b")
    assert harness.assigned() == {"b": harness.share.partitions("t")}


class Calls:
    """Counts the partitions of each call that makes states."""

    def __init__(self, harness: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        initialize = harness.share.initialize

        def counted(group_id: str, epoch: int, starts: dict[TopicIdPartition, int], done: StatesDone) -> None:
            self.sizes.append(len(starts))
            initialize(group_id, epoch, starts, done)

        monkeypatch.setattr(harness.share, "initialize", counted)


def test_states_of_many_partitions_are_made_in_steps(harness: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, partitions = Calls(harness, monkeypatch), 2 * INITIALIZED_AT_ONCE_MAX + 1
    harness.share.create("many", partitions)
    harness.share.hold()
    joined = harness.join_group("a", "many")
    epoch = harness.group.epoch
    harness.share.release_one()
    harness.share.release_one()
    assert joined.waits
    harness.share.release()
    assert calls.sizes == [INITIALIZED_AT_ONCE_MAX, INITIALIZED_AT_ONCE_MAX, 1]
    assert joined.value.assignment == harness.share.partitions("many")
    assert harness.group.epoch == epoch + 1
    assert harness.share.starts("many") == dict.fromkeys(range(partitions), -1)
    assert len(harness.restarted().group.states.initialized[harness.share.id("many")]) == partitions


def test_rest_of_the_states_fails_with_a_step(harness: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "INITIALIZED_AT_ONCE_MAX", 2)
    topic_id = harness.share.id("t")
    harness.share.errors = {(topic_id, 1): NOT_AVAILABLE}
    result = harness.set_starts({(topic_id, number): 5 + number for number in range(4)}).value
    assert result.partitions == {
        (topic_id, 0): ErrorCode.NONE,
        **{(topic_id, number): NOT_AVAILABLE for number in (1, 2, 3)},
    }
    harness.share.errors = {}
    harness.advance(1_000)
    assert harness.share.starts("t") == {0: 5, 1: 6, 2: 7, 3: 8}


def test_states_of_a_topic_that_is_deleted_are_made_no_further(
    harness: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "INITIALIZED_AT_ONCE_MAX", 2)
    harness.share.create("u", 1)
    harness.share.hold()
    harness.join_group("a", "t", "u")
    deleted = harness.share.id("t")
    del harness.share.topics["t"]
    harness.topics_changed("t", deleted=[deleted])
    harness.share.release()
    assert set(harness.next_beat("a").assignment or ()) == harness.share.partitions("u")
    assert {topic_id for topic_id, _ in harness.share.states[GROUP]} == {harness.share.id("u")}
