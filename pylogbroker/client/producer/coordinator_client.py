"""Requests of a transactional producer to transaction and group coordinators.

Transient errors are retried for `max.block.ms`: a moving coordinator, a lost connection, a transaction still being
completed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.coordinator_requests import CoordinatorType
from pylogbroker.client.errors import COORDINATOR_NOT_READY, is_retriable
from pylogbroker.client.partition_queue import ProducerIdentity
from pylogbroker.client.producer.model import GroupMember, Offsets, OffsetToCommit
from pylogbroker.client.producer.options import ProducerOptions
from pylogbroker.client.transaction_requests import (
    ADD_PARTITIONS_VERSION,
    END_TXN_VERSION,
    TRANSACTION_VERSION,
    TRANSACTIONS_V2,
    TXN_OFFSET_COMMIT_VERSION,
    Codes,
    add_partitions_request,
    offset_codes,
    partition_codes,
    raise_first,
    response_codes,
)
from pylogbroker.errors import KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.retries import Pauses, retrying
from pylogbroker.wire import Request
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


@attrs.frozen
class TransactionCoordinatorClient:
    pauses: Pauses
    cluster: Cluster
    options: ProducerOptions

    @property
    def id(self) -> str:
        return self.options.transactional_id or ""

    async def initialize(self, before: ProducerIdentity) -> ProducerIdentity:
        """Return an identity; fence earlier producers and abort their transaction."""
        timeout = int(self.options.transaction_timeout * 1000)
        response = await self._ask(InitProducerIdRequest(self.id, timeout, before.id, before.epoch))
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    async def add(self, identity: ProducerIdentity, partitions: Iterable[TopicPartition]) -> None:
        request = add_partitions_request(self.id, identity, partitions)
        await self._ask(request, newest=ADD_PARTITIONS_VERSION, codes=partition_codes)

    def has_transactions_v2(self) -> bool | None:
        """Return whether the cluster has transactions v2, as the coordinator said last; None if not connected to it."""
        level = self.cluster.feature_level_at(self.id, CoordinatorType.TRANSACTION, TRANSACTION_VERSION)
        return None if level is None else level >= TRANSACTIONS_V2

    async def send_offsets(
        self, identity: ProducerIdentity, offsets: Offsets, member: GroupMember, is_v2: bool = False
    ) -> None:
        if not is_v2:
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
        version = TXN_OFFSET_COMMIT_VERSION if is_v2 else None
        await self._ask(request, CoordinatorType.GROUP, member.group, version=version, codes=offset_codes)

    async def end(self, identity: ProducerIdentity, committed: bool) -> None:
        await self._ask(EndTxnRequest(self.id, identity.id, identity.epoch, committed))

    async def end_for_next(self, identity: ProducerIdentity, committed: bool) -> ProducerIdentity | None:
        """End a transaction v2; return the identity for the next one, None if the response has none."""
        request = EndTxnRequest(self.id, identity.id, identity.epoch, committed)
        response = await self._ask(request, version=END_TXN_VERSION)
        following = ProducerIdentity(response.producer_id, response.producer_epoch)
        return following if following.id >= 0 and following.epoch >= 0 and following != identity else None

    async def _ask(
        self,
        request: Request,
        kind: CoordinatorType = CoordinatorType.TRANSACTION,
        key: str | None = None,
        *,
        version: int | None = None,
        newest: int | None = None,
        codes: Codes = response_codes,
    ) -> Any:
        """Send in `version`, or in one that both sides know, `newest` at most."""
        where = self.id if key is None else key

        async def work() -> Any:
            try:
                return await self._ask_once(request, kind, where, version, newest, codes)
            except PylogbrokerError as error:
                if not isinstance(error, KafkaError) or error.code in COORDINATOR_NOT_READY:
                    self.cluster.forget_coordinator(where, kind)
                raise

        options = self.options
        return await retrying(work, self.pauses, options.backoff, options.block_timeout, retriable=is_retriable)

    async def _ask_once(
        self,
        request: Request,
        kind: CoordinatorType,
        key: str,
        version: int | None,
        newest: int | None,
        codes: Codes,
    ) -> Any:
        node = await self.cluster.coordinator(key, kind)
        if newest is not None:
            version = min(newest, await self.cluster.find_version(node, type(request)))
        response = await self.cluster.send(node, request, version=version)
        raise_first(codes(request, response))
        return response
