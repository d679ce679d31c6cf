"""The state machine of a group's member, as transcripts of its inputs and its actions."""

from __future__ import annotations

from typing import Any

import pytest

from pylogbroker.client.consumer.actions import (
    Assign,
    FindCoordinator,
    Partitions,
    ReportFailure,
    Revoke,
    RunAssignor,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
)
from pylogbroker.client.consumer.member_state_machine import MemberState, MemberStateMachine
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember

NOTHING: Partitions = frozenset()
A, B, C = ("a", 0), ("b", 0), ("c", 0)
NONE = ErrorCode.NONE


def parts(*partitions: tuple[str, int]) -> Partitions:
    return frozenset(partitions)


def member(**how: Any) -> MemberStateMachine:
    return MemberStateMachine(10_000, 3000, 100, 1000, **how)


def join(member_id: str = "", owned: Partitions = NOTHING, given: Partitions = NOTHING, generation: int = -1) -> Any:
    return ("Join", member_id, owned, given, generation)


def said(actions: list[Any]) -> list[Any]:
    """Actions without the reason for joining, which is for people."""
    return [
        ("Join", each.member_id, each.owned, each.given, each.generation) if isinstance(each, SendJoin) else each
        for each in actions
    ]


def answer(generation: int = 1, leader: str = "other", code: ErrorCode = NONE, **more: Any) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, generation_id=generation, protocol_name="range", leader=leader, member_id="me", **more
    )


def stable(owned: Partitions = NOTHING, generation: int = 1, **how: Any) -> MemberStateMachine:
    """A member that joined, and was given this, at the time 0."""
    machine = member(**how)
    assert machine.start(0) == [FindCoordinator()]
    assert said(machine.coordinator_found(0)) == [join()]
    assert machine.joined(answer(generation), 0) == [SendSync("me", generation, "range", {})]
    assert machine.synced(NONE, owned, 0) == [Assign(owned)]
    assert machine.state is MemberState.STABLE
    return machine


def test_a_member_joins_for_the_first_time() -> None:
    machine = member()
    assert machine.start(0) == [FindCoordinator()]
    assert said(machine.coordinator_found(5)) == [join()]
    assert said(machine.joined(answer(code=ErrorCode.MEMBER_ID_REQUIRED), 6)) == [join("me")]
    members = [JoinGroupResponseMember("me", None, b"m")]
    assert machine.joined(answer(leader="me", members=members), 7) == [RunAssignor("range", members)]
    assert machine.assignor_done({"me": b"part"}) == [SendSync("me", 1, "range", {"me": b"part"})]
    assert machine.synced(NONE, parts(A, B), 8) == [Assign(parts(A, B))]
    assert (machine.state, machine.member_id, machine.generation, machine.leads) == (MemberState.STABLE, "me", 1, True)


def test_a_leader_that_need_not_divide() -> None:
    machine = member(static=True)
    machine.start(0)
    machine.coordinator_found(0)
    assert machine.joined(answer(leader="me", skip_assignment=True), 0) == [SendSync("me", 1, "range", {})]


def test_heartbeats() -> None:
    machine = stable()
    assert machine.next_due() == 3000
    assert machine.tick(2999) == []
    assert machine.tick(3000) == [SendHeartbeat("me", 1)]
    assert machine.tick(3001) == []  # one at a time
    assert machine.heartbeat_answered(NONE, 3010) == []
    assert machine.next_due() == 6010
    assert machine.tick(6010) == [SendHeartbeat("me", 1)]


def test_an_eager_member_revokes_everything_before_it_rejoins() -> None:
    machine = stable(parts(A, B))
    machine.tick(3000)
    assert machine.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS, 3010) == [Revoke(parts(A, B), lost=False)]
    assert machine.state is MemberState.PREPARING
    assert machine.tick(6010) == [SendHeartbeat("me", 1)]  # the group waits for it
    assert machine.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS, 6020) == []
    assert said(machine.revoked(6030, parts(A, B))) == [join("me", NOTHING, parts(A, B), 1)]
    machine.joined(answer(2), 6040)
    assert machine.synced(NONE, parts(B), 6050) == [Assign(parts(B))]
    assert machine.generation == 2


def test_a_cooperative_member_keeps_its_remaining_partitions() -> None:
    machine = stable(parts(A, B), cooperative=True)
    machine.tick(3000)
    assert said(machine.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS, 3010)) == [
        join("me", parts(A, B), parts(A, B), 1)
    ]
    machine.joined(answer(2), 3020)
    assert machine.synced(NONE, parts(B, C), 3030) == [Revoke(parts(A), lost=False), Assign(parts(C))]
    assert machine.state is MemberState.PREPARING
    assert said(machine.revoked(3040, parts(A))) == [join("me", parts(B, C), parts(B, C), 2)]
    machine.joined(answer(3), 3050)
    assert machine.synced(NONE, parts(B, C), 3060) == [Assign(NOTHING)]
    assert machine.state is MemberState.STABLE


def test_a_subscription_that_changes() -> None:
    machine = stable(parts(A, B), cooperative=True)
    assert machine.rejoin("changed", 10, parts(A)) == [Revoke(parts(A), lost=False)]
    assert said(machine.revoked(20, parts(A))) == [join("me", parts(B), parts(A, B), 1)]
    machine.joined(answer(2), 30)
    assert machine.synced(NONE, parts(B), 40) == [Assign(NOTHING)]


@pytest.mark.parametrize("asked", ["joining", "syncing"])
def test_a_subscription_that_changes_on_the_way(asked: str) -> None:
    machine = member()
    machine.start(0)
    machine.coordinator_found(0)
    if asked == "joining":
        assert machine.rejoin("changed", 5) == []
    machine.joined(answer(1), 10)
    if asked == "syncing":
        assert machine.rejoin("changed", 15) == []
    assert machine.synced(NONE, parts(A), 20) == [Assign(parts(A)), Revoke(parts(A), lost=False)]
    assert said(machine.revoked(30, parts(A))) == [join("me", NOTHING, parts(A), 1)]
    machine.joined(answer(2), 40)
    assert machine.synced(NONE, parts(A), 50) == [Assign(parts(A))]


def test_the_coordinator_moves_and_everything_stays() -> None:
    machine = stable(parts(A))
    machine.tick(3000)
    assert machine.heartbeat_answered(ErrorCode.NOT_COORDINATOR, 3010) == []
    assert machine.state is MemberState.FINDING
    assert machine.next_due() == 3110
    assert machine.tick(3110) == [FindCoordinator()]
    assert machine.request_rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE, 3120) == []
    assert machine.next_due() == 3320  # the pause has grown
    assert machine.tick(3320) == [FindCoordinator()]
    assert machine.coordinator_found(3330) == [SendHeartbeat("me", 1)]
    assert machine.heartbeat_answered(NONE, 3340) == []
    assert (machine.state, machine.owned) == (MemberState.STABLE, parts(A))


def test_the_coordinator_is_lost_while_joining() -> None:
    machine = member()
    machine.start(0)
    machine.coordinator_found(0)
    assert machine.disconnected(10) == []
    assert machine.tick(110) == [FindCoordinator()]
    assert said(machine.coordinator_found(120)) == [join()]


def test_the_coordinator_is_lost_while_partitions_are_revoked() -> None:
    machine = stable(parts(A))
    machine.rejoin("changed", 10)
    machine.tick(3000)
    assert machine.disconnected(3010) == []
    assert machine.revoked(3020, parts(A)) == [FindCoordinator()]
    assert said(machine.coordinator_found(3030)) == [join("me", NOTHING, parts(A), 1)]


def test_a_session_timeout_restarts_the_member() -> None:
    machine = stable(parts(A))
    assert machine.tick(3000) == [SendHeartbeat("me", 1)]
    assert machine.next_due() == 10_000
    assert machine.tick(10_000) == []
    assert machine.state is MemberState.FINDING


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")]
)
def test_a_fenced_member_joins_again(code: ErrorCode, member_id: str) -> None:
    machine = stable(parts(A), cooperative=True)
    machine.tick(3000)
    assert machine.heartbeat_answered(code, 3010) == [Revoke(parts(A), lost=True)]
    assert machine.next_due() is None  # no member, no heartbeats
    assert said(machine.revoked(3020, parts(A))) == [join(member_id)]


def test_thrown_out_while_revoking() -> None:
    machine = stable(parts(A))
    machine.rejoin("changed", 10)
    machine.tick(3000)
    assert machine.heartbeat_answered(ErrorCode.UNKNOWN_MEMBER_ID, 3010) == []
    assert said(machine.revoked(3020, parts(A))) == [join()]


def test_thrown_out_while_joining() -> None:
    machine = member()
    machine.start(0)
    machine.coordinator_found(0)
    machine.joined(answer(code=ErrorCode.MEMBER_ID_REQUIRED), 1)
    assert said(machine.request_rejected(ErrorCode.UNKNOWN_MEMBER_ID, 2)) == [join()]


def test_a_rebalance_in_the_middle_of_another() -> None:
    machine = member()
    machine.start(0)
    machine.coordinator_found(0)
    machine.joined(answer(1), 1)
    assert said(machine.synced(ErrorCode.REBALANCE_IN_PROGRESS, NOTHING, 2)) == [join("me", generation=1)]
    assert machine.request_rejected(ErrorCode.REBALANCE_IN_PROGRESS, 3) == []
    assert machine.next_due() == 103
    assert said(machine.tick(103)) == [join("me", generation=1)]


def test_a_coordinator_that_is_loading() -> None:
    machine = member()
    machine.start(0)
    machine.coordinator_found(0)
    assert machine.request_rejected(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 10) == []
    assert said(machine.tick(110)) == [join()]


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_MAX_SIZE_REACHED]
)
def test_a_fatal_error_ends_the_member(code: ErrorCode) -> None:
    machine = stable(parts(A), static=True)
    machine.tick(3000)
    lost, failure = machine.heartbeat_answered(code, 3010)
    assert lost == Revoke(parts(A), lost=True)
    assert isinstance(failure, ReportFailure)
    assert isinstance(failure.error, KafkaError)
    assert failure.error.code is code
    assert machine.revoked(3020, parts(A)) == []
    assert (machine.state, machine.next_due()) == (MemberState.GONE, None)


def test_a_dynamic_member_says_that_it_goes() -> None:
    machine = stable(parts(A))
    assert machine.leave(10) == [Revoke(parts(A), lost=False)]
    assert machine.revoked(20, parts(A)) == [SendLeave("me")]
    machine.left()
    assert machine.state is MemberState.GONE


def test_a_static_member_does_not_leave_the_group() -> None:
    machine = stable(parts(A), static=True)
    assert machine.leave(10) == [Revoke(parts(A), lost=False)]
    assert machine.revoked(20, parts(A)) == []
    assert machine.state is MemberState.GONE


def test_leaving_while_partitions_are_revoked() -> None:
    machine = stable(parts(A, B), cooperative=True)
    machine.rejoin("changed", 10, parts(A))
    assert machine.leave(20) == []
    assert machine.revoked(30, parts(A)) == [Revoke(parts(B), lost=False)]
    assert machine.revoked(40, parts(B)) == [SendLeave("me")]


def test_leaving_without_a_coordinator() -> None:
    machine = member()
    machine.start(0)
    assert machine.leave(10) == []
    assert machine.state is MemberState.GONE


def test_leaving_twice_or_before_anything() -> None:
    machine = member()
    assert machine.leave(0) == []
    assert machine.state is MemberState.GONE
    assert machine.leave(0) == []


def test_answers_that_come_too_late_can_be_reported() -> None:
    machine = stable(parts(A))
    machine.tick(3000)
    sent = machine.revision
    machine.rejoin("changed", 3005)
    assert machine.revision != sent
