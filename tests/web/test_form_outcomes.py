"""Headlines of rejected forms: whether nothing, a part or perhaps all of a change was made."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from pylogbroker.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from pylogbroker.wire.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
)
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import Parsed
from tests.web.test_views import NOW

LOST = KafkaError("broker 2 does not answer: the connection ended", ErrorCode.NETWORK_EXCEPTION)
DENIED = KafkaError("not now", ErrorCode.POLICY_VIOLATION)
PART = "Only a part was changed."
TASK = {"principal": "User:bob", "task": "consume", "topic": "orders", "group": "readers"}
RESET = {"to": "earliest", "confirm": "readers"}


class TestOutcomes(ChangeTests):
    def headline(self, form: str, request: type[Any], *answers: Any, **fields: str) -> str:
        """Return the headline of a form whose requests of a type get these answers, or raise these errors."""
        ask, rest = Visitor.ask, list(answers)

        async def answer(visitor: Visitor, asked: Any, *arguments: Any) -> Any:
            if not isinstance(asked, request):
                return await ask(visitor, asked, *arguments)
            result = rest.pop(0)
            if isinstance(result, KafkaError):
                raise result
            return result or await ask(visitor, asked, *arguments)

        with patch.object(Visitor, "ask", answer):
            body = self.submit(form, **fields).body
        return " ".join(Parsed(body.partition('role="alert">')[2].partition("</b>")[0]).text.split())

    def test_a_lost_answer_is_no_rejection(self) -> None:
        lost = self.headline("brokers/elect-leaders", ElectLeadersRequest, LOST)
        self.assertEqual(lost, "It is not known what was changed: look before you repeat it.")
        self.assertEqual(self.headline("brokers/elect-leaders", ElectLeadersRequest, DENIED), "Nothing was changed.")

    def test_elections(self) -> None:
        failed = ElectLeadersPartitionResult(1, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "not in sync")
        rows = [ElectLeadersPartitionResult(0), failed]
        answer = ElectLeadersResponse(replica_election_results=[ReplicaElectionResult("orders", rows)])
        self.assertEqual(self.headline("brokers/elect-leaders", ElectLeadersRequest, answer), PART)
        answer = ElectLeadersResponse(replica_election_results=[ReplicaElectionResult("orders", rows[1:])])
        self.assertEqual(self.headline("brokers/elect-leaders", ElectLeadersRequest, answer), "Nothing was changed.")

    def test_acls_of_a_task(self) -> None:
        results = [*[AclCreationResult()] * 2, AclCreationResult(ErrorCode.INVALID_REQUEST, "no")]
        answer = CreateAclsResponse(results=results)
        self.assertEqual(self.headline("access/acls/allow", CreateAclsRequest, answer, **TASK), PART)

    def test_passwords_of_several_mechanisms(self) -> None:
        fields = {"name": "alice", "password": "secret"}
        form = "access/users/password"
        self.assertEqual(self.headline(form, AlterUserScramCredentialsRequest, None, DENIED, **fields), PART)

    def test_offsets(self) -> None:
        self.node.create("orders")
        self.node.produce("orders", 0, NOW)
        self.commit("readers", "orders", 1)
        row = OffsetCommitResponsePartition(0, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic("orders", [row])])
        form = "groups/readers/reset"
        self.assertEqual(self.headline(form, OffsetCommitRequest, answer, **RESET), "Nothing was changed.")
        with patch("pylogbroker.web.group_reset._COMMITTED_MAX", 1):
            self.node.create("clicks")
            self.commit("readers", "clicks", 1)
            self.assertEqual(self.headline(form, OffsetCommitRequest, None, LOST, **RESET), PART)
