"""FindCoordinator in a cluster, and members that leave."""

from __future__ import annotations

from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.apis import find_coordinator
from pylogbroker.broker.replication.controller_channel import ControllerChannel
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.members import Members, opened_members
from tests.broker.trees import now


class CoordinatorTests(SynchronousTestCase):
    """Broker 1 coordinates groups, broker 2 transactions."""

    def setUp(self) -> None:
        stack = self.enterContext(ExitStack())
        directories = [stack.enter_context(TemporaryDirectory()) for _ in range(2)]
        self.cluster: Members = stack.enter_context(opened_members(directories, {}))
        self.cluster.create("__consumer_offsets", [1], replicas=[1, 2])
        self.cluster.create("__transaction_state", [2])

    def find(self, asked: int, key_type: int) -> tuple[int, int, str]:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"])
        [found] = now(self.cluster[asked].send(find_coordinator.handle, request)).coordinators
        return found.error_code, found.node_id, found.host

    def test_each_broker_names_the_leader(self) -> None:
        for asked in (1, 2):
            self.assertEqual(self.find(asked, 0)[:2], (ErrorCode.NONE, 1))
            self.assertEqual(self.find(asked, 1)[:2], (ErrorCode.NONE, 2))
        self.assertEqual(self.find(2, 0)[2], "host-1")

    def test_a_coordinator_that_moves(self) -> None:
        self.cluster.lead("__consumer_offsets", 0, 2)
        self.assertEqual([self.find(asked, 0)[1] for asked in (1, 2)], [2, 2])

    def test_a_coordinator_that_is_not_alive(self) -> None:
        self.cluster.down.add(1)
        self.cluster.update()
        self.assertEqual(self.find(2, 0)[:2], (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1))

    def test_a_member_says_why_it_does_not_stop_yet(self) -> None:
        role: Any = self.cluster[1].broker.role
        role._member.epoch = 5
        answers = [
            ControlledShutdownResponse(ErrorCode.NOT_CONTROLLER),
            ControlledShutdownResponse(remaining_partitions=[RemainingPartition("t", 0)]),
            ControlledShutdownResponse(),
        ]

        async def request(channel: ControllerChannel, make: Any, versions: Any) -> Any:
            return answers.pop(0)

        with patch.object(ControllerChannel, "request", request), capturedLogs() as events:
            left = Deferred.fromCoroutine(role.leave())
            role._runtime.clock.pump([5.0] * 2)
        self.successResultOf(left)
        lines = [formatEvent(event) for event in events]
        self.assertEqual(
            lines, ["the controller moves no leaderships now: NOT_CONTROLLER", "1 partitions are still led here"]
        )

    def test_a_member_that_has_not_registered_hands_nothing_over(self) -> None:
        role: Any = self.cluster[1].broker.role
        now(role.leave())
        now(role.leave())
        self.assertEqual(self.cluster.sent(ControlledShutdownRequest), [])
