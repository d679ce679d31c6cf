"""ACL requests without an authorizer: the codes and texts that Apache Kafka 3.9 answers."""

from __future__ import annotations

from pylogbroker.broker.apis import create_acls, delete_acls, describe_acls
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pylogbroker.wire.messages.describe_acls import DescribeAclsRequest
from tests.broker.nodes import NodeTests

VERSIONS = range(4)
DISABLED = ErrorCode.SECURITY_DISABLED


class AclTests(NodeTests):
    def test_describing(self) -> None:
        for version in VERSIONS:
            answer = self.node.ask(describe_acls.handle, DescribeAclsRequest(2, None, 3, None, None, 1, 1), version)
            self.assertEqual(answer.error_code, DISABLED)
            self.assertEqual(answer.error_message, "No Authorizer is configured on the broker")
            self.assertEqual(answer.resources, [])

    def test_creating(self) -> None:
        for version in VERSIONS:
            for count in range(3):
                request = CreateAclsRequest([AclCreation(2, "t", 3, "User:a", "*", 3, 3)] * count)
                answer = self.node.ask(create_acls.handle, request, version)
                reported = [(result.error_code, result.error_message) for result in answer.results]
                self.assertEqual(reported, [(DISABLED, "No Authorizer is configured.")] * count)

    def test_deleting(self) -> None:
        for version in VERSIONS:
            for count in range(3):
                request = DeleteAclsRequest([DeleteAclsFilter(2, "t", 3, None, None, 1, 1)] * count)
                answer = self.node.ask(delete_acls.handle, request, version)
                reported = [(result.error_code, result.error_message) for result in answer.filter_results]
                self.assertEqual(reported, [(DISABLED, "No Authorizer is configured.")] * count)
                self.assertEqual([result.matching_acls for result in answer.filter_results], [[]] * count)
