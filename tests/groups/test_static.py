"""Static membership: a member that joins again with its instance id keeps its place."""

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import JoinResult, LeaveResult, Leaving
from tests.groups.harness import SESSION, Answer, Harness, subscription


def stable(harness: Harness, *instances: str) -> list[JoinResult]:
    answers = [harness.join(instance_id=instance, version=9) for instance in instances]
    harness.advance(0)
    results = [answer.value for answer in answers]
    for result in reversed(results):
        harness.sync(result, {other.member_id: other.member_id.encode() for other in results})
    assert harness.state() == "Stable"
    return results


def members(harness: Harness) -> dict[str | None, str]:
    return {member.instance_id: member.member_id for member in harness.coordinator.describe("g").members}


class TestRejoining:
    def test_a_rejoining_follower_keeps_its_assignment(self) -> None:
        harness = Harness()
        leader, follower = stable(harness, "a", "b")
        again = harness.join(instance_id="b", version=9).value
        assert (again.error, again.generation, again.leader) == (ErrorCode.NONE, 1, leader.member_id)
        assert again.member_id != follower.member_id
        assert again.members == ()
        assert not again.skip_assignment
        assert harness.state() == "Stable"
        assert harness.sync(again).value.assignment == follower.member_id.encode()

    def test_a_leader_gets_the_members_and_not_to_assign(self) -> None:
        harness = Harness()
        stable(harness, "a", "b")
        again = harness.join(instance_id="a", version=9).value
        assert again.leader == again.member_id
        assert again.skip_assignment
        assert {member.instance_id for member in again.members} == {"a", "b"}
        assert harness.sync(again, {again.member_id: b"ignored"}).value.assignment == b"a-id1"

    def test_before_version_9_a_leader_is_not_notified_that_it_leads(self) -> None:
        harness = Harness()
        leader, _ = stable(harness, "a", "b")
        again = harness.join(instance_id="a", version=8).value
        assert again.leader == leader.member_id != again.member_id
        assert not again.skip_assignment
        assert again.members == ()

    def test_a_new_subscription_with_the_same_protocol_changes_nothing(self) -> None:
        harness = Harness()
        stable(harness, "a", "b")
        again = harness.join(instance_id="b", version=9, protocols={"range": subscription("other")})
        assert again.value.generation == 1

    def test_a_changed_protocol_choice_rebalances_the_group(self) -> None:
        harness = Harness()
        both = {"range": b"", "sticky": b""}
        first, second = (harness.join(instance_id=name, version=9, protocols=both) for name in "ab")
        harness.advance(0)
        harness.sync(first.value, {})
        harness.sync(second.value)
        again = harness.join(instance_id="b", version=9, protocols={"sticky": b""})
        assert again.waits
        assert harness.join(first.value.member_id, protocols=both).value.protocol_name == "sticky"

    def test_the_new_id_survives_a_restart(self) -> None:
        harness = Harness()
        stable(harness, "a", "b")
        again = harness.join(instance_id="b", version=9).value
        harness = harness.restarted()
        assert members(harness)["b"] == again.member_id
        assert harness.heartbeat(again, "b") is ErrorCode.NONE

    def test_a_rejoin_restarts_the_session_timeout(self) -> None:
        harness = Harness()
        leader, _ = stable(harness, "a", "b")
        harness.advance(SESSION - 1)
        again = harness.join(instance_id="b", version=9).value
        assert harness.heartbeat(leader, "a") is ErrorCode.NONE
        harness.advance(SESSION - 1)
        assert harness.heartbeat(again, "b") is ErrorCode.NONE

    def test_a_rejoin_during_a_pending_assignment_restarts_the_rebalance(self) -> None:
        harness = Harness()
        answers = [harness.join(instance_id=name, version=9) for name in "abc"]
        harness.advance(0)
        waiting = harness.sync(answers[2].value)
        again = harness.join(instance_id="b", version=9)
        assert waiting.value.error is ErrorCode.REBALANCE_IN_PROGRESS
        rejoined = harness.join(answers[0].value.member_id, instance_id="a", version=9)
        harness.leave("", "c")
        assert rejoined.value.generation == again.value.generation == 2
        assert {member.member_id for member in rejoined.value.members} == {
            rejoined.value.member_id,
            again.value.member_id,
        }

    def test_a_rejoin_during_a_rebalance_fences_the_earlier_join(self) -> None:
        harness = Harness()
        first = harness.join(instance_id="a", version=9)
        second = harness.join(instance_id="a", version=9)
        assert first.value.error is ErrorCode.FENCED_INSTANCE_ID
        harness.advance(0)
        assert second.value.error is ErrorCode.NONE
        assert len(second.value.members) == 1


class TestWhileItIsStored:
    def replacing(self) -> tuple[Harness, JoinResult, Answer[JoinResult]]:
        harness = Harness()
        leader, _ = stable(harness, "a", "b")
        harness.log_port.hold()
        return harness, leader, harness.join(instance_id="b", version=9)

    def test_a_rejoin_waits_for_the_log(self) -> None:
        harness, _, again = self.replacing()
        assert again.waits
        harness.log_port.release()
        assert again.value.error is ErrorCode.NONE

    def test_a_replacement_that_cannot_be_stored_keeps_the_old_member(self) -> None:
        harness, _, again = self.replacing()
        harness.log_port.error = ErrorCode.NOT_ENOUGH_REPLICAS
        harness.log_port.release()
        assert again.value.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert members(harness)["b"] == "b-id2"
        assert harness.heartbeat(JoinResult(ErrorCode.NONE, "b-id2", 1), "b") is ErrorCode.NONE

    def test_a_rebalance_includes_the_member_being_replaced(self) -> None:
        harness, leader, again = self.replacing()
        rejoined = harness.join(leader.member_id, instance_id="a", version=9)
        harness.log_port.release()
        assert again.value.generation == rejoined.value.generation == 2

    def test_a_third_join_fences_the_one_being_stored(self) -> None:
        harness, _, again = self.replacing()
        third = harness.join(instance_id="b", version=9)
        harness.log_port.release()
        assert again.value.error is ErrorCode.FENCED_INSTANCE_ID
        assert third.value.error is ErrorCode.NONE
        assert members(harness)["b"] == third.value.member_id

    def test_an_unloaded_coordinator_answers_not_coordinator(self) -> None:
        harness, _, again = self.replacing()
        harness.close()
        harness.log_port.release()
        assert again.value.error is ErrorCode.NOT_COORDINATOR


class TestFencing:
    def test_the_old_id_is_fenced_everywhere(self) -> None:
        harness = Harness()
        _, old = stable(harness, "a", "b")
        harness.join(instance_id="b", version=9)
        fenced = ErrorCode.FENCED_INSTANCE_ID
        assert harness.heartbeat(old, "b") is fenced
        assert harness.join(old.member_id, instance_id="b", version=9).value.error is fenced
        assert harness.sync(old, instance_id="b").value.error is fenced
        assert harness.leave(old.member_id, "b") is fenced
        assert harness.heartbeat(old) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_waiting_sync_of_the_old_id_is_fenced(self) -> None:
        harness = Harness()
        answers = [harness.join(instance_id=name, version=9) for name in "ab"]
        harness.advance(0)
        waiting = harness.sync(answers[1].value)
        harness.join(instance_id="b", version=9)
        assert waiting.value.error is ErrorCode.FENCED_INSTANCE_ID

    def test_an_instance_id_that_is_not_known(self) -> None:
        harness = Harness()
        member, _ = stable(harness, "a", "b")
        assert harness.heartbeat(member, "c") is ErrorCode.UNKNOWN_MEMBER_ID
        again = harness.join(member.member_id, instance_id="c", version=9)
        assert again.value.error is ErrorCode.UNKNOWN_MEMBER_ID


class TestLeaving:
    def test_a_silent_member_keeps_its_place_until_its_session_ends(self) -> None:
        harness = Harness()
        leader, follower = stable(harness, "a", "b")
        again = harness.join(leader.member_id, instance_id="a", version=9)
        harness.advance(SESSION - 1)
        assert again.waits
        harness.advance(1)
        assert [member.member_id for member in again.value.members] == [leader.member_id]
        assert harness.heartbeat(follower, "b") is ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_silent_member_stays_if_the_rebalance_ends_first(self) -> None:
        harness = Harness()
        terms = {"version": 9, "session": 120_000}
        answers = [harness.join(instance_id=name, **terms) for name in "ab"]  # type: ignore[arg-type]
        harness.advance(0)
        for answer in answers:
            harness.sync(answer.value)
        again = harness.join(answers[0].value.member_id, instance_id="a", **terms)  # type: ignore[arg-type]
        harness.advance(60_000)
        assert len(again.value.members) == 2

    def test_a_rebalance_without_rejoins_lasts_until_sessions_end(self) -> None:
        harness = Harness()
        terms = {"version": 9, "session": 120_000, "rebalance": 20_000}
        first, second = (harness.join(instance_id=name, **terms) for name in "ab")  # type: ignore[arg-type]
        harness.advance(0)
        harness.sync(first.value)
        harness.sync(second.value)
        harness.leave(first.value.member_id)
        harness.advance(119_999)
        assert harness.state() == "PreparingRebalance"
        harness.advance(1)
        assert harness.state() == "Empty"

    @pytest.mark.parametrize("by", ["instance id alone", "both ids"])
    def test_a_static_member_can_be_removed(self, by: str) -> None:
        harness = Harness()
        _, follower = stable(harness, "a", "b")
        member_id = "" if by == "instance id alone" else follower.member_id
        leaving = [Leaving(member_id, "b"), Leaving("", "nobody"), Leaving("")]
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        result = harness.coordinator.leave("g", leaving, harness.now)
        assert result == LeaveResult(ErrorCode.NONE, (ErrorCode.NONE, unknown, unknown))
        assert harness.state() == "PreparingRebalance"
        assert "b" not in members(harness)

    def test_a_removed_static_member_joins_as_a_new_one(self) -> None:
        harness = Harness()
        stable(harness, "a")
        harness.leave("", "a")
        again = harness.join(instance_id="a", version=9)
        harness.advance(0)
        assert again.value.generation == 3  # the second one had no members
