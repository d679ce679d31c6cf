"""DescribeCluster."""

from __future__ import annotations

from pylogbroker.broker.apis import describe_cluster
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.describe_cluster import DescribeClusterRequest
from tests.broker.nodes import CLUSTER_ID, NODE_ID, PORT, NodeTests

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

    def test_authorised_operations(self) -> None:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answer = self.node.ask(describe_cluster.handle, request)
        self.assertEqual(answer.cluster_authorized_operations, ALL_CLUSTER_OPERATIONS)

    def test_controllers_are_not_here(self) -> None:
        for endpoint, code in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
            answer = self.node.ask(describe_cluster.handle, DescribeClusterRequest(endpoint_type=endpoint))
            self.assertEqual((answer.error_code, answer.brokers), (code, []))
            self.assertTrue(answer.error_message)
