"""Writes of coordinators that the other replicas do not acknowledge."""

from __future__ import annotations

from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.apis import init_producer_id, offset_commit
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.members import Members, opened_members

MISSING = 9


class TimeoutTests(SynchronousTestCase):
    """Broker 1 coordinates all; the other in-sync replica of its records never fetches."""

    def setUp(self) -> None:
        stack = self.enterContext(ExitStack())
        directory = stack.enter_context(TemporaryDirectory())
        settings = {"offsets.commit.timeout.ms": "3000", "replica.lag.time.max.ms": "600000"}
        self.cluster: Members = stack.enter_context(opened_members([directory], settings))
        self.cluster.create("t", [1])
        for topic in ("__consumer_offsets", "__transaction_state"):
            self.cluster.create(topic, [1], replicas=[1, MISSING])

    def assert_timed_out(self, answer: Deferred[Any], after: float) -> Any:
        self.cluster.clock.pump([after - 0.1])
        self.assertNoResult(answer)
        self.cluster.clock.pump([0.1, 0])
        return self.successResultOf(answer)

    def test_a_commit_of_offsets(self) -> None:
        topics = [OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, 5)])]
        answer = self.cluster[1].send(offset_commit.handle, OffsetCommitRequest("g", topics=topics))
        [topic] = self.assert_timed_out(answer, 3).topics
        self.assertEqual(topic.partitions[0].error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def test_a_transaction(self) -> None:
        request = InitProducerIdRequest("transactional", 60_000)
        answer = self.cluster[1].send(init_producer_id.handle, request)
        found = self.assert_timed_out(answer, 60)
        self.assertEqual(found.error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
