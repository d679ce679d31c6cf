"""Consumers that agree in a coordination tree: several in one process, over the embedded tree."""

from __future__ import annotations

import random
import uuid
from collections.abc import Collection, Coroutine, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.client.consumer.registry import GroupRegistry, RebalanceFailed, new_consumer_id
from pylogbroker.interfaces import Create, Delete, Operation, SetData, TopicPartition, Unavailable
from pylogbroker.metadata import registration, zk_paths, zk_schema
from pylogbroker.metadata.zk_schema import ConsumerNode, TopicNode
from pylogbroker.tree.embedded import EmbeddedTree

GROUP = "g"


@attrs.define(eq=False)
class Reader:
    """Reads what it is given, and complains about whatever somebody else reads, too."""

    name: str
    readers: dict[TopicPartition, str]  # of the whole group
    reads: dict[TopicPartition, int] = attrs.field(factory=dict)
    reported: list[str] = attrs.field(factory=list)
    errors: list[Exception] = attrs.field(factory=list)
    slow: Deferred[None] | None = None

    async def revoke(self, partitions: Collection[TopicPartition]) -> None:
        self.reported.append(f"give up {len(partitions)}")
        if self.slow is not None:
            await self.slow
        self._stop(partitions)

    async def lose(self, partitions: Collection[TopicPartition]) -> None:
        self.reported.append(f"lose {len(partitions)}")
        self._stop(partitions)

    def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        self.reported.append(f"take {len(partitions)}")
        for partition in partitions:
            if self.readers.setdefault(partition, self.name) != self.name:
                raise AssertionError(f"{partition} is read by {self.readers[partition]} and {self.name}")
        self.reads.update(partitions)

    def failed(self, error: Exception) -> None:
        self.errors.append(error)

    def _stop(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            del self.reads[partition], self.readers[partition]


class RegistryTests(SynchronousTestCase):
    """Consumers of one group; topic `t` has six partitions, alternately on the brokers 0 and 1."""

    def setUp(self) -> None:
        self.tree = EmbeddedTree.open(self.enterContext(TemporaryDirectory()))
        self.clock = Clock()
        self.readers: dict[TopicPartition, str] = {}
        self.now(registration.create_permanent_nodes(self.tree))
        self.add_topic("t", 6)

    def tearDown(self) -> None:
        self.now(self.tree.close())
        self.assertEqual(self.flushLoggedErrors(), [])

    def now(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.successResultOf(ensureDeferred(coroutine))

    def commit(self, *operations: Operation) -> None:
        self.now(self.tree.commit(operations))

    def add_topic(self, name: str, partitions: int) -> None:
        self.commit(Create(zk_paths.topic(name), self.topic(partitions)))

    def topic(self, partitions: int) -> bytes:
        return zk_schema.encode_topic(
            TopicNode(uuid.UUID(int=1), {number: (number % 2,) for number in range(partitions)})
        )

    def consumer(self, name: str, node: ConsumerNode | None = None) -> GroupRegistry:
        listener = Reader(name, self.readers)
        return GroupRegistry(self.tree, self.clock, GROUP, node or ConsumerNode({"t": 1}), listener, name)

    def started(self, name: str, node: ConsumerNode | None = None) -> GroupRegistry:
        registry = self.consumer(name, node)
        self.now(registry.start())
        return registry

    def reader(self, registry: GroupRegistry) -> Reader:
        reader = registry._listener
        assert isinstance(reader, Reader)
        return reader

    def owners(self) -> dict[int, str]:
        """The owners of `t` that the tree knows."""
        nodes = self.now(self.tree.get_many([zk_paths.owner(GROUP, "t", number) for number in range(9)]))
        return {number: node.data.decode() for number, node in enumerate(nodes) if node is not None}

    def numbers(self, registry: GroupRegistry) -> list[int]:
        self.assertEqual(registry._held, self.reader(registry).reads)
        return sorted(number for _, number in registry._held)

    def test_a_lone_consumer_reads_everything(self) -> None:
        only = self.started("c1", ConsumerNode({"t": 2}))
        self.assertEqual(self.reader(only).reads, {("t", n): n % 2 for n in range(6)})
        self.assertEqual(self.owners(), {n: f"c1-{n % 2}" for n in range(6)})
        node = self.now(self.tree.get("/consumers/g/ids/c1"))
        self.assertEqual(node.stat.owner, self.tree.session_id)
        self.assertEqual(zk_schema.decode_consumer(node.data), ConsumerNode({"t": 2}))
        self.assertEqual(self.now(self.tree.get("/consumers/g/owners/t/0")).stat.owner, self.tree.session_id)

    def test_a_new_consumer_takes_over_a_share(self) -> None:
        first = self.started("c1")
        second = self.started("c2")
        self.assertEqual(self.numbers(first), [0, 2, 4])
        self.assertEqual(self.numbers(second), [1, 3, 5])
        self.assertEqual(self.reader(first).reported, ["take 6", "give up 3"])
        self.assertEqual(self.owners(), {n: f"c{1 + n % 2}-0" for n in range(6)})

    def test_a_consumer_of_kafka_makes_partitions_go_by_number(self) -> None:
        first = self.started("c1")
        second = self.started("g_host-1500-1a2b")
        self.assertEqual(self.numbers(first), [0, 1, 2])
        self.assertEqual(self.numbers(second), [3, 4, 5])

    def test_a_leaving_consumer_hands_over_all_partitions(self) -> None:
        first, second = self.started("c1"), self.started("c2")
        self.now(first.stop())
        self.assertEqual(self.numbers(first), [])
        self.assertEqual(self.numbers(second), [0, 1, 2, 3, 4, 5])
        self.assertEqual(self.reader(second).reported, ["take 3", "take 3"])
        self.now(second.stop())
        self.assertEqual(self.owners(), {})
        self.assertEqual(self.now(self.tree.children("/consumers/g/ids")), [])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_slow_revocation_is_waited_for(self) -> None:
        first = self.started("c1")
        slow: Deferred[None] = Deferred()
        self.reader(first).slow = slow
        second = self.started("c2")
        self.assertEqual(self.numbers(second), [])
        self.clock.pump([2.0] * 2)
        self.assertEqual(self.numbers(second), [])
        self.assertEqual(self.reader(second).errors, [])
        slow.callback(None)  # and nobody has to wait for a clock
        self.assertEqual(self.numbers(second), [1, 3, 5])

    def test_a_claim_that_waits_too_long_is_reported_and_goes_on(self) -> None:
        self.commit(Create("/consumers/g"), Create("/consumers/g/owners"),
                    Create("/consumers/g/owners/t"), Create("/consumers/g/owners/t/2", b"gone-0"))  # fmt: skip
        only = self.started("c1")
        self.assertEqual(self.numbers(only), [0, 1, 3, 4, 5])
        self.clock.pump([2.0] * 2)
        self.assertEqual(self.reader(only).errors, [])
        self.clock.pump([2.0] * 5)
        [error] = self.reader(only).errors
        self.assertIsInstance(error, RebalanceFailed)
        self.assertIn("('t', 2)", str(error))
        self.commit(Delete("/consumers/g/owners/t/2"))
        self.assertEqual(self.numbers(only), [0, 1, 2, 3, 4, 5])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_partitions_that_are_added_are_read(self) -> None:
        first, second = self.started("c1"), self.started("c2")
        self.commit(SetData(zk_paths.topic("t"), self.topic(8)))
        self.assertEqual([self.numbers(first), self.numbers(second)], [[0, 2, 4, 6], [1, 3, 5, 7]])
        self.commit(SetData(zk_paths.topic("t"), self.topic(9)))
        self.assertEqual([self.numbers(first), self.numbers(second)], [[0, 2, 4, 6, 8], [1, 3, 5, 7]])

    def test_a_topic_that_is_not_there_yet_is_read_when_it_comes(self) -> None:
        only = self.started("c1", ConsumerNode({"later": 1}))
        self.assertEqual(self.numbers(only), [])
        self.add_topic("later", 2)
        self.assertEqual(self.numbers(only), [0, 1])
        self.commit(Delete(zk_paths.topic("later")))
        self.assertEqual(self.numbers(only), [])

    def test_topics_that_match_are_read_when_they_come(self) -> None:
        white = self.started("c1", ConsumerNode({"t.*": 1}, "white_list"))
        static = self.started("c2", ConsumerNode({"t": 1, "t2": 1}))
        self.add_topic("t2", 2)
        self.add_topic("u", 2)
        self.assertEqual({topic for topic, _ in white._held}, {"t", "t2"})
        self.assertEqual({each for each in self.readers if each[0] == "t2"}, {("t2", 0), ("t2", 1)})
        self.assertEqual(len(self.readers), 8)
        self.assertEqual(len(static._held), 4)

    def test_a_broker_that_comes_makes_all_look_again(self) -> None:
        only = self.started("c1")
        self.commit(Create(zk_paths.broker(1), b"{}", ephemeral=True))
        looks = self.count_looks(only, Delete(zk_paths.broker(1)))
        self.assertEqual(looks, 1)

    def count_looks(self, registry: GroupRegistry, change: Operation) -> int:
        looks = 0
        look = self.tree.children_with_data

        async def counted(path: str) -> Any:
            nonlocal looks
            looks += 1
            return await look(path)

        self.patch(EmbeddedTree, "children_with_data", lambda _, path: counted(path))
        self.commit(change)
        return looks

    def test_watches_do_not_pile_up(self) -> None:
        self.started("c1")
        self.commit(Create(zk_paths.broker(0), b"{}"))
        for _ in range(5):
            self.commit(SetData(zk_paths.topic("t"), self.topic(6)))
        watches = self.tree._watches
        self.assertEqual({len(some) for some in [*watches._nodes.values(), *watches._children.values()] if some}, {1})

    def test_a_consumer_with_a_lost_session_restarts(self) -> None:
        first, second = self.started("c1"), self.started("c2")
        mine = [Delete(f"/consumers/g/owners/t/{number}") for number in (0, 2, 4)]
        self.commit(*mine, Delete("/consumers/g/ids/c1"))
        self.assertIn("lose 3", self.reader(first).reported)
        self.assertEqual(sorted(self.numbers(first) + self.numbers(second)), [0, 1, 2, 3, 4, 5])
        self.assertEqual(len(self.owners()), 6)
        self.assertEqual(self.now(self.tree.children("/consumers/g/ids")), ["c1", "c2"])

    def test_a_tree_that_cannot_be_read_is_tried_again(self) -> None:
        only = self.started("c1")
        get_many = EmbeddedTree.get_many
        broken = True

        async def sometimes(tree: EmbeddedTree, wanted: Sequence[str]) -> Any:
            if broken:
                raise Unavailable("/")
            return await get_many(tree, wanted)

        self.patch(EmbeddedTree, "get_many", sometimes)
        self.commit(SetData(zk_paths.topic("t"), self.topic(7)))
        self.clock.pump([2.0] * 5)
        self.assertEqual(len(self.reader(only).errors), 1)
        broken = False
        self.clock.advance(2.0)
        self.assertEqual(self.numbers(only), [0, 1, 2, 3, 4, 5, 6])

    def test_a_claim_with_an_unknown_outcome_is_recognized(self) -> None:
        only = self.consumer("c1")
        commit = EmbeddedTree.commit
        lost = [True]

        async def once(tree: EmbeddedTree, operations: Sequence[Operation]) -> list[str]:
            done = await commit(tree, operations)
            if "/owners/t/" in operations[0].path and lost:
                lost.pop()
                raise Unavailable("/")
            return done

        self.patch(EmbeddedTree, "commit", once)
        self.now(only.start())
        self.assertEqual(self.numbers(only), [])
        self.clock.advance(2.0)
        self.assertEqual(self.numbers(only), [0, 1, 2, 3, 4, 5])

    def test_a_partition_that_could_not_be_released_is_read_again(self) -> None:
        only = self.started("c1")
        commit = EmbeddedTree.commit

        async def never(tree: EmbeddedTree, operations: Sequence[Operation]) -> list[str]:
            if any(isinstance(each, Delete) and "/owners/" in each.path for each in operations):
                raise Unavailable("/")
            return await commit(tree, operations)

        second = self.consumer("c2")
        with mock.patch.object(EmbeddedTree, "commit", never):
            self.now(second.start())
            self.assertEqual(self.reader(only).reported, ["take 6", "give up 3"])
            self.assertEqual(self.numbers(only), [0, 2, 4])
            self.commit(Delete("/consumers/g/ids/c2"))
            self.clock.advance(2.0)
        self.clock.pump([2.0] * 3)
        self.now(second.stop())
        self.clock.pump([2.0] * 3)
        self.assertEqual(self.numbers(only), [0, 1, 2, 3, 4, 5])

    def test_a_stop_during_the_start_leaves_no_nodes(self) -> None:
        only = self.consumer("c1")
        commit, slow = EmbeddedTree.commit, Deferred[None]()

        async def slowly(tree: EmbeddedTree, operations: Sequence[Operation]) -> list[str]:
            if operations[0].path.endswith("/ids/c1") and not slow.called:
                await slow
            return await commit(tree, operations)

        self.patch(EmbeddedTree, "commit", slowly)
        starting, stopping = ensureDeferred(only.start()), ensureDeferred(only.stop())
        slow.callback(None)
        self.successResultOf(starting)
        self.successResultOf(stopping)
        self.assertEqual(self.now(self.tree.children("/consumers/g/ids")), [])
        self.assertEqual(self.owners(), {})
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_listener_that_fails_keeps_nothing_from_others(self) -> None:
        first = self.started("c1")
        slow: Deferred[None] = Deferred()
        self.reader(first).slow = slow
        second = self.started("c2")
        self.readers.clear()
        slow.errback(RuntimeError("disk"))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertEqual(len(second._held), 3)

    def test_a_listener_that_fails_to_assign_does_not_end_the_registry(self) -> None:
        first = self.consumer("c1")
        self.readers["t", 0] = "somebody"
        self.now(first.start())
        self.assertEqual(len(self.flushLoggedErrors(AssertionError)), 1)
        self.commit(SetData(zk_paths.topic("t"), self.topic(7)))
        self.assertEqual(self.reader(first).reported, ["take 6", "take 1"])

    def test_a_node_that_is_no_consumer_is_nobody(self) -> None:
        self.commit(Create("/consumers/g"), Create("/consumers/g/ids"),
                    Create("/consumers/g/ids/x", b"?"))  # fmt: skip
        self.assertEqual(self.numbers(self.started("c1")), [0, 1, 2, 3, 4, 5])

    def test_every_partition_is_read_once_as_members_come_and_go(self) -> None:
        drawn = random.Random(7)
        living: dict[str, GroupRegistry] = {}
        for _ in range(60):
            name = f"c{drawn.randrange(8)}"
            if name in living:
                self.now(living.pop(name).stop())
            else:
                living[name] = self.started(name, ConsumerNode({"t": drawn.randint(1, 2)}))
            read = sorted(number for each in living.values() for number in self.numbers(each))
            self.assertEqual(read, [0, 1, 2, 3, 4, 5] if living else [])

    def test_consumer_ids_differ(self) -> None:
        self.assertRegex(new_consumer_id(), r"^[^:/]+:[0-9a-f-]{36}$")
        self.assertNotEqual(new_consumer_id(), new_consumer_id())
