"""Requests of a transactional producer to the coordinators of transactions and of groups.

Transient errors are retried for `max.block.ms`: a coordinator that moves, a lost connection, a previous transaction
that is still being completed. Any other error is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from pylogbroker.client.cluster import Cluster, CoordinatorType
from pylogbroker.client.partition_queue import ProducerIdentity
from pylogbroker.client.producer.batch import BatchQueue
from pylogbroker.client.producer.model import GroupMember, Offsets, OffsetToCommit
from pylogbroker.client.producer.options import ProducerOptions
from pylogbroker.client.retries import Pauses, retrying
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.rpc.errors import error_of
from pylogbroker.wire import Request
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

_COORDINATOR_MOVED: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
_ADD_PARTITIONS_VERSION: Final = 3  # higher versions are for brokers only


@attrs.frozen
class TransactionCoordinatorClient:
    """Client of the coordinator of one transactional id."""

    pauses: Pauses
    cluster: Cluster
    options: ProducerOptions

    @property
    def id(self) -> str:
        return self.options.transactional_id or ""

    async def initialize(self, before: ProducerIdentity) -> ProducerIdentity:
        """Return a producer id and epoch; fence earlier producers and abort their open transaction."""
        timeout = int(self.options.transaction_timeout * 1000)
        response = await self._ask(InitProducerIdRequest(self.id, timeout, before.id, before.epoch))
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    async def add(self, identity: ProducerIdentity, queues: Iterable[BatchQueue]) -> None:
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for queue in queues:
            topics.setdefault(queue.topic, AddPartitionsToTxnTopic(queue.topic)).partitions.append(queue.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=identity.id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=list(topics.values()),
        )
        await self._ask(request, version=_ADD_PARTITIONS_VERSION, codes=_partition_codes)

    async def send_offsets(self, identity: ProducerIdentity, offsets: Offsets, member: GroupMember) -> None:
        """Add a group to the transaction and commit its offsets in it."""
        await self._ask(AddOffsetsToTxnRequest(self.id, identity.id, identity.epoch, member.group))
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (topic, partition), given in offsets.items():
            one = given if isinstance(given, OffsetToCommit) else OffsetToCommit(given)
            row = TxnOffsetCommitRequestPartition(partition, one.offset, one.leader_epoch, one.metadata)
            topics.setdefault(topic, TxnOffsetCommitRequestTopic(topic)).partitions.append(row)
        request = TxnOffsetCommitRequest(
            self.id,
            member.group,
            identity.id,
            identity.epoch,
            member.generation,
            member.member_id,
            member.instance_id,
            list(topics.values()),
        )
        await self._ask(request, CoordinatorType.GROUP, member.group, codes=_offset_codes)

    async def end(self, identity: ProducerIdentity, committed: bool) -> None:
        await self._ask(EndTxnRequest(self.id, identity.id, identity.epoch, committed))

    async def _ask(
        self,
        request: Request,
        kind: CoordinatorType = CoordinatorType.TRANSACTION,
        key: str | None = None,
        *,
        version: int | None = None,
        codes: Callable[[Any], list[int]] = lambda response: [response.error_code],
    ) -> Any:
        where = self.id if key is None else key

        async def work() -> Any:
            try:
                return await self._ask_once(request, kind, where, version, codes)
            except PylogbrokerError as error:
                if not isinstance(error, KafkaError) or error.code in _COORDINATOR_MOVED:
                    self.cluster.forget_coordinator(where, kind)
                raise

        return await retrying(work, self.pauses, self.options.backoff, self.options.block_timeout)

    async def _ask_once(
        self, request: Request, kind: CoordinatorType, key: str, version: int | None, codes: Callable[[Any], list[int]]
    ) -> Any:
        node = await self.cluster.coordinator(key, kind)
        response = await self.cluster.send(node, request, version=version)
        errors = [error_of(code) for code in codes(response) if code]
        for error in sorted(errors, key=lambda error: error.code.retriable):
            raise error
        return response


def _partition_codes(response: Any) -> list[int]:
    topics = response.results_by_topic_v3_and_below
    codes = [row.partition_error_code for topic in topics for row in topic.results_by_partition]
    others = [code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)]
    return others or codes


def _offset_codes(response: Any) -> list[int]:
    return [row.error_code for topic in response.topics for row in topic.partitions]
