"""Transactions and producers: list, describe, abort, fence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import Router, deferred, outcome
from pylogbroker.client.coordinator_requests import CoordinatorType
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from pylogbroker.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pylogbroker.wire.messages.list_transactions import ListTransactionsRequest
from pylogbroker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_FENCE_TIMEOUT_MS = 60_000  # of the next transaction, which never begins


@attrs.frozen
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@attrs.frozen
class TransactionDescription:
    """`start_ms` is None outside of a transaction; `partitions` have no marker yet."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


@attrs.frozen
class ProducerDescription:
    """Producer of a partition. `transaction_start` is the first offset of its open transaction, or None.

    `last_timestamp` is None if the broker does not know when it wrote last.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int | None
    coordinator_epoch: int | None
    transaction_start: int | None


@attrs.frozen(eq=False, repr=False)
class TransactionAdmin:
    _router: Router

    @deferred
    async def list(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), longer_than_ms: int = -1
    ) -> Sequence[TransactionListing]:
        """Return the transactional ids of all brokers; filters select some."""
        transactions = []
        chosen = arguments.texts("states", states)

        def make() -> ListTransactionsRequest:
            return ListTransactionsRequest([*chosen], [*producer_ids], longer_than_ms)

        for node_id, response in (await self._router.all_brokers(make)).items():
            if response.unknown_state_filters:
                named = ", ".join(response.unknown_state_filters)
                raise KafkaError(f"no state of a transaction: {named}", ErrorCode.INVALID_REQUEST)
            transactions += [
                TransactionListing(
                    transaction.transactional_id, transaction.producer_id, transaction.transaction_state, node_id
                )
                for transaction in response.transaction_states
            ]
        return sorted(transactions, key=lambda it: it.transactional_id)

    @deferred
    async def describe(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        def read(response: DescribeTransactionsResponse) -> Iterator[tuple[str, TransactionDescription | KafkaError]]:
            for transaction in response.transaction_states:
                name = transaction.transactional_id
                yield name, outcome(f"transactional id {name}", transaction.error_code, None, _description(transaction))

        route = self._router.coordinators(CoordinatorType.TRANSACTION)
        given = arguments.texts("transactional_ids", transactional_ids)
        return await self._router.ask(route, given, lambda ids: DescribeTransactionsRequest(ids), read)

    @deferred
    async def fence(self, transactional_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Shut out the producers of transactional ids, aborting their transactions; return new ids and epochs."""
        route = self._router.coordinators(CoordinatorType.TRANSACTION)
        identities: dict[str, tuple[int, int]] = {}
        for name in dict.fromkeys(arguments.texts("transactional_ids", transactional_ids)):
            ask = partial(self._router.ask, route, [name], read=partial(_identity, name))
            try:
                identities.update(await ask(make=partial(_fencing, _FENCE_TIMEOUT_MS)))
            except KafkaError as error:
                if error.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                    raise
                transaction = (await self.describe([name]))[name]  # the broker's maximum is lower
                identities.update(await ask(make=partial(_fencing, transaction.timeout_ms)))
        return identities

    @deferred
    async def abort(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0
    ) -> None:
        """Write a marker that aborts a producer's transaction in one partition, without its coordinator.

        For a transaction that hangs: its coordinator has forgotten it. `producers` has the numbers.
        """
        topic, number = arguments.partition("partition", partition)
        marker = WritableTxnMarker(
            producer_id, producer_epoch, False, [WritableTxnMarkerTopic(topic, [number])], coordinator_epoch
        )

        def read(response: WriteTxnMarkersResponse) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
            for producer in response.markers:
                for row in producer.topics:
                    for result in row.partitions:
                        where = f"{row.name}/{result.partition_index}"
                        yield (row.name, result.partition_index), outcome(where, result.error_code, None, None)

        await self._router.ask(
            self._router.leaders(), [(topic, number)], lambda _: WriteTxnMarkersRequest([marker]), read
        )

    @deferred
    async def producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerDescription, ...]]:
        """Return the producers that partitions' leaders know."""

        def make(keys: Sequence[TopicPartition]) -> DescribeProducersRequest:
            topics: dict[str, TopicRequest] = {}
            for topic, partition in keys:
                topics.setdefault(topic, TopicRequest(topic)).partition_indexes.append(partition)
            return DescribeProducersRequest([*topics.values()])

        def read(
            response: DescribeProducersResponse,
        ) -> Iterator[tuple[TopicPartition, tuple[ProducerDescription, ...] | KafkaError]]:
            for topic in response.topics:
                for partition in topic.partitions:
                    where = f"{topic.name}/{partition.partition_index}"
                    producers = outcome(where, partition.error_code, partition.error_message, _producers(partition))
                    yield (topic.name, partition.partition_index), producers

        pairs = arguments.partitions("partitions", partitions)
        return await self._router.ask(self._router.leaders(), pairs, make, read)


def _fencing(timeout_ms: int, transactional_ids: Sequence[str]) -> InitProducerIdRequest:
    [name] = transactional_ids
    return InitProducerIdRequest(arguments.name("transactional_ids", name), timeout_ms)


def _identity(name: str, response: InitProducerIdResponse) -> Iterator[tuple[str, tuple[int, int] | KafkaError]]:
    identity = response.producer_id, response.producer_epoch
    yield name, outcome(f"transactional id {name}", response.error_code, None, identity)


def _description(transaction: TransactionState) -> TransactionDescription:
    partitions = sorted((topic.topic, number) for topic in transaction.topics for number in topic.partitions)
    return TransactionDescription(
        transaction.transactional_id,
        transaction.transaction_state,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.transaction_timeout_ms,
        transaction.transaction_start_time_ms if transaction.transaction_start_time_ms >= 0 else None,
        tuple(partitions),
    )


def _producers(partition: PartitionResponse) -> tuple[ProducerDescription, ...]:
    return tuple(
        ProducerDescription(
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_timestamp if producer.last_timestamp >= 0 else None,
            producer.coordinator_epoch if producer.coordinator_epoch >= 0 else None,
            producer.current_txn_start_offset if producer.current_txn_start_offset >= 0 else None,
        )
        for producer in partition.active_producers
    )
