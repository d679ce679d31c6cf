"""States of share groups on a broker and between brokers: requests, the persister, and restarts."""

from __future__ import annotations

from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.apis import (
    delete_share_group_state,
    find_coordinator,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.state_coordinator import StateWrite
from pylogbroker.groups.share.state_records import SharePartitionKey
from pylogbroker.groups.share.stored_state import StoredState
from pylogbroker.groups.share.values import RecordState, StateBatch
from pylogbroker.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    DeleteStatePartition,
)
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    InitializeStatePartition,
)
from pylogbroker.wire.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStateBatch,
    ReadStateData,
    ReadStatePartition,
)
from pylogbroker.wire.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
    ReadStateSummaryPartition,
)
from pylogbroker.wire.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStatePartition,
    WriteStateTopic,
    WrittenStateBatch,
)
from tests.broker.members import Members, opened_members
from tests.broker.nodes import NODE_ID, NodeTests
from tests.broker.trees import now

TOPIC = UUID(int=77)
KEY = SharePartitionKey("g", TOPIC, 0)
OTHER = SharePartitionKey("g", TOPIC, 1)
ACKNOWLEDGED = RecordState.ACKNOWLEDGED
WRITE = StateWrite(3, 5, 12, 2, (StateBatch(14, 15, ACKNOWLEDGED, 1),))


class ShareStateRequests(NodeTests):
    settings = {"share.coordinator.state.topic.num.partitions": "3"}

    def setUp(self) -> None:
        super().setUp()
        now(self.node.broker.share_states.ensure_topic())

    def initialize(self, index: int = 0, state_epoch: int = 3, start: int = 10) -> Any:
        partition = InitializeStatePartition(index, state_epoch, start)
        request = InitializeShareGroupStateRequest("g", [InitializeStateData(TOPIC, [partition])])
        [topic] = self.node.ask(initialize_share_group_state.handle, request).results
        return topic.partitions[0]

    def write(self, *batches: tuple[int, int, int, int], version: int = 1, **fields: int) -> Any:
        values = {"state_epoch": 3, "leader_epoch": 5, "start_offset": 12, "delivery_complete_count": 2} | fields
        partition = WriteStatePartition(0, **values, state_batches=[WrittenStateBatch(*batch) for batch in batches])
        request = WriteShareGroupStateRequest("g", [WriteStateTopic(TOPIC, [partition])])
        [topic] = self.node.ask(write_share_group_state.handle, request, version).results
        return topic.partitions[0]

    def read(self, leader_epoch: int = 5) -> Any:
        request = ReadShareGroupStateRequest("g", [ReadStateData(TOPIC, [ReadStatePartition(0, leader_epoch)])])
        [topic] = self.node.ask(read_share_group_state.handle, request).results
        return topic.partitions[0]

    def summary(self) -> Any:
        request = ReadShareGroupStateSummaryRequest("g", [ReadStateSummaryData(TOPIC, [ReadStateSummaryPartition(0)])])
        [topic] = self.node.ask(read_share_group_state_summary.handle, request).results
        return topic.partitions[0]

    def test_written_state_is_read_also_after_a_restart(self) -> None:
        self.assertEqual(self.initialize().error_code, 0)
        self.assertEqual(self.write((14, 15, 2, 1)).error_code, 0)
        for _ in range(2):
            state = self.read()
            self.assertEqual((state.error_code, state.state_epoch, state.start_offset), (0, 3, 12))
            self.assertEqual(state.state_batches, [ReadStateBatch(14, 15, 2, 1)])
            summary = self.summary()
            self.assertEqual((summary.leader_epoch, summary.start_offset, summary.delivery_complete_count), (5, 12, 2))
            self.restart()

    def test_state_that_nobody_initialized_has_no_start(self) -> None:
        self.assertEqual((self.read().start_offset, self.summary().start_offset), (-1, -1))

    def test_earlier_leader_is_fenced(self) -> None:
        self.initialize()
        self.read(6)
        self.assertEqual(self.write(leader_epoch=5).error_code, ErrorCode.FENCED_LEADER_EPOCH)
        self.assertEqual(self.read(5).error_code, ErrorCode.FENCED_LEADER_EPOCH)

    def test_earlier_life_of_the_group_is_fenced(self) -> None:
        self.initialize(state_epoch=4)
        self.assertEqual(self.write(state_epoch=3).error_code, ErrorCode.FENCED_STATE_EPOCH)
        self.assertEqual(self.initialize(state_epoch=3).error_code, ErrorCode.FENCED_STATE_EPOCH)

    def test_deleted_state_is_gone(self) -> None:
        self.initialize()
        request = DeleteShareGroupStateRequest("g", [DeleteStateData(TOPIC, [DeleteStatePartition(0)])])
        [topic] = self.node.ask(delete_share_group_state.handle, request).results
        self.assertEqual(topic.partitions[0].error_code, 0)
        self.restart()
        self.assertEqual(self.read().start_offset, -1)

    def test_invalid_fields_are_rejected_and_change_nothing(self) -> None:
        self.initialize()
        invalid = ErrorCode.INVALID_REQUEST
        self.assertEqual(self.initialize(index=-1).error_code, invalid)
        self.assertEqual(self.initialize(state_epoch=-1).error_code, invalid)
        self.assertEqual(self.initialize(start=-2).error_code, invalid)
        self.assertEqual(self.read(-1).error_code, invalid)
        for batch in ((15, 14, 2, 1), (-1, 3, 2, 1), (14, 15, 1, 1), (14, 15, 9, 1)):
            self.assertEqual(self.write(batch).error_code, invalid, batch)
        self.assertEqual(self.write((14, 15, 2, 1), (15, 16, 2, 1)).error_code, invalid)
        for field in ("state_epoch", "leader_epoch"):
            self.assertEqual(self.write(**{field: -1}).error_code, invalid)
        self.assertEqual(self.write(start_offset=-2).error_code, invalid)
        self.assertEqual((self.read(0).start_offset, self.read(0).state_batches), (10, []))

    def test_version_0_does_not_say_how_many_are_complete(self) -> None:
        self.initialize()
        self.write(version=0)
        self.assertEqual(self.summary().delivery_complete_count, -1)


class ShareCoordinatorLookup(NodeTests):
    settings = {"share.coordinator.state.topic.num.partitions": "3"}

    def find(self, key: str, version: int = 6) -> Any:
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        return self.node.ask(find_coordinator.handle, request, version).coordinators[0]

    def test_brokers_find_the_coordinator_of_a_share_partition(self) -> None:
        for text in (str(KEY), f"with:colon:{str(KEY).split(':', 1)[1]}"):
            coordinator = self.find(text)
            self.assertEqual((coordinator.error_code, coordinator.node_id), (0, NODE_ID))

    def test_other_texts_are_rejected(self) -> None:
        for text in ("g", "g:0", f":{str(KEY).split(':', 1)[1]}", "g:notanid:0", f"{KEY}9999999999999", f"{KEY}:", ""):
            self.assertEqual(self.find(text).error_code, ErrorCode.INVALID_REQUEST, text)

    def test_older_versions_do_not_know_share_groups(self) -> None:
        self.assertEqual(self.find(str(KEY), 5).error_code, ErrorCode.INVALID_REQUEST)


class PersisterTests(SynchronousTestCase):
    """Broker 1 asks; broker 1 has the states of one partition, broker 2 those of another."""

    def setUp(self) -> None:
        stack = self.enterContext(ExitStack())
        directories = [stack.enter_context(TemporaryDirectory()) for _ in range(2)]
        self.cluster: Members = stack.enter_context(opened_members(directories, {"api.versions.release": "4.4"}))
        self.cluster.create("__share_group_state", [1, 2], replicas=[1, 2])
        self.states = self.cluster[1].broker.share_states
        self.here = self._partition_led_by(1)
        self.there = self._partition_led_by(2)

    def _partition_led_by(self, broker_id: int) -> SharePartitionKey:
        keys = (SharePartitionKey("g", TOPIC, index) for index in range(100))
        return next(key for key in keys if self.states.leader_of(key) == broker_id)

    def result(self, work: Any, seconds: float = 10.0) -> Any:
        return self.cluster.result(Deferred.fromCoroutine(work), seconds)

    def initialize(self) -> None:
        starts = {(key.topic_id, key.partition): 10 for key in (self.here, self.there)}
        self.assertEqual(
            self.result(self.states.persister.initialize("g", 3, starts)), dict.fromkeys(starts, ErrorCode.NONE)
        )

    def test_states_are_here_and_there(self) -> None:
        self.initialize()
        for key in (self.here, self.there):
            self.assertEqual(self.result(self.states.persister.write(key, WRITE)), ErrorCode.NONE)
            state = self.result(self.states.persister.read(key, 5))
            self.assertEqual((state.state_epoch, state.start_offset, state.batches), (3, 12, WRITE.batches))
        partitions = [(key.topic_id, key.partition) for key in (self.here, self.there)]
        for summary in self.result(self.states.persister.summaries("g", partitions)).values():
            self.assertEqual((summary.start_offset, summary.leader_epoch, summary.delivery_complete_count), (12, 5, 2))
        deleted = self.result(self.states.persister.delete("g", partitions))
        self.assertEqual(deleted, dict.fromkeys(partitions, ErrorCode.NONE))
        self.assertEqual(self.result(self.states.persister.read(self.there, 5)), StoredState(leader_epoch=5))
        clients = {client for client, _, _ in self.cluster.sent(WriteShareGroupStateRequest)}
        self.assertEqual(clients, {"broker-1-share-persister"})

    def test_call_is_repeated_until_the_coordinator_is_back(self) -> None:
        self.initialize()
        self.cluster.down.add(2)
        written = Deferred.fromCoroutine(self.states.persister.write(self.there, WRITE))
        self.cluster.run(1.0)
        self.assertNoResult(written)
        self.cluster.down.clear()
        self.assertEqual(self.cluster.result(written), ErrorCode.NONE)

    def test_call_follows_the_coordinator(self) -> None:
        index = self.states.partition_for(self.there)
        self.cluster.lead("__share_group_state", index, -1)
        written = Deferred.fromCoroutine(self.states.persister.write(self.there, WRITE))
        self.cluster.run(0.1)
        self.cluster.lead("__share_group_state", index, 1)
        self.assertEqual(self.cluster.result(written), ErrorCode.NONE)
        self.assertEqual(self.states.leader_of(self.there), 1)

    def test_calls_end_with_an_error_without_coordinator(self) -> None:
        self.cluster.down.add(2)
        self.assertEqual(self.result(self.states.persister.write(self.there, WRITE)), ErrorCode.NETWORK_EXCEPTION)
        self.cluster.lead("__share_group_state", self.states.partition_for(self.there), -1)
        self.assertEqual(self.result(self.states.persister.read(self.there, 1)), ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def test_earlier_leader_is_fenced_by_a_later_one(self) -> None:
        self.initialize()
        other = self.cluster[2].broker.share_states.persister
        self.result(other.read(self.here, 6))
        self.assertEqual(self.result(self.states.persister.write(self.here, WRITE)), ErrorCode.FENCED_LEADER_EPOCH)


class PruningTests(NodeTests):
    """The log of states does not grow forever, and nothing that counts is lost."""

    settings = {
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.snapshot.update.records.per.snapshot": "10",
    }

    def setUp(self) -> None:
        super().setUp()
        now(self.node.broker.share_states.ensure_topic())

    def write(self, key: SharePartitionKey, count: int) -> None:
        for number in range(count):
            batch = StateBatch(20 + number, 20 + number, ACKNOWLEDGED, 1)
            write = StateWrite(0, 0, number, 0, (batch,))
            self.assertEqual(now(self.node.broker.share_states.write(key, write)), ErrorCode.NONE)

    @property
    def records(self) -> tuple[int, int]:
        log = self.node.broker.partitions.find("__share_group_state", 0).log
        return log.log_start_offset, log.log_end_offset

    def states(self) -> list[Any]:
        keys = (KEY, OTHER)
        return [self.node.broker.share_states.summary(key) for key in keys]

    def test_log_before_the_oldest_snapshot_is_deleted(self) -> None:
        self.write(KEY, 60)
        before = self.states()
        self.node.clock.advance(301)
        start, end = self.records
        self.assertGreater(start, 40)
        self.assertEqual(end, 60)
        self.restart()
        self.assertEqual([state.batches for state in self.states()], [state.batches for state in before])

    def test_state_that_does_not_change_is_stored_again(self) -> None:
        self.write(OTHER, 3)
        self.write(KEY, 1_100)
        before = self.states()
        for _ in range(3):
            self.node.clock.advance(301)
        self.assertGreater(self.records[0], 1_000)
        self.restart()
        self.assertEqual([state.batches for state in self.states()], [state.batches for state in before])

    def test_log_without_states_is_deleted(self) -> None:
        self.write(KEY, 20)
        now(self.node.broker.share_states.delete(KEY))
        self.node.clock.advance(301)
        self.assertEqual(self.records, (21, 21))
