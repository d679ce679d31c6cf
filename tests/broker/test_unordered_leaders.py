"""Requests to a broker that the image names as leader before the controller has ordered that, as after a start."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from pylogbroker.broker.apis import (
    delete_records,
    describe_producers,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
    write_txn_markers,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record, build
from pylogbroker.wire import Request
from pylogbroker.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from pylogbroker.wire.messages.describe_producers import DescribeProducersRequest
from pylogbroker.wire.messages.describe_producers import TopicRequest as ProducersTopic
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pylogbroker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.member_transactions import MemberTests

RECORDS = build([Record(0, 1, None, b"value")])


def error_codes(answer: object) -> Iterator[int]:
    """Yield all error codes in an answer but NONE."""
    if isinstance(answer, list):
        for each in answer:
            yield from error_codes(each)
    elif attrs.has(type(answer)):
        for field in attrs.fields(type(answer)):
            value = getattr(answer, field.name)
            if field.name.endswith("error_code") and value:
                yield value
            else:
                yield from error_codes(value)


class LeadersOfTheImageTests(MemberTests):
    """Broker 1 has heard from the tree that it leads `seen` and the coordinators' topics."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster.create("seen", [2])
        self.cluster.delete("__transaction_state")
        self.cluster.create("__transaction_state", [2])
        for name in ("seen", "__consumer_offsets", "__transaction_state"):
            self.cluster.lead(name, 0, 1, orders=False)

    def errors(self, handle: Callable[..., Any], request: Request, version: int | None = None) -> set[int]:
        return set(error_codes(self.cluster[1].ask(handle, request, version)))

    def test_the_partition_is_not_led_here(self) -> None:
        marker = WritableTxnMarker(7, 0, True, [WritableTxnMarkerTopic("seen", [0])], 0)
        epochs = [OffsetForLeaderTopic("seen", [OffsetForLeaderPartition(0, leader_epoch=0)])]
        produced = [PartitionProduceData(0, RECORDS)]
        offsets = ListOffsetsTopic("seen", [ListOffsetsPartition(0)])
        deletion = DeleteRecordsTopic("seen", [DeleteRecordsPartition(0, 1)])
        requests: list[tuple[Callable[..., Any], Request, int | None]] = [
            (produce.handle, ProduceRequest(acks=1, topic_data=[TopicProduceData("seen", produced)]), 9),
            (fetch.handle, FetchRequest(topics=[FetchTopic("seen", partitions=[FetchPartition(0)])]), 11),
            (list_offsets.handle, ListOffsetsRequest(-1, topics=[offsets]), 7),
            (offset_for_leader_epoch.handle, OffsetForLeaderEpochRequest(topics=epochs), 4),
            (delete_records.handle, DeleteRecordsRequest([deletion], 1000), None),
            (describe_producers.handle, DescribeProducersRequest([ProducersTopic("seen", [0])]), None),
            (write_txn_markers.handle, WriteTxnMarkersRequest([marker]), None),
        ]
        for handle, request, version in requests:
            errors = self.errors(handle, request, version)
            self.assertEqual(errors, {ErrorCode.NOT_LEADER_OR_FOLLOWER}, type(request).__name__)

    def test_the_coordinators_are_not_here(self) -> None:
        offset = TxnOffsetCommitRequestPartition(0, committed_offset=1)
        commit = TxnOffsetCommitRequest("x", "g", 7, 0, topics=[TxnOffsetCommitRequestTopic("seen", [offset])])
        requests: list[tuple[Callable[..., Any], Request, ErrorCode]] = [
            (find_coordinator.handle, FindCoordinatorRequest("g"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (find_coordinator.handle, FindCoordinatorRequest("x", 1), ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (heartbeat.handle, HeartbeatRequest("g", 1, "m"), ErrorCode.NOT_COORDINATOR),
            (init_producer_id.handle, InitProducerIdRequest("x", 1000), ErrorCode.NOT_COORDINATOR),
            (txn_offset_commit.handle, commit, ErrorCode.NOT_COORDINATOR),
        ]
        for handle, request, error in requests:
            self.assertEqual(self.errors(handle, request, 3), {error}, type(request).__name__)

    def test_logs_that_failed_or_could_not_be_opened(self) -> None:
        """Their clients hear of the disk, until another broker is elected."""
        failed = self.cluster[1].broker.partitions.find("t", 0).log
        self.cluster[1].broker.partitions.directory_failed(os.path.dirname(failed.path), "its disk is gone")
        self.cluster.create("unopened", [1])
        for topic in ("t", "unopened"):
            asked = FetchRequest(topics=[FetchTopic(topic, partitions=[FetchPartition(0)])])
            self.assertEqual(self.errors(fetch.handle, asked, 11), {ErrorCode.KAFKA_STORAGE_ERROR}, topic)
