"""Offsets: who may commit, what is shown when, and when it is forgotten."""

import attrs
import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Commit, CommittedOffset, DeleteOffsetsResult, FetchResult, GroupSettings
from tests.groups.rooms import SESSION, SETTINGS, Table, subscription

DAY = 86_400_000
MINUTE = 60_000
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


class TestWhoMayCommit:
    def test_a_consumer_without_membership_makes_its_group(self) -> None:
        table = Table()
        assert table.commit({T0: 7}).value == {T0: ErrorCode.NONE}
        assert table.offset() == 7
        assert table.state() == "Empty"

    def test_a_member(self) -> None:
        table = Table()
        (member,) = table.stable()
        assert table.commit({T0: 7, T1: 8}, member).value == {T0: ErrorCode.NONE, T1: ErrorCode.NONE}
        assert (table.offset(), table.offset("t", 1)) == (7, 8)

    def test_a_member_of_a_group_that_is_rebalancing(self) -> None:
        table = Table()
        leader, follower = table.stable(2)
        table.join(leader.member_id)
        assert table.commit({T0: 7}, follower).value == {T0: ErrorCode.NONE}

    def test_not_before_the_assignment(self) -> None:
        table = Table()
        answer = table.join()
        table.advance(0)
        assert table.commit({T0: 7}, answer.value).value == {T0: ErrorCode.REBALANCE_IN_PROGRESS}

    def test_nobody_without_membership_while_there_are_members(self) -> None:
        table = Table()
        table.stable()
        assert table.commit({T0: 7}).value == {T0: ErrorCode.UNKNOWN_MEMBER_ID}

    def test_nobody_of_another_generation(self) -> None:
        table = Table()
        (member,) = table.stable()
        stale = attrs.evolve(member, generation=0)
        assert table.commit({T0: 7}, stale).value == {T0: ErrorCode.ILLEGAL_GENERATION}
        assert table.commit({T0: 7}, attrs.evolve(member, generation=-1)).value == {T0: ErrorCode.ILLEGAL_GENERATION}

    def test_no_stranger(self) -> None:
        table = Table()
        (member,) = table.stable()
        stranger = attrs.evolve(member, member_id="stranger")
        assert table.commit({T0: 7}, stranger).value == {T0: ErrorCode.UNKNOWN_MEMBER_ID}

    def test_no_member_of_a_group_that_does_not_exist(self) -> None:
        table = Table()
        (member,) = table.stable()
        assert table.commit({T0: 7}, member, group_id="other").value == {T0: ErrorCode.UNKNOWN_MEMBER_ID}

    def test_no_former_member_of_an_empty_group(self) -> None:
        table = Table()
        (member,) = table.stable()
        table.advance(SESSION)
        assert table.commit({T0: 7}, member).value == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
        assert table.commit({T0: 7}).value == {T0: ErrorCode.NONE}

    def test_no_fenced_static_member(self) -> None:
        table = Table()
        answer = table.join(instance_id="one", version=9)
        table.advance(0)
        table.sync(answer.value)
        table.join(instance_id="one", version=9)
        answers: list[object] = []
        commit = Commit("g", 1, answer.value.member_id, {T0: CommittedOffset(1)}, "one")
        table.coordinator.commit(commit, answers.append, table.now)
        assert answers == [{T0: ErrorCode.FENCED_INSTANCE_ID}]


class TestWhatIsStored:
    def test_metadata_and_leader_epoch_come_back(self) -> None:
        table = Table()
        offset = CommittedOffset(7, 3, "ünïcode", table.now)
        table.commit({T0: offset})
        assert table.coordinator.fetch("g", [T0, U0]) == FetchResult(ErrorCode.NONE, {T0: offset, U0: None})

    def test_metadata_that_is_too_long_is_refused_alone(self) -> None:
        table = Table(attrs.evolve(SETTINGS, max_metadata_bytes=4))
        result = table.commit({T0: CommittedOffset(1, metadata="12345"), T1: CommittedOffset(2, metadata="1234")})
        assert result.value == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE, T1: ErrorCode.NONE}
        assert (table.offset(), table.offset("t", 1)) == (None, 2)

    def test_nothing_is_written_when_everything_is_refused(self) -> None:
        table = Table(attrs.evolve(SETTINGS, max_metadata_bytes=0))
        result = table.commit({T0: CommittedOffset(1, metadata="x")})
        assert result.value == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
        assert table.records() == []

    def test_it_is_not_shown_before_it_is_stored(self) -> None:
        table = Table()
        table.commit({T0: 1})
        table.store.hold()
        answer = table.commit({T0: 2})
        assert answer.waits
        assert table.offset() == 1
        assert table.coordinator.fetch("g", [T0], require_stable=True).offsets == {T0: ErrorCode.UNSTABLE_OFFSET_COMMIT}
        table.store.release()
        assert answer.value == {T0: ErrorCode.NONE}
        assert table.offset() == 2
        assert isinstance(table.coordinator.fetch("g", [T0], require_stable=True).offsets[T0], CommittedOffset)

    @pytest.mark.parametrize(
        ("failure", "told"),
        [
            (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        ],
    )
    def test_it_is_not_shown_when_it_cannot_be_stored(self, failure: ErrorCode, told: ErrorCode) -> None:
        table = Table()
        table.commit({T0: 1})
        table.store.error = failure
        assert table.commit({T0: 2}).value == {T0: told}
        assert table.offset() == 1

    def test_the_last_of_several_on_their_way_counts(self) -> None:
        table = Table()
        table.store.hold()
        first, second = table.commit({T0: 1}), table.commit({T0: 2})
        table.store.release()
        assert first.value == second.value == {T0: ErrorCode.NONE}
        assert table.offset() == 2

    def test_a_commit_on_its_way_does_not_revive_a_deleted_partition(self) -> None:
        table = Table()
        table.commit({U0: 1})
        table.store.hold()
        answer = table.commit({T0: 1})
        table.remove_partitions([T0])
        table.store.release()
        assert answer.value == {T0: ErrorCode.NONE}
        assert table.offset() is None

    def test_all_that_a_group_has_committed(self) -> None:
        table = Table()
        table.commit({T0: 1, U0: 2})
        assert set(table.coordinator.fetch("g").offsets) == {T0, U0}
        assert table.coordinator.fetch("other") == FetchResult(ErrorCode.NONE, {})
        assert table.coordinator.fetch("other", [T0]) == FetchResult(ErrorCode.NONE, {T0: None})

    def test_a_group_without_a_name_may_have_offsets_but_no_members(self) -> None:
        table = Table()
        assert table.commit({T0: 1}, group_id="").value == {T0: ErrorCode.NONE}
        assert table.offset(group_id="") == 1
        assert table.join(group_id="").value.error is ErrorCode.INVALID_GROUP_ID


class TestForgetting:
    settings = attrs.evolve(SETTINGS, retention_ms=7 * DAY, check_interval_ms=10 * MINUTE)

    def test_of_a_consumer_without_membership_after_each_commit(self) -> None:
        table = Table(self.settings)
        table.commit({T0: 1})
        table.advance(3 * DAY)
        table.commit({T1: 1})
        table.advance(4 * DAY + 10 * MINUTE)
        assert (table.offset(), table.offset("t", 1)) == (None, 1)
        assert table.state() == "Empty"
        table.advance(3 * DAY)
        assert table.state() == "Dead"

    def test_of_an_empty_group_since_it_became_empty(self) -> None:
        table = Table(self.settings)
        (member,) = table.stable(session=1_800_000)
        table.commit({T0: 1}, member)
        for _ in range(2 * 24 * 4):
            table.advance(15 * MINUTE)
            table.heartbeat(member)
        table.leave(member.member_id)
        table.advance(7 * DAY - MINUTE)
        assert table.offset() == 1
        table.advance(11 * MINUTE)
        assert table.offset() is None
        assert table.state() == "Dead"

    def test_of_a_living_group_only_of_topics_that_nobody_subscribes_to(self) -> None:
        table = Table(self.settings)
        (member,) = table.stable(session=1_800_000)
        table.commit({T0: 1, U0: 1}, member)
        for _ in range(8 * 24 * 4):
            table.advance(15 * MINUTE)
            table.heartbeat(member)
        assert (table.offset(), table.offset("u")) == (1, None)

    def test_of_a_living_group_of_another_kind_never(self) -> None:
        table = Table(self.settings)
        (member,) = table.stable(session=1_800_000, protocol_type="connect", protocols={"eager": b"?"})
        table.commit({T0: 1}, member)
        for _ in range(8 * 24 * 4):
            table.advance(15 * MINUTE)
            table.heartbeat(member)
        assert table.offset() == 1

    def test_with_a_retention_time_of_its_own(self) -> None:
        table = Table(self.settings)
        table.commit({T0: CommittedOffset(1, committed=table.now, expires=table.now + DAY), T1: 1})
        table.advance(DAY + 10 * MINUTE)
        assert (table.offset(), table.offset("t", 1)) == (None, 1)

    def test_not_while_another_commit_is_on_its_way(self) -> None:
        table = Table(self.settings)
        table.commit({T0: 1})
        table.advance(7 * DAY - MINUTE)
        table.store.hold()
        answer = table.commit({T0: 2})
        table.advance(20 * MINUTE)
        table.store.release()
        assert answer.value == {T0: ErrorCode.NONE}
        assert table.offset() == 2

    def test_it_is_written_down(self) -> None:
        table = Table(self.settings)
        table.commit({T0: 1})
        table.advance(7 * DAY + 10 * MINUTE)
        assert table.restarted().coordinator.fetch("g").offsets == {}
        assert [record.value is None for record in table.records()] == [False, True]

    def test_a_group_that_only_gave_out_an_id_is_no_more(self) -> None:
        table = Table(self.settings)
        table.join(version=4)
        assert table.state() == "Empty"
        table.advance(10 * MINUTE)
        assert table.state() == "Dead"
        assert table.records() == []


class TestDeletingOffsets:
    def test_of_an_empty_group(self) -> None:
        table = Table()
        table.commit({T0: 1, T1: 1})
        result = table.coordinator.delete_offsets("g", [T0, U0], table.now)
        assert result == DeleteOffsetsResult(ErrorCode.NONE, {T0: ErrorCode.NONE, U0: ErrorCode.NONE})
        assert table.offset() is None
        assert table.restarted().coordinator.fetch("g").offsets.keys() == {T1}

    def test_the_last_one_ends_the_group(self) -> None:
        table = Table()
        table.commit({T0: 1})
        table.coordinator.delete_offsets("g", [T0], table.now)
        assert table.state() == "Dead"

    def test_of_a_living_group_only_of_topics_that_nobody_subscribes_to(self) -> None:
        table = Table()
        (member,) = table.stable(protocols={"range": subscription("t")})
        table.commit({T0: 1, U0: 1}, member)
        result = table.coordinator.delete_offsets("g", [T0, U0], table.now)
        assert result.partitions == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, U0: ErrorCode.NONE}
        assert (table.offset(), table.offset("u")) == (1, None)

    def test_a_subscription_that_cannot_be_read_may_be_to_anything(self) -> None:
        table = Table()
        (member,) = table.stable(protocols={"range": b"\0\0\0\0\0\1\0"})
        table.commit({U0: 1}, member)
        result = table.coordinator.delete_offsets("g", [U0], table.now)
        assert result.partitions == {U0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}

    def test_of_a_living_group_of_another_kind_none(self) -> None:
        table = Table()
        table.stable(protocol_type="connect", protocols={"eager": b""})
        assert table.coordinator.delete_offsets("g", [T0], table.now).error is ErrorCode.NON_EMPTY_GROUP

    def test_of_no_group(self) -> None:
        assert Table().coordinator.delete_offsets("g", [T0], 0).error is ErrorCode.GROUP_ID_NOT_FOUND
        assert Table().coordinator.delete_offsets("", [T0], 0).error is ErrorCode.INVALID_GROUP_ID


class TestDeletingGroups:
    def test_an_empty_one_goes_with_its_offsets(self) -> None:
        table = Table()
        (member,) = table.stable()
        table.commit({T0: 1}, member)
        table.leave(member.member_id)
        assert table.coordinator.delete_group("g", table.now) is ErrorCode.NONE
        assert table.state() == "Dead"
        assert table.offset() is None
        other = table.restarted()
        assert other.state() == "Dead"
        assert other.coordinator.list_groups() == (ErrorCode.NONE, [])

    def test_one_with_members_stays(self) -> None:
        table = Table()
        table.stable()
        assert table.coordinator.delete_group("g", table.now) is ErrorCode.NON_EMPTY_GROUP
        assert table.state() == "Stable"

    def test_one_that_does_not_exist(self) -> None:
        assert Table().coordinator.delete_group("g", 0) is ErrorCode.GROUP_ID_NOT_FOUND

    def test_its_name_can_be_used_again(self) -> None:
        table = Table()
        table.commit({T0: 1})
        table.coordinator.delete_group("g", table.now)
        assert table.commit({T0: 2}).value == {T0: ErrorCode.NONE}
        assert table.restarted().offset() == 2

    def test_an_id_that_it_gave_out_is_unknown_then(self) -> None:
        table = Table()
        given = table.join(version=4).value.member_id
        table.coordinator.delete_group("g", table.now)
        assert table.join(given, version=4).value.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_deleted_partitions_are_forgotten_in_all_groups() -> None:
    table = Table()
    table.commit({T0: 1, U0: 1})
    table.commit({T0: 2}, group_id="h")
    table.remove_partitions([T0])
    assert (table.offset(), table.offset("u"), table.offset(group_id="h")) == (None, 1, None)
    other = table.restarted()
    assert (other.offset(), other.offset("u"), other.offset(group_id="h")) == (None, 1, None)


def test_many_deleted_partitions_are_forgotten_with_pauses() -> None:
    table = Table()
    partitions = [("large", index) for index in range(2500)]
    table.commit({**dict.fromkeys(partitions, 1), U0: 1})
    steps = table.coordinator.remove_partitions(partitions, table.now)
    assert table.coordinator.count_offsets("g") == 2501
    next(steps)
    left = [table.coordinator.count_offsets("g") for _ in steps]
    assert left == [1501, 501, 1]
    assert table.restarted().coordinator.count_offsets("g") == 1


def test_groups_are_listed_by_state_and_type() -> None:
    table = Table()
    table.stable()
    table.commit({T0: 1}, group_id="alone")

    def listed(**filters: list[str]) -> set[tuple[str, str, str]]:
        error, groups = table.coordinator.list_groups(**filters)
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
    assert GroupSettings.of(names) == GroupSettings(1, 2, 3, 4, 5, 360_000, 7, 8)
