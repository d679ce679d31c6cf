"""Which broker the admin client asks, and what it does when the answer is another's, against brokers in memory."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.client.admin.groups import GroupAdmin, GroupDescription
from pylogbroker.client.admin.reactor_waits import ReactorWaits
from pylogbroker.client.admin.records import LATEST, RecordAdmin
from pylogbroker.client.admin.routing import ItemsFailed, Router
from pylogbroker.client.admin.topics import NewTopic, TopicAdmin
from pylogbroker.client.settings import CLIENT, read
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.wire import SUPPORTED
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.consumer_group_describe import (
    AssignedTopicPartitions,
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupMember,
    DescribedConsumerGroup,
)
from pylogbroker.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from pylogbroker.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from pylogbroker.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from pylogbroker.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataResponseBroker
from pylogbroker.wire.messages.streams_group_describe import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedSubtopology,
    DescribedTopology,
    StreamsAssignment,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from pylogbroker.wire.streams_topology import StreamsTaskIds, StreamsTopicInfo
from tests.client.cluster_fakes import FakeNetwork

OFFSETS = {1: 10, 2: 20}


class AdminRoutingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.network = FakeNetwork()
        self.one, self.two = self.network.broker(1), self.network.broker(2)
        self.controller = 1
        for each in (self.one, self.two):
            each.answers[MetadataRequest] = self.metadata
        self.one.leads("t", 0)
        self.two.leads("t", 1)
        settings = read(CLIENT, None, default_api_timeout_ms=5000, allow_auto_create_topics=False)
        self.cluster = self.network.cluster(default_api_timeout_ms=5000, allow_auto_create_topics=False)
        self.waits = ReactorWaits.of(self.network.clock, settings)
        self.router = Router.of(self.cluster, self.waits, settings)

    def tearDown(self) -> None:
        self.waits.close()
        closing = ensureDeferred(self.cluster.close())
        self.network.run()
        self.successResultOf(closing)
        self.assertEqual(self.network.clock.getDelayedCalls(), [])

    def metadata(self, request: MetadataRequest) -> Any:
        response = self.network.metadata(request)
        response.controller_id = self.controller
        return response

    def after(self, work: Deferred[Any], seconds: float = 0) -> Deferred[Any]:
        self.network.run(seconds)
        return work

    def creates(self, node: int, error: int = 0) -> None:
        def answer(request: CreateTopicsRequest) -> CreateTopicsResponse:
            code = error if node == self.controller else ErrorCode.NOT_CONTROLLER
            return CreateTopicsResponse(
                0, [CreatableTopicResult(topic.name, error_code=code) for topic in request.topics]
            )

        self.network.broker(node).answers[CreateTopicsRequest] = answer

    def lists_offsets(self, node: int) -> None:
        def answer(request: ListOffsetsRequest) -> ListOffsetsResponse:
            [topic] = request.topics
            rows = [
                ListOffsetsPartitionResponse(each.partition_index, offset=OFFSETS[node], leader_epoch=1)
                if self.network.leaders["t", each.partition_index] == node
                else ListOffsetsPartitionResponse(
                    each.partition_index, ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=1
                )
                for each in topic.partitions
            ]
            return ListOffsetsResponse(0, [ListOffsetsTopicResponse("t", rows)])

        self.network.broker(node).answers[ListOffsetsRequest] = answer

    def test_the_next_controller_is_asked(self) -> None:
        self.creates(1)
        self.creates(2)
        topics = TopicAdmin(self.router)
        self.successResultOf(self.after(topics.create([NewTopic("a")])))
        self.controller = 2
        self.successResultOf(self.after(topics.create([NewTopic("b")]), 1))
        self.assertEqual([len(each.asked_for(CreateTopicsRequest)) for each in (self.one, self.two)], [2, 1])

    def test_items_that_an_answer_leaves_out_or_makes_up(self) -> None:
        def answer(request: DeleteGroupsRequest) -> DeleteGroupsResponse:
            return DeleteGroupsResponse(0, [DeletableGroupResult("g"), DeletableGroupResult("other")])

        self.one.answers[DeleteGroupsRequest] = answer
        for broker in (self.one, self.two):
            broker.answers[FindCoordinatorRequest] = lambda request: self.network.coordinator_is(request, 1)
        deleting = self.after(GroupAdmin(self.router).delete(["g", "h"]), 10)
        failed = self.failureResultOf(deleting, ItemsFailed).value
        self.assertEqual((list(failed.errors), list(failed.results)), (["h"], ["g"]))
        self.assertIn("broker 1 answered DeleteGroups with no result for 'h'", str(failed.errors["h"]))

    def test_no_controller(self) -> None:
        """Calls wait for one, at most default.api.timeout.ms."""
        self.controller = -1
        self.creates(1)
        failed = self.after(TopicAdmin(self.router).create([NewTopic("a")]), 6)
        self.assertIs(self.failureResultOf(failed, KafkaError).value.code, ErrorCode.NOT_CONTROLLER)

    def test_errors_that_stay_are_not_retried(self) -> None:
        self.creates(1, ErrorCode.TOPIC_ALREADY_EXISTS)
        failed = self.after(TopicAdmin(self.router).create([NewTopic("a"), NewTopic("b")]))
        errors = self.failureResultOf(failed, ItemsFailed).value.errors
        self.assertEqual({name: error.code for name, error in errors.items()}, dict.fromkeys("ab", 36))
        self.assertEqual(len(self.one.asked_for(CreateTopicsRequest)), 1)

    def test_one_request_for_each_leader(self) -> None:
        self.lists_offsets(1)
        self.lists_offsets(2)
        times = {("t", 0): LATEST, ("t", 1): LATEST}
        found = self.successResultOf(self.after(RecordAdmin(self.router).offsets(times)))
        self.assertEqual({key: each.offset for key, each in found.items()}, {("t", 0): 10, ("t", 1): 20})
        self.two.leads("t", 0)  # partition 0 moves, and its item alone is sent again
        found = self.successResultOf(self.after(RecordAdmin(self.router).offsets(times), 1))
        self.assertEqual({key: each.offset for key, each in found.items()}, {("t", 0): 20, ("t", 1): 20})
        last = self.two.asked_for(ListOffsetsRequest)[-1]
        self.assertEqual([each.partition_index for each in last.topics[0].partitions], [0])

    def test_a_missing_topic_is_not_waited_for(self) -> None:
        failed = self.after(RecordAdmin(self.router).offsets({("other", 0): LATEST}))
        error = self.failureResultOf(failed, KafkaError).value
        self.assertIs(error.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_a_coordinator_that_moves(self) -> None:
        coordinator = 1
        for each in (self.one, self.two):
            each.answers[FindCoordinatorRequest] = lambda request: self.network.coordinator_is(request, coordinator)
            each.answers[DeleteGroupsRequest] = lambda request, node=each.node: DeleteGroupsResponse(  # type: ignore[misc]
                0, [DeletableGroupResult("g", 0 if node == coordinator else ErrorCode.NOT_COORDINATOR)]
            )
        groups = GroupAdmin(self.router)
        self.successResultOf(self.after(groups.delete(["g"])))
        coordinator = 2
        self.successResultOf(self.after(groups.delete(["g"]), 1))
        self.assertEqual([len(each.asked_for(DeleteGroupsRequest)) for each in (self.one, self.two)], [2, 1])

    def has_groups(self, error: int = 0) -> None:
        """The group `old` is of the classic protocol, `new` of KIP-848, `app` of Kafka Streams; there are no others."""

        def classic(request: DescribeGroupsRequest) -> DescribeGroupsResponse:
            rows = [
                DescribedGroup(0, each, "Stable", "consumer", "range")
                if each == "old"
                else DescribedGroup(error, each, "" if error else "Dead")
                for each in request.groups
            ]
            return DescribeGroupsResponse(groups=rows)

        def of_kip_848(request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
            assigned = Assignment([AssignedTopicPartitions(topic_name="t", partitions=[1, 0])])
            members = [ConsumerGroupMember("m", "i", None, 3, "c", "/h", ["t"], None, assigned)]
            rows = [
                DescribedConsumerGroup(0, None, each, "Reconciling", 4, 4, "uniform", members)
                if each == "new"
                else DescribedConsumerGroup(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {each} not found.", each)
                for each in request.group_ids
            ]
            return ConsumerGroupDescribeResponse(groups=rows)

        def of_streams(request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
            source = DescribedSubtopology("0", ["t"], [], [], [StreamsTopicInfo("r", 1)])
            tasks, standbys = [StreamsTaskIds("0", [1, 0])], [StreamsTaskIds("0", [2])]
            member = DescribedStreamsMember("m", 3, client_id="c", client_host="/h", process_id="p")
            member.assignment = member.target_assignment = StreamsAssignment(tasks, standbys)
            topology = DescribedTopology(0, [source])
            rows = [
                DescribedStreamsGroup(0, None, name, "Stable", 4, 4, topology, [member], assignor_name="sticky")
                if name == "app"
                else DescribedStreamsGroup(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {name} not found.", name)
                for name in request.group_ids
            ]
            return StreamsGroupDescribeResponse(groups=rows)

        for each in (self.one, self.two):
            each.answers[DescribeGroupsRequest] = classic
            each.answers[ConsumerGroupDescribeRequest] = of_kip_848
            each.answers[StreamsGroupDescribeRequest] = of_streams

    def test_members_of_streams_groups_have_the_partitions_of_their_tasks(self) -> None:
        self.has_groups()
        group = self.successResultOf(self.after(GroupAdmin(self.router).describe(["app"])))["app"]
        self.assertEqual((group.state, group.type, group.protocol), ("Stable", "streams", "sticky"))
        self.assertEqual((group.epoch, group.target_epoch), (4, 4))
        [member] = group.members
        self.assertEqual((member.tasks, member.standby_tasks, member.process), (("0_0", "0_1"), ("0_2",), "p"))
        self.assertEqual(member.assignment, (("r", 0), ("t", 0), ("t", 1)))
        self.assertEqual(member.target, member.assignment)

    def test_groups_of_both_protocols(self) -> None:
        """Coordinators call a group dead, or unknown, if it is of the other protocol."""
        for error in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            self.has_groups(error)
            found = self.successResultOf(self.after(GroupAdmin(self.router).describe(["old", "new"])))
            self.assertEqual(found["old"], GroupDescription("old", "Stable", "classic", "consumer", "range", ()))
            new = found["new"]
            self.assertEqual((new.state, new.type, new.protocol), ("Reconciling", "consumer", "uniform"))
            [member] = new.members
            self.assertEqual((member.member_id, member.instance_id, member.client_id), ("m", "i", "c"))
            self.assertEqual((member.host, member.assignment), ("/h", (("t", 0), ("t", 1))))
            self.assertEqual((new.epoch, new.target_epoch, member.epoch), (4, 4, 3))
            self.assertEqual((member.target, member.topics, member.is_classic), ((), ("t",), False))
        asked = [each for node in (self.one, self.two) for each in node.asked_for(ConsumerGroupDescribeRequest)]
        self.assertEqual([each.group_ids for each in asked], [["new"], ["new"]])

    def test_a_group_that_no_protocol_has(self) -> None:
        self.has_groups()
        found = self.successResultOf(self.after(GroupAdmin(self.router).describe(["none", "new"])))
        self.assertEqual(found["none"], GroupDescription("none", "Dead", "", "", "", ()))
        self.assertEqual(found["new"].state, "Reconciling")

    def test_a_coordinator_that_knows_one_protocol(self) -> None:
        self.has_groups()
        versions = [
            ApiVersion(key, one.versions.first, one.versions.last)
            for key, (one, _) in SUPPORTED.items()
            if key not in (69, 89)
        ]
        for each in (self.one, self.two):
            each.answers[ApiVersionsRequest] = lambda request: ApiVersionsResponse(api_keys=versions)
        found = self.successResultOf(self.after(GroupAdmin(self.router).describe(["new", "old"])))
        self.assertEqual([each.state for each in found.values()], ["Dead", "Stable"])
        self.assertEqual(self.one.asked_for(ConsumerGroupDescribeRequest), [])

    def test_a_coordinator_whose_settings_disable_one_protocol(self) -> None:
        self.has_groups()

        def disabled(request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
            code = ErrorCode.UNSUPPORTED_VERSION
            return ConsumerGroupDescribeResponse(
                groups=[DescribedConsumerGroup(code, None, each) for each in request.group_ids]
            )

        for each in (self.one, self.two):
            each.answers[ConsumerGroupDescribeRequest] = disabled
        found = self.successResultOf(self.after(GroupAdmin(self.router).describe(["new", "old"])))
        self.assertEqual([each.state for each in found.values()], ["Dead", "Stable"])

    def test_a_broker_that_has_left_has_no_groups(self) -> None:
        for each in (self.one, self.two):
            answer = ListGroupsResponse(groups=[ListedGroup(f"g{each.node}", "consumer", "Empty", "classic")])
            each.answers[ListGroupsRequest] = lambda request, answer=answer: answer  # type: ignore[misc]
        groups = GroupAdmin(self.router)
        self.successResultOf(self.after(groups.list()))
        left: set[int] = set()

        def metadata(request: MetadataRequest) -> Any:
            """Still name the broker that has failed, the first time."""
            response = self.metadata(request)
            if left:
                return response
            left.add(2)
            response.brokers = [MetadataResponseBroker(each, f"b{each}", 9092) for each in (1, 2)]
            return response

        self.one.answers[MetadataRequest] = metadata
        self.network.kill(2)
        found = self.successResultOf(self.after(groups.list(), 1))
        self.assertEqual([each.group for each in found], ["g1"])

    def test_each_broker_is_asked_for_its_groups(self) -> None:
        for each in (self.one, self.two):
            answer = ListGroupsResponse(groups=[ListedGroup(f"g{3 - each.node}", "consumer", "Empty", "classic")])
            each.answers[ListGroupsRequest] = lambda request, answer=answer: answer  # type: ignore[misc]
        found = self.successResultOf(self.after(GroupAdmin(self.router).list()))
        self.assertEqual([(each.group, each.coordinator) for each in found], [("g1", 2), ("g2", 1)])

    def test_a_coordinator_that_is_loading_is_asked_for_its_groups_again(self) -> None:
        loading = [ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 2
        groups = ListGroupsResponse(groups=[ListedGroup("g", "consumer", "Empty", "classic")])
        self.one.answers[ListGroupsRequest] = lambda request: loading.pop() if loading else groups
        self.two.answers[ListGroupsRequest] = lambda request: ListGroupsResponse()
        found = self.successResultOf(self.after(GroupAdmin(self.router).list(), 2))
        self.assertEqual(([each.group for each in found], loading), (["g"], []))
