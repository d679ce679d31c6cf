"""Members of groups of Kafka Streams: joining, tasks that move, missing topics, timeouts, and other requests."""

from __future__ import annotations

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Commit, CommittedOffset, GroupType
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.settings import GroupSettings, StreamsGroupLimits
from pylogbroker.groups.streams.states import StatusCode, StreamsGroupState
from pylogbroker.groups.streams.tasks import NO_TASKS, Tasks
from pylogbroker.long_loops import at_once
from pylogbroker.wire.streams_topology import StreamsSubtopology
from tests.coordinators.harness import Answer
from tests.groups.streams.harness import COUNTING, REBALANCE, WORD_COUNT, StreamsHarness, topology

ALL = frozenset(("0", number) for number in range(4))
SESSION = 45_000


@pytest.fixture
def harness() -> StreamsHarness:
    return StreamsHarness()


def codes(statuses: tuple[tuple[StatusCode, str], ...]) -> list[StatusCode]:
    return [code for code, _ in statuses]


def test_first_member_gets_all_tasks(harness: StreamsHarness) -> None:
    result = harness.joined("a")
    assert (result.error, result.epoch, result.assignment) == (ErrorCode.NONE, 2, Tasks(ALL))
    assert harness.group.state is StreamsGroupState.STABLE
    assert harness.beat("a", Tasks(ALL)).assignment is None


def test_first_assignment_waits_for_more_members(harness: StreamsHarness) -> None:
    harness.change_settings(initial_rebalance_delay_ms=3_000)
    first = harness.joined("a")
    assert (first.epoch, first.assignment, codes(first.statuses)) == (1, NO_TASKS, [StatusCode.ASSIGNMENT_DELAYED])
    harness.joined("b")
    harness.advance(3_000)
    tasks = [harness.beat(name).assignment or NO_TASKS for name in "ab"]
    assert [len(some.active) for some in tasks] == [2, 2]
    assert harness.group.state is StreamsGroupState.STABLE


def test_tasks_move_when_their_former_owner_has_revoked_them(harness: StreamsHarness) -> None:
    harness.joined("a")
    assert harness.joined("b").assignment == NO_TASKS
    kept = harness.beat("a", Tasks(ALL)).assignment
    assert kept is not None
    assert len(kept.active) == 2
    assert harness.group.state is StreamsGroupState.RECONCILING
    assert harness.beat("b", NO_TASKS).assignment is None
    assert harness.beat("a", kept).epoch == harness.group.epoch
    got = harness.beat("b", NO_TASKS).assignment
    assert got is not None
    assert got.active == ALL - kept.active
    assert harness.group.state is StreamsGroupState.STABLE


def test_member_that_does_not_revoke_is_removed_after_its_rebalance_timeout(harness: StreamsHarness) -> None:
    harness.joined("a", rebalance_timeout_ms=10_000)
    harness.joined("b")
    harness.beat("a", Tasks(ALL))
    harness.advance(10_001)
    assert harness.streams.removed == ["a"]
    assert harness.beat("b", NO_TASKS).assignment == Tasks(ALL)


def test_member_without_heartbeats_is_removed_after_its_session(harness: StreamsHarness) -> None:
    harness.joined("a")
    harness.advance(SESSION + 1)
    assert harness.streams.removed == ["a"]
    assert harness.send("a", 2).value.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_standbys_are_in_other_processes(harness: StreamsHarness) -> None:
    harness.change_settings(standbys=1)
    harness.joined("a", "p1")
    harness.joined("b", "p1")
    for name in "abab":
        harness.beat(name, harness.group.members[name].assigned)
    assert all(not member.assigned.standby for member in harness.group.members.values())
    harness.joined("c", "p2")
    for name in "abcabc":
        harness.beat(name, harness.group.members[name].assigned)
    members = harness.group.members
    active = members["a"].assigned.active | members["b"].assigned.active
    assert members["c"].assigned.standby == active
    assert members["a"].assigned.standby | members["b"].assigned.standby == members["c"].assigned.active


def test_task_waits_for_a_copy_in_its_process(harness: StreamsHarness) -> None:
    """The thread that copies a state must have closed it before another thread of the process takes it over."""
    harness.change_settings(standbys=1)
    harness.joined("a", "p1")
    harness.joined("b", "p2")
    for name in "abab":
        harness.beat(name, harness.group.members[name].assigned)
    copied = harness.group.members["b"].assigned.standby
    harness.joined("c", "p2")
    harness.send("a", -1)
    target = harness.group.target_of("c").active & copied
    given = harness.beat("c", NO_TASKS).assignment or NO_TASKS
    assert not given.active & copied
    for name in "bcbc":
        harness.beat(name, harness.group.members[name].assigned)
    assert target <= harness.group.members["c"].assigned.active


def test_missing_topics_are_reported_and_lead_to_an_assignment(harness: StreamsHarness) -> None:
    first = harness.joined("a", topology=topology(WORD_COUNT))
    assert (codes(first.statuses), first.assignment) == ([StatusCode.MISSING_INTERNAL_TOPICS], NO_TASKS)
    assert harness.group.state is StreamsGroupState.NOT_READY
    assert [topic.name for topic in first.missing] == ["g-by-word-repartition"]
    harness.streams.failure = "no broker is alive"
    assert "creation failed: no broker is alive" in harness.beat("a").statuses[0][1]
    harness.streams.create_topics("g", first.missing)
    harness.topics_changed("g-by-word-repartition")
    tasks = harness.beat("a").assignment
    assert tasks is not None
    assert len(tasks.active) == 8
    del harness.streams.topics["words"]
    harness.topics_changed("words")
    gone = harness.beat("a", tasks)
    assert (codes(gone.statuses), gone.assignment) == ([StatusCode.MISSING_SOURCE_TOPICS], NO_TASKS)


def test_new_partitions_get_tasks(harness: StreamsHarness) -> None:
    harness.joined("a")
    harness.streams.create("words", 5)
    harness.streams.create("g-counts-changelog", 5)
    harness.topics_changed("words", "g-counts-changelog")
    assert harness.beat("a", Tasks(ALL)).assignment == Tasks(ALL | {("0", 4)})


def test_other_topology_is_rejected_while_members_use_the_former_one(harness: StreamsHarness) -> None:
    harness.joined("a")
    other = topology((StreamsSubtopology("0", ["words"]),), epoch=1)
    assert harness.joined("b", topology=other).error is ErrorCode.INVALID_REQUEST
    assert set(harness.group.members) == {"a"}
    harness.send("a", -1)
    assert harness.joined("b", topology=other).assignment == Tasks(ALL)
    stale = harness.joined("c")
    assert codes(stale.statuses) == [StatusCode.STALE_TOPOLOGY]


def test_static_member_keeps_its_tasks_while_it_is_away(harness: StreamsHarness) -> None:
    harness.joined("a", instance_id="i")
    assert harness.joined("b", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    epoch = harness.group.epoch
    assert harness.send("a", -2, instance_id="i").value.epoch == -2
    assert harness.joined("b", "process of a", instance_id="i").assignment == Tasks(ALL)
    assert harness.group.epoch == epoch
    assert harness.send("a", 2, instance_id="i").value.error is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"rebalance_timeout_ms": None}, "RebalanceTimeoutMs must be provided"),
        ({"topology": None}, "Topology must be non-null"),
        ({"owned": Tasks(ALL)}, "must be empty when"),
        ({"rack_id": " "}, "RackId can't be empty"),
        ({"client_tags": {"zone": "z" * 70_000}}, "more than 65536 bytes"),
        ({"client_tags": {"zone": "\u00e4" * 35_000}}, "more than 65536 bytes"),
    ],
)
def test_incomplete_first_heartbeats_are_rejected(
    harness: StreamsHarness, fields: dict[str, object], text: str
) -> None:
    result = harness.joined("a", **fields)
    assert result.error is ErrorCode.INVALID_REQUEST
    assert text in (result.text or "")
    assert harness.coordinator.count_groups() == 0


def test_epochs_are_checked(harness: StreamsHarness) -> None:
    harness.joined("a")
    assert harness.send("a", 7).value.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.send("a", 0, topology=topology(), rebalance_timeout_ms=1).value.error is (
        ErrorCode.FENCED_MEMBER_EPOCH
    )
    assert harness.joined("a").assignment == Tasks(ALL)  # the answer was lost
    assert harness.send("b", 2).value.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.send("a", -3).value.error is ErrorCode.INVALID_REQUEST
    assert harness.send("a", 2, group_id="other").value.error is ErrorCode.GROUP_ID_NOT_FOUND


def test_tasks_that_the_topology_does_not_have_are_rejected(harness: StreamsHarness) -> None:
    harness.joined("a")
    for task in (("9", 0), ("0", 4)):
        assert harness.beat("a", Tasks(frozenset([task]))).error is ErrorCode.INVALID_REQUEST


def test_full_group_takes_no_member() -> None:
    harness = StreamsHarness(GroupSettings(partitions=4, streams=StreamsGroupLimits(1)))
    harness.joined("a")
    assert harness.joined("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_all_members_hear_of_a_shutdown(harness: StreamsHarness) -> None:
    harness.joined("a")
    harness.joined("b")
    harness.beat("a", Tasks(ALL), shuts_down=True)
    assert StatusCode.SHUTDOWN_APPLICATION in codes(harness.beat("b").statuses)
    for name in "ab":
        harness.send(name, -1)
    assert codes(harness.joined("c").statuses) == []


def test_missing_client_tags_are_named(harness: StreamsHarness) -> None:
    harness.change_settings(tag_keys=("zone",))
    assert codes(harness.joined("a").statuses) == [StatusCode.MISSING_CLIENT_TAGS]
    assert codes(harness.beat("a", client_tags={"zone": "1"}).statuses) == []


def test_changed_settings_let_the_group_be_assigned_again(harness: StreamsHarness) -> None:
    harness.joined("a")
    harness.joined("b")
    for name in "abab":
        harness.beat(name, harness.group.members[name].assigned)
    epoch = harness.group.epoch
    harness.change_settings(standbys=1)
    for name in "abab":
        harness.beat(name, harness.group.members[name].assigned)
    assert harness.group.epoch == epoch + 1
    assert all(len(member.assigned.standby) == 2 for member in harness.group.members.values())


def test_endpoints_have_the_partitions_of_their_tasks(harness: StreamsHarness) -> None:
    first = harness.joined("a", endpoint=("h1", 1))
    assert first.endpoints is not None
    [mine] = first.endpoints
    assert (mine.endpoint, mine.active, mine.standby) == (("h1", 1), {"words": [0, 1, 2, 3]}, {})
    assert harness.beat("a", endpoint_epoch=first.endpoint_epoch).endpoints is None
    second = harness.joined("b", endpoint=("h2", 2))
    assert second.endpoints is not None
    assert len(second.endpoints) == 2


def test_offsets_of_tasks_are_described(harness: StreamsHarness) -> None:
    harness.joined("a", offsets={("0", 1): 7}, end_offsets={("0", 1): 9})
    [member] = harness.describe().members
    assert (member.offsets, member.end_offsets) == ({("0", 1): 7}, {("0", 1): 9})


def test_offsets_of_tasks_that_the_topology_does_not_have_are_not_kept(harness: StreamsHarness) -> None:
    offsets = {("0", 1): 7, ("0", -1): 1, ("0", 1000): 1, ("nosuch", 0): 1}
    harness.joined("a", offsets=offsets, end_offsets=offsets)
    [member] = harness.describe().members
    assert (member.offsets, member.end_offsets) == ({("0", 1): 7}, {("0", 1): 7})


def commit(harness: StreamsHarness, member_id: str, epoch: int, partition: int, **fields: object) -> ErrorCode:
    answer: Answer[dict[tuple[str, int], ErrorCode]] = Answer()
    offsets = {("words", partition): CommittedOffset(5)}
    harness.coordinator.commit(Commit("g", epoch, member_id, offsets, **fields), answer, harness.now)  # type: ignore[arg-type]
    return answer.value["words", partition]


def test_members_commit_at_their_epoch_or_since_they_have_the_task(harness: StreamsHarness) -> None:
    harness.joined("a")
    assert commit(harness, "a", 2, 0) is ErrorCode.NONE
    assert commit(harness, "a", 2, 0, knows_epochs=False) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(harness, "a", 3, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(harness, "b", 2, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    harness.joined("b")
    kept = harness.beat("a", Tasks(ALL)).assignment or NO_TASKS
    harness.beat("a", kept)
    [still] = [number for _, number in kept.active][:1]
    [gone] = [number for _, number in ALL - kept.active][:1]
    assert commit(harness, "a", 2, still) is ErrorCode.NONE  # its answer may be on its way
    assert commit(harness, "a", 2, gone) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(harness, "", -1, 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_group_without_members_becomes_a_classic_one_and_back(harness: StreamsHarness) -> None:
    harness.joined("a")
    assert harness.join(protocol_type="consumer").value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    commit(harness, "a", 2, 1)
    harness.send("a", -1)
    joined = harness.join()
    harness.advance(1)
    assert joined.value.error is ErrorCode.NONE
    assert harness.joined("a").error is ErrorCode.GROUP_ID_NOT_FOUND  # it has a member
    harness.leave(joined.value.member_id)
    assert harness.joined("a").assignment == Tasks(ALL)
    assert harness.coordinator.fetch("g").offsets["words", 1] == CommittedOffset(5)
    assert harness.restarted().group.state is StreamsGroupState.STABLE


def test_group_is_listed_and_deleted(harness: StreamsHarness) -> None:
    harness.joined("a")
    commit(harness, "a", 2, 0)
    _, [overview] = at_once(harness.coordinator.list_groups((), ["streams"]))
    assert (overview.type, overview.protocol_type, overview.state) == (GroupType.STREAMS, "streams", "Stable")
    assert harness.coordinator.describe("g").state == GroupState.DEAD.value
    assert harness.coordinator.delete_group("g", harness.now) is ErrorCode.NON_EMPTY_GROUP
    harness.send("a", -1)
    assert harness.coordinator.delete_group("g", harness.now) is ErrorCode.NONE
    assert harness.restarted().coordinator.count_groups() == 0


def test_group_is_loaded_as_it_was_stored(harness: StreamsHarness) -> None:
    harness.change_settings(standbys=1)
    harness.joined("a", instance_id="i", rack_id="r", client_tags={"zone": "1"}, endpoint=("h", 1))
    harness.joined("b")
    harness.beat("a", Tasks(ALL))
    before, after = harness.group, harness.restarted().group
    assert (after.epoch, after.target_epoch, after.target) == (before.epoch, before.target_epoch, before.target)
    assert (after.topology, after.validated_epoch) == (topology(COUNTING), 0)
    for name in "ab":
        one, two = before.members[name], after.members[name]
        assert (one.assigned, one.revoking, one.since, one.state) == (two.assigned, two.revoking, two.since, two.state)
        assert (one.epoch, one.previous_epoch, one.process_id) == (two.epoch, two.previous_epoch, two.process_id)
        assert (one.client_tags, one.endpoint, one.rack_id) == (two.client_tags, two.endpoint, two.rack_id)
        assert one.rebalance_timeout_ms == two.rebalance_timeout_ms == REBALANCE


def test_unloaded_group_answers_waiting_members(harness: StreamsHarness) -> None:
    harness.streams.held = []
    answer = harness.joining("a")
    assert answer.waits
    harness.runtime.unload(harness.coordinator.partition_for("g"), harness.now)
    assert answer.value.error is ErrorCode.NOT_COORDINATOR
