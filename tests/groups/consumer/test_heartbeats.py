"""Heartbeats of members: joining, moving partitions, lost answers, leaving, timeouts, fencing, limits."""

from __future__ import annotations

from typing import cast

import attrs
import pytest

from pylogbroker.assignors.group import BUILT_IN
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.settings import ConsumerGroupSettings
from tests.groups.consumer.harness import REBALANCE, SESSION, ConsumerHarness
from tests.groups.harness import SETTINGS


@pytest.fixture
def harness() -> ConsumerHarness:
    return ConsumerHarness()


def test_first_member_gets_all_partitions(harness: ConsumerHarness) -> None:
    result = harness.join_group("a").value
    assert (result.error, result.member_id, result.epoch, result.interval_ms) == (ErrorCode.NONE, "a", 1, 5_000)
    assert set(result.assignment or ()) == harness.topics.partitions("t")
    assert harness.state_of_group() == "Stable"


def test_answer_without_changes_has_no_assignment(harness: ConsumerHarness) -> None:
    harness.join_group("a")
    assert harness.beat("a", 1).value.assignment is None


def owned_by(harness: ConsumerHarness, member_id: str) -> frozenset[TopicIdPartition]:
    return frozenset(harness.group.members[member_id].assigned)


def test_partitions_move_when_their_owner_has_revoked_them(harness: ConsumerHarness) -> None:
    first = frozenset(harness.join_group("a").value.assignment or ())
    second = harness.join_group("b").value
    assert (second.epoch, second.assignment) == (2, frozenset())
    asked = harness.beat("a", 1).value
    kept = frozenset(asked.assignment or ())
    assert asked.epoch == 1
    assert len(kept) == 2
    assert harness.state_of_group() == "Reconciling"
    assert harness.beat("b", 2).value.assignment is None
    assert harness.beat("a", 1, owned=first).value.epoch == 1
    assert harness.beat("a", 1, owned=kept).value.epoch == 2
    assert frozenset(harness.beat("b", 2).value.assignment or ()) == first - kept
    assert harness.state_of_group() == "Stable"


def test_lost_answer_is_repeated_for_the_previous_epoch(harness: ConsumerHarness) -> None:
    harness.join_group("a")
    assert harness.join_group("a").value.epoch == 1
    harness.join_group("b")
    kept = frozenset(harness.beat("a", 1).value.assignment or ())
    harness.beat("a", 1, owned=kept)
    assert harness.beat("a", 1, owned=kept).value.epoch == 2


def test_other_epochs_are_fenced(harness: ConsumerHarness) -> None:
    owned = frozenset(harness.join_group("a").value.assignment or ())
    assert harness.beat("a", 2).value.error == ErrorCode.FENCED_MEMBER_EPOCH
    harness.join_group("b")
    kept = frozenset(harness.beat("a", 1).value.assignment or ())
    harness.beat("a", 1, owned=kept)
    assert harness.beat("a", 1, owned=owned).value.error == ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.join_group("a").value.error == ErrorCode.FENCED_MEMBER_EPOCH


def test_partitions_of_a_member_that_leaves_are_free(harness: ConsumerHarness) -> None:
    harness.join_group("a")
    harness.join_group("b")
    assert harness.leave_group("a") is ErrorCode.NONE
    assert set(harness.beat("b", 2).value.assignment or ()) == harness.topics.partitions("t")
    assert harness.leave_group("b") is ErrorCode.NONE
    assert harness.state_of_group() == "Empty"


def test_silent_member_is_removed_after_its_session(harness: ConsumerHarness) -> None:
    harness.join_group("a")
    harness.advance(SESSION - 1)
    harness.join_group("b")
    harness.advance(1)
    assert set(harness.group.members) == {"b"}
    assert harness.beat("a", 1).value.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_does_not_revoke_is_removed_after_its_rebalance_timeout(harness: ConsumerHarness) -> None:
    owned = frozenset(harness.join_group("a", rebalance_timeout_ms=20_000).value.assignment or ())
    harness.join_group("b")
    for _ in range(4):
        assert harness.beat("a", 1, owned=owned).value.error is ErrorCode.NONE
        harness.advance(5_000)
    assert set(harness.group.members) == {"b"}


def test_unknown_members_and_groups(harness: ConsumerHarness) -> None:
    assert harness.beat("a", 1).value.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert harness.leave_group("a") == ErrorCode.GROUP_ID_NOT_FOUND
    harness.join_group("a")
    assert harness.beat("b", 1).value.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.leave_group("b") == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": " "},
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"epoch": -3},
        {"epoch": -2},
        {"epoch": 0, "topics": None},
        {"epoch": 0, "owned": None},
        {"epoch": 0, "rebalance_timeout_ms": None},
        {"topics": frozenset({"x" * 250 + str(number) for number in range(3_000)})},
    ],
)
def test_invalid_heartbeats(harness: ConsumerHarness, fields: dict[str, object]) -> None:
    usual = {"epoch": 0, "topics": frozenset("t"), "owned": frozenset(), "rebalance_timeout_ms": REBALANCE}
    result = harness.beat(**{"member_id": "a", **usual, **fields}).value  # type: ignore[arg-type]
    expected = ErrorCode.INVALID_GROUP_ID if fields == {"group_id": ""} else ErrorCode.INVALID_REQUEST
    assert result.error == expected
    assert result.text


def test_version_0_gets_a_member_id(harness: ConsumerHarness) -> None:
    assert harness.join_group("", makes_ids=True).value.member_id == "id1"


def test_unknown_assignor(harness: ConsumerHarness) -> None:
    result = harness.join_group("a", assignor="stars").value
    assert result.error == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in (result.text or "")


def test_full_group() -> None:
    harness = ConsumerHarness(attrs.evolve(SETTINGS, consumer=ConsumerGroupSettings(max_size=1)))
    harness.join_group("a")
    assert harness.join_group("b").value.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.beat("a", 1).value.error is ErrorCode.NONE


def test_static_member_takes_its_place_again(harness: ConsumerHarness) -> None:
    owned = harness.join_group("a", instance_id="one").value.assignment
    assert harness.join_group("a2", instance_id="one").value.error == ErrorCode.UNRELEASED_INSTANCE_ID
    assert harness.beat("a", -2, instance_id="one").value.epoch == -2
    harness.advance(SESSION - 1)
    result = harness.join_group("a2", instance_id="one").value
    assert (result.epoch, result.assignment) == (1, owned)
    assert harness.beat("a", 1, instance_id="one").value.error == ErrorCode.FENCED_INSTANCE_ID
    assert harness.group.epoch == 1


def test_static_member_that_stays_away_is_removed(harness: ConsumerHarness) -> None:
    harness.join_group("a", instance_id="one")
    harness.beat("a", -2, instance_id="one")
    harness.advance(SESSION)
    assert harness.state_of_group() == "Empty"
    assert harness.beat("a", 1, instance_id="one").value.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_new_topics_and_partitions_are_assigned(harness: ConsumerHarness) -> None:
    harness.join_group("a", "t", "u")
    harness.topics.create("u", 2)
    harness.topics_changed("u")
    assert set(harness.beat("a", 1).value.assignment or ()) == harness.topics.partitions("t", "u")
    harness.topics.extend("u", 3)
    harness.topics_changed("u")
    assert set(harness.beat("a", 2).value.assignment or ()) == harness.topics.partitions("t", "u")
    harness.topics.delete("u")
    harness.topics_changed("u")
    assert set(harness.beat("a", 3).value.assignment or ()) == harness.topics.partitions("t")


def test_other_subscription(harness: ConsumerHarness) -> None:
    harness.topics.create("u", 2)
    harness.join_group("a")
    result = harness.beat("a", 1, topics=frozenset({"u"})).value
    assert (result.epoch, result.assignment) == (1, frozenset())
    result = harness.beat("a", 1, owned=frozenset()).value
    assert (result.epoch, set(result.assignment or ())) == (2, harness.topics.partitions("u"))


def test_expression_is_resolved_before_the_answer(harness: ConsumerHarness) -> None:
    harness.topics.create("tea", 1)
    harness.topics.hold()
    answer = harness.join_group("a", expression="t.*")
    assert answer.waits
    harness.topics.release()
    assert set(answer.value.assignment or ()) == harness.topics.partitions("t", "tea")
    assert harness.join_group("b", expression="(").value.error == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_invalid_expression_creates_no_group(harness: ConsumerHarness) -> None:
    assert harness.join_group("a", expression="(").value.error == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not list(harness.coordinator.groups())


def test_expression_matches_only_topics_that_the_member_may_see(harness: ConsumerHarness) -> None:
    harness.topics.create("tea", 1)
    result = harness.join_group("a", expression="t.*", may_see=lambda name: name != "t").value
    assert set(result.assignment or ()) == harness.topics.partitions("tea")


def test_expression_finds_later_topics(harness: ConsumerHarness) -> None:
    harness.join_group("a", expression="t.*")
    harness.topics.create("tea", 1)
    harness.advance(9_999)
    assert harness.beat("a", 1).value.assignment is None
    harness.advance(1)
    harness.beat("a", 1)
    assert set(harness.beat("a", 1).value.assignment or ()) == harness.topics.partitions("t", "tea")


def test_join_waits_for_an_assignment_in_a_thread(harness: ConsumerHarness) -> None:
    harness.topics.hold()
    first, second = harness.join_group("a"), harness.join_group("b")
    assert first.waits
    assert second.waits
    harness.topics.release()
    assert first.value.epoch == 1
    assert set(first.value.assignment or ()) == harness.topics.partitions("t")
    assert second.value.assignment == frozenset()
    assert harness.group.target_epoch == harness.group.epoch == 2


def test_assignments_are_computed_at_most_once_in_their_interval() -> None:
    harness = ConsumerHarness(assignment_interval_ms=1_000)
    harness.join_group("a")
    harness.advance(400)
    assert harness.join_group("b").value.epoch == 1
    assert harness.state_of_group() == "Assigning"
    harness.advance(599)
    assert harness.group.target_epoch == 1
    harness.advance(1)
    assert harness.group.target_epoch == 2


def test_failing_assignor_keeps_the_former_target(harness: ConsumerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.join_group("a")
    before = dict(harness.group.target)

    class Failing:
        name = "failing"

        def assign(self, partitions: object, members: object, racks: object) -> object:
            raise ValueError("no idea")

    monkeypatch.setitem(cast(dict[str, object], BUILT_IN), "uniform", Failing())
    assert harness.join_group("b").value.error is ErrorCode.NONE
    assert harness.group.target == before


def test_heartbeat_is_answered_when_its_changes_are_stored(harness: ConsumerHarness) -> None:
    harness.log_port.hold()
    answer = harness.join_group("a")
    retry = harness.join_group("a")
    assert answer.waits
    assert retry.waits
    harness.log_port.release()
    assert answer.value.epoch == retry.value.epoch == 1


def test_changes_that_were_not_stored_are_written_with_the_next_ones(harness: ConsumerHarness) -> None:
    with harness.log_port.failing_now(ErrorCode.NOT_ENOUGH_REPLICAS):
        assert harness.join_group("a").value.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.join_group("a").value.epoch == 1
    other = harness.restarted()
    assert other.group.target == harness.group.target
    assert other.epoch("a") == 1


def test_changes_of_a_group_without_members_are_written_again(harness: ConsumerHarness) -> None:
    harness.commit({("t", 0): 7})
    harness.join_group("a")
    with harness.log_port.failing_now(ErrorCode.NOT_ENOUGH_REPLICAS):
        harness.advance(SESSION)
    assert harness.restarted().state_of_group() == "Stable"
    harness.advance(harness.coordinator.settings.check_interval_ms)
    assert harness.state_of_group() == harness.restarted().state_of_group() == "Empty"
