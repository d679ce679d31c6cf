"""Transactions of all coordinators, and producers of a partition: list, describe, end those that hang."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Final, Literal, TypedDict

import attrs
from twisted.internet.task import deferLater

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.errors import raise_for
from pylogbroker.web.group_views import TopicPartition
from pylogbroker.web.offsets import Key
from pylogbroker.web.parameters import ROWS_MAX, Count, Index, Name, Offset, Search, Start
from pylogbroker.web.responsible_brokers import (
    ask_all,
    lacks_transaction_coordinators,
    leader_of,
    transaction_coordinator,
)
from pylogbroker.web.router.values import NUMBER_MAX
from pylogbroker.web.rows import RowRange, slice_rows
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from pylogbroker.wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.list_transactions import ListTransactionsRequest
from pylogbroker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
_GONE: Final = (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
_DESCRIBED_AT_ONCE: Final = 500
"""Transactional ids of one request: to encode it must not take long."""
_FENCE_ATTEMPTS: Final = 50
_RETRY_SECONDS: Final = 0.1


State = Literal["open", "all"]
TransactionalId = Annotated[str, "transactional id"]


class TransactionRow(TypedDict):
    id: str
    state: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    began: int | None
    age_ms: int | None
    partition_count: int


class OpenTransactions(RowRange):
    search: str
    state: str
    longer_than: int | None
    is_complete: bool
    transactions: list[TransactionRow]


class TransactionParts(TransactionRow, RowRange):
    partitions: list[TopicPartition]


class FencedProducer(TypedDict):
    id: str
    producer_id: int
    producer_epoch: int


class ProducerRow(TypedDict):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    transaction_start: int | None


class ProducerList(TopicPartition, RowRange):
    producers: list[ProducerRow]


class AbortedProducer(TopicPartition):
    producer_id: int


async def transactions(
    visitor: Visitor,
    search: Search = "",
    state: State = "open",
    longer_than: Annotated[Offset | None, "only transactions that are open for more seconds"] = None,
    start: Start = 0,
    count: Count = ROWS_MAX,
) -> OpenTransactions:
    """Return transactional ids in order, from the `start`th on: those with an open transaction, or all."""
    listing = await list_transactions(visitor, search, state, longer_than)
    ordered = await visitor.services.runtime.slices.in_order(listing.transactions, key=lambda row: row.id)
    values, shown = slice_rows(start, count, ordered)
    described = await describe_transactions(visitor, shown)
    return {
        "search": search,
        "state": state,
        "longer_than": longer_than,
        **values,
        "is_complete": listing.is_complete and described.is_complete,
        "transactions": described.rows,
    }


@attrs.frozen
class ListedTransaction:
    id: str
    state: str
    producer_id: int
    coordinator: int


@attrs.frozen
class TransactionSearch:
    """Transactional ids of all coordinators; some are missing unless all have answered."""

    transactions: Sequence[ListedTransaction]
    is_complete: bool


@attrs.frozen
class DescribedTransactions:
    """Rows of transactional ids, without those that have gone; others are missing unless all have answered."""

    rows: list[TransactionRow]
    is_complete: bool


async def list_transactions(visitor: Visitor, search: str, state: State, longer_than: int | None) -> TransactionSearch:
    """Return the transactional ids that contain `search`, by their coordinators."""
    longer_than_ms = -1 if longer_than is None else min(longer_than * 1000, NUMBER_MAX)
    states = [*OPEN_STATES] if state == "open" else []
    answers = await ask_all(visitor, ListTransactionsRequest(states, [], longer_than_ms))
    matching: dict[str, ListedTransaction] = {}
    for broker_id, answer in answers.items():
        async for listed in visitor.services.runtime.slices.over(() if answer is None else answer.transaction_states):
            name = listed.transactional_id
            if search in name:
                matching[name] = ListedTransaction(name, listed.transaction_state, listed.producer_id, broker_id)
    is_answered = not any(answer is None or answer.error_code for answer in answers.values())
    is_complete = is_answered and not lacks_transaction_coordinators(visitor.services)
    return TransactionSearch([*matching.values()], is_complete)


async def describe_transactions(visitor: Visitor, listed: Sequence[ListedTransaction]) -> DescribedTransactions:
    """Return the rows of listed transactional ids in their order."""
    by_broker: dict[int, list[str]] = {}
    for transaction in listed:
        by_broker.setdefault(transaction.coordinator, []).append(transaction.id)
    rows: dict[str, TransactionRow] = {}
    is_complete = True
    parts = [
        (broker_id, names[start : start + _DESCRIBED_AT_ONCE])
        for broker_id, names in by_broker.items()
        for start in range(0, len(names), _DESCRIBED_AT_ONCE)
    ]
    for broker_id, names in parts:
        try:
            answer = await visitor.ask(DescribeTransactionsRequest(names), broker_id)
            states = rows_by_key(answer, "transaction_states", broker_id, names, attrgetter("transactional_id"))
        except KafkaError:
            is_complete = False
            continue
        async for state in visitor.services.runtime.slices.over(states.values()):
            if not state.error_code:
                rows[state.transactional_id] = _row(visitor, broker_id, state)
            is_complete &= state.error_code in _GONE
    return DescribedTransactions([rows[row.id] for row in listed if row.id in rows], is_complete)


def _row(visitor: Visitor, coordinator: int, state: TransactionState) -> TransactionRow:
    is_open = state.transaction_state in OPEN_STATES and state.transaction_start_time_ms >= 0
    began = state.transaction_start_time_ms
    return {
        "id": state.transactional_id,
        "state": state.transaction_state,
        "coordinator": coordinator,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "timeout_ms": state.transaction_timeout_ms,
        "began": began if is_open else None,
        "age_ms": max(0, visitor.services.runtime.now_ms() - began) if is_open else None,
        "partition_count": sum(len(topic.partitions) for topic in state.topics),
    }


async def transaction(
    visitor: Visitor, id: TransactionalId, start: Start = 0, count: Count = ROWS_MAX
) -> TransactionParts:
    """Return a transactional id, and the partitions of its transaction from the `start`th on."""
    row, keys = await transaction_with_partitions(visitor, id)
    values, shown = slice_rows(start, count, keys)
    return {**row, **values, "partitions": partition_rows(shown)}


async def transaction_with_partitions(visitor: Visitor, name: str) -> tuple[TransactionRow, list[Key]]:
    """Return a transactional id, and the partitions of its transaction; raise KafkaError."""
    coordinator = transaction_coordinator(visitor.services, name)
    state = await _described(visitor, coordinator, name)
    keys = ((topic.topic, index) for topic in state.topics for index in topic.partitions)
    return _row(visitor, coordinator, state), [key async for key in visitor.services.runtime.slices.over(keys)]


async def _described(visitor: Visitor, coordinator: int, name: str) -> TransactionState:
    """Return a transactional id as its coordinator describes it; raise KafkaError."""
    request = DescribeTransactionsRequest([name])
    state: TransactionState = await visitor.ask_one(request, "transaction_states", coordinator, transactional_id=name)
    raise_for(state.error_code)
    return state


def partition_rows(keys: Sequence[Key]) -> list[TopicPartition]:
    return [{"topic": topic, "partition": index} for topic, index in keys]


async def fence_producer(visitor: Visitor, id: TransactionalId) -> FencedProducer:
    """Shut out the producer of a transactional id, and abort its open transaction."""
    coordinator = transaction_coordinator(visitor.services, id)
    state = await _described(visitor, coordinator, id)
    for _ in range(_FENCE_ATTEMPTS):
        answer = await visitor.ask(InitProducerIdRequest(id, state.transaction_timeout_ms), coordinator)
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:  # then the coordinator still aborts the transaction
            break
        await deferLater(visitor.services.runtime.clock, _RETRY_SECONDS, lambda: None)
    raise_for(answer.error_code)
    return {"id": id, "producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


async def producers(
    visitor: Visitor, topic: Name, partition: Index = 0, start: Start = 0, count: Count = ROWS_MAX
) -> ProducerList:
    """Return the producers of a partition from the `start`th on, and the first offsets of open transactions."""
    values, shown = slice_rows(start, count, await active_producers(visitor, topic, partition))
    return {"topic": topic, "partition": partition, **values, "producers": producer_rows(shown)}


def producer_rows(producers: Sequence[ProducerState]) -> list[ProducerRow]:
    return [
        {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "last_sequence": producer.last_sequence,
            "last_timestamp": producer.last_timestamp,
            "transaction_start": producer.current_txn_start_offset if has_open_transaction(producer) else None,
        }
        for producer in producers
    ]


def has_open_transaction(producer: ProducerState) -> bool:
    return producer.current_txn_start_offset >= 0


async def active_producers(visitor: Visitor, topic: str, index: int) -> list[ProducerState]:
    """Return producers in order; those with an open transaction come first."""
    request = DescribeProducersRequest([TopicRequest(topic, [index])])
    leader = leader_of(visitor, topic, index)
    partition = await visitor.ask_one(request, "topics.partitions", leader, partition_index=index)
    raise_for(partition.error_code, partition.error_message)
    return await visitor.services.runtime.slices.in_order(
        partition.active_producers, key=lambda producer: (not has_open_transaction(producer), producer.producer_id)
    )


async def abort_transaction(
    visitor: Visitor, topic: Name, producer_id: Offset, partition: Index = 0
) -> AbortedProducer:
    """Write a marker that aborts a producer's transaction in one partition, which its coordinator has forgotten."""
    writers = [
        writer
        for writer in await active_producers(visitor, topic, partition)
        if writer.producer_id == producer_id and has_open_transaction(writer)
    ]
    if not writers:
        raise KafkaError(
            f"producer {producer_id} has no open transaction in {topic}-{partition}", ErrorCode.RESOURCE_NOT_FOUND
        )
    marker = WritableTxnMarker(
        producer_id,
        writers[0].producer_epoch,
        False,
        [WritableTxnMarkerTopic(topic, [partition])],
        max(writers[0].coordinator_epoch, 0),
    )
    result = await visitor.ask_one(
        WriteTxnMarkersRequest([marker]),
        "markers.topics.partitions",
        leader_of(visitor, topic, partition),
        partition_index=partition,
    )
    raise_for(result.error_code)
    return {"topic": topic, "partition": partition, "producer_id": producer_id}
