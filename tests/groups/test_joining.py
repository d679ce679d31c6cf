"""Joining: who is let in, under which id, with which protocol, and how long a rebalance waits."""

import attrs
import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import GroupSettings, JoinedMember, JoinResult
from tests.groups.harness import REBALANCE, SESSION, SETTINGS, Harness, subscription


def test_a_lone_member_leads_the_first_generation() -> None:
    harness = Harness()
    answer = harness.join()
    harness.advance(0)
    joined = answer.value
    assert joined.error is ErrorCode.NONE
    assert (joined.generation, joined.protocol_type, joined.protocol_name) == (1, "consumer", "range")
    assert joined.leader == joined.member_id == "client-id1"
    assert joined.members == (JoinedMember("client-id1", None, subscription("t")),)
    assert harness.state() == "CompletingRebalance"


def test_without_initial_delay_a_later_member_rebalances_again() -> None:
    """Without a delay, only members whose joins are handled before the timer fires share the first generation.

    Apache Kafka 3.9 hands that timer to another thread: of 150 pairs that joined within a millisecond it answered the
    first member alone 49 times, and this broker, on the same machine, 20 times.
    """
    harness = Harness()
    first, beside = harness.join(), harness.join()
    harness.advance(0)
    assert (first.value.generation, len(first.value.members)) == (1, 2)
    assert beside.value.generation == 1
    later = harness.join()
    harness.advance(0)
    assert later.waits
    assert harness.heartbeat(first.value) is ErrorCode.REBALANCE_IN_PROGRESS
    again = [harness.join(joined.value.member_id) for joined in (first, beside)]
    assert {answer.value.generation for answer in (later, *again)} == {2}


def test_only_the_leader_gets_the_members() -> None:
    harness = Harness()
    first, second = harness.join(), harness.join()
    harness.advance(0)
    assert [member.member_id for member in first.value.members] == ["client-id1", "client-id2"]
    assert second.value.members == ()
    assert second.value.leader == "client-id1"
    assert second.value.generation == first.value.generation == 1


def test_from_version_4_a_member_must_rejoin_with_its_given_id() -> None:
    harness = Harness()
    rejected = harness.join(version=4).value
    assert rejected.error is ErrorCode.MEMBER_ID_REQUIRED
    assert rejected.member_id == "client-id1"
    assert harness.state() == "Empty"
    accepted = harness.join(rejected.member_id, version=4)
    harness.advance(0)
    assert accepted.value.member_id == "client-id1"


def test_a_member_id_is_no_longer_than_a_string_may_be() -> None:
    """A member id begins with the member's own name, or with as many whole characters of it as fit."""
    harness = Harness()
    given = harness.join(instance_id="名" * 10_922, version=5)
    harness.advance(0)
    assert given.value.error is ErrorCode.NONE
    assert given.value.member_id == "名" * 10_921 + "-id1"


def test_a_static_member_need_not_join_twice() -> None:
    harness = Harness()
    answer = harness.join(instance_id="one", version=5)
    harness.advance(0)
    assert answer.value.error is ErrorCode.NONE
    assert answer.value.member_id == "one-id1"


def test_an_unused_member_id_is_forgotten_after_the_session_timeout() -> None:
    harness = Harness()
    given = harness.join(version=4).value.member_id
    harness.advance(SESSION)
    assert harness.join(given, version=4).value.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_a_member_id_that_was_given_out() -> None:
    harness = Harness()
    (leader,) = harness.stable()
    given = harness.join(version=4).value.member_id
    again = harness.join(leader.member_id)
    assert again.waits
    newcomer = harness.join(given, version=4)
    assert again.value.generation == newcomer.value.generation == leader.generation + 1


def test_a_rebalance_stops_waiting_when_the_member_id_expires() -> None:
    harness = Harness()
    (leader,) = harness.stable()
    harness.join(version=4)
    again = harness.join(leader.member_id)
    harness.advance(SESSION - 1)
    assert again.waits
    harness.advance(1)
    assert again.value.error is ErrorCode.NONE


@pytest.mark.parametrize("session", [5_999, 1_800_001])
def test_session_timeouts_out_of_bounds_are_rejected(session: int) -> None:
    assert Harness().join(session=session).value.error is ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("session", [6_000, 1_800_000])
def test_session_timeouts_at_the_bounds_are_accepted(session: int) -> None:
    harness = Harness()
    answer = harness.join(session=session)
    harness.advance(0)
    assert answer.value.error is ErrorCode.NONE


def test_a_group_that_does_not_exist_has_no_members() -> None:
    assert Harness().join("client-id7").value.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_without_a_name_is_rejected() -> None:
    assert Harness().join(group_id="").value.error is ErrorCode.INVALID_GROUP_ID
    assert Harness().join(group_id="g" * 40_000).value.error is ErrorCode.INVALID_GROUP_ID


class TestProtocols:
    def test_a_protocol_supported_by_all_with_most_votes_is_chosen(self) -> None:
        harness = Harness()
        lists = (["sticky", "range", "x"], ["range", "sticky"], ["y", "range", "sticky"])
        answers = [harness.join(protocols=dict.fromkeys(names, b"")) for names in lists]
        harness.advance(0)
        assert {answer.value.protocol_name for answer in answers} == {"range"}

    def test_the_leader_gets_the_metadata_of_the_chosen_protocol(self) -> None:
        harness = Harness()
        first = harness.join(protocols={"a": b"1", "b": b"2"})
        harness.join(protocols={"b": b"3"})
        harness.advance(0)
        assert [member.metadata for member in first.value.members] == [b"2", b"3"]

    def test_a_member_without_a_common_protocol_is_rejected(self) -> None:
        harness = Harness()
        harness.join(protocols={"a": b"", "b": b""})
        harness.join(protocols={"b": b""})
        assert harness.join(protocols={"a": b""}).value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_another_protocol_type_is_rejected(self) -> None:
        harness = Harness()
        harness.stable()
        assert harness.join(protocol_type="connect").value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_a_first_member_without_type_or_protocol(self) -> None:
        assert Harness().join(protocol_type="").value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert Harness().join(protocols={}).value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_a_group_that_was_emptied_may_change_its_type(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        harness.leave(member.member_id)
        answer = harness.join(protocol_type="connect", protocols={"eager": b""})
        harness.advance(0)
        assert answer.value.protocol_type == "connect"

    def test_a_member_that_supports_less_than_before_changes_the_choice(self) -> None:
        harness = Harness()
        first, second = harness.stable(2, protocols={"a": b"", "b": b""})
        harness.join(second.member_id, protocols={"b": b""})
        answer = harness.join(first.member_id, protocols={"a": b"", "b": b""})
        assert answer.value.protocol_name == "b"


class TestRejoining:
    def test_an_unchanged_follower_of_a_stable_group_disturbs_nobody(self) -> None:
        harness = Harness()
        leader, follower = harness.stable(2)
        again = harness.join(follower.member_id).value
        assert (again.error, again.generation, again.leader) == (ErrorCode.NONE, leader.generation, leader.member_id)
        assert again.members == ()
        assert harness.state() == "Stable"

    def test_the_leader_of_a_stable_group_starts_a_rebalance(self) -> None:
        harness = Harness()
        leader, follower = harness.stable(2)
        assert harness.join(leader.member_id).waits
        assert harness.state() == "PreparingRebalance"
        assert harness.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_follower_with_something_new_starts_a_rebalance(self) -> None:
        harness = Harness()
        _, follower = harness.stable(2)
        assert harness.join(follower.member_id, protocols={"range": subscription("t", "u")}).waits
        assert harness.state() == "PreparingRebalance"

    def test_a_lost_answer_is_given_again_while_the_assignment_is_awaited(self) -> None:
        harness = Harness()
        first, second = harness.join(), harness.join()
        harness.advance(0)
        assert harness.join("client-id1").value == first.value
        assert harness.join("client-id2").value == second.value
        assert harness.state() == "CompletingRebalance"

    def test_new_metadata_during_a_pending_assignment_rebalances_again(self) -> None:
        harness = Harness()
        first, second = harness.join(), harness.join()
        harness.advance(0)
        waiting = harness.sync(second.value)
        harness.join("client-id1", protocols={"range": b"new"})
        assert waiting.value.error is ErrorCode.REBALANCE_IN_PROGRESS
        again = harness.join("client-id2")
        assert again.value.generation == first.value.generation + 1

    def test_a_request_that_is_sent_again_ends_the_one_before(self) -> None:
        """Retries must not accumulate while a member delays the rebalance."""
        harness = Harness()
        first, second = harness.stable(2)
        retries = [harness.join(first.member_id) for _ in range(5)]
        assert {each.value for each in retries[:-1]} == {JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, first.member_id)}
        assert retries[-1].waits
        harness.join(second.member_id)
        assert retries[-1].value.error is ErrorCode.NONE

    def test_a_foreign_member_id_is_unknown(self) -> None:
        harness = Harness()
        harness.stable()
        assert harness.join("client-id99").value.error is ErrorCode.UNKNOWN_MEMBER_ID


class TestTimes:
    def test_the_first_rebalance_waits_for_more_members(self) -> None:
        harness = Harness(GroupSettings(initial_rebalance_delay_ms=3_000))
        first = harness.join()
        harness.advance(2_999)
        assert first.waits
        harness.advance(1)
        assert first.value.error is ErrorCode.NONE

    def test_an_initial_rebalance_is_extended_while_members_join(self) -> None:
        harness = Harness(GroupSettings(initial_rebalance_delay_ms=3_000))
        answers = []
        for _ in range(4):
            answers.append(harness.join())
            harness.advance(2_000)
        harness.advance(0)
        assert all(answer.waits for answer in answers)
        harness.advance(4_000)
        assert {answer.value.generation for answer in answers} == {1}

    def test_an_initial_rebalance_ends_at_the_rebalance_timeout(self) -> None:
        harness = Harness(GroupSettings(initial_rebalance_delay_ms=3_000))
        first = harness.join(rebalance=7_000)
        for _ in range(6):
            harness.advance(1_000)
            harness.join(rebalance=7_000)
        assert first.waits
        harness.advance(1_000)
        assert first.value.error is ErrorCode.NONE

    def test_members_that_do_not_rejoin_are_dropped(self) -> None:
        harness = Harness()
        first, second = harness.stable(2, session=SESSION)
        again = harness.join(first.member_id)
        for _ in range(REBALANCE // 5_000):
            assert again.waits
            assert harness.heartbeat(second) is ErrorCode.REBALANCE_IN_PROGRESS
            harness.advance(5_000)
        assert [member.member_id for member in again.value.members] == [first.member_id]
        assert harness.heartbeat(second) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_the_slowest_member_decides_how_long_to_wait(self) -> None:
        harness = Harness()
        first, _ = harness.stable(2, session=120_000, rebalance=90_000)
        again = harness.join(first.member_id, rebalance=10_000, session=120_000)
        harness.advance(89_999)
        assert again.waits
        harness.advance(1)
        assert again.value.error is ErrorCode.NONE

    def test_another_member_leads_when_the_leader_does_not_rejoin(self) -> None:
        harness = Harness()
        _, follower = harness.stable(2)
        again = harness.join(follower.member_id, protocols={"range": b"new"})
        harness.advance(SESSION)
        assert again.value.leader == follower.member_id
        assert [member.member_id for member in again.value.members] == [follower.member_id]

    def test_the_join_of_a_new_member_is_unloaded_after_five_minutes(self) -> None:
        harness = Harness()
        (member,) = harness.stable(session=1_800_000, rebalance=1_800_000)
        newcomer = harness.join(session=1_800_000)
        harness.advance(299_999)
        assert newcomer.waits
        harness.advance(1)
        assert newcomer.value.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.heartbeat(member) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_member_that_does_not_sync_in_time_is_dropped(self) -> None:
        harness = Harness()
        first, second = harness.join(session=120_000), harness.join(session=120_000)
        harness.advance(0)
        harness.sync(first.value, {first.value.member_id: b"all"})
        assert harness.state() == "Stable"
        harness.advance(REBALANCE)
        assert harness.heartbeat(second.value) is ErrorCode.UNKNOWN_MEMBER_ID
        assert harness.heartbeat(first.value) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_the_driver_is_notified_of_an_earlier_deadline(self) -> None:
        harness = Harness(GroupSettings(initial_rebalance_delay_ms=3_000))
        harness.woken.clear()
        harness.join()
        assert min(harness.woken) == harness.runtime.next_deadline() == harness.now + 3_000


class TestSize:
    def settings(self, size: int) -> GroupSettings:
        return attrs.evolve(SETTINGS, max_size=size)

    def test_a_full_group_takes_nobody_in(self) -> None:
        harness = Harness(self.settings(2))
        harness.stable(2)
        assert harness.join().value.error is ErrorCode.GROUP_MAX_SIZE_REACHED

    def test_a_full_forming_group_rejects_members(self) -> None:
        harness = Harness(self.settings(2))
        kept = harness.join(), harness.join()
        rejected = harness.join()
        harness.advance(0)
        assert rejected.value.error is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert [answer.value.error for answer in kept] == [ErrorCode.NONE] * 2

    def test_members_of_a_full_group_can_rejoin(self) -> None:
        harness = Harness(self.settings(2))
        leader, follower = harness.stable(2)
        answers = harness.join(leader.member_id), harness.join(follower.member_id)
        assert [answer.value.error for answer in answers] == [ErrorCode.NONE] * 2

    def test_a_loaded_group_that_is_too_large_shrinks(self) -> None:
        harness = Harness()
        members = harness.stable(3)
        harness = harness.restarted(self.settings(2))
        assert harness.state() == "PreparingRebalance"
        answers = [harness.join(member.member_id) for member in members]
        errors = sorted(answer.value.error for answer in answers)
        assert errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]
