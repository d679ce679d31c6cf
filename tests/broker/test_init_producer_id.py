"""InitProducerId: ids that nobody else has, before and after a restart and a crash."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred

from pylogbroker.broker.apis import init_producer_id
from pylogbroker.broker.coordinators.producer_ids import ProducerIds
from pylogbroker.broker.sole.controller import LocalController
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import NoRoom
from pylogbroker.metadata import zk_paths
from pylogbroker.metadata.zk_schema import PRODUCER_ID_BLOCK_SIZE as BLOCK_SIZE
from pylogbroker.metadata.zk_schema import decode_producer_ids
from pylogbroker.tree.tree_file import TreeFile
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import NODE_ID, NodeTests
from tests.broker.trees import now

LAST = 5


class InitProducerIdTests(NodeTests):
    def ask(self, version: int = LAST, **fields: Any) -> Any:
        request = InitProducerIdRequest(**{"transactional_id": None} | fields)
        return self.node.ask(init_producer_id.handle, request, version)

    def take(self, **fields: Any) -> int:
        answer = self.ask(**fields)
        self.assertEqual((answer.error_code, answer.producer_epoch, answer.throttle_time_ms), (0, 0, 0))
        return int(answer.producer_id)

    def test_every_version_gives_another_id(self) -> None:
        self.assertEqual([self.take(version=version) for version in range(LAST + 1)], list(range(LAST + 1)))

    def test_a_producer_with_an_id_gets_a_new_one(self) -> None:
        first = self.take()
        for version in (3, 4, 5):
            self.assertGreater(self.take(version=version, producer_id=first, producer_epoch=2), first)

    def test_an_id_goes_with_its_epoch(self) -> None:
        for half in ({"producer_id": 5}, {"producer_epoch": 5}):
            for version in (3, 4, 5):
                answer = self.ask(version, **half)
                self.assertEqual(answer.error_code, ErrorCode.INVALID_REQUEST)
                self.assertEqual((answer.producer_id, answer.producer_epoch), (-1, -1))

    def test_an_empty_transactional_id_is_none(self) -> None:
        for version in range(LAST + 1):
            answer = self.ask(version, transactional_id="")
            self.assertEqual(answer.error_code, ErrorCode.INVALID_REQUEST)
            self.assertEqual((answer.producer_id, answer.producer_epoch), (-1, -1))
        self.assertEqual(self.take(), 0)

    def test_a_restart_begins_another_block(self) -> None:
        self.assertEqual([self.take(), self.take()], [0, 1])
        self.restart()
        self.assertEqual([self.take(), self.take()], [BLOCK_SIZE, BLOCK_SIZE + 1])

    def test_on_a_full_disk_clients_try_again(self) -> None:
        with patch.object(TreeFile, "write", side_effect=NoRoom("disk full")), logged_lines() as lines:
            for _ in range(5):
                answer = self.ask()
                self.assertEqual(answer.error_code, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                self.assertEqual((answer.producer_id, answer.producer_epoch), (-1, -1))
        [line] = lines
        self.assertIn("no producer ids could be taken", line)
        self.assertEqual(self.take(), 0)

    def test_without_a_controller_clients_try_again(self) -> None:
        error = KafkaError("the controller does not answer", ErrorCode.REQUEST_TIMED_OUT)
        with patch.object(LocalController, "allocate_producer_ids", side_effect=error):
            self.assertEqual(self.ask().error_code, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.assertEqual(self.take(), 0)


class BlockTests(NodeTests):
    def test_blocks_follow_each_other(self) -> None:
        ids = self.node.broker.producer_ids
        taken = [now(ids.take()) for _ in range(BLOCK_SIZE + 5)]
        self.assertEqual(taken, list(range(BLOCK_SIZE + 5)))
        node = now(self.node.tree.get(zk_paths.PRODUCER_ID_BLOCK))
        block = decode_producer_ids(node.data)
        assert block is not None
        self.assertEqual((block.broker, block.first, block.last), (NODE_ID, BLOCK_SIZE, 2 * BLOCK_SIZE - 1))

    def test_brokers_take_different_blocks(self) -> None:
        config = self.node.broker.config
        one, other = (ProducerIds(LocalController(self.node.tree, config, broker)) for broker in (1, 2))
        taken = [now(ids.take()) for _ in range(3) for ids in (one, other)]
        self.assertEqual(taken, [0, BLOCK_SIZE, 1, BLOCK_SIZE + 1, 2, BLOCK_SIZE + 2])

    def test_concurrent_requests_share_one_block(self) -> None:
        ids = self.node.broker.producer_ids
        tree = self.node.tree
        real, gate = type(tree).commit, Deferred[None]()

        async def slowly(self: Any, operations: Any) -> Any:
            await gate
            return await real(self, operations)

        with patch.object(type(tree), "commit", slowly):
            waiting = [Deferred.fromCoroutine(ids.take()) for _ in range(10)]
            for each in waiting:
                self.assertNoResult(each)
            gate.callback(None)
            self.assertEqual([self.successResultOf(each) for each in waiting], list(range(10)))

    def test_a_failed_block_allocation_is_tried_again(self) -> None:
        ids = self.node.broker.producer_ids

        async def fails(self: Any, operations: Any) -> Any:
            raise OSError("the disk is full")

        with patch.object(type(self.node.tree), "commit", fails), self.assertRaises(OSError):
            now(ids.take())
        self.assertEqual(now(ids.take()), 0)
