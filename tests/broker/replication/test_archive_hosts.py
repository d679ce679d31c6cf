"""Changes that would put replicas of archived topics on broker 3, which has no remote storage."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

from pylogbroker.broker.apis import create_partitions, create_topics, incremental_alter_configs
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Create
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.metadata.image import topic_resource
from pylogbroker.metadata.zk_image import encode_topic_image
from pylogbroker.metadata.zk_schema import BrokerNode
from pylogbroker.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from pylogbroker.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.membership.harness import begin, error_of
from tests.broker.replication.cluster import TOPIC, ClusterTests
from tests.broker.trees import now

ARCHIVED = {"remote.storage.enable": "true"}


class HostsTests(ClusterTests):
    """Broker 1 is asked. The others are registered, and announced to it."""

    brokers = (1,)

    def setUp(self) -> None:
        store = self.enterContext(TemporaryDirectory())
        self.settings = {"remote.log.storage.system.enable": "true", "remote.log.storage": f"directory:{store}"}
        super().setUp()
        self.tree = self.cluster.nodes[1].tree
        self.admin: Any = self.cluster.nodes[1].broker.controller
        self.register(1, 2, archive=True)
        self.register(3)
        self.cluster.announce(1, 2, 3)

    def register(self, *brokers: int, archive: bool = False) -> None:
        for broker in brokers:
            endpoints = [f"PLAINTEXT://host{broker}:9092"]
            node = BrokerNode(endpoints, {"PLAINTEXT": "PLAINTEXT"}, host="a", port=1, has_archive=archive)
            now(self.tree.commit([Create(zk_paths.broker(broker), zk_schema.encode_broker(node, 1), ephemeral=True)]))

    def existing(self, *replicas: int, **settings: str) -> None:
        """Let there be the topic, with partition 0 on some brokers."""
        named = {name.replace("_", "."): text for name, text in settings.items()}
        self.cluster.elect(1, replicas, replicas=replicas, to=(1,), is_new=True)
        self.cluster.announce(1, 2, 3)
        topic = self.cluster.nodes[1].broker.metadata.topics[TOPIC]
        config = zk_schema.encode_config(named)
        now(self.tree.commit([Create(zk_paths.topic(TOPIC), encode_topic_image(topic))]))
        now(self.tree.commit([Create(zk_paths.topic_config(TOPIC), config)]))
        now(self.admin._config_watch.read(topic_resource(TOPIC)))


class ArchiveHostsTests(HostsTests):
    def created(self, partitions: int, width: int, assignment: dict[int, Sequence[int]] | None = None) -> set[int]:
        """Create an archived topic; return the brokers of its replicas."""
        topic = NewTopic("archived", partitions, width, assignment or {}, ARCHIVED)
        begin(self.admin.create_topic(topic)).addErrback(lambda failure: None)  # nobody elects leaders
        stored = zk_schema.decode_topic(now(self.tree.get(zk_paths.topic("archived"))).data)
        return {broker for replicas in stored.replicas.values() for broker in replicas}

    def error(self, work: Any) -> KafkaError:
        error = error_of(work)
        assert isinstance(error, KafkaError)
        return error

    def test_partitions_are_placed_where_a_remote_storage_is(self) -> None:
        self.assertEqual(self.created(9, 2), {1, 2})

    def test_other_topics_are_placed_on_all_brokers(self) -> None:
        begin(self.admin.create_topic(NewTopic("plain", 9, 2))).addErrback(lambda failure: None)
        stored = zk_schema.decode_topic(now(self.tree.get(zk_paths.topic("plain"))).data)
        self.assertEqual({broker for replicas in stored.replicas.values() for broker in replicas}, {1, 2, 3})

    def test_more_replicas_than_remote_storages_are_rejected(self) -> None:
        error = self.error(self.admin.create_topic(NewTopic("archived", 1, 3, {}, ARCHIVED)))
        self.assertEqual(error.code, ErrorCode.INVALID_REPLICATION_FACTOR)
        self.assertEqual(
            error.detail,
            "Topic 'archived' is archived, and only broker(s) 1, 2 of the cluster have a remote storage: ask for at "
            "most 2 replica(s), not 3, or give more brokers the same remote.log.storage, and restart them",
        )

    def test_an_assignment_by_hand_is_checked(self) -> None:
        error = self.error(self.admin.create_topic(NewTopic("archived", -1, -1, {0: (1, 3)}, ARCHIVED)))
        self.assertEqual(error.code, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        self.assertIn("have a remote storage: replace broker(s) 3, or give them the same", error.detail)
        self.assertEqual(self.created(-1, -1, {0: (2, 1)}), {1, 2})

    def test_added_partitions_are_placed_where_a_remote_storage_is(self) -> None:
        self.existing(1, 2, remote_storage_enable="true")
        begin(self.admin.create_partitions(TOPIC, 9)).addErrback(lambda failure: None)
        stored = zk_schema.decode_topic(now(self.tree.get(zk_paths.topic(TOPIC))).data)
        self.assertEqual(len(stored.replicas), 9)
        self.assertEqual({broker for replicas in stored.replicas.values() for broker in replicas}, {1, 2})
        error = self.error(self.admin.create_partitions(TOPIC, 10, [(3, 1)]))
        self.assertEqual(error.code, ErrorCode.INVALID_REPLICA_ASSIGNMENT)

    def test_a_topic_with_replicas_elsewhere_is_not_archived(self) -> None:
        self.existing(1, 3)
        error = self.error(self.admin.alter_config(topic_resource(TOPIC), lambda own: ARCHIVED))
        self.assertEqual(error.code, ErrorCode.INVALID_CONFIG)
        self.assertIn("has replicas on broker(s) 3, which have no remote storage: move them with", error.detail)

    def test_a_topic_whose_replicas_have_one_is_archived(self) -> None:
        self.existing(1, 2)
        now(self.admin.alter_config(topic_resource(TOPIC), lambda own: ARCHIVED))
        self.assertTrue(self.cluster.partition(1).log.is_archived)


class ValidationTests(HostsTests):
    """Requests with `validate_only` fail as those that change something, and change nothing."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(type(self.admin), "check_is_controller", lambda admin: None)

    def answer(self, handle: Any, request: Any) -> tuple[int, str | None]:
        """Send a request for one resource, which is checked only; return the error code and message."""
        [result] = _results(self.cluster.nodes[1].ask(handle, request))
        return result.error_code, result.error_message

    def creation(self, partitions: int, width: int, *replicas: int, archived: bool = True) -> tuple[int, str | None]:
        assignments = [CreatableReplicaAssignment(0, list(replicas))] if replicas else []
        configs = [CreatableTopicConfig("remote.storage.enable", "true")] if archived else []
        topic = CreatableTopic("archived", partitions, width, assignments, configs)
        return self.answer(create_topics.handle, CreateTopicsRequest([topic], validate_only=True))

    def test_creations(self) -> None:
        code, message = self.creation(1, 3)
        self.assertEqual(code, ErrorCode.INVALID_REPLICATION_FACTOR)
        self.assertIn("only broker(s) 1, 2 of the cluster have a remote storage: ask for at most 2", message or "")
        self.assertEqual(self.creation(-1, -1, 1, 3)[0], ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        self.assertEqual(self.creation(9, 2), (ErrorCode.NONE, None))
        self.assertEqual(self.creation(1, 3, archived=False), (ErrorCode.NONE, None))
        self.assertNotIn("archived", now(self.tree.children(zk_paths.TOPICS)))

    def enlargement(self, *replicas: int) -> tuple[int, str | None]:
        assignments = [CreatePartitionsAssignment(list(replicas))]
        request = CreatePartitionsRequest([CreatePartitionsTopic(TOPIC, 2, assignments)], validate_only=True)
        return self.answer(create_partitions.handle, request)

    def test_more_partitions(self) -> None:
        self.existing(1, 2, remote_storage_enable="true")
        self.assertEqual(self.enlargement(3, 1)[0], ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        self.assertEqual(self.enlargement(2, 1), (ErrorCode.NONE, None))
        self.assertEqual(len(zk_schema.decode_topic(now(self.tree.get(zk_paths.topic(TOPIC))).data).replicas), 1)

    def validated_setting(self) -> tuple[int, str | None]:
        changes = [AlterableConfig("remote.storage.enable", 0, "true")]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(2, TOPIC, changes)], validate_only=True)
        return self.answer(incremental_alter_configs.handle, request)

    def test_the_setting_of_a_topic_with_replicas_elsewhere(self) -> None:
        self.existing(1, 3)
        code, message = self.validated_setting()
        self.assertEqual(code, ErrorCode.INVALID_CONFIG)
        self.assertIn("has replicas on broker(s) 3, which have no remote storage: move them with", message or "")

    def test_the_setting_of_a_topic_whose_replicas_have_one(self) -> None:
        self.existing(1, 2)
        self.assertEqual(self.validated_setting(), (ErrorCode.NONE, None))
        self.assertEqual(zk_schema.decode_config(now(self.tree.get(zk_paths.topic_config(TOPIC))).data), {})


def _results(response: Any) -> Any:
    if isinstance(response, CreateTopicsResponse):
        return response.topics
    return response.results if isinstance(response, CreatePartitionsResponse) else response.responses
