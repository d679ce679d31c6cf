"""Starting again: stored records are replayed, in Kafka's layouts, from any writer."""

from collections.abc import Generator

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import (
    CommittedOffset,
    FetchResult,
    GroupSettings,
    Heartbeat,
    JoinResult,
    LeaveResult,
    Sync,
    SyncResult,
    record_schema,
)
from pylogbroker.long_loops import at_once
from pylogbroker.records import Codec, Record, build, entries
from tests.coordinators.harness import Answer
from tests.groups.harness import SESSION, SETTINGS, Harness

T0 = ("t", 0)


def log(*pairs: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE) -> bytes:
    return build([Record(index, 5, key, value) for index, (key, value) in enumerate(pairs)], codec=codec)


def loaded(*pairs: tuple[bytes | None, bytes | None]) -> Harness:
    harness = Harness(loaded=False)
    harness.load(harness.coordinator.partition_for("g"), entries(log(*pairs)))
    return harness


class TestAGroupComesBack:
    def test_members_and_assignments_are_replayed(self) -> None:
        harness = Harness()
        leader, follower = harness.stable(2)
        other = harness.restarted()
        assert other.coordinator.describe("g") == harness.coordinator.describe("g")
        assert other.heartbeat(leader) is ErrorCode.NONE
        assert other.sync(follower).value.assignment == follower.member_id.encode()
        assert other.join(leader.member_id).waits
        assert other.join(follower.member_id).value.leader == leader.member_id

    def test_members_have_a_whole_session_to_be_heard_of(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        harness.advance(SESSION - 1)
        other = harness.restarted()
        other.advance(SESSION - 1)
        assert other.heartbeat(member) is ErrorCode.NONE
        other.advance(SESSION)
        assert other.state() == "Empty"

    def test_an_empty_group_is_replayed(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        harness.commit({T0: 3}, member)
        harness.leave(member.member_id)
        other = harness.restarted()
        assert other.state() == "Empty"
        assert other.offset() == 3
        answer = other.join()
        other.advance(0)
        assert answer.value.generation == 3

    def test_an_empty_group_expires_by_the_time_that_it_became_empty(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        harness.commit({T0: 3}, member)
        harness.leave(member.member_id)
        harness.advance(SETTINGS.retention_ms // 2)
        other = harness.restarted()
        other.advance(SETTINGS.retention_ms // 2 - 1)
        assert other.offset() == 3
        other.advance(SETTINGS.check_interval_ms + 1)
        assert other.offset() is None

    def test_static_members_keep_their_names(self) -> None:
        harness = Harness()
        answer = harness.join(instance_id="one", version=9)
        harness.advance(0)
        harness.sync(answer.value, {answer.value.member_id: b"mine"})
        other = harness.restarted()
        again = other.join(instance_id="one", version=9)
        assert other.sync(again.value).value.assignment == b"mine"

    def test_the_subscriptions_are_known_again(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        harness.commit({T0: 1, ("u", 0): 1}, member)
        result = harness.restarted().coordinator.delete_offsets("g", [T0, ("u", 0)], harness.now)
        assert result.partitions == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("u", 0): ErrorCode.NONE}


class TestRecordsOfKafka:
    key = record_schema.encode_offset_key("g", "t", 0)

    def test_the_last_record_of_a_key_counts(self) -> None:
        first, second = (record_schema.encode_offset_value(CommittedOffset(offset)) for offset in (1, 2))
        assert loaded((self.key, first), (self.key, second)).offset() == 2

    def test_a_tombstone_removes_the_offset(self) -> None:
        value = record_schema.encode_offset_value(CommittedOffset(1))
        assert loaded((self.key, value), (self.key, None)).offset() is None

    def test_a_group_may_be_removed_and_come_again(self) -> None:
        key = record_schema.encode_group_key("g")
        first = record_schema.encode_group_value(record_schema.GroupMetadataValue("consumer", 1, None, None, 5))
        second = record_schema.encode_group_value(record_schema.GroupMetadataValue("connect", 9, None, None, 5))
        assert loaded((key, first), (key, None)).state() == "Dead"
        harness = loaded((key, first), (key, None), (key, second))
        assert harness.coordinator.describe("g").protocol_type == "connect"

    def test_compressed_or_in_several_batches(self) -> None:
        values = [record_schema.encode_offset_value(CommittedOffset(offset)) for offset in range(5)]
        pairs = [(record_schema.encode_offset_key("g", "t", index), value) for index, value in enumerate(values)]
        whole = log(*pairs[:3], codec=Codec.GZIP) + build(
            [Record(0, 5, *pair) for pair in pairs[3:]], base_offset=3, codec=Codec.ZSTD
        )
        harness = Harness(loaded=False)
        harness.load(harness.coordinator.partition_for("g"), entries(whole))
        assert [harness.offset("t", index) for index in range(5)] == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (None, b"value without a key"),
            (b"", b""),
            (b"\0", b""),
            (b"\0\7\0\1x", b"of a version that is not known"),
            (record_schema.encode_offset_key("g", "t", 1)[:-1], b""),
            (record_schema.encode_offset_key("g", "t", 1), b"\0\3\0"),
            (record_schema.encode_offset_key("g", "t", 1), b"\0\x63" + bytes(30)),
            (record_schema.encode_group_key("h"), b"\0\3\xff\xff"),
            (
                record_schema.encode_group_key("h"),
                b"\0\3\0\1x" + bytes.fromhex("00000001 ffff ffff 0000000000000000 7fffffff"),
            ),
        ],
    )
    def test_unreadable_records_are_skipped(self, key: bytes | None, value: bytes) -> None:
        harness = Harness(loaded=False)
        good = (self.key, record_schema.encode_offset_value(CommittedOffset(4)))
        records = entries(log((key, value), good))
        loading = harness.load(harness.coordinator.partition_for("g"), records)
        assert len(loading.problems) == 1
        assert harness.offset() == 4

    def test_a_group_with_members_but_no_protocol_is_passed_over(self) -> None:
        value = record_schema.GroupMetadataValue("consumer", 1, None, "m", 5, [record_schema.MemberMetadata("m")])
        assert loaded((record_schema.encode_group_key("g"), record_schema.encode_group_value(value))).state() == "Dead"

    def test_a_damaged_entry_is_passed_over(self) -> None:
        value = record_schema.encode_offset_value(CommittedOffset(4))
        bad = bytearray(log((self.key, value)))
        bad[-3] ^= 1
        harness = Harness(loaded=False)
        whole = bytes(bad) + log((record_schema.encode_offset_key("g", "t", 1), value))
        loading = harness.load(harness.coordinator.partition_for("g"), entries(whole))
        assert len(loading.problems) == 1
        assert (harness.offset(), harness.offset("t", 1)) == (None, 4)


class TestWhileLoading:
    def harness(self) -> Harness:
        harness = Harness(loaded=False)
        harness.begin_load(harness.coordinator.partition_for("g"))
        return harness

    def test_requests_are_put_off(self) -> None:
        harness, loading = self.harness(), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        coordinator = harness.coordinator
        assert harness.join().value.error is loading
        assert harness.commit({T0: 1}).value == {T0: loading}
        assert coordinator.fetch("g", [T0]) == FetchResult(loading)
        assert coordinator.describe("g").error is loading
        assert coordinator.leave("g", [], 0) == LeaveResult(loading)
        assert coordinator.delete_group("g", 0) is loading
        assert coordinator.delete_offsets("g", [], 0).error is loading
        assert at_once(coordinator.list_groups()) == (loading, [])

    def test_heartbeats_are_accepted_while_loading(self) -> None:
        harness = self.harness()
        assert harness.coordinator.heartbeat(Heartbeat("g", 1, "m"), 0) is ErrorCode.NONE

    def test_members_awaiting_an_assignment_must_rejoin(self) -> None:
        harness = Harness()
        (member,) = harness.stable()
        assert self.harness().sync(member).value == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)

    def test_records_in_several_slices_are_all_replayed(self) -> None:
        harness = Harness(loaded=False)
        loading = harness.begin_load(harness.coordinator.partition_for("g"))
        value = record_schema.encode_offset_value(CommittedOffset(4))
        for index in range(3):
            loading.replay(entries(log((record_schema.encode_offset_key("g", "t", index), value))))
        harness.activate(loading)
        assert harness.coordinator.fetch("g").offsets.keys() == {("t", 0), ("t", 1), ("t", 2)}
        assert at_once(harness.coordinator.list_groups())[0] is ErrorCode.NONE

    def test_partitions_that_are_deleted_in_the_meantime_are_forgotten(self) -> None:
        harness = Harness(loaded=False)
        loading = harness.begin_load(harness.coordinator.partition_for("g"))
        value = record_schema.encode_offset_value(CommittedOffset(4))
        loading.replay(entries(log((record_schema.encode_offset_key("g", "t", 0), value))))
        harness.delete_partitions([T0])
        loading.replay(entries(log((record_schema.encode_offset_key("g", "t", 1), value))))
        harness.activate(loading)
        assert harness.coordinator.fetch("g").offsets.keys() == {("t", 1)}

    def test_unloaded_in_the_meantime(self) -> None:
        harness = Harness(loaded=False)
        partition = harness.coordinator.partition_for("g")
        loading = harness.begin_load(partition)
        harness.unload(partition)
        harness.activate(loading)
        assert harness.join().value.error is ErrorCode.NOT_COORDINATOR


class TestManyGroups:
    """Their shard is made in steps, between which other requests are handled."""

    GROUPS = [f"g{number}" for number in range(100)]

    def activation(self) -> tuple[Harness, Generator[None, None, None], list[JoinResult]]:
        """Return a coordinator that has replayed groups of one member each, and the steps that serve them."""
        settings = GroupSettings(initial_rebalance_delay_ms=0, partitions=1)
        before = Harness(settings)
        joined = [before.join(group_id=group_id) for group_id in self.GROUPS]
        before.advance(0)
        members = [answer.value for answer in joined]
        for group_id, member in zip(self.GROUPS, members, strict=True):
            before.coordinator.sync(
                Sync(group_id, member.generation, member.member_id, assignments={member.member_id: b"all"}),
                Answer(),
                before.now,
            )
        harness = Harness(settings, loaded=False)
        replay = harness.begin_load(0)
        replay.replay(entries(b"".join(before.log_port.batches[0])))
        return harness, harness.runtime.activate(replay, harness.now).__await__(), members

    def test_no_step_makes_more_than_one_group(self) -> None:
        _, steps, _ = self.activation()
        assert len(list(steps)) >= 2 * len(self.GROUPS)  # made, then continued

    def test_members_that_send_requests_between_the_steps(self) -> None:
        harness, steps, members = self.activation()
        errors = set()
        for number, _ in enumerate(steps):
            harness.now += 1
            member = members[-1 - number % 50]
            errors.add(harness.heartbeat(member, group_id=self.GROUPS[-1 - number % 50]))
        assert errors == {ErrorCode.NONE}  # also while it loads, as in Kafka
        harness.advance(SESSION - 3 * len(self.GROUPS))
        assert {harness.state(group_id) for group_id in self.GROUPS} == {"Stable"}
        harness.advance(2 * SESSION)
        assert {harness.state(group_id) for group_id in self.GROUPS} == {"Empty"}

    def test_unloaded_between_the_steps(self) -> None:
        for steps_before in range(1, 2 * len(self.GROUPS), 15):
            harness, steps, members = self.activation()
            for _ in range(steps_before):
                next(steps)
            harness.unload(0)
            assert not [step for step in steps if harness.runtime.next_deadline() is not None]
            assert harness.heartbeat(members[0], group_id=self.GROUPS[0]) is ErrorCode.NOT_COORDINATOR


class TestRevocation:
    def test_partitions_that_are_not_loaded_are_not_served(self) -> None:
        harness = Harness(loaded=False)
        assert harness.join().value.error is ErrorCode.NOT_COORDINATOR
        assert harness.coordinator.heartbeat(Heartbeat("g", 1, "m"), 0) is ErrorCode.NOT_COORDINATOR
        assert harness.coordinator.fetch("g", [T0]).error is ErrorCode.NOT_COORDINATOR

    def test_waiting_members_get_not_coordinator(self) -> None:
        harness = Harness()
        joining = harness.join()
        harness.close()
        assert joining.value.error is ErrorCode.NOT_COORDINATOR
        harness = Harness()
        leader, follower = harness.join(), harness.join()
        harness.advance(0)
        syncing = harness.sync(follower.value)
        harness.unload(harness.coordinator.partition_for("g"))
        assert syncing.value.error is ErrorCode.NOT_COORDINATOR
        assert harness.heartbeat(leader.value) is ErrorCode.NOT_COORDINATOR

    def test_a_closed_coordinator_has_no_timers(self) -> None:
        harness = Harness()
        harness.stable(3)
        harness.join()
        harness.join(version=4)
        harness.close()
        assert harness.runtime.next_deadline() is None

    def test_a_commit_being_stored_is_answered(self) -> None:
        harness = Harness()
        harness.log_port.hold()
        answer = harness.commit({T0: 1})
        harness.close()
        harness.log_port.release()
        assert answer.value == {T0: ErrorCode.NONE}
