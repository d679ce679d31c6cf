"""Syncing, staying alive and leaving."""

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Heartbeat, JoinResult, LeaveResult, Leaving, SyncResult
from tests.groups.harness import REBALANCE, SESSION, Answer, Harness


def generation(harness: Harness, members: int = 2) -> list[JoinResult]:
    """Members, the leader first, who have joined and not synced yet."""
    answers = [harness.join() for _ in range(members)]
    harness.advance(0)
    return [answer.value for answer in answers]


class TestSync:
    def test_the_leader_assigns_and_everybody_learns(self) -> None:
        harness = Harness()
        leader, follower = generation(harness)
        waiting = harness.sync(follower)
        assert waiting.waits
        led = harness.sync(leader, {leader.member_id: b"mine", follower.member_id: b"yours"})
        assert led.value == SyncResult(ErrorCode.NONE, "consumer", "range", b"mine")
        assert waiting.value == SyncResult(ErrorCode.NONE, "consumer", "range", b"yours")
        assert harness.state() == "Stable"

    def test_a_late_follower_learns_at_once(self) -> None:
        harness = Harness()
        leader, follower = generation(harness)
        harness.sync(leader, {follower.member_id: b"yours"})
        assert harness.sync(follower).value.assignment == b"yours"

    def test_a_member_without_assignment_gets_empty_bytes(self) -> None:
        harness = Harness()
        leader, follower = generation(harness)
        harness.sync(leader, {leader.member_id: b"mine", "somebody": b"else"})
        assert harness.sync(follower).value.assignment == b""

    def test_syncs_are_answered_once_the_assignment_is_stored(self) -> None:
        harness = Harness()
        leader, follower = generation(harness)
        harness.log_port.hold()
        waiting = harness.sync(follower), harness.sync(leader, {leader.member_id: b"mine"})
        assert all(answer.waits for answer in waiting)
        assert harness.state() == "CompletingRebalance"
        harness.log_port.release()
        assert [answer.value.error for answer in waiting] == [ErrorCode.NONE] * 2

    @pytest.mark.parametrize(
        ("failure", "reported"),
        [
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
            (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
        ],
    )
    def test_all_syncs_fail_if_the_assignment_cannot_be_stored(self, failure: ErrorCode, reported: ErrorCode) -> None:
        harness = Harness()
        leader, follower = generation(harness)
        harness.log_port.error = failure
        answers = harness.sync(follower), harness.sync(leader, {leader.member_id: b"mine"})
        assert [answer.value for answer in answers] == [SyncResult(reported)] * 2
        assert harness.state() == "PreparingRebalance"

    def test_a_rebalance_discards_an_assignment_being_stored(self) -> None:
        harness = Harness()
        leader, follower = generation(harness)
        harness.log_port.hold()
        waiting = harness.sync(leader, {leader.member_id: b"mine"})
        harness.leave(follower.member_id)
        assert waiting.value.error is ErrorCode.REBALANCE_IN_PROGRESS
        again = harness.join(leader.member_id)
        harness.log_port.release()
        assert harness.state() == "CompletingRebalance"
        assert harness.sync(again.value, {leader.member_id: b"new"}).value.assignment == b"new"

    def test_a_sync_that_is_sent_again_ends_the_one_before_and_is_stored_once(self) -> None:
        harness = Harness()
        (leader,) = generation(harness, 1)
        harness.log_port.hold()
        once = harness.sync(leader, {leader.member_id: b"first"})
        twice = harness.sync(leader, {leader.member_id: b"second"})
        assert once.value == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
        harness.log_port.release()
        assert twice.value.assignment == b"first"
        assert len(harness.records()) == 1

    def test_invalid_requests_are_rejected(self) -> None:
        harness = Harness()
        leader, follower = generation(harness)
        assert harness.sync(leader, member_id="stranger").value.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.sync(leader, generation=2).value.error is ErrorCode.ILLEGAL_GENERATION
        assert harness.sync(leader, group_id="other").value.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.sync(leader, group_id="").value.error is ErrorCode.INVALID_GROUP_ID
        wrong_type = harness.sync(leader, protocol_type="connect", protocol_name="range")
        assert wrong_type.value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        wrong_name = harness.sync(leader, protocol_type="consumer", protocol_name="sticky")
        assert wrong_name.value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert harness.sync(follower, protocol_type="consumer", protocol_name="range").waits

    def test_a_sync_during_a_rebalance_is_rejected(self) -> None:
        harness = Harness()
        leader, follower = harness.stable(2)
        harness.join(leader.member_id)
        assert harness.sync(follower).value.error is ErrorCode.REBALANCE_IN_PROGRESS

    def test_an_answer_may_bring_the_next_request_with_it(self) -> None:
        """Send a request within an answer, as a waiting connection does with what it has read in the meantime."""
        harness = Harness()
        synced: list[Answer[SyncResult]] = []

        def sync_at_once(joined: JoinResult) -> None:
            assignments = {member.member_id: b"x" for member in joined.members}
            synced.append(harness.sync(joined, assignments))

        for _ in range(3):
            answer = harness.join()
            answer.__class__ = type("Eager", (Answer,), {"__call__": lambda self, value: sync_at_once(value)})
        harness.advance(0)
        assert [answer.value.assignment for answer in synced] == [b"x"] * 3
        assert harness.state() == "Stable"


class TestHeartbeat:
    def test_a_member_that_sends_heartbeats_stays(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        for _ in range(10):
            harness.advance(SESSION - 1)
            assert harness.heartbeat(member) is ErrorCode.NONE

    def test_a_silent_member_is_dropped(self) -> None:
        harness = Harness()
        leader, follower = harness.stable(2)
        harness.advance(SESSION - 1)
        assert harness.heartbeat(leader) is ErrorCode.NONE
        harness.advance(1)
        assert harness.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_the_last_member_leaves_the_group_empty(self) -> None:
        harness = Harness()
        harness.stable()
        harness.advance(SESSION)
        assert harness.state() == "Empty"

    def test_members_with_a_pending_join_send_no_heartbeats(self) -> None:
        harness = Harness()
        leader, follower = harness.stable(2, session=SESSION)
        again = harness.join(leader.member_id)
        for _ in range(5):
            harness.advance(SESSION - 1)
            assert harness.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
        assert again.waits
        harness.join(follower.member_id)
        assert again.value.error is ErrorCode.NONE

    def test_a_commit_restarts_the_session_timeout(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        harness.advance(SESSION - 1)
        harness.commit({("t", 0): 1}, member)
        harness.advance(SESSION - 1)
        assert harness.heartbeat(member) is ErrorCode.NONE

    def test_a_sync_restarts_the_session_timeout(self) -> None:
        harness = Harness()
        (member,) = generation(harness, 1)
        harness.advance(SESSION - 1)
        harness.sync(member, {member.member_id: b"x"})
        harness.advance(SESSION - 1)
        assert harness.heartbeat(member) is ErrorCode.NONE

    def test_heartbeats_are_accepted_while_the_assignment_is_awaited(self) -> None:
        harness = Harness()
        leader, _ = generation(harness)
        assert harness.heartbeat(leader) is ErrorCode.NONE

    def test_invalid_requests_are_rejected(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        beat = harness.coordinator.heartbeat
        assert beat(Heartbeat("g", 2, member.member_id), harness.now) is ErrorCode.ILLEGAL_GENERATION
        assert beat(Heartbeat("g", 1, "stranger"), harness.now) is ErrorCode.UNKNOWN_MEMBER_ID
        assert beat(Heartbeat("other", 1, member.member_id), harness.now) is ErrorCode.UNKNOWN_MEMBER_ID
        assert beat(Heartbeat("", 1, member.member_id), harness.now) is ErrorCode.INVALID_GROUP_ID


class TestLeave:
    def test_a_leave_rebalances_the_other_members(self) -> None:
        harness = Harness()
        leader, follower = harness.stable(2)
        assert harness.leave(follower.member_id) is ErrorCode.NONE
        assert harness.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
        assert harness.join(leader.member_id).value.generation == 2

    def test_the_last_member_leaves_the_group_empty(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        assert harness.leave(member.member_id) is ErrorCode.NONE
        assert harness.state() == "Empty"
        assert harness.heartbeat(member) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_another_member_leads_when_the_leader_leaves(self) -> None:
        harness = Harness()
        leader, follower = harness.stable(2)
        harness.leave(leader.member_id)
        assert harness.join(follower.member_id).value.leader == follower.member_id

    def test_a_rebalance_does_not_wait_for_a_member_that_left(self) -> None:
        harness = Harness()
        leader, follower = harness.stable(2)
        again = harness.join(leader.member_id)
        harness.leave(follower.member_id)
        assert again.value.error is ErrorCode.NONE

    def test_pending_requests_of_a_leaving_member_are_answered(self) -> None:
        harness = Harness()
        leader, follower = generation(harness)
        waiting = harness.sync(follower)
        harness.leave(follower.member_id)
        assert waiting.value.error is ErrorCode.UNKNOWN_MEMBER_ID
        again = harness.join()
        harness.leave("client-id3")
        assert again.value.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.join(leader.member_id).value.error is ErrorCode.NONE

    def test_a_pending_member_can_leave(self) -> None:
        harness = Harness()
        (leader,) = harness.stable()
        given = harness.join(version=4).value.member_id
        again = harness.join(leader.member_id)
        assert harness.leave(given) is ErrorCode.NONE
        assert again.value.error is ErrorCode.NONE
        assert harness.join(given, version=4).value.error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_several_members_leave_at_once(self) -> None:
        harness = Harness()
        first, second = harness.stable(2)
        leaving = [Leaving(first.member_id), Leaving("stranger"), Leaving(second.member_id), Leaving(first.member_id)]
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        result = harness.coordinator.leave("g", leaving, harness.now)
        assert result == LeaveResult(ErrorCode.NONE, (ErrorCode.NONE, unknown, ErrorCode.NONE, unknown))
        assert harness.state() == "Empty"

    def test_a_leave_from_an_unknown_group_is_rejected(self) -> None:
        assert Harness().leave("client-id1") is ErrorCode.UNKNOWN_MEMBER_ID
        assert Harness().coordinator.leave("", [], 0) == LeaveResult(ErrorCode.INVALID_GROUP_ID)

    def test_a_leave_before_the_first_generation_is_complete(self) -> None:
        harness = Harness()
        answer = harness.join()
        assert harness.leave("client-id1") is ErrorCode.NONE
        assert answer.value.error is ErrorCode.UNKNOWN_MEMBER_ID
        harness.advance(0)
        assert harness.state() == "Empty"


def test_a_leader_that_dies_before_it_assigns_blocks_nobody() -> None:
    harness = Harness()
    _, follower = generation(harness)
    waiting = harness.sync(follower)
    harness.advance(SESSION)
    assert waiting.value.error is ErrorCode.REBALANCE_IN_PROGRESS
    again = harness.join(follower.member_id)
    assert again.value.leader == follower.member_id
    assert harness.sync(again.value, {follower.member_id: b"all"}).value.assignment == b"all"


def test_a_leader_that_never_assigns_blocks_nobody() -> None:
    harness = Harness()
    leader, follower = generation(harness)
    waiting = harness.sync(follower)
    for _ in range(REBALANCE // 5_000):
        assert waiting.waits
        assert harness.heartbeat(leader) is ErrorCode.NONE
        harness.advance(5_000)
    assert waiting.value.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.join(follower.member_id).value.leader == follower.member_id
