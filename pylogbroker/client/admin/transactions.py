"""Transactions and producers: list, describe, abort, fence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import Router, deferred, outcome
from pylogbroker.client.cluster import CoordinatorType
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


@attrs.frozen(eq=False)
class TransactionAdmin:
    _router: Router

    @deferred
    async def list(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), longer_than_ms: int = -1
    ) -> Sequence[TransactionListing]:
        """Return the transactional ids of all brokers; filters select some."""
        found = []

        def make() -> ListTransactionsRequest:
            return ListTransactionsRequest([*states], [*producer_ids], longer_than_ms)

        for node_id, response in (await self._router.all_brokers(make)).items():
            if response.unknown_state_filters:
                named = ", ".join(response.unknown_state_filters)
                raise KafkaError(f"no state of a transaction: {named}", ErrorCode.INVALID_REQUEST)
            found += [
                TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, node_id)
                for each in response.transaction_states
            ]
        return sorted(found, key=lambda it: it.transactional_id)

    @deferred
    async def describe(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        def read(response: DescribeTransactionsResponse) -> Iterator[tuple[str, TransactionDescription | KafkaError]]:
            for each in response.transaction_states:
                name = each.transactional_id
                yield name, outcome(f"transactional id {name}", each.error_code, None, _description(each))

        route = self._router.coordinators(CoordinatorType.TRANSACTION)
        return await self._router.ask(route, transactional_ids, lambda ids: DescribeTransactionsRequest(ids), read)

    @deferred
    async def fence(self, transactional_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Shut out the producers of transactional ids, aborting their transactions; return new ids and epochs."""
        route = self._router.coordinators(CoordinatorType.TRANSACTION)
        found: dict[str, tuple[int, int]] = {}
        for each in dict.fromkeys(transactional_ids):
            ask = partial(self._router.ask, route, [each], read=partial(_identity, each))
            try:
                found.update(await ask(make=partial(_fencing, _FENCE_TIMEOUT_MS)))
            except KafkaError as error:
                if error.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                    raise
                known = (await self.describe([each]))[each]  # the broker's maximum is lower
                found.update(await ask(make=partial(_fencing, known.timeout_ms)))
        return found

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
            for each in response.markers:
                for row in each.topics:
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
                for each in topic.partitions:
                    where = f"{topic.name}/{each.partition_index}"
                    found = outcome(where, each.error_code, each.error_message, _producers(each))
                    yield (topic.name, each.partition_index), found

        wanted = arguments.partitions("partitions", partitions)
        return await self._router.ask(self._router.leaders(), wanted, make, read)


def _fencing(timeout_ms: int, transactional_ids: Sequence[str]) -> InitProducerIdRequest:
    [name] = transactional_ids
    return InitProducerIdRequest(arguments.name("transactional_ids", name), timeout_ms)


def _identity(name: str, response: InitProducerIdResponse) -> Iterator[tuple[str, tuple[int, int] | KafkaError]]:
    identity = response.producer_id, response.producer_epoch
    yield name, outcome(f"transactional id {name}", response.error_code, None, identity)


def _description(found: TransactionState) -> TransactionDescription:
    partitions = sorted((each.topic, number) for each in found.topics for number in each.partitions)
    return TransactionDescription(
        found.transactional_id,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
        tuple(partitions),
    )


def _producers(found: PartitionResponse) -> tuple[ProducerDescription, ...]:
    return tuple(
        ProducerDescription(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp if each.last_timestamp >= 0 else None,
            each.coordinator_epoch if each.coordinator_epoch >= 0 else None,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        )
        for each in found.active_producers
    )
