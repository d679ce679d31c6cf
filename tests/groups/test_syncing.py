"""Syncing, staying alive and leaving."""

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Heartbeat, JoinResult, LeaveResult, Leaving, SyncResult
from tests.groups.rooms import REBALANCE, SESSION, Answer, Table


def generation(table: Table, members: int = 2) -> list[JoinResult]:
    """Members, the leader first, who have joined and not synced yet."""
    answers = [table.join() for _ in range(members)]
    table.advance(0)
    return [answer.value for answer in answers]


class TestSync:
    def test_the_leader_assigns_and_everybody_learns(self) -> None:
        table = Table()
        leader, follower = generation(table)
        waiting = table.sync(follower)
        assert waiting.waits
        led = table.sync(leader, {leader.member_id: b"mine", follower.member_id: b"yours"})
        assert led.value == SyncResult(ErrorCode.NONE, "consumer", "range", b"mine")
        assert waiting.value == SyncResult(ErrorCode.NONE, "consumer", "range", b"yours")
        assert table.state() == "Stable"

    def test_a_late_follower_learns_at_once(self) -> None:
        table = Table()
        leader, follower = generation(table)
        table.sync(leader, {follower.member_id: b"yours"})
        assert table.sync(follower).value.assignment == b"yours"

    def test_who_is_forgotten_by_the_leader_gets_nothing(self) -> None:
        table = Table()
        leader, follower = generation(table)
        table.sync(leader, {leader.member_id: b"mine", "somebody": b"else"})
        assert table.sync(follower).value.assignment == b""

    def test_nobody_learns_before_it_is_stored(self) -> None:
        table = Table()
        leader, follower = generation(table)
        table.store.hold()
        waiting = table.sync(follower), table.sync(leader, {leader.member_id: b"mine"})
        assert all(answer.waits for answer in waiting)
        assert table.state() == "CompletingRebalance"
        table.store.release()
        assert [answer.value.error for answer in waiting] == [ErrorCode.NONE] * 2

    @pytest.mark.parametrize(
        ("failure", "told"),
        [
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
            (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
        ],
    )
    def test_everybody_is_told_when_it_cannot_be_stored(self, failure: ErrorCode, told: ErrorCode) -> None:
        table = Table()
        leader, follower = generation(table)
        table.store.error = failure
        answers = table.sync(follower), table.sync(leader, {leader.member_id: b"mine"})
        assert [answer.value for answer in answers] == [SyncResult(told)] * 2
        assert table.state() == "PreparingRebalance"

    def test_a_rebalance_while_it_is_being_stored_wins(self) -> None:
        table = Table()
        leader, follower = generation(table)
        table.store.hold()
        waiting = table.sync(leader, {leader.member_id: b"mine"})
        table.leave(follower.member_id)
        assert waiting.value.error is ErrorCode.REBALANCE_IN_PROGRESS
        again = table.join(leader.member_id)
        table.store.release()
        assert table.state() == "CompletingRebalance"
        assert table.sync(again.value, {leader.member_id: b"new"}).value.assignment == b"new"

    def test_a_sync_that_is_sent_again_is_answered_twice_and_stored_once(self) -> None:
        table = Table()
        (leader,) = generation(table, 1)
        table.store.hold()
        once = table.sync(leader, {leader.member_id: b"first"})
        twice = table.sync(leader, {leader.member_id: b"second"})
        table.store.release()
        assert once.value == twice.value
        assert once.value.assignment == b"first"
        assert len(table.records()) == 1

    def test_what_is_refused(self) -> None:
        table = Table()
        leader, follower = generation(table)
        assert table.sync(leader, member_id="stranger").value.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert table.sync(leader, generation=2).value.error is ErrorCode.ILLEGAL_GENERATION
        assert table.sync(leader, group_id="other").value.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert table.sync(leader, group_id="").value.error is ErrorCode.INVALID_GROUP_ID
        wrong_type = table.sync(leader, protocol_type="connect", protocol_name="range")
        assert wrong_type.value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        wrong_name = table.sync(leader, protocol_type="consumer", protocol_name="sticky")
        assert wrong_name.value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert table.sync(follower, protocol_type="consumer", protocol_name="range").waits

    def test_during_a_rebalance_it_is_refused(self) -> None:
        table = Table()
        leader, follower = table.stable(2)
        table.join(leader.member_id)
        assert table.sync(follower).value.error is ErrorCode.REBALANCE_IN_PROGRESS

    def test_an_answer_may_bring_the_next_request_with_it(self) -> None:
        """As when a connection that was waiting hands in what it has read in the meantime."""
        table = Table()
        synced: list[Answer[SyncResult]] = []

        def sync_at_once(joined: JoinResult) -> None:
            assignments = {member.member_id: b"x" for member in joined.members}
            synced.append(table.sync(joined, assignments))

        for _ in range(3):
            answer = table.join()
            answer.__class__ = type("Eager", (Answer,), {"__call__": lambda self, value: sync_at_once(value)})
        table.advance(0)
        assert [answer.value.assignment for answer in synced] == [b"x"] * 3
        assert table.state() == "Stable"


class TestHeartbeat:
    def test_a_member_that_beats_stays(self) -> None:
        table = Table()
        (member,) = table.stable()
        for _ in range(10):
            table.advance(SESSION - 1)
            assert table.heartbeat(member) is ErrorCode.NONE

    def test_one_that_does_not_is_dropped(self) -> None:
        table = Table()
        leader, follower = table.stable(2)
        table.advance(SESSION - 1)
        assert table.heartbeat(leader) is ErrorCode.NONE
        table.advance(1)
        assert table.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID
        assert table.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_the_last_one_leaves_the_group_empty(self) -> None:
        table = Table()
        table.stable()
        table.advance(SESSION)
        assert table.state() == "Empty"

    def test_who_waits_need_not_beat(self) -> None:
        table = Table()
        leader, follower = table.stable(2, session=SESSION)
        again = table.join(leader.member_id)
        for _ in range(5):
            table.advance(SESSION - 1)
            assert table.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
        assert again.waits
        table.join(follower.member_id)
        assert again.value.error is ErrorCode.NONE

    def test_a_commit_counts_as_one(self) -> None:
        table = Table()
        (member,) = table.stable()
        table.advance(SESSION - 1)
        table.commit({("t", 0): 1}, member)
        table.advance(SESSION - 1)
        assert table.heartbeat(member) is ErrorCode.NONE

    def test_so_does_a_sync(self) -> None:
        table = Table()
        (member,) = generation(table, 1)
        table.advance(SESSION - 1)
        table.sync(member, {member.member_id: b"x"})
        table.advance(SESSION - 1)
        assert table.heartbeat(member) is ErrorCode.NONE

    def test_it_is_fine_while_the_assignment_is_awaited(self) -> None:
        table = Table()
        leader, _ = generation(table)
        assert table.heartbeat(leader) is ErrorCode.NONE

    def test_what_is_refused(self) -> None:
        table = Table()
        (member,) = table.stable()
        beat = table.coordinator.heartbeat
        assert beat(Heartbeat("g", 2, member.member_id), table.now) is ErrorCode.ILLEGAL_GENERATION
        assert beat(Heartbeat("g", 1, "stranger"), table.now) is ErrorCode.UNKNOWN_MEMBER_ID
        assert beat(Heartbeat("other", 1, member.member_id), table.now) is ErrorCode.UNKNOWN_MEMBER_ID
        assert beat(Heartbeat("", 1, member.member_id), table.now) is ErrorCode.INVALID_GROUP_ID


class TestLeave:
    def test_the_others_rebalance(self) -> None:
        table = Table()
        leader, follower = table.stable(2)
        assert table.leave(follower.member_id) is ErrorCode.NONE
        assert table.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
        assert table.join(leader.member_id).value.generation == 2

    def test_the_last_one_leaves_the_group_empty(self) -> None:
        table = Table()
        (member,) = table.stable()
        assert table.leave(member.member_id) is ErrorCode.NONE
        assert table.state() == "Empty"
        assert table.heartbeat(member) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_when_the_leader_leaves_another_leads(self) -> None:
        table = Table()
        leader, follower = table.stable(2)
        table.leave(leader.member_id)
        assert table.join(follower.member_id).value.leader == follower.member_id

    def test_the_rebalance_need_not_wait_for_who_left(self) -> None:
        table = Table()
        leader, follower = table.stable(2)
        again = table.join(leader.member_id)
        table.leave(follower.member_id)
        assert again.value.error is ErrorCode.NONE

    def test_its_waiting_requests_are_answered(self) -> None:
        table = Table()
        leader, follower = generation(table)
        waiting = table.sync(follower)
        table.leave(follower.member_id)
        assert waiting.value.error is ErrorCode.UNKNOWN_MEMBER_ID
        again = table.join()
        table.leave("client-id3")
        assert again.value.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert table.join(leader.member_id).value.error is ErrorCode.NONE

    def test_before_it_has_joined(self) -> None:
        table = Table()
        (leader,) = table.stable()
        given = table.join(version=4).value.member_id
        again = table.join(leader.member_id)
        assert table.leave(given) is ErrorCode.NONE
        assert again.value.error is ErrorCode.NONE
        assert table.join(given, version=4).value.error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_several_at_once(self) -> None:
        table = Table()
        first, second = table.stable(2)
        leaving = [Leaving(first.member_id), Leaving("stranger"), Leaving(second.member_id), Leaving(first.member_id)]
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        result = table.coordinator.leave("g", leaving, table.now)
        assert result == LeaveResult(ErrorCode.NONE, (ErrorCode.NONE, unknown, ErrorCode.NONE, unknown))
        assert table.state() == "Empty"

    def test_from_a_group_that_does_not_exist(self) -> None:
        assert Table().leave("client-id1") is ErrorCode.UNKNOWN_MEMBER_ID
        assert Table().coordinator.leave("", [], 0) == LeaveResult(ErrorCode.INVALID_GROUP_ID)

    def test_before_the_first_generation_is_complete(self) -> None:
        table = Table()
        answer = table.join()
        assert table.leave("client-id1") is ErrorCode.NONE
        assert answer.value.error is ErrorCode.UNKNOWN_MEMBER_ID
        table.advance(0)
        assert table.state() == "Empty"


def test_a_leader_that_dies_before_it_assigns_does_not_hold_up_the_others() -> None:
    table = Table()
    _, follower = generation(table)
    waiting = table.sync(follower)
    table.advance(SESSION)
    assert waiting.value.error is ErrorCode.REBALANCE_IN_PROGRESS
    again = table.join(follower.member_id)
    assert again.value.leader == follower.member_id
    assert table.sync(again.value, {follower.member_id: b"all"}).value.assignment == b"all"


def test_a_leader_that_beats_but_never_assigns_does_not_either() -> None:
    table = Table()
    leader, follower = generation(table)
    waiting = table.sync(follower)
    for _ in range(REBALANCE // 5_000):
        assert waiting.waits
        assert table.heartbeat(leader) is ErrorCode.NONE
        table.advance(5_000)
    assert waiting.value.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert table.join(follower.member_id).value.leader == follower.member_id
