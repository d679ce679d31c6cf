"""Answers and what they are made from: no request, however short, is answered at length, and none without an answer.

Requests are made from the declarations of all APIs, so that one that is added is tried as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID

import attrs

from pylogbroker.broker.apis import APIS
from pylogbroker.broker.membership.control import ClusterControl
from pylogbroker.broker.requests import limits
from pylogbroker.broker.requests.api import Api
from pylogbroker.config import TOPIC
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Buffer
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.wire import Request, decode_response_header, response_codec
from pylogbroker.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, QuotaAlteration
from pylogbroker.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, EntityData
from pylogbroker.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pylogbroker.wire.messages.describe_groups import DescribeGroupsRequest
from pylogbroker.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pylogbroker.wire.messages.describe_transactions import DescribeTransactionsRequest
from pylogbroker.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pylogbroker.wire.messages.list_transactions import ListTransactionsRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pylogbroker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pylogbroker.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from pylogbroker.wire.resource_types import ResourceType
from pylogbroker.wire.schema import Field, FieldType, fields_of
from tests.broker.log_lines import logged_lines
from tests.broker.membership.harness import DrivenCluster
from tests.broker.nodes import NODE_ID, NodeTests
from tests.broker.security import broker_requests
from tests.net.fakes import FakeFactory, connect, frame
from tests.storage.support import NOW, batch
from tests.support.examples import examples

NAME = "t"
"""A topic, a group and a transactional id."""

LONGEST = "x" * 32_767


def filled(cls: type, version: int, times: tuple[int, ...], text: str) -> Any:
    """A message whose strings are `text` and whose arrays hold one thing so often, on each level of nesting.

    Arrays on further levels are null, which often means all that there is, or hold one thing, too.
    """
    return cls(**{field.name: _filled(field, version, times, text) for field in fields_of(cls) if field.is_in(version)})


def _filled(field: Field, version: int, times: tuple[int, ...], text: str) -> Any:
    if field.is_array:
        if not times and field.is_nullable(version):
            return None
        count, *inner = times or (1,)
        one = attrs.evolve(field, is_array=False, nullable_since=float("inf"))
        return [_filled(one, version, tuple(inner), text)] * count
    if isinstance(field.kind, type):
        return None if field.is_nullable(version) else filled(field.kind, version, times, text)
    if field.name in NUMBERS:
        return NUMBERS[field.name]
    return text if field.kind is FieldType.STRING else VALUES[field.kind]


NUMBERS = {
    "resource_type": int(ResourceType.TOPIC),
    "acks": 1,
    "endpoint_type": 1,
    "producer_id": -1,
    "producer_epoch": -1,
    "session_epoch": -1,
    "session_timeout_ms": 10_000,
    "response_partition_limit": 100,
    "replica_id": -1,
    "generation_id": -1,
    "current_leader_epoch": -1,
    "num_partitions": 1,
    "replication_factor": 1,
}
VALUES: dict[Any, Any] = {
    FieldType.BOOLEAN: False,
    FieldType.INT8: 0,
    FieldType.INT16: 0,
    FieldType.INT32: 0,
    FieldType.INT64: 0,
    FieldType.FLOAT64: 0.0,
    FieldType.UUID: UUID(int=0),
    FieldType.BYTES: b"",
    FieldType.RECORDS: b"",
}


BETWEEN_BROKERS = {request.api_key for request, _ in broker_requests.REQUESTS}
SERVED = tuple(api for api in APIS if api.key not in BETWEEN_BROKERS)
"""APIs for clients, also those that only a member of a cluster serves."""


def every_version() -> Iterator[tuple[Api, int]]:
    for api in SERVED:
        for version in range(api.versions.first, api.versions.last + 1):
            yield api, version


@attrs.frozen
class MemberServices:
    """Services of a member of a cluster: those of a broker, and a controller."""

    broker: Any
    cluster_control: ClusterControl

    def __getattr__(self, name: str) -> Any:
        return getattr(self.broker, name)


class BoundsTests(NodeTests):
    """A node with a topic, that has records and producers, and a transactional id, both called `NAME`."""

    settings = {
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }

    def setUp(self) -> None:
        super().setUp()
        for topic in (NAME, "__consumer_offsets", "__transaction_state"):
            self.node.create(topic, 1)
        cluster = DrivenCluster(cast(EmbeddedTree, self.node.tree))
        self.services = MemberServices(self.node.broker, cluster.driver)
        cluster.driver.start()
        self.addCleanup(cluster.driver.stop)
        self.answer(InitProducerIdRequest(NAME, 60_000), 4)
        partition = self.node.broker.partitions.find(NAME, 0)
        for producer_id in range(100, 200):
            partition.append(batch([b"v"], producer=(producer_id, 0, 0)), NOW)

    def join(self, group_id: str = NAME, metadata: int = 5000, client_id: str = "client") -> str:
        """Make a stable group of one member; its id."""
        protocols = [JoinGroupRequestProtocol("range", bytes(metadata))]
        request = JoinGroupRequest(group_id, 10_000, 10_000, protocol_type="consumer", protocols=protocols)
        joined = self.answer(request, 3, client_id)
        member_id: str = joined.member_id
        assignments = [SyncGroupRequestAssignment(member_id, b"assigned")]
        self.answer(SyncGroupRequest(group_id, joined.generation_id, member_id, assignments=assignments), 2)
        return member_id

    def commit(self, group_id: str, metadata: str) -> None:
        """Commit an offset for the topic's partition."""
        topics = [OffsetCommitRequestTopic(NAME, [OffsetCommitRequestPartition(0, 7, committed_metadata=metadata)])]
        self.answer(OffsetCommitRequest(group_id, -1, "", topics=topics), 7)

    def sent(self, request: Request, version: int, client_id: str = "client") -> bytes:
        """Return the answer of a connection, at once or after a while; it must stay open."""
        protocol, transport = connect(FakeFactory(APIS, services=self.services))
        protocol.dataReceived(frame(request, version, 1, client_id))
        for _ in range(5):
            self.node.clock.advance(0.01)
        self.assertEqual(transport.closed, "", f"{type(request).__name__} {version}")
        return b"".join(chunk if isinstance(chunk, Buffer) else chunk.read() for chunk in transport.sent)

    def answer(self, request: Request, version: int, client_id: str = "client") -> Any:
        """The answer to a request, as it arrives."""
        sent = memoryview(self.sent(request, version, client_id))[4:]
        _, position = decode_response_header(sent, request.api_key, version)
        return response_codec(request.api_key, version).decode(sent, position)


class EveryApiTests(BoundsTests):
    """Return all versions of the APIs in `SERVED`."""

    def test_the_longest_strings_are_answered(self) -> None:
        """No name that fits into a request, and nothing made of it, is too long for the answer."""
        for api, version in every_version():
            with logged_lines() as lines:
                sent = self.sent(filled(api.request, version, (1, 1, 1), LONGEST), version, LONGEST)
            self.assertTrue(sent, f"{api.name} {version}")
            self.assertEqual([line for line in lines if "failed" in line], [], f"{api.name} {version}")

    def test_repeated_names_are_not_described_repeatedly(self) -> None:
        """Each mention is worth a number, an error and its text at most."""
        many = min(1000, examples(1000))
        self.commit(NAME, "m" * 4000)
        self.join()
        for api, version in every_version():
            first = len(self.sent(filled(api.request, version, (1,), NAME), version))
            for times in ((many,), (1, many), (1, 1, many)):
                often = filled(api.request, version, times, NAME)
                asked, size = len(frame(often, version, 1)), len(self.sent(often, version))
                self.assertLess(size, 2 * first + 16 * asked, f"{api.name} {version}, {times}: {first} and {size}")


class OnceTests(BoundsTests):
    """A name that occurs twice is answered once, with all that was asked of it."""

    def test_settings(self) -> None:
        def asked(*keys: str) -> DescribeConfigsResource:
            return DescribeConfigsResource(ResourceType.TOPIC, NAME, list(keys) or None)

        def answered(*resources: DescribeConfigsResource) -> list[str]:
            [result] = self.answer(DescribeConfigsRequest(list(resources)), 4).results
            return sorted(row.name for row in result.configs)

        both = ["cleanup.policy", "retention.ms"]
        shown = sorted(name for name, setting in TOPIC.items() if not setting.internal)
        self.assertEqual(answered(asked("retention.ms"), asked("cleanup.policy")), both)
        self.assertEqual(answered(asked("retention.ms"), asked()), shown)
        self.assertEqual(answered(asked(), asked("retention.ms")), shown)
        self.assertEqual(answered(asked("retention.ms"), asked(), asked("retention.ms")), shown)

    def test_offsets(self) -> None:
        self.commit(NAME, "m")
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(NAME, topics=[OffsetFetchRequestTopics("u", [3])]),
                OffsetFetchRequestGroup("other", topics=[]),
                OffsetFetchRequestGroup(
                    NAME, topics=[OffsetFetchRequestTopics(NAME, [0, 1, 0]), OffsetFetchRequestTopics("u", [3, 4])]
                ),
            ]
        )
        group, other = self.answer(request, 9).groups
        found = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in group.topics]
        self.assertEqual(found, [("u", [3, 4]), (NAME, [0, 1])])
        self.assertEqual(other.group_id, "other")
        everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(NAME, topics=None), *request.groups])
        self.assertEqual([topic.name for topic in self.answer(everything, 9).groups[0].topics], [NAME])

    def test_features(self) -> None:
        """The first mention counts."""
        updates = [FeatureUpdateKey("metadata.version", 33), FeatureUpdateKey("metadata.version", 99)] * 2
        answer = self.answer(UpdateFeaturesRequest(feature_updates=updates), 1)
        self.assertEqual((answer.error_code, [each.feature for each in answer.results]), (0, ["metadata.version"]))

    def test_elections_and_reassignments(self) -> None:
        topics = [ElectLeadersTopic("u", [0, 1, 0]), ElectLeadersTopic("u", [1, 2])]
        [elected] = self.answer(ElectLeadersRequest(0, topics), 2).replica_election_results
        self.assertEqual([each.partition_id for each in elected.partition_result], [0, 1, 2])
        listed = [ListPartitionReassignmentsTopics("u", [0, 0])] * 2
        self.assertEqual(self.answer(ListPartitionReassignmentsRequest(topics=listed), 0).topics, [])

    def test_records(self) -> None:
        """The last mention counts, as for Kafka."""
        ahead, start = (FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20) for offset in (99, 0))
        topics = [FetchTopic(topic=NAME, partitions=[ahead]), FetchTopic(topic=NAME, partitions=[start])]
        [topic] = self.answer(FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics), 12).responses
        [partition] = topic.partitions
        self.assertEqual(
            partition.records, self.node.broker.partitions.find(NAME, 0).log.read(0, 1 << 20, upto=100).read()
        )


class SpaceTests(BoundsTests):
    """An answer that would be too long has an error in place of what does not fit."""

    def setUp(self) -> None:
        super().setUp()
        self.enterContext(patch.object(limits, "RESPONSE_BYTES_MAX", 8000))

    def test_settings(self) -> None:
        resources = [DescribeConfigsResource(ResourceType.BROKER, str(NODE_ID), None)]
        [result] = self.answer(DescribeConfigsRequest(resources, include_documentation=True), 4).results
        self.assertEqual((result.error_code, result.configs), (ErrorCode.INVALID_REQUEST, []))
        self.assertIn("ask for less", result.error_message)

    def test_groups(self) -> None:
        for group_id in "abc":
            self.join(group_id, metadata=3000)
        groups = self.answer(DescribeGroupsRequest(list("abc")), 5).groups
        self.assertEqual([group.error_code for group in groups], [0, 0, ErrorCode.INVALID_REQUEST])
        self.assertEqual([len(group.members) for group in groups], [1, 1, 0])

    def test_offsets(self) -> None:
        for group_id in "abc":
            self.commit(group_id, "m" * 3000)
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=None) for group_id in "abc"])
        groups = self.answer(request, 9).groups
        self.assertEqual([group.error_code for group in groups], [0, 0, ErrorCode.INVALID_REQUEST])

    def test_offsets_of_old_versions(self) -> None:
        self.enterContext(patch.object(limits, "RESPONSE_BYTES_MAX", 2000))
        self.commit("a", "m" * 3000)
        request = OffsetFetchRequest("a", [OffsetFetchRequestTopic(NAME, [0])])
        self.assertEqual(self.answer(request, 5).error_code, ErrorCode.INVALID_REQUEST)
        [topic] = self.answer(request, 1).topics
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.INVALID_REQUEST)

    def test_producers(self) -> None:
        self.enterContext(patch.object(limits, "RESPONSE_BYTES_MAX", 2000))
        [topic] = self.answer(DescribeProducersRequest([TopicRequest(NAME, [0])]), 0).topics
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.INVALID_REQUEST)

    def test_lists_of_groups(self) -> None:
        """One string is a fifth of the limit."""
        for group_id in "abcd":
            self.commit(group_id + "g" * 1600, "")
        self.assertEqual(len(self.answer(ListGroupsRequest(), 4).groups), 4)
        self.commit("e" + "g" * 1600, "")
        listed = self.answer(ListGroupsRequest(), 4)
        self.assertEqual((listed.error_code, listed.groups), (ErrorCode.INVALID_REQUEST, []))

    def test_lists_of_transactions(self) -> None:
        for transactional_id in "abcd":
            self.answer(InitProducerIdRequest(transactional_id + "t" * 1600, 60_000), 4)
        self.assertEqual(len(self.answer(ListTransactionsRequest(), 0).transaction_states), 5)
        self.answer(InitProducerIdRequest("e" + "t" * 1600, 60_000), 4)
        listed = self.answer(ListTransactionsRequest(), 0)
        self.assertEqual((listed.error_code, listed.transaction_states), (ErrorCode.INVALID_REQUEST, []))

    def test_quotas(self) -> None:
        self.enterContext(patch.object(limits, "RESPONSE_BYTES_MAX", 1200))
        for user in "abcd":
            self.set_quota(user + "u" * 200)
        everything = DescribeClientQuotasRequest([], strict=False)
        self.assertEqual(len(self.answer(everything, 1).entries), 4)
        self.set_quota("e" + "u" * 200)
        found = self.answer(everything, 1)
        self.assertEqual((found.error_code, found.entries), (ErrorCode.INVALID_REQUEST, None))
        self.assertIn("ask for less", found.error_message)

    def set_quota(self, user: str) -> None:
        alteration = QuotaAlteration([EntityData("user", user)], [OpData("producer_byte_rate", 1000.0)])
        [result] = self.answer(AlterClientQuotasRequest([alteration]), 1).entries
        self.assertEqual(result.error_code, 0)

    def test_transactions_that_fit(self) -> None:
        states = self.answer(DescribeTransactionsRequest([NAME, NAME, "u"]), 0).transaction_states
        self.assertEqual([state.transactional_id for state in states], [NAME, "u"])


class LongNamesTests(BoundsTests):
    def test_a_member_with_the_longest_client_id_hides_no_group(self) -> None:
        member_id = self.join(client_id=LONGEST)
        self.assertTrue(member_id.startswith("x" * 32_000))
        self.assertEqual(len(member_id), len(LONGEST))
        for version in range(6):
            [group] = self.answer(DescribeGroupsRequest([NAME]), version).groups
            self.assertEqual((group.error_code, group.group_state), (0, "Stable"))
            self.assertEqual([(each.member_id, each.client_id) for each in group.members], [(member_id, LONGEST)])

    def test_members_of_one_client_id_are_distinguished(self) -> None:
        first, second = (self.join(group_id, client_id="名" * 10_922) for group_id in "ab")
        self.assertNotEqual(first, second)
        self.assertLessEqual(len(first.encode()), 32_767)
