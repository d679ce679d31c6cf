"""Coordinators move with the leaders of their topics' partitions."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent

from pylogbroker.broker.apis import find_coordinator
from pylogbroker.broker.coordinators.driver import CoordinatorDriver
from pylogbroker.broker.coordinators.internal_topic import InternalTopic
from pylogbroker.coordinators import TopicPartition
from pylogbroker.coordinators.replay import PROBLEMS_MAX
from pylogbroker.errors import ErrorCode, StorageFailure
from pylogbroker.groups import Commit, CommittedOffset, Join, JoinResult
from pylogbroker.records import Record, build, end_marker
from pylogbroker.storage import Origin
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.failing_disks import broken, failing
from tests.broker.nodes import NODE_ID, Node, NodeTests
from tests.broker.transactions import Producer, TransactionTests
from tests.broker.trees import now

OTHER = NODE_ID + 1
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
NONE, NOT_HERE = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@attrs.define(eq=False)
class Held:
    """A condition of a high watermark, as the in-sync replicas are."""

    offset: int


def lead(node: Node, topic: str, leader: int, epoch: int) -> None:
    """Elect a leader for partition 0."""
    node.change_partition(topic, 0, leader=leader, replicas=(NODE_ID, OTHER), leader_epoch=epoch, partition_epoch=epoch)


class GroupTests(NodeTests):
    """A node with one shard of groups; group `g` has committed offset 7."""

    settings = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 1)
        now(self.node.broker.group_service.ensure_topic())
        self.assertEqual(self.commit(7), NONE)

    def commit(self, offset: int) -> ErrorCode:
        results: list[ErrorCode] = []
        commit = Commit("g", -1, "", {("t", 0): CommittedOffset(offset)})
        now_ms = self.node.broker.runtime.now_ms()
        self.node.broker.groups.commit(commit, lambda result: results.append(result["t", 0]), now_ms)
        [error] = results
        return error

    def fetched(self) -> int | ErrorCode:
        result = self.node.broker.groups.fetch("g", [("t", 0)])
        offset = result.offsets.get(("t", 0))
        return offset.offset if isinstance(offset, CommittedOffset) else result.error

    def join(self) -> list[JoinResult]:
        """Return the list that the answer will be in."""
        joins: list[JoinResult] = []
        join = Join("g", "", "client", "/host", 10_000, 60_000, "consumer", (("range", b""),))
        self.node.broker.groups.join(join, joins.append, self.node.broker.runtime.now_ms())
        return joins


class GroupMoveTests(GroupTests):
    def test_groups_of_a_partition_that_another_broker_leads(self) -> None:
        lead(self.node, OFFSETS, OTHER, epoch=1)
        self.assertEqual((self.fetched(), self.commit(8)), (NOT_HERE, NOT_HERE))

    def test_waiting_members_get_not_coordinator_at_once(self) -> None:
        joins = self.join()
        lead(self.node, OFFSETS, OTHER, epoch=1)
        self.assertEqual([result.error for result in joins], [NOT_HERE])

    def test_offsets_are_reloaded_when_this_broker_leads_again(self) -> None:
        lead(self.node, OFFSETS, OTHER, epoch=1)
        lead(self.node, OFFSETS, NODE_ID, epoch=2)
        self.assertEqual(self.fetched(), 7)
        self.assertEqual(self.commit(8), NONE)

    def test_a_deletion_is_written_also_with_too_few_replicas_in_sync(self) -> None:
        """The client gets no error, and nobody would write it later."""
        self.node.broker.partitions.led[OFFSETS, 0].min_insync_replicas = 2
        self.assertEqual(self.commit(8), NOT_AVAILABLE)
        self.assertEqual(self.node.broker.groups.delete_group("g", self.node.broker.runtime.now_ms()), NONE)
        self.restart()
        self.assertEqual(self.fetched(), NONE)

    def test_many_unknown_records_are_logged_in_few_lines(self) -> None:
        """Later releases of Kafka may have other records."""
        records = [Record(number, 0, b"\0\x63\0\1g", b"") for number in range(100)]
        self.node.broker.partitions.led[OFFSETS, 0].append(build(records), 0, Origin.COORDINATOR)
        with capturedLogs() as events:
            lead(self.node, OFFSETS, NODE_ID, epoch=2)
        lines = [line for line in map(formatEvent, events) if line.startswith(OFFSETS)]
        self.assertEqual(len(lines), PROBLEMS_MAX + 1)
        self.assertEqual(lines[0], "__consumer_offsets-0: offset 1: the key is not of a known version")
        self.assertEqual(lines[-1], f"__consumer_offsets-0: {100 - PROBLEMS_MAX} more were skipped")
        self.assertEqual(self.fetched(), 7)

    def hold(self, key: TopicPartition) -> Held:
        """Let the last record not be committed until the condition's offset rises, with this broker as the leader."""
        partition = self.node.broker.partitions.led[key]
        held = Held(partition.log.log_end_offset - 1)
        partition.high_watermark.open_at(held.offset, held)
        lead(self.node, OFFSETS, NODE_ID, epoch=2)
        return held

    def test_offsets_are_served_once_the_last_records_are_committed(self) -> None:
        """Another leader may cut uncommitted records off."""
        partition = self.node.broker.partitions.led[OFFSETS, 0]
        held = self.hold((OFFSETS, 0))
        self.assertEqual((self.fetched(), self.commit(8)), (LOADING, LOADING))
        partition.append(end_marker(True, 0, 5, 0, 0), 0, Origin.COORDINATOR)  # from another broker's coordinator
        held.offset += 1
        partition.high_watermark.advance()
        self.assertEqual(self.fetched(), LOADING)
        held.offset += 1
        partition.high_watermark.advance()
        self.assertEqual(self.fetched(), 7)

    def test_a_load_ends_if_the_leader_resigns_while_the_log_is_replayed(self) -> None:
        """The start of a broker waits for its loads: here nobody would commit the records of a former leader."""
        replay, load = InternalTopic.replay, CoordinatorDriver._load
        loads: list[Deferred[None]] = []

        async def replay_and_resign(topic: InternalTopic, *arguments: Any) -> int:
            offset = await replay(topic, *arguments)
            self.node.broker.partitions.resign((OFFSETS, 0))
            self.node.broker.group_service.driver.on_resigned(OFFSETS, 0, 3)
            return offset

        def note_load(driver: CoordinatorDriver[Any, Any], indexes: Iterable[int]) -> Deferred[None]:
            loads.append(load(driver, indexes))
            return loads[-1]

        with (
            patch.object(InternalTopic, "replay", replay_and_resign),
            patch.object(CoordinatorDriver, "_load", note_load),
        ):
            self.hold((OFFSETS, 0))
        self.assertEqual([loading.called for loading in loads], [True])

    def test_a_leader_that_resigns_before_its_records_are_committed(self) -> None:
        partition = self.node.broker.partitions.led[OFFSETS, 0]
        held = self.hold((OFFSETS, 0))
        lead(self.node, OFFSETS, OTHER, epoch=3)
        self.assertEqual(self.fetched(), NOT_HERE)
        held.offset += 1
        partition.high_watermark.advance()
        self.assertEqual(self.fetched(), NOT_HERE)
        lead(self.node, OFFSETS, NODE_ID, epoch=4)
        self.assertEqual(self.fetched(), 7)

    def test_a_stopped_replica_has_no_later_epoch(self) -> None:
        """The controller stops replicas of a topic that is deleted, and of a broker that shuts down."""
        service = self.node.broker.group_service
        service.driver.on_resigned(OFFSETS, 0, 0)
        self.assertEqual((self.fetched(), self.commit(8)), (NOT_HERE, NOT_HERE))
        service.driver.on_led(OFFSETS, 0, 0)
        self.assertEqual((self.fetched(), self.commit(8)), (7, NONE))

    def test_leading_in_a_later_epoch_without_a_resignation(self) -> None:
        """Another broker may have led in between."""
        before = self.node.broker.groups.runtime.shard(0)
        self.node.broker.partitions.lead((OFFSETS, 0), 5)
        self.node.broker.group_service.driver.on_led(OFFSETS, 0, 5)
        self.assertIsNot(self.node.broker.groups.runtime.shard(0), before)
        self.assertEqual(self.fetched(), 7)

    def test_the_image_says_how_many_partitions_there_are(self) -> None:
        """Other brokers may have created the topic with another setting."""
        for index in (1, 2):
            self.node.add_partition(OFFSETS, index, leader=OTHER)
        self.assertEqual(self.node.broker.groups.runtime.partitions, 3)

    def test_a_change_of_other_replicas_changes_nothing(self) -> None:
        before = self.node.broker.groups.runtime.shard(0)
        self.node.change_partition(OFFSETS, 0, replicas=(NODE_ID, OTHER), isr=(NODE_ID,), partition_epoch=1)
        self.assertIs(self.node.broker.groups.runtime.shard(0), before)


class FailedDirectoryTests(GroupTests):
    """The log directory of the groups fails."""

    def test_a_commit_on_the_failed_disk_unloads_the_groups(self) -> None:
        with broken("pwritev", self.directories[0], failing(errno.EIO)):
            self.assertEqual(self.commit(8), NOT_HERE)
        self.assertIsNone(self.node.broker.groups.runtime.shard(0))
        self.assertEqual((self.fetched(), self.commit(8)), (NOT_HERE, NOT_HERE))

    def test_a_load_from_the_failed_disk_takes_the_partition_offline(self) -> None:
        """Clients would come here for ever; in a cluster, another broker leads the partition now."""
        with broken("pread", self.directories[0], failing(errno.EIO)):
            lead(self.node, OFFSETS, NODE_ID, epoch=2)
        self.assertEqual(len(self.flushLoggedErrors(StorageFailure)), 1)
        self.assertEqual(list(self.node.broker.partitions.led), [])
        self.assertEqual(self.fetched(), NOT_HERE)
        self.restart()
        self.assertEqual(self.fetched(), 7)

    def test_a_deletion_on_the_failed_disk_is_logged(self) -> None:
        with broken("pwritev", self.directories[0], failing(errno.EIO)), capturedLogs() as events:
            self.assertEqual(self.node.broker.groups.delete_group("g", self.node.broker.runtime.now_ms()), NONE)
        logged = "\n".join(map(str, map(formatEvent, events)))
        self.assertIn("__consumer_offsets-0: a deletion of offsets was not written", logged)

    def test_waiting_members_get_not_coordinator_at_once(self) -> None:
        joins = self.join()
        self.node.broker.partitions.directory_failed(self.directories[0], "it is gone")
        self.assertEqual([result.error for result in joins], [NOT_HERE])

    def test_offsets_are_reloaded_when_the_directory_is_back(self) -> None:
        self.node.broker.partitions.directory_failed(self.directories[0], "it is gone")
        self.assertEqual(self.fetched(), NOT_HERE)
        self.restart()
        self.assertEqual(self.fetched(), 7)
        self.assertEqual(self.commit(8), NONE)


class HalfTheDirectoriesTests(TransactionTests):
    """One of two log directories fails; the coordinators of the other one go on."""

    directory_count = 2
    key_type = 0
    topic = OFFSETS

    def partition_for(self, key: str) -> int:
        return self.node.broker.groups.partition_for(key)

    def test_clients_find_the_coordinators_that_are_left(self) -> None:
        led = self.node.broker.partitions.led
        failed = {index for index in range(3) if led[self.topic, index].log.path.startswith(self.directories[1])}
        self.assertNotIn(failed, (set(), {0, 1, 2}))
        self.node.broker.partitions.directory_failed(self.directories[1], "it is gone")
        request = FindCoordinatorRequest(key_type=self.key_type, coordinator_keys=list("abcdef"))
        found = self.node.ask(find_coordinator.handle, request).coordinators
        offline = {each.key for each in found if self.partition_for(each.key) in failed}
        self.assertEqual({each.key for each in found if each.error_code == NOT_AVAILABLE}, offline)
        self.assertEqual({each.key for each in found if each.node_id == -1}, offline)
        self.assertEqual({each.error_code for each in found}, {NONE, NOT_AVAILABLE})


class HalfTheDirectoriesOfTransactionsTests(HalfTheDirectoriesTests):
    key_type = 1
    topic = TRANSACTIONS

    def partition_for(self, key: str) -> int:
        return self.node.broker.transactions.partition_for(key)

    def test_producers_of_the_failed_directory_get_not_coordinator(self) -> None:
        keys = list("abcdef")
        producers = [self.begun(b"value", transactional_id=key) for key in keys]
        led = self.node.broker.partitions.led
        paths = [led[TRANSACTIONS, self.partition_for(key)].log.path for key in keys]
        lost = [path.startswith(self.directories[1]) for path in paths]
        self.node.broker.partitions.directory_failed(self.directories[1], "it is gone")
        states = [self.state(key).error_code for key in keys]
        self.assertEqual(states, [NOT_HERE if each else NONE for each in lost])
        self.assertEqual({producer.init() for producer, each in zip(producers, lost, strict=True) if each}, {NOT_HERE})
        self.restart()
        self.assertEqual({self.state(key).transaction_state for key in keys}, {"Ongoing"})


class TransactionMoveTests(TransactionTests):
    def test_markers_carry_the_epoch_of_the_leader(self) -> None:
        """The partitions reject markers of former coordinators by that."""
        producer = Producer(self.node, "p")
        index = self.node.broker.transactions.partition_for("p")
        producer.init()
        self.node.change_partition(TRANSACTIONS, index, leader_epoch=3, partition_epoch=1)
        shard = self.node.broker.transactions.runtime.shard(index)
        assert shard is not None
        self.assertEqual((shard.coordinator_epoch, list(shard.transactions)), (3, ["p"]))
        self.assertEqual(producer.add(("t", 0)), [NONE])
