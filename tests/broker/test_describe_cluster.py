"""DescribeCluster."""

from __future__ import annotations

import attrs

from pylogbroker.broker.apis import describe_cluster, metadata
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.delta import BrokerRegistered, ControllerElected, Delta
from pylogbroker.metadata.image import BrokerListener, BrokerRegistration
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.wire.messages.describe_cluster import DescribeClusterRequest
from pylogbroker.wire.messages.metadata import MetadataRequest
from tests.broker.nodes import CLUSTER_ID, NODE_ID, PORT, NodeTests
from tests.broker.trees import now

ALL_CLUSTER_OPERATIONS = 0b1_1111_1010_0000  # CREATE 5, ALTER 7 to IDEMPOTENT_WRITE 12


class DescribeClusterTests(NodeTests):
    settings = {"broker.rack": "upper"}

    def test_every_version(self) -> None:
        for version in range(2):
            answer = self.node.ask(describe_cluster.handle, DescribeClusterRequest(), version)
            self.assertEqual((answer.error_code, answer.cluster_id), (ErrorCode.NONE, CLUSTER_ID))
            self.assertEqual(answer.controller_id, NODE_ID)
            self.assertEqual(
                [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers], [(NODE_ID, "here", PORT, "upper")]
            )
            self.assertEqual(answer.cluster_authorized_operations, -(2**31))

    def test_a_broker_always_names_itself(self) -> None:
        """At the start of a cluster the image has no broker before the controller's first order."""
        self.node.broker.metadata.image = attrs.evolve(self.node.broker.metadata.image, brokers=PersistentMap({}))
        itself = [(NODE_ID, "here", PORT, "upper")]
        cluster = self.node.ask(describe_cluster.handle, DescribeClusterRequest())
        self.assertEqual([(b.broker_id, b.host, b.port, b.rack) for b in cluster.brokers], itself)
        answer = self.node.ask(metadata.handle, MetadataRequest(), 12)
        self.assertEqual([(b.node_id, b.host, b.port, b.rack) for b in answer.brokers], itself)

    def test_all_live_brokers_that_have_the_listener(self) -> None:
        """Another broker is described by its registration."""
        listeners = {"PLAINTEXT": BrokerListener("there", 9, "PLAINTEXT")}
        delta = Delta.of(
            BrokerRegistered(BrokerRegistration(9, 50, listeners, "lower")),
            BrokerRegistered(BrokerRegistration(10, 51, {"OTHER": BrokerListener("x", 1, "PLAINTEXT")})),
            ControllerElected(9),
        )
        now(self.node.broker.metadata.publish(delta))
        brokers = [(NODE_ID, "here", PORT, "upper"), (9, "there", 9, "lower")]
        answer = self.node.ask(describe_cluster.handle, DescribeClusterRequest())
        self.assertEqual([(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers], brokers)
        self.assertEqual(answer.controller_id, 9)
        described = self.node.ask(metadata.handle, MetadataRequest([]), 12)
        self.assertEqual([(b.node_id, b.host, b.port, b.rack) for b in described.brokers], brokers)
        self.assertEqual(described.controller_id, 9)

    def test_authorised_operations(self) -> None:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answer = self.node.ask(describe_cluster.handle, request)
        self.assertEqual(answer.cluster_authorized_operations, ALL_CLUSTER_OPERATIONS)

    def test_controllers_are_not_here(self) -> None:
        for endpoint, code in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
            answer = self.node.ask(describe_cluster.handle, DescribeClusterRequest(endpoint_type=endpoint))
            self.assertEqual((answer.error_code, answer.brokers), (code, []))
            self.assertTrue(answer.error_message)
