"""Offsets: who may commit, what is shown when, and when it is forgotten."""

import attrs
import pytest

from pylogbroker.broker.slices import at_once
from pylogbroker.config import Values
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Commit, CommittedOffset, DeleteOffsetsResult, FetchResult, GroupSettings
from tests.groups.harness import SESSION, SETTINGS, Harness, subscription

DAY = 86_400_000
MINUTE = 60_000
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


class TestWhoMayCommit:
    def test_a_consumer_without_membership_makes_its_group(self) -> None:
        harness = Harness()
        assert harness.commit({T0: 7}).value == {T0: ErrorCode.NONE}
        assert harness.offset() == 7
        assert harness.state() == "Empty"

    def test_a_member(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        assert harness.commit({T0: 7, T1: 8}, member).value == {T0: ErrorCode.NONE, T1: ErrorCode.NONE}
        assert (harness.offset(), harness.offset("t", 1)) == (7, 8)

    def test_a_member_of_a_group_that_is_rebalancing(self) -> None:
        harness = Harness()
        leader, follower = harness.stable(2)
        harness.join(leader.member_id)
        assert harness.commit({T0: 7}, follower).value == {T0: ErrorCode.NONE}

    def test_not_before_the_assignment(self) -> None:
        harness = Harness()
        answer = harness.join()
        harness.advance(0)
        assert harness.commit({T0: 7}, answer.value).value == {T0: ErrorCode.REBALANCE_IN_PROGRESS}

    def test_nobody_without_membership_while_there_are_members(self) -> None:
        harness = Harness()
        harness.stable()
        assert harness.commit({T0: 7}).value == {T0: ErrorCode.UNKNOWN_MEMBER_ID}

    def test_nobody_of_another_generation(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        stale = attrs.evolve(member, generation=0)
        assert harness.commit({T0: 7}, stale).value == {T0: ErrorCode.ILLEGAL_GENERATION}
        assert harness.commit({T0: 7}, attrs.evolve(member, generation=-1)).value == {T0: ErrorCode.ILLEGAL_GENERATION}

    def test_no_foreign_entry(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        foreign = attrs.evolve(member, member_id="stranger")
        assert harness.commit({T0: 7}, foreign).value == {T0: ErrorCode.UNKNOWN_MEMBER_ID}

    def test_no_member_of_a_group_that_does_not_exist(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        assert harness.commit({T0: 7}, member, group_id="other").value == {T0: ErrorCode.UNKNOWN_MEMBER_ID}

    def test_no_former_member_of_an_empty_group(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        harness.advance(SESSION)
        assert harness.commit({T0: 7}, member).value == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
        assert harness.commit({T0: 7}).value == {T0: ErrorCode.NONE}

    def test_no_fenced_static_member(self) -> None:
        harness = Harness()
        answer = harness.join(instance_id="one", version=9)
        harness.advance(0)
        harness.sync(answer.value)
        harness.join(instance_id="one", version=9)
        answers: list[object] = []
        commit = Commit("g", 1, answer.value.member_id, {T0: CommittedOffset(1)}, "one")
        harness.coordinator.commit(commit, answers.append, harness.now)
        assert answers == [{T0: ErrorCode.FENCED_INSTANCE_ID}]


class TestWhatIsStored:
    def test_metadata_and_leader_epoch_come_back(self) -> None:
        harness = Harness()
        offset = CommittedOffset(7, 3, "ünïcode", harness.now)
        harness.commit({T0: offset})
        assert harness.coordinator.fetch("g", [T0, U0]) == FetchResult(ErrorCode.NONE, {T0: offset, U0: None})

    def test_metadata_that_is_too_long_is_rejected_alone(self) -> None:
        harness = Harness(attrs.evolve(SETTINGS, max_metadata_bytes=4))
        result = harness.commit({T0: CommittedOffset(1, metadata="12345"), T1: CommittedOffset(2, metadata="1234")})
        assert result.value == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE, T1: ErrorCode.NONE}
        assert (harness.offset(), harness.offset("t", 1)) == (None, 2)

    def test_nothing_is_written_when_everything_is_rejected(self) -> None:
        harness = Harness(attrs.evolve(SETTINGS, max_metadata_bytes=0))
        result = harness.commit({T0: CommittedOffset(1, metadata="x")})
        assert result.value == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
        assert harness.records() == []

    def test_it_is_not_shown_before_it_is_stored(self) -> None:
        harness = Harness()
        harness.commit({T0: 1})
        harness.log_port.hold()
        answer = harness.commit({T0: 2})
        assert answer.waits
        assert harness.offset() == 1
        assert harness.coordinator.fetch("g", [T0], require_stable=True).offsets == {
            T0: ErrorCode.UNSTABLE_OFFSET_COMMIT
        }
        harness.log_port.release()
        assert answer.value == {T0: ErrorCode.NONE}
        assert harness.offset() == 2
        assert isinstance(harness.coordinator.fetch("g", [T0], require_stable=True).offsets[T0], CommittedOffset)

    @pytest.mark.parametrize(
        ("failure", "reported"),
        [
            (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        ],
    )
    def test_it_is_not_shown_when_it_cannot_be_stored(self, failure: ErrorCode, reported: ErrorCode) -> None:
        harness = Harness()
        harness.commit({T0: 1})
        harness.log_port.error = failure
        assert harness.commit({T0: 2}).value == {T0: reported}
        assert harness.offset() == 1

    def test_the_last_of_several_on_their_way_counts(self) -> None:
        harness = Harness()
        harness.log_port.hold()
        first, second = harness.commit({T0: 1}), harness.commit({T0: 2})
        harness.log_port.release()
        assert first.value == second.value == {T0: ErrorCode.NONE}
        assert harness.offset() == 2

    def test_a_commit_on_its_way_does_not_revive_a_deleted_partition(self) -> None:
        harness = Harness()
        harness.commit({U0: 1})
        harness.log_port.hold()
        answer = harness.commit({T0: 1})
        harness.delete_partitions([T0])
        harness.log_port.release()
        assert answer.value == {T0: ErrorCode.NONE}
        assert harness.offset() is None

    def test_all_that_a_group_has_committed(self) -> None:
        harness = Harness()
        harness.commit({T0: 1, U0: 2})
        assert set(harness.coordinator.fetch("g").offsets) == {T0, U0}
        assert harness.coordinator.fetch("other") == FetchResult(ErrorCode.NONE, {})
        assert harness.coordinator.fetch("other", [T0]) == FetchResult(ErrorCode.NONE, {T0: None})

    def test_a_group_without_a_name_may_have_offsets_but_no_members(self) -> None:
        harness = Harness()
        assert harness.commit({T0: 1}, group_id="").value == {T0: ErrorCode.NONE}
        assert harness.offset(group_id="") == 1
        assert harness.join(group_id="").value.error is ErrorCode.INVALID_GROUP_ID


class TestForgetting:
    settings = attrs.evolve(SETTINGS, retention_ms=7 * DAY, check_interval_ms=10 * MINUTE)

    def test_of_a_consumer_without_membership_after_each_commit(self) -> None:
        harness = Harness(self.settings)
        harness.commit({T0: 1})
        harness.advance(3 * DAY)
        harness.commit({T1: 1})
        harness.advance(4 * DAY + 10 * MINUTE)
        assert (harness.offset(), harness.offset("t", 1)) == (None, 1)
        assert harness.state() == "Empty"
        harness.advance(3 * DAY)
        assert harness.state() == "Dead"

    def test_of_an_empty_group_since_it_became_empty(self) -> None:
        harness = Harness(self.settings)
        (member,) = harness.stable(session=1_800_000)
        harness.commit({T0: 1}, member)
        for _ in range(2 * 24 * 4):
            harness.advance(15 * MINUTE)
            harness.heartbeat(member)
        harness.leave(member.member_id)
        harness.advance(7 * DAY - MINUTE)
        assert harness.offset() == 1
        harness.advance(11 * MINUTE)
        assert harness.offset() is None
        assert harness.state() == "Dead"

    def test_of_a_living_group_only_of_topics_that_nobody_subscribes_to(self) -> None:
        harness = Harness(self.settings)
        (member,) = harness.stable(session=1_800_000)
        harness.commit({T0: 1, U0: 1}, member)
        for _ in range(8 * 24 * 4):
            harness.advance(15 * MINUTE)
            harness.heartbeat(member)
        assert (harness.offset(), harness.offset("u")) == (1, None)

    def test_of_a_living_group_of_another_kind_never(self) -> None:
        harness = Harness(self.settings)
        (member,) = harness.stable(session=1_800_000, protocol_type="connect", protocols={"eager": b"?"})
        harness.commit({T0: 1}, member)
        for _ in range(8 * 24 * 4):
            harness.advance(15 * MINUTE)
            harness.heartbeat(member)
        assert harness.offset() == 1

    def test_with_a_retention_time_of_its_own(self) -> None:
        harness = Harness(self.settings)
        harness.commit({T0: CommittedOffset(1, committed=harness.now, expires=harness.now + DAY), T1: 1})
        harness.advance(DAY + 10 * MINUTE)
        assert (harness.offset(), harness.offset("t", 1)) == (None, 1)

    def test_not_while_another_commit_is_on_its_way(self) -> None:
        harness = Harness(self.settings)
        harness.commit({T0: 1})
        harness.advance(7 * DAY - MINUTE)
        harness.log_port.hold()
        answer = harness.commit({T0: 2})
        harness.advance(20 * MINUTE)
        harness.log_port.release()
        assert answer.value == {T0: ErrorCode.NONE}
        assert harness.offset() == 2

    def test_it_is_written_down(self) -> None:
        harness = Harness(self.settings)
        harness.commit({T0: 1})
        harness.advance(7 * DAY + 10 * MINUTE)
        assert harness.restarted().coordinator.fetch("g").offsets == {}
        assert [record.value is None for record in harness.records()] == [False, True]

    def test_a_group_that_only_gave_out_an_id_is_no_more(self) -> None:
        harness = Harness(self.settings)
        harness.join(version=4)
        assert harness.state() == "Empty"
        harness.advance(10 * MINUTE)
        assert harness.state() == "Dead"
        assert harness.records() == []


class TestDeletingOffsets:
    def test_of_an_empty_group(self) -> None:
        harness = Harness()
        harness.commit({T0: 1, T1: 1})
        result = harness.coordinator.delete_offsets("g", [T0, U0], harness.now)
        assert result == DeleteOffsetsResult(ErrorCode.NONE, {T0: ErrorCode.NONE, U0: ErrorCode.NONE})
        assert harness.offset() is None
        assert harness.restarted().coordinator.fetch("g").offsets.keys() == {T1}

    def test_the_last_one_ends_the_group(self) -> None:
        harness = Harness()
        harness.commit({T0: 1})
        harness.coordinator.delete_offsets("g", [T0], harness.now)
        assert harness.state() == "Dead"

    def test_of_a_living_group_only_of_topics_that_nobody_subscribes_to(self) -> None:
        harness = Harness()
        (member,) = harness.stable(protocols={"range": subscription("t")})
        harness.commit({T0: 1, U0: 1}, member)
        result = harness.coordinator.delete_offsets("g", [T0, U0], harness.now)
        assert result.partitions == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, U0: ErrorCode.NONE}
        assert (harness.offset(), harness.offset("u")) == (1, None)

    def test_a_subscription_that_cannot_be_read_may_be_to_anything(self) -> None:
        harness = Harness()
        (member,) = harness.stable(protocols={"range": b"\0\0\0\0\0\1\0"})
        harness.commit({U0: 1}, member)
        result = harness.coordinator.delete_offsets("g", [U0], harness.now)
        assert result.partitions == {U0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}

    def test_of_a_living_group_of_another_kind_none(self) -> None:
        harness = Harness()
        harness.stable(protocol_type="connect", protocols={"eager": b""})
        assert harness.coordinator.delete_offsets("g", [T0], harness.now).error is ErrorCode.NON_EMPTY_GROUP

    def test_of_no_group(self) -> None:
        assert Harness().coordinator.delete_offsets("g", [T0], 0).error is ErrorCode.GROUP_ID_NOT_FOUND
        assert Harness().coordinator.delete_offsets("", [T0], 0).error is ErrorCode.INVALID_GROUP_ID


class TestDeletingGroups:
    def test_an_empty_one_goes_with_its_offsets(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        harness.commit({T0: 1}, member)
        harness.leave(member.member_id)
        assert harness.coordinator.delete_group("g", harness.now) is ErrorCode.NONE
        assert harness.state() == "Dead"
        assert harness.offset() is None
        other = harness.restarted()
        assert other.state() == "Dead"
        assert at_once(other.coordinator.list_groups()) == (ErrorCode.NONE, [])

    def test_one_with_members_stays(self) -> None:
        harness = Harness()
        harness.stable()
        assert harness.coordinator.delete_group("g", harness.now) is ErrorCode.NON_EMPTY_GROUP
        assert harness.state() == "Stable"

    def test_one_that_does_not_exist(self) -> None:
        assert Harness().coordinator.delete_group("g", 0) is ErrorCode.GROUP_ID_NOT_FOUND

    def test_its_name_can_be_used_again(self) -> None:
        harness = Harness()
        harness.commit({T0: 1})
        harness.coordinator.delete_group("g", harness.now)
        assert harness.commit({T0: 2}).value == {T0: ErrorCode.NONE}
        assert harness.restarted().offset() == 2

    def test_an_id_that_it_gave_out_is_unknown_then(self) -> None:
        harness = Harness()
        given = harness.join(version=4).value.member_id
        harness.coordinator.delete_group("g", harness.now)
        assert harness.join(given, version=4).value.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_deleted_partitions_are_forgotten_in_all_groups() -> None:
    harness = Harness()
    harness.commit({T0: 1, U0: 1})
    harness.commit({T0: 2}, group_id="h")
    harness.delete_partitions([T0])
    assert (harness.offset(), harness.offset("u"), harness.offset(group_id="h")) == (None, 1, None)
    other = harness.restarted()
    assert (other.offset(), other.offset("u"), other.offset(group_id="h")) == (None, 1, None)


def test_many_deleted_partitions_are_forgotten_with_pauses() -> None:
    harness = Harness()
    partitions = [("large", index) for index in range(2500)]
    harness.commit({**dict.fromkeys(partitions, 1), U0: 1})
    steps = harness.coordinator.delete_partitions(partitions, harness.now)
    assert harness.coordinator.count_offsets("g") == 2501
    next(steps)
    left = [harness.coordinator.count_offsets("g") for _ in steps]
    assert left == [1501, 501, 1]
    assert harness.restarted().coordinator.count_offsets("g") == 1


def test_groups_are_listed_by_state_and_type() -> None:
    harness = Harness()
    harness.stable()
    harness.commit({T0: 1}, group_id="alone")

    def listed(**filters: list[str]) -> set[tuple[str, str, str]]:
        error, groups = at_once(harness.coordinator.list_groups(**filters))
        assert error is ErrorCode.NONE
        return {(group.group_id, group.protocol_type, group.state) for group in groups}

    stable, empty = ("g", "consumer", "Stable"), ("alone", "", "Empty")
    assert listed() == {stable, empty}
    assert listed(states=["stable"]) == {stable}
    assert listed(states=["Empty", "Dead"]) == {empty}
    assert listed(types=["Classic"]) == {stable, empty}
    assert listed(types=["consumer"]) == set()


def test_settings_come_from_the_brokers_settings() -> None:
    names = {
        "group.min.session.timeout.ms": 1,
        "group.max.session.timeout.ms": 2,
        "group.initial.rebalance.delay.ms": 3,
        "group.max.size": 4,
        "offsets.topic.num.partitions": 5,
        "offsets.retention.minutes": 6,
        "offsets.retention.check.interval.ms": 7,
        "offset.metadata.max.bytes": 8,
    }
    assert GroupSettings.of(Values(names)) == GroupSettings(1, 2, 3, 4, 5, 360_000, 7, 8)
