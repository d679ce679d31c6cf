"""The state machine of a member whose coordinator assigns, as transcripts of its inputs and its actions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pylogbroker.client.consumer.actions import (
    Actions,
    Assign,
    FindCoordinator,
    LookUpTopics,
    MemberSubscription,
    ReportFailure,
    Revoke,
    SendEpochHeartbeat,
    TopicIdPartition,
)
from pylogbroker.client.consumer.epoch_member import EpochHeartbeatAnswer, EpochMember, EpochMemberState, Link
from pylogbroker.errors import ErrorCode, KafkaError

T, U, T_AGAIN = UUID(int=1), UUID(int=2), UUID(int=3)
NAMES: dict[UUID, str | None] = {T: "t", U: "u", T_AGAIN: "t"}
TOPICS = MemberSubscription(frozenset({"t"}))
OTHER_TOPICS = MemberSubscription(frozenset({"t", "u"}))
A, B, C = (T, 0), (T, 1), (U, 0)


def ids(*partitions: TopicIdPartition) -> frozenset[TopicIdPartition]:
    return frozenset(partitions)


def names(*partitions: TopicIdPartition) -> frozenset[tuple[str, int]]:
    return frozenset((str(NAMES[topic_id]), number) for topic_id, number in partitions)


def member(**how: Any) -> EpochMember:
    return EpochMember("me", TOPICS, 100, 1000, 60_000, **how)


def full(epoch: int, *owned: TopicIdPartition, subscription: MemberSubscription = TOPICS) -> SendEpochHeartbeat:
    return SendEpochHeartbeat("me", epoch, subscription, ids(*owned), is_full=True)


def beat(epoch: int, owned: frozenset[TopicIdPartition] | None = None) -> SendEpochHeartbeat:
    return SendEpochHeartbeat("me", epoch, None, owned)


def answer(machine: EpochMember, epoch: int, now: int, *assigned: TopicIdPartition) -> Actions:
    return machine.heartbeat_answered(EpochHeartbeatAnswer(epoch, 5000, ids(*assigned)), NAMES, now)


def unchanged(machine: EpochMember, epoch: int, now: int) -> Actions:
    return machine.heartbeat_answered(EpochHeartbeatAnswer(epoch, 5000), {}, now)


def stable(*owned: TopicIdPartition, **how: Any) -> EpochMember:
    """Return a member that joined, owns these, and has said so, at the time 0."""
    machine = member(**how)
    assert machine.start(0) == [FindCoordinator()]
    assert machine.coordinator_found(0) == [full(0)]
    said = [beat(1, ids(*owned))] if owned else []
    assert answer(machine, 1, 0, *owned) == [Assign(names(*owned)), *said]
    if owned:
        assert unchanged(machine, 1, 0) == []
    assert (machine.state, machine.link) == (EpochMemberState.STABLE, Link.READY)
    return machine


def test_heartbeats_say_only_what_has_changed() -> None:
    machine = stable(A)
    assert machine.next_due() == 5000
    assert machine.tick(4999) == []
    assert machine.tick(5000) == [beat(1)]
    assert machine.tick(5001) == []  # one at a time
    assert machine.next_due() is None
    assert machine.subscribe(OTHER_TOPICS, 5002) == []
    assert unchanged(machine, 1, 5003) == [SendEpochHeartbeat("me", 1, OTHER_TOPICS)]
    assert unchanged(machine, 2, 5004) == []
    assert machine.subscribe(OTHER_TOPICS, 5005) == []
    assert machine.next_due() == 10_004


def test_partitions_are_revoked_before_new_ones_are_taken() -> None:
    machine = stable(A, B)
    machine.tick(5000)
    assert answer(machine, 1, 5010, B, C) == [Revoke(names(A), lost=False)]
    assert machine.state is EpochMemberState.REVOKING
    assert machine.tick(10_010) == [beat(1)]  # heartbeats go on, without a word of the revocation
    assert unchanged(machine, 1, 10_020) == []
    assert machine.revoked(10_030) == [Assign(names(C)), beat(1, ids(B, C))]
    assert unchanged(machine, 2, 10_040) == []
    assert (machine.owned, machine.generation) == (ids(B, C), 2)


def test_an_assignment_during_a_revocation_counts_when_that_has_ended() -> None:
    machine = stable(A, B)
    machine.tick(5000)
    assert answer(machine, 1, 5010, B) == [Revoke(names(A), lost=False)]
    machine.tick(10_010)
    assert answer(machine, 2, 10_020, A) == []
    assert machine.revoked(10_030) == [Revoke(names(B), lost=False), beat(2, ids(B))]
    assert unchanged(machine, 2, 10_040) == []
    assert machine.revoked(10_050) == [Assign(names(A)), beat(2, ids(A))]


def test_after_an_error_a_heartbeat_says_everything() -> None:
    machine = stable(A)
    machine.tick(5000)
    assert machine.request_rejected(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 5010) == []
    assert machine.next_due() == 5110
    assert machine.tick(5110) == [full(1, A)]
    assert machine.request_rejected(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 5120) == []
    assert machine.next_due() == 5320  # the pause grows
    assert machine.tick(5320) == [full(1, A)]
    assert answer(machine, 1, 5330, A) == []
    assert machine.next_due() == 10_330


def test_the_coordinator_moves_and_the_member_stays() -> None:
    machine = stable(A)
    machine.tick(5000)
    revision = machine.revision
    assert machine.disconnected(5010) == []
    assert machine.revision != revision
    assert machine.tick(5110) == [FindCoordinator()]
    assert machine.request_rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE, 5120) == []
    assert machine.tick(5320) == [FindCoordinator()]
    assert machine.coordinator_found(5330) == [full(1, A)]
    assert machine.owned == ids(A)


def test_a_revocation_outlives_the_coordinator() -> None:
    machine = stable(A, B)
    machine.tick(5000)
    answer(machine, 1, 5010, B)
    machine.tick(10_010)
    machine.disconnected(10_020)
    assert machine.revoked(10_030) == []
    assert machine.tick(10_120) == [FindCoordinator()]
    assert machine.coordinator_found(10_130) == [full(1, B)]


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_a_fenced_member_loses_its_partitions_and_joins_again(code: ErrorCode) -> None:
    machine = stable(A)
    machine.tick(5000)
    assert machine.request_rejected(code, 5010) == [Revoke(names(A), lost=True)]
    assert (machine.generation, machine.next_due()) == (-1, None)
    assert machine.revoked(5020) == [full(0)]
    assert answer(machine, 4, 5030, A) == [Assign(names(A)), beat(4, ids(A))]


def test_a_member_that_is_fenced_while_it_revokes() -> None:
    machine = stable(A, B)
    machine.tick(5000)
    answer(machine, 1, 5010, B)
    machine.tick(10_010)
    assert machine.request_rejected(ErrorCode.FENCED_MEMBER_EPOCH, 10_020) == []
    assert machine.revoked(10_030) == [Revoke(names(B), lost=True)]
    assert machine.revoked(10_040) == [full(0)]


def test_a_member_that_cannot_join_pauses() -> None:
    machine = member()
    machine.start(0)
    machine.coordinator_found(0)
    assert machine.request_rejected(ErrorCode.UNKNOWN_MEMBER_ID, 10) == []
    assert machine.next_due() == 110
    assert machine.tick(110) == [full(0)]


def test_an_epoch_that_goes_back_is_not_that_of_this_member() -> None:
    machine = stable(A)
    machine.tick(5000)
    unchanged(machine, 7, 5010)
    machine.tick(10_010)
    assert answer(machine, 6, 10_020, B) == [Revoke(names(A), lost=True)]


def test_a_coordinator_that_has_not_assigned_yet() -> None:
    machine = member()
    machine.start(0)
    machine.coordinator_found(0)
    assert answer(machine, 0, 10) == []
    assert (machine.state, machine.generation) == (EpochMemberState.JOINING, -1)
    assert machine.tick(5010) == [full(0)]
    assert answer(machine, 1, 5020, A) == [Assign(names(A)), beat(1, ids(A))]


def test_an_interval_of_nothing_is_no_flood() -> None:
    machine = stable()
    machine.tick(5000)
    machine.heartbeat_answered(EpochHeartbeatAnswer(1, 0), {}, 5000)
    assert machine.next_due() == 5010


@pytest.mark.parametrize(
    "code",
    [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_ASSIGNOR],
)
def test_a_permanent_error_ends_the_member(code: ErrorCode) -> None:
    machine = stable(A, B)
    machine.tick(5000)
    answer(machine, 1, 5010, B)
    machine.tick(10_010)
    lost, failure = machine.request_rejected(code, 10_020)
    assert lost == Revoke(names(B), lost=True)  # the other one is being revoked already
    assert isinstance(failure, ReportFailure)
    assert isinstance(failure.error, KafkaError)
    assert failure.error.code is code
    assert machine.revoked(10_030) == []
    assert (machine.state, machine.next_due()) == (EpochMemberState.GONE, None)


def test_an_instance_id_is_waited_for_until_the_limit() -> None:
    machine = member(static=True)
    machine.start(0)
    machine.coordinator_found(0)
    now, pauses = 10, 0
    while not (actions := machine.request_rejected(ErrorCode.UNRELEASED_INSTANCE_ID, now)):
        pauses += 1
        due = machine.next_due()
        assert due is not None
        now = due
        assert machine.tick(now) == [full(0)]
    assert [type(action) for action in actions] == [ReportFailure]
    assert 60_000 <= now < 61_100
    assert 55 < pauses < 70


@pytest.mark.parametrize(("static", "epoch"), [(False, -1), (True, -2)])
def test_a_member_says_that_it_leaves_when_its_offsets_are_committed(static: bool, epoch: int) -> None:
    machine = stable(A, static=static)
    assert machine.leave(10) == [Revoke(names(A), lost=False)]
    assert machine.leave(20) == []
    assert machine.tick(5000) == [beat(1)]  # else the session could end before the commit
    assert machine.revoked(5010) == [SendEpochHeartbeat("me", epoch)]
    assert machine.next_due() is None
    machine.left()
    assert machine.state is EpochMemberState.GONE


def test_leaving_while_partitions_are_revoked() -> None:
    machine = stable(A, B)
    machine.tick(5000)
    answer(machine, 1, 5010, B)
    assert machine.leave(5020) == []
    assert machine.revoked(5030) == [Revoke(names(B), lost=False)]
    assert machine.revoked(5040) == [SendEpochHeartbeat("me", -1)]


def test_a_member_that_is_fenced_while_it_leaves_does_not_join_again() -> None:
    machine = stable(A)
    machine.leave(10)
    machine.tick(5000)
    assert machine.request_rejected(ErrorCode.UNKNOWN_MEMBER_ID, 5010) == []
    assert machine.next_due() is None
    assert machine.revoked(5020) == []
    assert machine.state is EpochMemberState.GONE


def test_leaving_while_joining_or_without_a_coordinator() -> None:
    machine = member()
    machine.start(0)
    assert machine.leave(5) == []
    assert machine.state is EpochMemberState.GONE
    machine = member()
    machine.start(0)
    machine.coordinator_found(0)
    assert machine.leave(5) == [SendEpochHeartbeat("me", -1)]  # it may be a member already


def test_partitions_wait_for_the_names_of_their_topics() -> None:
    machine = member()
    machine.start(0)
    machine.coordinator_found(0)
    first = machine.heartbeat_answered(EpochHeartbeatAnswer(1, 5000, ids(A, C)), {T: "t"}, 0)
    assert first == [Assign(names(A)), beat(1, ids(A)), LookUpTopics(frozenset({U}))]
    assert unchanged(machine, 1, 10) == []
    assert machine.topics_named({}, 20) == []
    assert machine.next_due() == 1020
    assert machine.tick(1020) == [LookUpTopics(frozenset({U}))]
    assert machine.topics_named({U: "u"}, 1030) == [Assign(names(C)), beat(1, ids(A, C))]


def test_topics_that_no_stream_reads_are_not_taken() -> None:
    machine = member()
    machine.start(0)
    machine.coordinator_found(0)
    taken = machine.heartbeat_answered(EpochHeartbeatAnswer(1, 5000, ids(A, C)), {T: "t", U: None}, 0)
    assert taken == [Assign(names(A)), beat(1, ids(A))]


def test_a_topic_that_is_created_again_is_revoked_and_taken() -> None:
    machine = stable(A)
    machine.tick(5000)
    assert answer(machine, 1, 5010, (T_AGAIN, 0), A) == []  # the name is still that of the deleted one
    machine.tick(10_010)
    assert answer(machine, 1, 10_020, (T_AGAIN, 0)) == [Revoke(names(A), lost=False)]
    assert machine.revoked(10_030) == [Assign(names((T_AGAIN, 0))), beat(1, ids((T_AGAIN, 0)))]


@pytest.mark.parametrize("code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_rejected_commit_asks_for_the_present_epoch(code: ErrorCode) -> None:
    machine = stable(A)
    assert machine.commit_rejected(code, 100) == [beat(1)]
    assert machine.commit_rejected(code, 110) == []
    assert unchanged(machine, 2, 120) == []
    assert machine.generation == 2
    assert machine.commit_rejected(ErrorCode.NOT_COORDINATOR, 130) == []
    assert machine.link is Link.UNKNOWN


def test_members_that_do_not_say_what_they_own() -> None:
    machine = member(says_owned=False)
    machine.start(0)
    machine.coordinator_found(0)
    assert answer(machine, 1, 0, A) == [Assign(names(A))]
    machine.tick(5000)
    assert answer(machine, 2, 5010, B) == [Revoke(names(A), lost=False)]
    assert machine.revoked(5020) == [Assign(names(B))]
