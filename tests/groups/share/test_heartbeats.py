"""Heartbeats of members of share groups: joining, sharing, lost answers, leaving, timeouts, fencing, limits."""

from __future__ import annotations

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Commit, CommittedOffset, GroupSettings, Heartbeat, Join, Leaving, Sync
from pylogbroker.groups.consumer.requests import HeartbeatResult, MemberHeartbeat
from pylogbroker.groups.settings import ShareGroupSettings
from tests.coordinators.harness import Answer
from tests.groups.harness import SETTINGS
from tests.groups.share.harness import GROUP, SESSION, ShareHarness


@pytest.fixture
def harness() -> ShareHarness:
    return ShareHarness()


def test_first_member_gets_all_partitions_with_the_first_answer(harness: ShareHarness) -> None:
    result = harness.join_group("a").value
    assert (result.error, result.member_id, result.interval_ms) == (ErrorCode.NONE, "a", 5_000)
    assert set(result.assignment or ()) == harness.share.partitions("t")
    assert harness.share.starts("t") == dict.fromkeys(range(4), -1)
    description = harness.coordinator.shares.describe(GROUP)
    assert (description.state, description.epoch, description.target_epoch) == ("Stable", result.epoch, result.epoch)
    assert description.assignor == "simple"


def test_answer_without_changes_has_no_assignment(harness: ShareHarness) -> None:
    harness.join_group("a")
    assert harness.next_beat("a").assignment is None


def test_partitions_are_divided_and_then_shared(harness: ShareHarness) -> None:
    for name in "abcd":
        harness.join_group(name)
    for name in "abcd":
        harness.next_beat(name)
    assert sorted(map(len, harness.assigned().values())) == [1, 1, 1, 1]
    assert set().union(*harness.assigned().values()) == harness.share.partitions("t")
    for name in "efgh":
        harness.join_group(name)
    before = harness.assigned()
    for name in "abcdefgh":
        harness.next_beat(name)
    assert {name: harness.assigned()[name] for name in "abcd"} == {name: before[name] for name in "abcd"}
    holders = [partition for some in harness.assigned().values() for partition in some]
    assert sorted(holders) == sorted([*harness.share.partitions("t")] * 2)


def test_lost_answer_is_repeated_for_the_previous_epoch(harness: ShareHarness) -> None:
    first = harness.join_group("a").value
    harness.join_group("b")
    lost = harness.beat("a", first.epoch).value
    assert lost.epoch > first.epoch
    assert lost.assignment is not None
    again = harness.beat("a", first.epoch).value
    assert (again.epoch, again.assignment) == (lost.epoch, lost.assignment)


def test_member_that_joins_again_gets_its_assignment(harness: ShareHarness) -> None:
    first = harness.join_group("a").value
    again = harness.join_group("a").value
    assert (again.epoch, again.assignment) == (first.epoch, first.assignment)


@pytest.mark.parametrize("difference", [-2, 1])
def test_other_epochs_are_fenced(harness: ShareHarness, difference: int) -> None:
    for name in ("a", "b", "c"):
        harness.join_group(name)
        epoch = harness.next_beat("a").epoch
    assert harness.beat("a", epoch + difference).value.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.beat("a", epoch).value.error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("member_id", "epoch", "topics", "fields"),
    [
        ("", 0, ("t",), {}),
        ("a", 0, ("t",), {"group_id": " "}),
        ("a", 0, ("t",), {"rack_id": ""}),
        ("a", 0, None, {}),
        ("a", 0, (), {}),
        ("a", -2, None, {}),
        ("a", 0, ("t" * 600_000,), {}),
    ],
)
def test_invalid_heartbeats_are_rejected(
    harness: ShareHarness, member_id: str, epoch: int, topics: tuple[str, ...] | None, fields: dict[str, str | None]
) -> None:
    assert harness.beat(member_id, epoch, topics, **fields).value.error is ErrorCode.INVALID_REQUEST
    assert harness.coordinator.count_groups() == 0


def test_other_members_are_unknown(harness: ShareHarness) -> None:
    assert harness.beat("a", 1).value.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert harness.beat("a", -1).value.error is ErrorCode.GROUP_ID_NOT_FOUND
    harness.join_group("a")
    assert harness.beat("b", 1).value.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat("b", -1).value.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_size_of_a_group_is_limited() -> None:
    harness = ShareHarness(GroupSettings(partitions=4, share=ShareGroupSettings(max_size=1)))
    harness.join_group("a")
    assert harness.join_group("b").value.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.join_group("a").value.error is ErrorCode.NONE


def test_member_leaves_and_the_others_get_its_partitions(harness: ShareHarness) -> None:
    harness.join_group("a")
    harness.join_group("b")
    harness.next_beat("a")
    left = harness.beat("a", -1).value
    assert (left.error, left.epoch) == (ErrorCode.NONE, -1)
    assert set(harness.next_beat("b").assignment or ()) == harness.share.partitions("t")
    harness.leave_group("b")
    assert harness.coordinator.shares.describe(GROUP).state == "Empty"


def test_silent_member_is_removed_when_its_session_ends(harness: ShareHarness) -> None:
    harness.join_group("a")
    harness.advance(SESSION - 1)
    harness.next_beat("a")
    harness.advance(SESSION - 1)
    assert harness.share.removed == []
    harness.advance(1)
    assert harness.share.removed == ["a"]
    assert harness.group.members == {}


def test_another_subscription_is_followed(harness: ShareHarness) -> None:
    harness.share.create("u", 2)
    epoch = harness.join_group("a").value.epoch
    changed = harness.beat("a", epoch, ("u", "missing")).value
    assert set(changed.assignment or ()) <= harness.share.partitions("u")
    harness.next_beat("a")
    assert harness.assigned() == {"a": harness.share.partitions("u")}


def test_members_get_only_topics_to_which_they_subscribe(harness: ShareHarness) -> None:
    harness.share.create("u", 1)
    harness.join_group("a", "t")
    harness.join_group("b", "t", "u")
    harness.next_beat("a")
    harness.next_beat("b")
    assigned = harness.assigned()
    assert assigned["a"] <= harness.share.partitions("t")
    assert assigned["a"] | assigned["b"] == harness.share.partitions("t", "u")


def test_targets_are_computed_once_in_an_interval() -> None:
    harness = ShareHarness(assignment_interval_ms=1_000)
    harness.join_group("a")
    assert harness.join_group("b").value.assignment == frozenset()
    harness.advance(999)
    assert harness.next_beat("b").assignment is None
    harness.advance(1)
    assert len(harness.next_beat("b").assignment or ()) == 2


def test_interval_does_not_delay_the_first_member_of_an_empty_group() -> None:
    harness = ShareHarness(assignment_interval_ms=1_000)
    for name in "ab":
        harness.join_group(name)
    for name in "ab":
        harness.leave_group(name)
    harness.advance(100)
    assert set(harness.join_group("c").value.assignment or ()) == harness.share.partitions("t")


def test_target_that_is_computed_in_a_thread_is_awaited_by_a_new_member(harness: ShareHarness) -> None:
    harness.share.hold()
    joined = harness.join_group("a")
    harness.share.release_one()  # the states
    assert joined.waits
    harness.share.release()
    assert set(joined.value.assignment or ()) == harness.share.partitions("t")


def test_requests_of_other_group_types_are_rejected(harness: ShareHarness) -> None:
    harness.join_group("a")
    coordinator, now = harness.coordinator, harness.now
    joined: Answer[object] = Answer()
    coordinator.join(Join(GROUP, "", "c", "/h", 10_000, 10_000, "consumer", (("range", b""),)), joined, now)
    assert joined.value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[attr-defined]
    synced: Answer[object] = Answer()
    coordinator.sync(Sync(GROUP, 1, "a"), synced, now)
    assert synced.value.error is ErrorCode.UNKNOWN_MEMBER_ID  # type: ignore[attr-defined]
    assert coordinator.heartbeat(Heartbeat(GROUP, 1, "a"), now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.leave(GROUP, [Leaving("a")], now).members == (ErrorCode.UNKNOWN_MEMBER_ID,)
    consumer: Answer[HeartbeatResult] = Answer()
    coordinator.consumers.heartbeat(
        MemberHeartbeat(GROUP, "b", 0, rebalance_timeout_ms=1, topics=frozenset("t"), owned=frozenset()), consumer, now
    )
    assert consumer.value.error is ErrorCode.GROUP_ID_NOT_FOUND
    committed: Answer[dict[tuple[str, int], ErrorCode]] = Answer()
    coordinator.commit(Commit(GROUP, -1, "", {("t", 0): CommittedOffset(1)}), committed, now)
    assert committed.value == {("t", 0): ErrorCode.GROUP_ID_NOT_FOUND}
    assert coordinator.delete_offsets(GROUP, [("t", 0)], now).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert coordinator.fetch(GROUP).offsets == {}
    assert harness.group.members.keys() == {"a"}


def test_share_consumers_do_not_join_groups_of_other_types(harness: ShareHarness) -> None:
    committed: Answer[dict[tuple[str, int], ErrorCode]] = Answer()
    harness.coordinator.commit(Commit(GROUP, -1, "", {("t", 0): CommittedOffset(1)}), committed, harness.now)
    result = harness.join_group("a").value
    assert (result.error, result.text) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a share group.")
    assert harness.coordinator.shares.describe(GROUP).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_without_members_do_not_expire(harness: ShareHarness) -> None:
    harness.join_group("a")
    harness.leave_group("a")
    harness.advance(2 * SETTINGS.retention_ms)
    assert harness.coordinator.shares.describe(GROUP).state == "Empty"


def test_heartbeat_fails_if_its_changes_are_not_stored_and_they_are_stored_later(harness: ShareHarness) -> None:
    with harness.log_port.failing_now(ErrorCode.NOT_ENOUGH_REPLICAS):
        assert harness.join_group("a").value.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.records() == []
    harness.advance(1_000)
    harness.next_beat("a")
    assert harness.restarted().group.members.keys() == {"a"}
