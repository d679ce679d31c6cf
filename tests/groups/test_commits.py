"""Offsets: who may commit, what is shown when, and when it is forgotten."""

import attrs
import pytest

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Commit, CommittedOffset, DeleteOffsetsResult, FetchResult, GroupSettings
from pylogbroker.long_loops import at_once
from tests.groups.harness import SESSION, SETTINGS, Harness, subscription

DAY = 86_400_000
MINUTE = 60_000
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


class TestCommitRules:
    def test_a_consumer_without_membership_makes_its_group(self) -> None:
        harness = Harness()
        assert harness.commit({T0: 7}).value == {T0: ErrorCode.NONE}
        assert harness.offset() == 7
        assert harness.state() == "Empty"

    def test_a_member_may_commit(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        assert harness.commit({T0: 7, T1: 8}, member).value == {T0: ErrorCode.NONE, T1: ErrorCode.NONE}
        assert (harness.offset(), harness.offset("t", 1)) == (7, 8)

    def test_a_member_may_commit_during_a_rebalance(self) -> None:
        harness = Harness()
        leader, follower = harness.stable(2)
        harness.join(leader.member_id)
        assert harness.commit({T0: 7}, follower).value == {T0: ErrorCode.NONE}

    def test_a_commit_before_the_assignment_is_rejected(self) -> None:
        harness = Harness()
        answer = harness.join()
        harness.advance(0)
        assert harness.commit({T0: 7}, answer.value).value == {T0: ErrorCode.REBALANCE_IN_PROGRESS}

    def test_a_simple_consumer_may_not_commit_while_there_are_members(self) -> None:
        harness = Harness()
        harness.stable()
        assert harness.commit({T0: 7}).value == {T0: ErrorCode.UNKNOWN_MEMBER_ID}

    def test_another_generation_may_not_commit(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        stale = attrs.evolve(member, generation=0)
        assert harness.commit({T0: 7}, stale).value == {T0: ErrorCode.ILLEGAL_GENERATION}
        assert harness.commit({T0: 7}, attrs.evolve(member, generation=-1)).value == {T0: ErrorCode.ILLEGAL_GENERATION}

    def test_an_unknown_member_may_not_commit(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        foreign = attrs.evolve(member, member_id="stranger")
        assert harness.commit({T0: 7}, foreign).value == {T0: ErrorCode.UNKNOWN_MEMBER_ID}

    def test_a_member_of_an_unknown_group_may_not_commit(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        assert harness.commit({T0: 7}, member, group_id="other").value == {T0: ErrorCode.UNKNOWN_MEMBER_ID}

    def test_a_former_member_may_not_commit(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        harness.advance(SESSION)
        assert harness.commit({T0: 7}, member).value == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
        assert harness.commit({T0: 7}).value == {T0: ErrorCode.NONE}

    def test_a_fenced_static_member_may_not_commit(self) -> None:
        harness = Harness()
        answer = harness.join(instance_id="one", version=9)
        harness.advance(0)
        harness.sync(answer.value)
        harness.join(instance_id="one", version=9)
        answers: list[object] = []
        commit = Commit("g", 1, answer.value.member_id, {T0: CommittedOffset(1)}, "one")
        harness.coordinator.commit(commit, answers.append, harness.now)
        assert answers == [{T0: ErrorCode.FENCED_INSTANCE_ID}]


class TestStoredCommits:
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

    def test_a_fully_rejected_commit_writes_nothing(self) -> None:
        harness = Harness(attrs.evolve(SETTINGS, max_metadata_bytes=0))
        result = harness.commit({T0: CommittedOffset(1, metadata="x")})
        assert result.value == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
        assert harness.records() == []

    def test_a_commit_is_visible_only_once_stored(self) -> None:
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
    def test_a_commit_that_cannot_be_stored_stays_invisible(self, failure: ErrorCode, reported: ErrorCode) -> None:
        harness = Harness()
        harness.commit({T0: 1})
        harness.log_port.error = failure
        assert harness.commit({T0: 2}).value == {T0: reported}
        assert harness.offset() == 1

    def test_the_last_of_several_pending_commits_counts(self) -> None:
        harness = Harness()
        harness.log_port.hold()
        first, second = harness.commit({T0: 1}), harness.commit({T0: 2})
        harness.log_port.release()
        assert first.value == second.value == {T0: ErrorCode.NONE}
        assert harness.offset() == 2

    def test_a_commit_that_fails_at_once_does_not_harm_an_earlier_one(self) -> None:
        harness = Harness()
        harness.log_port.hold()
        first = harness.commit({T0: 1})
        with harness.log_port.failing_now(ErrorCode.NOT_ENOUGH_REPLICAS):
            second = harness.commit({T0: 2})
        assert second.value == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert harness.stable_offset() is ErrorCode.UNSTABLE_OFFSET_COMMIT
        harness.log_port.release()
        assert first.value == {T0: ErrorCode.NONE}
        assert harness.stable_offset() == harness.restarted().stable_offset() == 1

    def test_a_commit_on_its_way_does_not_revive_a_deleted_partition(self) -> None:
        harness = Harness()
        harness.commit({U0: 1})
        harness.log_port.hold()
        answer = harness.commit({T0: 1})
        harness.delete_partitions([T0])
        harness.log_port.release()
        assert answer.value == {T0: ErrorCode.NONE}
        assert harness.offset() is None
        assert harness.restarted().offset() is None

    def test_all_committed_offsets_of_a_group(self) -> None:
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

    def test_offsets_of_a_simple_consumer_expire_after_each_commit(self) -> None:
        harness = Harness(self.settings)
        harness.commit({T0: 1})
        harness.advance(3 * DAY)
        harness.commit({T1: 1})
        harness.advance(4 * DAY + 10 * MINUTE)
        assert (harness.offset(), harness.offset("t", 1)) == (None, 1)
        assert harness.state() == "Empty"
        harness.advance(3 * DAY)
        assert harness.state() == "Dead"

    def test_offsets_of_an_empty_group_expire_after_it_became_empty(self) -> None:
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

    def test_a_live_group_loses_only_offsets_of_unsubscribed_topics(self) -> None:
        harness = Harness(self.settings)
        (member,) = harness.stable(session=1_800_000)
        harness.commit({T0: 1, U0: 1}, member)
        for _ in range(8 * 24 * 4):
            harness.advance(15 * MINUTE)
            harness.heartbeat(member)
        assert (harness.offset(), harness.offset("u")) == (1, None)

    def test_offsets_of_a_live_group_of_another_type_never_expire(self) -> None:
        harness = Harness(self.settings)
        (member,) = harness.stable(session=1_800_000, protocol_type="connect", protocols={"eager": b"?"})
        harness.commit({T0: 1}, member)
        for _ in range(8 * 24 * 4):
            harness.advance(15 * MINUTE)
            harness.heartbeat(member)
        assert harness.offset() == 1

    def test_an_offset_with_its_own_retention_time_expires(self) -> None:
        harness = Harness(self.settings)
        harness.commit({T0: CommittedOffset(1, committed=harness.now, expires=harness.now + DAY), T1: 1})
        harness.advance(DAY + 10 * MINUTE)
        assert (harness.offset(), harness.offset("t", 1)) == (None, 1)

    def test_offsets_do_not_expire_during_another_commit(self) -> None:
        harness = Harness(self.settings)
        harness.commit({T0: 1})
        harness.advance(7 * DAY - MINUTE)
        harness.log_port.hold()
        answer = harness.commit({T0: 2})
        harness.advance(20 * MINUTE)
        harness.log_port.release()
        assert answer.value == {T0: ErrorCode.NONE}
        assert harness.offset() == 2

    def test_an_expiry_is_written_to_the_log(self) -> None:
        harness = Harness(self.settings)
        harness.commit({T0: 1})
        harness.advance(7 * DAY + 10 * MINUTE)
        assert harness.restarted().coordinator.fetch("g").offsets == {}
        assert [record.value is None for record in harness.records()] == [False, True]

    def test_a_group_without_members_and_offsets_disappears(self) -> None:
        harness = Harness(self.settings)
        harness.join(version=4)
        assert harness.state() == "Empty"
        harness.advance(10 * MINUTE)
        assert harness.state() == "Dead"
        assert harness.records() == []


class TestDeletingOffsets:
    def test_offsets_of_an_empty_group_are_deleted(self) -> None:
        harness = Harness()
        harness.commit({T0: 1, T1: 1})
        result = harness.coordinator.delete_offsets("g", [T0, U0], harness.now)
        assert result == DeleteOffsetsResult(ErrorCode.NONE, {T0: ErrorCode.NONE, U0: ErrorCode.NONE})
        assert harness.offset() is None
        assert harness.restarted().coordinator.fetch("g").offsets.keys() == {T1}

    def test_deleting_the_last_offset_ends_the_group(self) -> None:
        harness = Harness()
        harness.commit({T0: 1})
        harness.coordinator.delete_offsets("g", [T0], harness.now)
        assert harness.state() == "Dead"

    def test_a_live_group_loses_only_offsets_of_unsubscribed_topics(self) -> None:
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

    def test_offsets_of_a_live_group_of_another_type_are_not_deleted(self) -> None:
        harness = Harness()
        harness.stable(protocol_type="connect", protocols={"eager": b""})
        assert harness.coordinator.delete_offsets("g", [T0], harness.now).error is ErrorCode.NON_EMPTY_GROUP

    def test_offsets_of_an_unknown_group_are_not_deleted(self) -> None:
        assert Harness().coordinator.delete_offsets("g", [T0], 0).error is ErrorCode.GROUP_ID_NOT_FOUND
        assert Harness().coordinator.delete_offsets("", [T0], 0).error is ErrorCode.INVALID_GROUP_ID


class TestDeletingGroups:
    def test_an_empty_group_is_deleted_with_its_offsets(self) -> None:
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

    def test_a_group_with_members_is_not_deleted(self) -> None:
        harness = Harness()
        harness.stable()
        assert harness.coordinator.delete_group("g", harness.now) is ErrorCode.NON_EMPTY_GROUP
        assert harness.state() == "Stable"

    def test_deleting_an_unknown_group_is_an_error(self) -> None:
        assert Harness().coordinator.delete_group("g", 0) is ErrorCode.GROUP_ID_NOT_FOUND

    def test_a_deleted_group_id_can_be_used_again(self) -> None:
        harness = Harness()
        harness.commit({T0: 1})
        harness.coordinator.delete_group("g", harness.now)
        assert harness.commit({T0: 2}).value == {T0: ErrorCode.NONE}
        assert harness.restarted().offset() == 2

    def test_a_commit_on_its_way_does_not_revive_a_deleted_group(self) -> None:
        harness = Harness()
        harness.log_port.hold()
        harness.commit({T0: 1})
        assert harness.coordinator.delete_group("g", harness.now) is ErrorCode.NONE
        harness.log_port.release()
        assert harness.state() == "Dead"
        assert harness.restarted().state() == "Dead"

    def test_pending_member_ids_of_a_deleted_group_are_unknown(self) -> None:
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
    steps = harness.coordinator.delete_partitions(partitions, harness.now).__await__()
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
    assert GroupSettings.of(BrokerConfig({name: str(value) for name, value in names.items()})) == GroupSettings(
        1, 2, 3, 4, 5, 360_000, 7, 8
    )


def test_many_groups_expire_in_steps() -> None:
    harness = Harness(attrs.evolve(SETTINGS, partitions=1))
    for number in range(120):
        harness.commit({T0: 1}, group_id=f"g{number}")
    left = []
    while (count := harness.coordinator.count_groups()) > 1:
        if count == 70:  # it is used again during a sweep
            harness.coordinator.delete_group("g119", harness.now)
            harness.commit({T0: 2}, group_id="g119")
        due = harness.runtime.next_deadline()
        assert due is not None
        harness.advance(max(due - harness.now, 0))
        left.append(harness.coordinator.count_groups())
    assert sorted({*left}, reverse=True) == [120, 70, 20, 1]
    assert harness.offset(group_id="g119") == 2
