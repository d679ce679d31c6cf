"""`__consumer_offsets` is deleted while groups have members: until it exists again there are no groups."""

from __future__ import annotations

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import DeleteOffsetsResult, JoinResult
from pylogbroker.long_loops import at_once
from tests.groups.harness import Harness

T0 = ("t", 0)
NONE, UNKNOWN, NOT_FOUND = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND


def deleted() -> tuple[Harness, JoinResult]:
    """Return a coordinator that awaits its topic, and the member of the group that it had."""
    harness = Harness()
    (member,) = harness.stable()
    harness.commit({T0: 7}, member)
    harness.coordinator.await_topic()
    harness.close()
    return harness, member


def recreate(harness: Harness) -> None:
    harness.load_all()
    harness.coordinator.resume(harness.now)


def test_members_are_unknown() -> None:
    harness, member = deleted()
    assert harness.heartbeat(member) is UNKNOWN
    assert harness.sync(member).value.error is UNKNOWN
    assert harness.join(member.member_id).value.error is UNKNOWN
    assert harness.commit({T0: 8}, member).value == {T0: UNKNOWN}
    assert harness.leave(member.member_id) is UNKNOWN


def test_administrators_see_no_groups() -> None:
    harness, _ = deleted()
    coordinator, now = harness.coordinator, harness.now
    assert at_once(coordinator.list_groups()) == (NONE, [])
    assert (harness.state(), harness.offset()) == ("Dead", None)
    assert coordinator.delete_group("g", now) is NOT_FOUND
    assert coordinator.delete_offsets("g", [T0], now) == DeleteOffsetsResult(NOT_FOUND)


def test_new_groups_wait() -> None:
    harness, _ = deleted()
    joined, committed = harness.join(), harness.commit({T0: 8}, group_id="h")
    assert (joined.waits, committed.waits) == (True, True)
    recreate(harness)
    harness.advance(0)
    assert (joined.value.error, joined.value.generation) == (NONE, 1)
    assert committed.value == {T0: NONE}


def test_commits_keep_their_order() -> None:
    harness, _ = deleted()
    first = harness.commit({T0: 8})
    harness.load_all()
    second = harness.commit({T0: 9})
    harness.coordinator.resume(harness.now)
    assert (first.value, second.value, harness.offset()) == ({T0: NONE}, {T0: NONE}, 9)


def test_a_transactional_commit_does_not_wait_for_the_topic() -> None:
    harness, _ = deleted()
    assert harness.commit_in_transaction({T0: 8}).value == {T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    recreate(harness)
    assert harness.commit_in_transaction({T0: 8}).value == {T0: NONE}


def test_a_topic_that_is_not_created_ends_the_wait() -> None:
    harness, member = deleted()
    joined, committed = harness.join(), harness.commit({T0: 8}, group_id="h")
    harness.coordinator.resume(harness.now)
    assert joined.value.error is ErrorCode.NOT_COORDINATOR
    assert committed.value == {T0: ErrorCode.NOT_COORDINATOR}
    assert harness.heartbeat(member) is ErrorCode.NOT_COORDINATOR
