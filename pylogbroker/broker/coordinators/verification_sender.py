"""Questions to transaction coordinators on other brokers (AddPartitionsToTxn).

Does a transaction include a partition? Or, for producers of transactions v2: may it be added?

    answer                                       error for the partition's leader
    -------------------------------------------  -------------------------------------------------------------
    none: not connected, the outcome is unknown  NETWORK_EXCEPTION, after which the producer tries again
    none: the coordinator is older than the      none, as if there were no verification; to add a partition,
      question (Kafka 3.6, KIP-890)                COORDINATOR_NOT_AVAILABLE, after which the producer tries again

The version is negotiated. Source: Kafka's class AddPartitionsToTxnManager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.coordinators.broker_batches import BrokerBatches, batches_without_repetition
from pylogbroker.broker.replication.leader_requests import RequestChannel
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire import UnsupportedVersion
from pylogbroker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

log = Logger()
VERIFICATION_CLIENT_ID: Final = "AddPartitionsManager-client-{}"
_VERSIONS: Final = (5, 4)


@attrs.frozen
class _ProducerOfTransaction:
    transactional_id: str
    producer_id: int
    epoch: int
    adds: bool


@attrs.frozen(eq=False, repr=False)
class _VerifiedPartition:
    producer: _ProducerOfTransaction
    partition: TopicPartition
    answer: Deferred[ErrorCode] = attrs.field(factory=Deferred, init=False)


@attrs.define(eq=False, repr=False)
class VerificationSender:
    _open_channel: Callable[[int], RequestChannel]
    _runtime: Runtime
    _batches: BrokerBatches[_VerifiedPartition] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._batches = BrokerBatches(self._open_channel, self._verify, self._runtime)

    def ask(
        self,
        broker_id: int,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partition: TopicPartition,
        adds: bool = False,
    ) -> Deferred[ErrorCode]:
        """Ask a coordinator; fire with NONE if the transaction includes the partition, else with an error.

        With `adds`, the coordinator adds it.
        """
        verification = _VerifiedPartition(_ProducerOfTransaction(transactional_id, producer_id, epoch, adds), partition)
        self._batches.add(broker_id, verification)
        return verification.answer.addErrback(self._failed, broker_id)

    def disconnect(self, broker_id: int) -> None:
        self._batches.disconnect(broker_id)

    def close(self) -> None:
        self._batches.close()

    async def _verify(self, channel: RequestChannel, verifications: Sequence[_VerifiedPartition]) -> None:
        by_producer: dict[_ProducerOfTransaction, list[_VerifiedPartition]] = {}
        for verification in verifications:
            by_producer.setdefault(verification.producer, []).append(verification)
        for batch in batches_without_repetition(by_producer, lambda producer: producer.transactional_id):
            await self._verify_batch(channel, {producer: by_producer[producer] for producer in batch})

    async def _verify_batch(
        self, channel: RequestChannel, by_producer: dict[_ProducerOfTransaction, list[_VerifiedPartition]]
    ) -> None:
        request = AddPartitionsToTxnRequest(
            [_encode(producer, [verified.partition for verified in some]) for producer, some in by_producer.items()]
        )
        for version in _VERSIONS:
            try:
                response = await channel.request(request, version)
            except UnsupportedVersion:
                continue
            break
        else:
            self._skip(by_producer)
            return
        answers = _answers(response)
        for producer, some in by_producer.items():
            for verification in some:
                error = code_of(response.error_code) or answers.get((producer.transactional_id, verification.partition))
                verification.answer.callback(ErrorCode.UNKNOWN_SERVER_ERROR if error is None else error)

    def _skip(self, by_producer: dict[_ProducerOfTransaction, list[_VerifiedPartition]]) -> None:
        if self._runtime.may_log("transactions are not verified"):
            log.warn("transactions are not verified: a coordinator is older than Kafka 3.6, upgrade it")
        for producer, some in by_producer.items():
            for verification in some:
                verification.answer.callback(ErrorCode.COORDINATOR_NOT_AVAILABLE if producer.adds else ErrorCode.NONE)

    def _failed(self, failure: Failure, broker_id: int) -> ErrorCode:
        if self._runtime.may_log(f"transactions of broker {broker_id}"):
            log.warn(
                "transactions cannot be verified by broker {broker}; producers try again: {why}",
                broker=broker_id,
                why=failure.getErrorMessage(),
            )
        return ErrorCode.NETWORK_EXCEPTION


def _encode(producer: _ProducerOfTransaction, partitions: Sequence[TopicPartition]) -> AddPartitionsToTxnTransaction:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, index in dict.fromkeys(partitions):
        topics.setdefault(topic, AddPartitionsToTxnTopic(topic)).partitions.append(index)
    return AddPartitionsToTxnTransaction(
        producer.transactional_id, producer.producer_id, producer.epoch, not producer.adds, list(topics.values())
    )


def _answers(response: Any) -> dict[tuple[str, TopicPartition], ErrorCode]:
    return {
        (transaction.transactional_id, (topic.name, partition.partition_index)): code_of(partition.partition_error_code)
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for partition in topic.results_by_partition
    }
