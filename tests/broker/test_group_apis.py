"""Groups through their APIs, in every version, on a whole node: its topic, its clock, its restarts."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred, maybeDeferred

from pylogbroker.broker.apis import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.errors import ErrorCode, StorageFailure
from pylogbroker.interfaces import Create
from pylogbroker.long_loops import settled
from pylogbroker.metadata.image import topic_resource
from pylogbroker.storage import Log
from pylogbroker.wire import SUPPORTED, Request, codec
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest
from pylogbroker.wire.messages.describe_groups import DescribeGroupsRequest
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pylogbroker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pylogbroker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.failing_disks import broken, failing
from tests.broker.newest_versions import newest
from tests.broker.nodes import NODE_ID, NodeTests
from tests.broker.trees import now

SESSION = 10_000
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"  # to topic "t"
UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class GroupTests(NodeTests):
    """A node that has a topic `t` of two partitions and coordinates groups."""

    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)
        self.ask(find_coordinator.handle, FindCoordinatorRequest(coordinator_keys=["g"]))

    def send(self, handle: Callable[..., Any], request: Request, version: int | None = None) -> list[Any]:
        """Return the list that the answer will be in; request and answer pass through the wire's codecs."""
        request_type, response_type = SUPPORTED[request.api_key]
        version = newest(request.api_key) if version is None else version
        sent = codec(request_type, version).decode(codec(request_type, version).encode(request))
        context = RequestContext(version, client_id="me", client_host="10.0.0.1", local_host="here")
        answers: list[Any] = []

        def answered(response: Any) -> None:
            encoded = codec(response_type, version).encode(response)
            answers.append(codec(response_type, version).decode(encoded))

        answer = handle(self.node.broker, context, sent)
        self.node.broker.runtime.slices.start(settled(answer)).addCallback(answered).addErrback(self.fail)
        return answers

    def ask(self, handle: Callable[..., Any], request: Request, version: int | None = None) -> Any:
        """The answer to a request that need not wait."""
        (answer,) = self.send(handle, request, version)
        return answer

    def pass_time(self, milliseconds: int) -> None:
        self.node.clock.advance(milliseconds / 1000)

    def join(self, member_id: str = "", version: int = 3, instance_id: str | None = None) -> list[Any]:
        request = JoinGroupRequest(
            "g",
            SESSION,
            60_000 if version else -1,
            member_id,
            instance_id,
            "consumer",
            [JoinGroupRequestProtocol("range", SUBSCRIPTION)],
        )
        return self.send(join_group.handle, request, version)

    def member(self, version: int = 3) -> Any:
        """The join of the only member of a stable group."""
        answers = self.join(version=version)
        self.pass_time(1)
        (joined,) = answers
        assignment = SyncGroupRequestAssignment(joined.member_id, b"all")
        request = SyncGroupRequest("g", joined.generation_id, joined.member_id, None, "consumer", "range", [assignment])
        self.assertEqual(self.ask(sync_group.handle, request).error_code, 0)
        return joined

    def commit(self, offset: int, partition: int = 0, topic: str = "t", version: int = 9, **fields: Any) -> int:
        wanted = OffsetCommitRequestPartition(partition, offset, **fields)
        request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(topic, [wanted])])
        (answered,) = self.ask(offset_commit.handle, request, version).topics
        return answered.partitions[0].error_code

    def committed(self, partition: int = 0, topic: str = "t", group: str = "g") -> Any:
        """Return the answer for one partition in the newest version."""
        wanted = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(topic, [partition])])
        (answered,) = self.ask(offset_fetch.handle, OffsetFetchRequest(groups=[wanted])).groups
        return answered.topics[0].partitions[0] if not answered.error_code else answered.error_code


class FindCoordinatorTests(NodeTests):
    settings = {"offsets.topic.segment.bytes": "1000000"}

    def test_the_topic_is_made_when_it_is_first_needed(self) -> None:
        self.assertNotIn("__consumer_offsets", self.node.broker.metadata.topics)
        answer = self.node.ask(find_coordinator.handle, FindCoordinatorRequest("g"), 0)
        self.assertEqual((answer.error_code, answer.node_id, answer.host), (0, NODE_ID, "here"))
        topic = self.node.broker.metadata.topics["__consumer_offsets"]
        self.assertEqual(len(topic.partitions), 50)
        self.assertEqual(
            self.node.broker.metadata.topic_settings(topic.name),
            {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "1000000"},
        )
        self.node.ask(find_coordinator.handle, FindCoordinatorRequest("h"), 0)

    def test_old_versions_find_one_coordinator_and_new_versions_several(self) -> None:
        for version in range(4):
            answer = self.node.ask(find_coordinator.handle, FindCoordinatorRequest("g"), version)
            self.assertEqual((answer.error_code, answer.node_id, answer.port), (0, NODE_ID, answer.port))
        for version in range(4, 7):
            request = FindCoordinatorRequest(coordinator_keys=["g", "h"])
            answer = self.node.ask(find_coordinator.handle, request, version)
            self.assertEqual([found.key for found in answer.coordinators], ["g", "h"])
            self.assertEqual({found.node_id for found in answer.coordinators}, {NODE_ID})
            self.assertEqual({found.error_code for found in answer.coordinators}, {0})

    def test_unknown_key_types_have_no_coordinator(self) -> None:
        answer = self.node.ask(find_coordinator.handle, FindCoordinatorRequest("x", key_type=2), 3)
        self.assertEqual((answer.error_code, answer.node_id, answer.port), (ErrorCode.INVALID_REQUEST, -1, -1))
        self.assertIn("key type 2", answer.error_message)

    def test_a_failed_creation_of_the_offsets_topic_is_reported(self) -> None:
        with patch.object(self.node.broker.controller.__class__, "create_topic", side_effect=StorageFailure("full")):
            answer = self.node.ask(find_coordinator.handle, FindCoordinatorRequest("g"), 3)
        self.assertEqual(answer.error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.assertEqual(answer.error_message, "full")


class SessionTests(GroupTests):
    """A session ends on its millisecond, wherever between two milliseconds the last request came."""

    def static_member(self) -> Any:
        answers = self.join(version=5, instance_id="one")
        self.pass_time(1)
        (joined,) = answers
        assignment = SyncGroupRequestAssignment(joined.member_id, b"all")
        request = SyncGroupRequest(
            "g", joined.generation_id, joined.member_id, "one", "consumer", "range", [assignment]
        )
        self.assertEqual(self.ask(sync_group.handle, request).error_code, 0)
        return joined

    def members(self) -> int:
        (group,) = self.ask(describe_groups.handle, DescribeGroupsRequest(["g"])).groups
        return len(group.members)

    def test_a_static_member_is_gone_when_its_session_is_over(self) -> None:
        for fraction in range(0, 1_000, 37):  # microseconds: the reactor's clock does not tick in milliseconds
            joined = self.static_member()
            self.node.clock.advance(fraction / 1e6)
            beat = HeartbeatRequest("g", joined.generation_id, joined.member_id, "one")
            self.assertEqual(self.ask(heartbeat.handle, beat).error_code, 0)
            self.pass_time(SESSION - 1)
            self.node.clock.advance(0)
            self.assertEqual(self.members(), 1)
            self.pass_time(1)
            self.assertEqual(self.members(), 0)


class MembershipTests(GroupTests):
    def test_the_life_of_a_member_in_every_version(self) -> None:
        for version in range(10):
            with self.subTest(version=version):
                self.check_life(version)

    def check_life(self, version: int) -> None:
        (joined,) = self.check_join(version)
        self.assertEqual((joined.error_code, joined.protocol_name, joined.leader), (0, "range", joined.member_id))
        self.assertEqual([(m.member_id, m.metadata) for m in joined.members], [(joined.member_id, SUBSCRIPTION)])
        self.assertEqual(joined.protocol_type, "consumer" if version >= 7 else None)
        self.assertTrue(joined.member_id.startswith("me-"))
        mine = SyncGroupRequestAssignment(joined.member_id, b"mine")
        sync = SyncGroupRequest("g", joined.generation_id, joined.member_id, None, "consumer", "range", [mine])
        synced = self.ask(sync_group.handle, sync, min(version, 5))
        self.assertEqual((synced.error_code, synced.assignment), (0, b"mine"))
        beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
        self.assertEqual(self.ask(heartbeat.handle, beat, min(version, 4)).error_code, 0)
        self.check_leave(joined.member_id, min(version, 5))
        self.assertEqual(self.ask(heartbeat.handle, beat, 0).error_code, ErrorCode.UNKNOWN_MEMBER_ID)

    def check_join(self, version: int) -> list[Any]:
        answers = self.join(version=version)
        if version >= 4:
            (rejected,) = answers
            self.assertEqual((rejected.error_code, rejected.generation_id), (ErrorCode.MEMBER_ID_REQUIRED, -1))
            self.assertEqual(rejected.protocol_name, None if version >= 7 else "")
            answers = self.join(rejected.member_id, version)
        self.assertEqual(answers, [])
        self.pass_time(1)
        return answers

    def check_leave(self, member_id: str, version: int) -> None:
        if version < 3:
            request = LeaveGroupRequest("g", member_id)
            self.assertEqual(self.ask(leave_group.handle, request, version).error_code, 0)
            gone = self.ask(leave_group.handle, request, version)
            self.assertEqual(gone.error_code, ErrorCode.UNKNOWN_MEMBER_ID)
        else:
            members = [MemberIdentity(member_id), MemberIdentity("stranger", "one")]
            left = self.ask(leave_group.handle, LeaveGroupRequest("g", members=members), version)
            self.assertEqual(left.error_code, 0)
            self.assertEqual(
                [(member.member_id, member.group_instance_id, member.error_code) for member in left.members],
                [(member_id, None, 0), ("stranger", "one", ErrorCode.UNKNOWN_MEMBER_ID)],
            )

    def test_a_leave_from_a_group_without_a_name(self) -> None:
        for version, request in (
            (0, LeaveGroupRequest("", "m")),
            (5, LeaveGroupRequest("", members=[MemberIdentity("m")])),
        ):
            self.assertEqual(self.ask(leave_group.handle, request, version).error_code, ErrorCode.INVALID_GROUP_ID)

    def test_the_session_timeout_is_the_rebalance_timeout_in_version_0(self) -> None:
        answers = self.join(version=0)
        self.pass_time(1)
        (joined,) = answers
        beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
        self.pass_time(SESSION // 2)
        self.assertEqual(self.ask(heartbeat.handle, beat).error_code, 0)
        self.pass_time(SESSION // 2)
        self.assertEqual(self.ask(heartbeat.handle, beat).error_code, ErrorCode.UNKNOWN_MEMBER_ID)

    def test_a_sync_must_name_its_protocol_from_version_5_on(self) -> None:
        joined = self.member()
        request = SyncGroupRequest("g", joined.generation_id, joined.member_id)
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        self.assertEqual(self.ask(sync_group.handle, request, 5).error_code, error)
        self.assertEqual(self.ask(sync_group.handle, request, 4).assignment, b"all")

    def test_the_clock_ends_sessions(self) -> None:
        joined = self.member()
        beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
        self.pass_time(SESSION - 1)
        self.assertEqual(self.ask(heartbeat.handle, beat).error_code, 0)
        self.pass_time(SESSION)
        self.assertEqual(self.ask(heartbeat.handle, beat).error_code, ErrorCode.UNKNOWN_MEMBER_ID)

    def test_heartbeats_count_that_came_while_the_reactor_was_busy(self) -> None:
        joined = self.member()
        beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
        errors: list[int] = []
        read = SESSION * 2 / 1000
        self.node.clock.callLater(read, lambda: errors.append(self.ask(heartbeat.handle, beat).error_code))
        self.node.clock.advance(read)
        self.assertEqual(errors, [0])

    def test_a_static_leader_comes_again(self) -> None:
        answers = self.join(version=9, instance_id="one")
        self.pass_time(1)
        (joined,) = answers
        request = SyncGroupRequest("g", joined.generation_id, joined.member_id, "one", "consumer", "range")
        self.ask(sync_group.handle, request)
        (again,) = self.join(version=9, instance_id="one")
        self.assertTrue(again.skip_assignment)
        self.assertEqual(again.members[0].group_instance_id, "one")
        self.assertEqual(again.leader, again.member_id)

    def test_waiting_joins_are_answered_when_the_broker_stops(self) -> None:
        answers = self.join()
        self.node.broker.release()
        (joined,) = answers
        self.assertEqual(joined.error_code, ErrorCode.NOT_COORDINATOR)
        calls = [call for call in self.node.clock.getDelayedCalls() if "CoordinatorDriver" in str(call.func)]
        self.assertEqual(calls, [])


class LargeGroupTests(GroupTests):
    """Slices have no time, so that each iteration of the reactor does one step."""

    def setUp(self) -> None:
        super().setUp()
        self.joins = [self.join() for _ in range(5)]
        self.node.broker.runtime.slices.seconds = 0

    def iterate(self) -> None:
        """Run the calls that are due, but not those that they schedule."""
        clock = self.node.clock
        due = [call for call in clock.calls if call.getTime() <= clock.seconds()]
        clock.calls = [call for call in clock.calls if call not in due]
        for call in due:
            call.called = 1
            call.func(*call.args, **call.kw)

    def counts(self, count: Callable[[], int], end: int) -> list[int]:
        """Return the different counts, iteration by iteration, until `end`."""
        found = [count()]
        for _ in range(100):
            self.iterate()
            if count() != found[-1]:
                found.append(count())
            if found[-1] == end:
                return found
        self.fail(f"{found} does not reach {end}")

    def answered(self) -> int:
        return sum(map(len, self.joins))

    def group(self) -> Any:
        return self.node.broker.groups.describe("g")

    def test_a_generation_completes_before_its_members_are_answered(self) -> None:
        self.assertEqual(self.counts(self.answered, 1), [0, 1])
        self.assertEqual((self.group().state, len(self.group().members)), ("CompletingRebalance", 5))
        self.assertEqual(self.counts(self.answered, 5), [1, 2, 3, 4, 5])
        self.assertEqual({joined.generation_id for [joined] in self.joins}, {1})

    def test_assignments_are_answered_one_by_one(self) -> None:
        self.counts(self.answered, 5)
        joins = sorted((joined for [joined] in self.joins), key=lambda joined: joined.member_id == joined.leader)
        assignments = [SyncGroupRequestAssignment(joined.member_id, b"all") for joined in joins]
        syncs = [
            self.send(
                sync_group.handle,
                SyncGroupRequest("g", 1, joined.member_id, None, "consumer", "range", assignments),
            )
            for joined in joins
        ]
        self.assertEqual(self.group().state, "Stable")
        self.assertEqual(self.counts(lambda: sum(map(len, syncs)), 5), [1, 2, 3, 4, 5])
        self.assertEqual({synced.assignment for [synced] in syncs}, {b"all"})

    def test_sessions_that_end_together_end_one_by_one(self) -> None:
        self.counts(self.answered, 5)
        self.node.clock.rightNow += SESSION / 1000  # the calls that are due now have not run
        self.assertEqual(self.counts(lambda: len(self.group().members), 0), [5, 4, 3, 2, 1, 0])


class DeletedOffsetsTopicTests(GroupTests):
    """`__consumer_offsets` is deleted while a group has members."""

    def delete_topic(self) -> None:
        now(self.node.broker.controller.delete_topic("__consumer_offsets"))

    def begin_deletion(self) -> Deferred[Any]:
        """Delete the topic, as far as its files: they are deleted in a thread that `run_threads` lets run."""
        self.node.threads.holding = True
        return Deferred.fromCoroutine(self.node.broker.controller.delete_topic("__consumer_offsets"))

    def run_threads(self) -> None:
        self.node.threads.holding = False
        while self.node.threads.held:
            self.node.threads.run_one()

    def find(self) -> None:
        """Ask for the coordinator, as clients do when theirs is lost."""
        answer = self.ask(find_coordinator.handle, FindCoordinatorRequest(coordinator_keys=["g"]))
        self.assertEqual(answer.coordinators[0].error_code, 0)

    def errors(self, joined: Any) -> list[int]:
        """Return the answers that a member gets to heartbeat, join, sync and commit."""
        member = ("g", joined.generation_id, joined.member_id)
        (rejoined,) = self.join(joined.member_id)
        topics = [OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 5)])]
        (committed,) = self.ask(offset_commit.handle, OffsetCommitRequest(*member, topics=topics)).topics
        return [
            self.ask(heartbeat.handle, HeartbeatRequest(*member)).error_code,
            rejoined.error_code,
            self.ask(sync_group.handle, SyncGroupRequest(*member, None, "consumer", "range")).error_code,
            committed.partitions[0].error_code,
        ]

    def test_a_member_finds_the_topic_again_and_joins_without_its_id(self) -> None:
        joined = self.member()
        self.delete_topic()
        self.assertIn("__consumer_offsets", self.node.broker.metadata.topics)
        self.assertEqual(self.errors(joined), [ErrorCode.UNKNOWN_MEMBER_ID] * 4)
        again = self.member()
        self.assertEqual((again.error_code, again.generation_id), (0, 1))
        self.assertEqual(self.errors(joined), [ErrorCode.UNKNOWN_MEMBER_ID] * 4)

    def test_a_member_is_unknown_as_soon_as_the_topic_is_being_deleted(self) -> None:
        joined = self.member()
        deleted = self.begin_deletion()
        self.assertEqual(self.errors(joined), [ErrorCode.UNKNOWN_MEMBER_ID] * 4)
        self.assertFalse(deleted.called)

    def test_a_new_group_waits_until_the_topic_exists_again(self) -> None:
        self.member()
        self.begin_deletion()
        topics = [OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 5)])]
        joins, commits = self.join(), self.send(offset_commit.handle, OffsetCommitRequest("h", topics=topics))
        self.pass_time(1)
        self.assertEqual((joins, commits), ([], []))
        self.run_threads()
        self.pass_time(1)
        self.assertEqual([(joined.error_code, joined.generation_id) for joined in joins], [(0, 1)])
        self.assertEqual([answer.topics[0].partitions[0].error_code for answer in commits], [0])
        self.assertEqual(self.committed(group="h").committed_offset, 5)

    def test_waiting_joins_fail_when_the_topic_cannot_be_created(self) -> None:
        self.member()
        self.begin_deletion()
        joins = self.join()
        with patch.object(self.node.broker.controller.__class__, "create_topic", side_effect=StorageFailure("full")):
            self.run_threads()
        self.assertEqual([joined.error_code for joined in joins], [ErrorCode.NOT_COORDINATOR])
        self.find()
        self.member()

    def test_requests_that_wait_are_answered_when_the_broker_stops(self) -> None:
        self.member()
        self.begin_deletion()
        joins = self.join()
        self.node.broker.release()
        self.assertEqual([joined.error_code for joined in joins], [ErrorCode.NOT_COORDINATOR])

    def test_a_join_and_a_sync_that_wait_are_answered_at_once(self) -> None:
        answers = self.join()
        self.delete_topic()
        self.assertEqual([joined.error_code for joined in answers], [ErrorCode.NOT_COORDINATOR])
        leader, follower = self.join(), self.join()
        self.pass_time(1)
        (joined,) = [joined for joined in (*leader, *follower) if joined.leader != joined.member_id]
        waiting = SyncGroupRequest("g", joined.generation_id, joined.member_id, None, "consumer", "range")
        synced = self.send(sync_group.handle, waiting)
        self.assertEqual(synced, [])
        self.delete_topic()
        self.assertEqual([answer.error_code for answer in synced], [ErrorCode.NOT_COORDINATOR])

    def test_without_members_the_topic_stays_deleted_until_a_client_asks(self) -> None:
        self.find()
        self.delete_topic()
        self.assertNotIn("__consumer_offsets", self.node.broker.metadata.topics)
        self.find()
        self.assertIn("__consumer_offsets", self.node.broker.metadata.topics)


class OffsetTests(GroupTests):
    def test_commit_and_fetch_in_every_version(self) -> None:
        for version in range(10):
            with self.subTest(version=version):
                self.assertEqual(self.commit(version + 1, version=version, committed_metadata=f"v{version}"), 0)
                self.check_fetch(version)

    def check_fetch(self, version: int) -> None:
        if version < 8:
            request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [1, 0])])
            answer = self.ask(offset_fetch.handle, request, version)
        else:
            group = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", [1, 0])])
            (answer,) = self.ask(offset_fetch.handle, OffsetFetchRequest(groups=[group]), version).groups
        (topic,) = answer.topics
        self.assertEqual((answer.error_code, topic.name), (0, "t"))
        nothing, found = topic.partitions
        unknown = UNKNOWN_TOPIC if version == 0 else 0
        self.assertEqual(
            (nothing.partition_index, nothing.committed_offset, nothing.metadata, nothing.error_code),
            (1, -1, "", unknown),
        )
        self.assertEqual(
            (found.partition_index, found.committed_offset, found.metadata, found.error_code),
            (0, version + 1, f"v{version}", 0),
        )

    def test_leader_epochs_and_null_metadata(self) -> None:
        self.commit(5, committed_leader_epoch=3, committed_metadata=None)
        found = self.committed()
        self.assertEqual((found.committed_offset, found.committed_leader_epoch, found.metadata), (5, 3, ""))

    def test_all_committed_offsets_of_a_group(self) -> None:
        self.node.create("u")
        self.commit(1)
        self.commit(2, 1)
        self.commit(3, topic="u")
        for version in range(2, 8):
            answer = self.ask(offset_fetch.handle, OffsetFetchRequest("g", None), version)
            self.assertEqual(_offsets(answer), {("t", 0): 1, ("t", 1): 2, ("u", 0): 3})
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup("g", topics=None), OffsetFetchRequestGroup("h", topics=None)]
        )
        first, second = self.ask(offset_fetch.handle, request).groups
        self.assertEqual((first.group_id, _offsets(first)), ("g", {("t", 0): 1, ("t", 1): 2, ("u", 0): 3}))
        self.assertEqual((second.group_id, _offsets(second)), ("h", {}))

    def test_partitions_that_do_not_exist_cannot_be_committed(self) -> None:
        partitions = [OffsetCommitRequestPartition(index, 7) for index in (0, 2)]
        topics = [OffsetCommitRequestTopic("t", partitions), OffsetCommitRequestTopic("nothing", partitions)]
        answer = self.ask(offset_commit.handle, OffsetCommitRequest("g", topics=topics))
        self.assertEqual(
            {(topic.name, p.partition_index): p.error_code for topic in answer.topics for p in topic.partitions},
            {("t", 0): 0, ("t", 2): UNKNOWN_TOPIC, ("nothing", 0): UNKNOWN_TOPIC, ("nothing", 2): UNKNOWN_TOPIC},
        )
        self.assertEqual(self.commit(7, topic="nothing"), UNKNOWN_TOPIC)

    def test_a_member_commits_with_its_generation(self) -> None:
        joined = self.member()
        self.assertEqual(self.commit(5), ErrorCode.UNKNOWN_MEMBER_ID)
        topics = [OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 5)])]
        for generation, error in ((joined.generation_id, 0), (9, ErrorCode.ILLEGAL_GENERATION)):
            request = OffsetCommitRequest("g", generation, joined.member_id, topics=topics)
            answer = self.ask(offset_commit.handle, request)
            self.assertEqual(answer.topics[0].partitions[0].error_code, error)

    def test_a_retention_time_of_its_own(self) -> None:
        topics = [OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 5)])]
        self.ask(offset_commit.handle, OffsetCommitRequest("g", retention_time_ms=3_600_000, topics=topics), 4)
        self.commit(6, 1)
        self.pass_time(3_600_000 + 600_000)
        self.assertEqual(self.committed(0).committed_offset, -1)
        self.assertEqual(self.committed(1).committed_offset, 6)

    def test_a_retention_time_beyond_all_time(self) -> None:
        topics = [OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 5)])]
        for version in (2, 3, 4):
            request = OffsetCommitRequest("g", retention_time_ms=2**63 - 1, topics=topics)
            [answered] = self.ask(offset_commit.handle, request, version).topics
            self.assertEqual(answered.partitions[0].error_code, 0)
        self.restart()
        self.assertEqual(self.committed(0).committed_offset, 5)

    def test_a_timestamp_of_its_own(self) -> None:
        week_ago = self.node.broker.runtime.now_ms() - 7 * 24 * 3_600_000
        self.commit(5, version=1, commit_timestamp=week_ago)
        self.commit(6, 1, version=1)
        self.pass_time(600_000)
        self.assertEqual(self.committed(0).committed_offset, -1)
        self.assertEqual(self.committed(1).committed_offset, 6)

    def test_deleting_offsets(self) -> None:
        self.commit(1)
        self.commit(2, 1)
        partitions = [OffsetDeleteRequestPartition(index) for index in (0, 5)]
        answer = self.ask(offset_delete.handle, OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", partitions)]))
        self.assertEqual(answer.error_code, 0)
        (topic,) = answer.topics
        self.assertEqual([(p.partition_index, p.error_code) for p in topic.partitions], [(0, 0), (5, UNKNOWN_TOPIC)])
        self.assertEqual(self.committed(0).committed_offset, -1)
        self.assertEqual(self.committed(1).committed_offset, 2)

    def test_deleting_offsets_that_are_in_use(self) -> None:
        self.member()
        topics = [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])]
        answer = self.ask(offset_delete.handle, OffsetDeleteRequest("g", topics))
        self.assertEqual(answer.topics[0].partitions[0].error_code, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
        answer = self.ask(offset_delete.handle, OffsetDeleteRequest("nobody", topics))
        self.assertEqual((answer.error_code, answer.topics), (ErrorCode.GROUP_ID_NOT_FOUND, []))

    def test_a_deleted_topic_takes_its_offsets_along(self) -> None:
        self.commit(1)
        now(self.node.broker.controller.delete_topic("t"))
        self.node.create("t", 2)
        self.assertEqual(self.committed().committed_offset, -1)


def _offsets(answer: Any) -> dict[tuple[str, int], int]:
    return {(topic.name, p.partition_index): p.committed_offset for topic in answer.topics for p in topic.partitions}


class AdministrationTests(GroupTests):
    def test_describing(self) -> None:
        joined = self.member()
        for version in range(6):
            answer = self.ask(describe_groups.handle, DescribeGroupsRequest(["g", "nobody"]), version)
            found, dead = answer.groups
            self.assertEqual(
                (found.error_code, found.group_id, found.group_state, found.protocol_type, found.protocol_data),
                (0, "g", "Stable", "consumer", "range"),
            )
            (member,) = found.members
            self.assertEqual(
                (member.member_id, member.client_id, member.client_host), (joined.member_id, "me", "/10.0.0.1")
            )
            self.assertEqual((member.member_metadata, member.member_assignment), (SUBSCRIPTION, b"all"))
            self.assertEqual((dead.error_code, dead.group_state, dead.members), (0, "Dead", []))
            self.assertEqual(found.authorized_operations, -(2**31))

    def test_a_group_that_is_not_there_is_an_error_from_version_6_on(self) -> None:
        (group,) = self.ask(describe_groups.handle, DescribeGroupsRequest(["nobody"], True), 6).groups
        self.assertEqual((group.error_code, group.error_message), (69, "Group nobody not found."))
        self.assertEqual((group.group_state, group.authorized_operations), ("Dead", -(2**31)))

    def test_authorised_operations_when_asked_for(self) -> None:
        self.member()
        request = DescribeGroupsRequest(["g"], include_authorized_operations=True)
        (group,) = self.ask(describe_groups.handle, request).groups
        self.assertEqual(group.authorized_operations, 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11)
        self.node.broker.features.is_on = False
        (group,) = self.ask(describe_groups.handle, request).groups
        self.assertEqual(group.authorized_operations, 1 << 3 | 1 << 6 | 1 << 8)

    def test_listing(self) -> None:
        self.member()
        for version in range(6):
            (group,) = self.ask(list_groups.handle, ListGroupsRequest(), version).groups
            self.assertEqual((group.group_id, group.protocol_type), ("g", "consumer"))
            self.assertEqual(group.group_state, "Stable" if version >= 4 else "")
            self.assertEqual(group.group_type, "classic" if version >= 5 else "")
        self.assertEqual(self.ask(list_groups.handle, ListGroupsRequest(["Empty"])).groups, [])
        self.assertEqual(self.ask(list_groups.handle, ListGroupsRequest([], ["consumer"])).groups, [])

    def test_deleting(self) -> None:
        joined = self.member()
        for version in range(4):
            (result,) = self.ask(delete_groups.handle, DeleteGroupsRequest(["g"]), version).results
            self.assertEqual((result.group_id, result.error_code), ("g", ErrorCode.NON_EMPTY_GROUP))
        self.ask(leave_group.handle, LeaveGroupRequest("g", joined.member_id), 0)
        results = self.ask(delete_groups.handle, DeleteGroupsRequest(["g", "nobody", "g"])).results
        self.assertEqual(
            [(result.group_id, result.error_code) for result in results],
            [("g", 0), ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)],
        )


class RestartTests(GroupTests):
    def test_offsets_and_members_are_there_again(self) -> None:
        joined = self.member()
        topics = [OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 5)])]
        self.ask(offset_commit.handle, OffsetCommitRequest("g", joined.generation_id, joined.member_id, topics=topics))
        self.restart()
        self.assertEqual(self.committed().committed_offset, 5)
        beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
        self.assertEqual(self.ask(heartbeat.handle, beat).error_code, 0)

    def test_offsets_of_a_topic_with_an_interrupted_deletion(self) -> None:
        self.commit(4)
        now(self.node.tree.commit([Create("/admin/delete_topics/t")]))
        self.restart()
        self.node.create("t")
        self.assertEqual(self.committed().committed_offset, -1)
        self.restart()
        self.assertEqual(self.committed().committed_offset, -1)

    def test_many_offsets_are_loaded_in_small_slices(self) -> None:
        for offset in range(200):
            self.commit(offset, offset % 2)
        self.settings = {**self.settings, "offsets.load.buffer.size": "100"}
        self.restart()
        self.assertEqual(self.committed(0).committed_offset, 198)
        self.assertEqual(self.committed(1).committed_offset, 199)

    def test_the_topic_decides_how_many_partitions_there_are(self) -> None:
        self.commit(5)
        self.settings = {**self.settings, "offsets.topic.num.partitions": "50"}
        self.restart()
        self.assertEqual(self.committed().committed_offset, 5)

    def test_requests_during_the_load_get_load_in_progress(self) -> None:
        self.commit(5)
        waiting: list[Callable[[], None]] = []

        def in_thread(call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
            done: Deferred[Any] = Deferred()
            waiting.append(lambda: maybeDeferred(call, *arguments).chainDeferred(done))
            return done

        with patch("tests.broker.nodes.maybeDeferred", in_thread):
            self.restart()
        self.assertEqual(self.committed(), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.assertEqual(
            self.ask(list_groups.handle, ListGroupsRequest()).error_code, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )
        while waiting:
            waiting.pop(0)()
        self.assertEqual(self.committed().committed_offset, 5)
        self.assertEqual(self.ask(list_groups.handle, ListGroupsRequest()).error_code, 0)

    def test_a_partition_that_cannot_be_read_is_not_served(self) -> None:
        self.commit(5)
        with patch.object(Log, "read", side_effect=StorageFailure("gone")):
            self.restart()
        self.assertEqual(self.committed(), ErrorCode.NOT_COORDINATOR)
        self.assertEqual(len(self.flushLoggedErrors(StorageFailure)), 1)


class StorageTests(GroupTests):
    def test_a_disk_that_fails(self) -> None:
        with broken("pwritev", self.directories[0], failing(errno.EIO)):
            self.assertEqual(self.commit(5), ErrorCode.NOT_COORDINATOR)
        self.assertEqual(self.node.broker.logs.directories.online, [])

    def test_a_disk_that_fails_when_records_are_to_be_on_it_first(self) -> None:
        controller = self.node.broker.controller
        now(controller.alter_config(topic_resource("__consumer_offsets"), lambda own: {**own, "flush.messages": "1"}))
        with broken("fdatasync", self.directories[0], failing(errno.EIO)):
            self.assertEqual(self.commit(5), ErrorCode.NOT_COORDINATOR)
        self.assertEqual(self.node.broker.logs.directories.online, [])

    def test_a_full_disk(self) -> None:
        self.commit(4)
        with patch.object(Log, "append", side_effect=StorageFailure("full")):
            self.assertEqual(self.commit(5), ErrorCode.NOT_COORDINATOR)
        self.assertEqual(self.committed().committed_offset, 4)

    def test_records_that_are_to_be_on_the_disk_first(self) -> None:
        controller, threads = self.node.broker.controller, self.node.threads
        now(controller.alter_config(topic_resource("__consumer_offsets"), lambda own: {**own, "flush.messages": "1"}))
        threads.holding = True
        request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 5)])])
        first = self.send(offset_commit.handle, request)
        self.assertEqual(first, [])
        self.assertEqual(self.committed().committed_offset, -1)
        threads.run_one()
        self.assertEqual(first[0].topics[0].partitions[0].error_code, 0)
        self.assertEqual(self.committed().committed_offset, 5)
        second = self.send(offset_commit.handle, request)
        with broken("fdatasync", self.directories[0], failing(errno.EIO)):
            threads.run_one()
        self.assertEqual(second[0].topics[0].partitions[0].error_code, ErrorCode.NOT_COORDINATOR)

    def test_the_topic_is_deleted(self) -> None:
        self.commit(5)
        now(self.node.broker.controller.delete_topic("__consumer_offsets"))
        self.assertEqual(self.committed(), ErrorCode.NOT_COORDINATOR)
        self.ask(find_coordinator.handle, FindCoordinatorRequest(coordinator_keys=["g"]))
        self.assertEqual(self.committed().committed_offset, -1)
