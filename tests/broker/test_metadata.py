"""Metadata: the broker, the topics, and the automatic creation of topics.

The error codes are those of Apache Kafka 3.9, asked the same.
"""

from __future__ import annotations

import errno
import os
from typing import Any
from uuid import UUID

from pylogbroker.broker.apis import metadata
from pylogbroker.broker.metadata import auto_creation
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import PartitionAllowance
from pylogbroker.config import Listener
from pylogbroker.errors import ErrorCode, StorageFailure
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.failing_disks import broken, failing
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import CLUSTER_ID, NODE_ID, PORT, NodeTests
from tests.broker.trees import now
from tests.storage.support import NOW, batch

LAST = 12
NOT_ASKED = -(2**31)
TOPIC_OPERATIONS = 0b1101_1111_1000  # READ 3 to DESCRIBE 8, DESCRIBE_CONFIGS 10 and ALTER_CONFIGS 11
CLUSTER_OPERATIONS = 0b1_1111_1010_0000  # CREATE 5, ALTER 7, DESCRIBE 8, and all from CLUSTER_ACTION 9 to 12
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class MetadataTests(NodeTests):
    def ask(self, *names: str, version: int = LAST, **fields: Any) -> Any:
        """The answer about topics by name."""
        topics = [MetadataRequestTopic(name=name) for name in names]
        return self.node.ask(metadata.handle, MetadataRequest(topics, **fields), version)

    def by_id(self, topic_id: UUID, name: str | None = None, version: int = LAST) -> Any:
        request = MetadataRequest([MetadataRequestTopic(topic_id, name)])
        [topic] = self.node.ask(metadata.handle, request, version).topics
        return topic

    def all_names(self, topics: list[MetadataRequestTopic] | None, version: int) -> list[str]:
        answer = self.node.ask(metadata.handle, MetadataRequest(topics), version)
        return sorted(topic.name for topic in answer.topics)

    def codes(self, *names: str, **fields: Any) -> list[int]:
        answer = self.ask(*names, **fields)
        self.assertEqual([topic.name for topic in answer.topics], list(names))
        return [topic.error_code for topic in answer.topics]


class DescriptionTests(MetadataTests):
    settings = {"broker.rack": "r1"}

    def test_the_broker(self) -> None:
        for version in range(LAST + 1):
            answer = self.ask(version=version)
            [broker] = answer.brokers
            self.assertEqual((broker.node_id, broker.host, broker.port), (NODE_ID, "here", PORT))
            self.assertEqual(broker.rack, "r1" if version >= 1 else None)
            self.assertEqual(answer.controller_id, NODE_ID if version >= 1 else -1)
            self.assertEqual(answer.cluster_id, CLUSTER_ID if version >= 2 else None)

    def test_the_address_is_that_of_the_listener(self) -> None:
        self.node.broker.node.listeners["OUTSIDE"] = Listener("OUTSIDE", "", 1, "PLAINTEXT", "public.example", 443)
        context = RequestContext(LAST, local_host="here", listener="OUTSIDE")
        [broker] = now(metadata.handle(self.node.services_of(MetadataRequest), context, MetadataRequest())).brokers
        self.assertEqual((broker.host, broker.port), ("public.example", 443))

    def test_a_topic(self) -> None:
        self.node.create("t", 3)
        known = self.node.broker.metadata.topics["t"]
        for version in range(LAST + 1):
            [topic] = self.ask("t", version=version).topics
            self.assertEqual((topic.error_code, topic.name, topic.is_internal), (0, "t", False))
            self.assertEqual(topic.topic_id, known.id if version >= 10 else NO_ID)
            self.assertEqual([partition.partition_index for partition in topic.partitions], [0, 1, 2])
            for partition in topic.partitions:
                self.assertEqual((partition.error_code, partition.leader_id), (0, NODE_ID))
                self.assertEqual(partition.leader_epoch, 0 if version >= 7 else -1)
                self.assertEqual((partition.replica_nodes, partition.isr_nodes), ([NODE_ID], [NODE_ID]))
                self.assertEqual(partition.offline_replicas, [])

    def test_internal_topics_are_marked(self) -> None:
        self.node.create("__consumer_offsets")
        for version in range(LAST + 1):
            [topic] = self.ask("__consumer_offsets", version=version).topics
            self.assertEqual(topic.is_internal, version >= 1)

    def test_requests_for_all_no_and_some_topics(self) -> None:
        for name in ("a", "b", "c"):
            self.node.create(name)
        self.assertEqual(self.all_names([], 0), ["a", "b", "c"])
        for version in range(1, LAST + 1):
            self.assertEqual(self.all_names(None, version), ["a", "b", "c"])
            self.assertEqual(self.all_names([], version), [])
        for version in range(LAST + 1):
            self.assertEqual(self.codes("c", "a", version=version), [0, 0])

    def test_authorized_operations_are_reported_on_request(self) -> None:
        self.node.create("t")
        for version in range(8, LAST + 1):
            asked = {"include_topic_authorized_operations": True}
            if version <= 10:
                asked["include_cluster_authorized_operations"] = True
            answer = self.ask("t", version=version, **asked)
            self.assertEqual(answer.topics[0].topic_authorized_operations, TOPIC_OPERATIONS)
            cluster = CLUSTER_OPERATIONS if version <= 10 else NOT_ASKED
            self.assertEqual(answer.cluster_authorized_operations, cluster)
            answer = self.ask("t", version=version)
            self.assertEqual(answer.topics[0].topic_authorized_operations, NOT_ASKED)
            self.assertEqual(answer.cluster_authorized_operations, NOT_ASKED)


class IdTests(MetadataTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)
        self.id = self.node.broker.metadata.topics["t"].id

    def test_topics_by_id(self) -> None:
        for name in (None, "t", "another"):
            topic = self.by_id(self.id, name)
            self.assertEqual((topic.error_code, topic.name, len(topic.partitions)), (0, "t", 2))

    def test_an_id_that_is_not_known(self) -> None:
        topic = self.by_id(UUID(int=77))
        self.assertEqual(topic.error_code, ErrorCode.UNKNOWN_TOPIC_ID)
        self.assertEqual((topic.name, topic.topic_id, topic.partitions), (None, UUID(int=77), []))

    def test_before_version_12_topics_have_names(self) -> None:
        for version in (10, 11):
            for name in (None, "t"):
                topic = self.by_id(self.id, name, version)
                self.assertEqual(topic.error_code, ErrorCode.INVALID_REQUEST)
                self.assertEqual((topic.name, topic.topic_id), (name or "", self.id))
            self.assertEqual(self.by_id(NO_ID, None, version).error_code, ErrorCode.INVALID_REQUEST)

    def test_a_topic_without_name_and_id_is_rejected(self) -> None:
        self.assertEqual(self.by_id(NO_ID).error_code, ErrorCode.INVALID_REQUEST)

    def test_a_topic_recreated_has_another_id(self) -> None:
        now(self.node.broker.controller.delete_topic("t"))
        self.node.create("t")
        self.assertEqual(self.by_id(self.id).error_code, ErrorCode.UNKNOWN_TOPIC_ID)
        [topic] = self.ask("t").topics
        self.assertNotEqual(topic.topic_id, self.id)


class CreationTests(MetadataTests):
    settings = {"num.partitions": "3"}

    def create_in_background(self) -> None:
        self.node.clock.advance(0)

    def names(self) -> list[str]:
        return list(self.node.broker.metadata.topics)

    def test_a_topic_is_created_in_the_background(self) -> None:
        for version in range(LAST + 1):
            [topic] = self.ask(f"t{version}", version=version).topics
            self.assertEqual((topic.error_code, topic.topic_id, topic.partitions), (UNKNOWN, NO_ID, []))
            self.assertEqual(self.codes(f"t{version}", version=version), [UNKNOWN])
            self.create_in_background()
            [topic] = self.ask(f"t{version}", version=version).topics
            self.assertEqual((topic.error_code, len(topic.partitions)), (0, 3))
            self.assertEqual({partition.leader_id for partition in topic.partitions}, {NODE_ID})
            self.node.produce(f"t{version}", 2, 5)

    def test_a_client_that_deletes_a_topic_sees_that_it_is_gone(self) -> None:
        self.node.create("t")
        now(self.node.broker.controller.delete_topic("t"))
        self.assertEqual(self.codes("t"), [UNKNOWN])

    def test_a_request_can_forbid_creation(self) -> None:
        for version in range(4, LAST + 1):
            codes = self.codes("t", version=version, allow_auto_topic_creation=False)
            self.assertEqual(codes, [UNKNOWN])
        self.create_in_background()
        self.assertEqual(self.names(), [])

    def test_a_request_for_all_topics_creates_none(self) -> None:
        self.assertEqual(self.all_names(None, LAST), [])
        self.create_in_background()
        self.assertEqual(self.names(), [])

    def test_internal_topics_are_not_created_by_metadata(self) -> None:
        self.assertEqual(self.codes("__transaction_state"), [UNKNOWN])
        self.create_in_background()
        self.assertEqual(self.names(), [])

    def test_names_that_cannot_be(self) -> None:
        names = ("no/name", "", ".", "..", "a b", "\u00e9", "x" * 250)
        for version in range(LAST + 1):
            for asked in ({}, {"allow_auto_topic_creation": False}) if version >= 4 else ({},):
                codes = self.codes(*names, version=version, **asked)
                self.assertEqual(codes, [ErrorCode.INVALID_TOPIC_EXCEPTION] * len(names))
        self.assertEqual(self.codes("x" * 249), [UNKNOWN])
        self.create_in_background()
        self.assertEqual(self.codes("x" * 249), [0])

    def test_names_that_metrics_cannot_distinguish(self) -> None:
        self.node.create("a.b")
        self.assertEqual(self.codes("a_b"), [ErrorCode.INVALID_TOPIC_EXCEPTION])

    def test_two_names_that_metrics_cannot_distinguish_in_one_request(self) -> None:
        with logged_lines() as lines:
            self.assertEqual(self.codes("a.b", "a_b"), [UNKNOWN, UNKNOWN])
            self.create_in_background()
        self.assertEqual(self.names(), ["a.b"])
        self.assertIn("topic a_b could not be created automatically: Topic 'a_b' would collide with a.b", lines[0])
        self.assertEqual(self.codes("a_b"), [ErrorCode.INVALID_TOPIC_EXCEPTION])

    def test_a_failed_creation_does_not_affect_the_other_topics(self) -> None:
        self.assertEqual(self.codes("one", "no/name", "two"), [UNKNOWN, ErrorCode.INVALID_TOPIC_EXCEPTION, UNKNOWN])
        self.create_in_background()
        self.assertEqual(self.names(), ["one", "two"])

    def test_a_topic_that_was_created_meanwhile(self) -> None:
        self.ask("t")
        self.node.create("t")
        with logged_lines() as lines:
            self.create_in_background()
        self.assertEqual(lines, [])

    def test_excess_automatic_creations_wait_for_a_later_request(self) -> None:
        self.patch(auto_creation, "WAITING_MAX", 3)
        names = [f"t{number}" for number in range(5)]
        with logged_lines() as lines:
            self.assertEqual(self.codes(*names), [UNKNOWN] * 5)
        self.assertEqual(
            lines,
            [
                "3 topics already wait for their automatic creation: t3 and others are created when clients ask "
                "for them again"
            ],
        )
        self.create_in_background()
        self.assertEqual(self.codes(*names), [0, 0, 0, UNKNOWN, UNKNOWN])
        self.create_in_background()
        self.assertEqual(self.codes(*names), [0] * 5)

    def test_partitions_created_by_one_request_are_limited(self) -> None:
        self.patch(metadata, "PartitionAllowance", lambda: PartitionAllowance(8))
        names = ["a", "b", "c"]
        for created in (2, 3):
            self.assertEqual(self.codes(*names).count(UNKNOWN), 3 if created == 2 else 1)
            self.create_in_background()
            self.assertEqual(self.names(), names[:created])

    def test_a_stopping_broker_creates_no_topic(self) -> None:
        self.ask("a", "b")
        self.node.broker.release()
        self.create_in_background()
        self.ask("c")
        self.create_in_background()
        self.assertEqual(self.names(), [])

    def test_a_created_topic_exists_after_a_restart(self) -> None:
        self.ask("t")
        self.create_in_background()
        [made] = self.ask("t").topics
        self.restart()
        [found] = self.ask("t", allow_auto_topic_creation=False).topics
        self.assertEqual(found, made)


class NoCreationTests(MetadataTests):
    settings = {"auto.create.topics.enable": "false"}

    def test_no_topic_is_created_automatically(self) -> None:
        for version in range(LAST + 1):
            self.assertEqual(self.codes("t", version=version), [UNKNOWN])
        self.node.clock.advance(0)
        self.assertEqual(self.codes("no/name"), [ErrorCode.INVALID_TOPIC_EXCEPTION])
        self.assertEqual(self.node.broker.metadata.topics, {})


class OfflineTests(MetadataTests):
    """One of two log directories fails."""

    directory_count = 2

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)
        log = self.node.broker.partitions.find("t", 0).log
        with broken("pwritev", os.path.dirname(log.path), failing(errno.EIO)), self.assertRaises(StorageFailure):
            log.append(batch(), NOW)
        self.node.broker.partitions.storage_failed(log)

    def assert_offline(self) -> None:
        for version in range(LAST + 1):
            [topic] = self.ask("t", version=version).topics
            gone, well = topic.partitions
            self.assertEqual(topic.error_code, 0)
            self.assertEqual((gone.error_code, gone.leader_id), (ErrorCode.LEADER_NOT_AVAILABLE, -1))
            self.assertEqual((gone.replica_nodes, gone.isr_nodes), ([NODE_ID], [NODE_ID]))
            self.assertEqual(gone.offline_replicas, [NODE_ID] if version >= 5 else [])
            self.assertEqual((well.error_code, well.leader_id, well.offline_replicas), (0, NODE_ID, []))

    def test_partitions_without_a_disk_have_no_leader(self) -> None:
        self.assert_offline()

    def test_other_topics_go_on(self) -> None:
        self.ask("new")
        self.node.clock.advance(0)
        [topic] = self.ask("new").topics
        self.assertEqual([partition.leader_id for partition in topic.partitions], [NODE_ID])
        self.node.produce("new", 0, 5)

    def test_leader_epochs_are_reported(self) -> None:
        self.node.change_partition("t", 1, leader_epoch=4)
        [topic] = self.ask("t").topics
        self.assertEqual([partition.leader_epoch for partition in topic.partitions], [0, 4])
