"""Calls of the share coordinator: here, or as requests to other brokers.

| call         | request                          | result                         |
|--------------|----------------------------------|--------------------------------|
| Initialize   | InitializeShareGroupState (83)   | an error code                  |
| Read         | ReadShareGroupState (84)         | a state, or an error code      |
| Write        | WriteShareGroupState (85)        | an error code                  |
| Delete       | DeleteShareGroupState (86)       | an error code                  |
| Summarize    | ReadShareGroupStateSummary (87)  | a state, or an error code      |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, succeed

from pylogbroker.broker.services import ShareStates
from pylogbroker.errors import CorruptRecords, ErrorCode
from pylogbroker.groups.share.sessions import TopicIdPartition
from pylogbroker.groups.share.state_coordinator import StateWrite
from pylogbroker.groups.share.state_records import SharePartitionKey, from_schema
from pylogbroker.groups.share.stored_state import StoredState
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire import Request
from pylogbroker.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    DeleteStatePartition,
)
from pylogbroker.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    InitializeStatePartition,
)
from pylogbroker.wire.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStateData,
    ReadStatePartition,
    ReadStatePartitionResult,
)
from pylogbroker.wire.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
    ReadStateSummaryPartition,
    ReadStateSummaryPartitionResult,
)
from pylogbroker.wire.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStatePartition,
    WriteStateTopic,
    WrittenStateBatch,
)

R = TypeVar("R")
_ANY_LEADER = -1


class StateCall(Protocol[R]):
    def here(self, states: ShareStates, key: SharePartitionKey) -> Deferred[R]:
        """Call the share coordinator of this broker."""

    def request(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> Request:
        """Return the request for partitions of one group."""

    def result(self, answer: Any) -> R:
        """Return the result in a partition's part of the response."""


@attrs.frozen
class InitializeCall:
    state_epoch: int
    starts: Mapping[TopicIdPartition, int]

    def here(self, states: ShareStates, key: SharePartitionKey) -> Deferred[ErrorCode]:
        return states.initialize(key, self.state_epoch, self.starts[key.topic_id, key.partition])

    def request(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> Request:
        topics = [
            InitializeStateData(
                topic_id,
                [InitializeStatePartition(index, self.state_epoch, self.starts[topic_id, index]) for index in indexes],
            )
            for topic_id, indexes in _by_topic(partitions).items()
        ]
        return InitializeShareGroupStateRequest(group_id, topics)

    def result(self, answer: Any) -> ErrorCode:
        return ErrorCode.NONE


@attrs.frozen
class ReadCall:
    leader_epoch: int

    def here(self, states: ShareStates, key: SharePartitionKey) -> Deferred[StoredState | ErrorCode]:
        return states.read(key, self.leader_epoch)

    def request(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> Request:
        topics = [
            ReadStateData(topic_id, [ReadStatePartition(index, self.leader_epoch) for index in indexes])
            for topic_id, indexes in _by_topic(partitions).items()
        ]
        return ReadShareGroupStateRequest(group_id, topics)

    def result(self, answer: ReadStatePartitionResult) -> StoredState | ErrorCode:
        try:
            batches = from_schema(answer.state_batches)
        except CorruptRecords:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return StoredState(answer.state_epoch, self.leader_epoch, answer.start_offset, batches=batches)


@attrs.frozen
class WriteCall:
    write: StateWrite

    def here(self, states: ShareStates, key: SharePartitionKey) -> Deferred[ErrorCode]:
        return states.write(key, self.write)

    def request(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> Request:
        write = self.write
        batches = [
            WrittenStateBatch(batch.first, batch.last, batch.state, batch.delivery_count) for batch in write.batches
        ]
        topics = [
            WriteStateTopic(
                topic_id,
                [
                    WriteStatePartition(
                        index,
                        write.state_epoch,
                        write.leader_epoch,
                        write.start_offset,
                        write.delivery_complete_count,
                        batches,
                    )
                    for index in indexes
                ],
            )
            for topic_id, indexes in _by_topic(partitions).items()
        ]
        return WriteShareGroupStateRequest(group_id, topics)

    def result(self, answer: Any) -> ErrorCode:
        return ErrorCode.NONE


@attrs.frozen
class DeleteCall:
    def here(self, states: ShareStates, key: SharePartitionKey) -> Deferred[ErrorCode]:
        return states.delete(key)

    def request(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> Request:
        topics = [
            DeleteStateData(topic_id, [DeleteStatePartition(index) for index in indexes])
            for topic_id, indexes in _by_topic(partitions).items()
        ]
        return DeleteShareGroupStateRequest(group_id, topics)

    def result(self, answer: Any) -> ErrorCode:
        return ErrorCode.NONE


@attrs.frozen
class SummarizeCall:
    def here(self, states: ShareStates, key: SharePartitionKey) -> Deferred[StoredState | ErrorCode]:
        return succeed(states.summary(key))

    def request(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> Request:
        topics = [
            ReadStateSummaryData(topic_id, [ReadStateSummaryPartition(index, _ANY_LEADER) for index in indexes])
            for topic_id, indexes in _by_topic(partitions).items()
        ]
        return ReadShareGroupStateSummaryRequest(group_id, topics)

    def result(self, answer: ReadStateSummaryPartitionResult) -> StoredState | ErrorCode:
        """Return the state without batches, which summaries do not have."""
        return StoredState(answer.state_epoch, answer.leader_epoch, answer.start_offset, answer.delivery_complete_count)


def results_of(call: StateCall[R], response: Any) -> dict[TopicIdPartition, R | ErrorCode]:
    """Return the results in a response, whatever partitions it has."""
    return {
        (topic.topic_id, answer.partition): code_of(answer.error_code) or call.result(answer)
        for topic in response.results
        for answer in topic.partitions
    }


def _by_topic(partitions: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in partitions:
        topics.setdefault(topic_id, []).append(index)
    return topics
