"""Transactions of all coordinators, and producers of a partition: list, describe, end those that hang."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Final, Literal, TypedDict

from twisted.internet.task import deferLater

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import raise_for
from pylogbroker.web.group_views import TopicPartition
from pylogbroker.web.parameters import ROWS_MAX, Count, Index, Name, Offset, Search, Start
from pylogbroker.web.responsible_brokers import ask_all, leader_of, transaction_coordinator
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

_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
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
    longer_than_ms = -1 if longer_than is None else min(longer_than * 1000, 2**63 - 1)
    slices = visitor.services.runtime.slices
    states = [*_OPEN] if state == "open" else []
    answers = await ask_all(visitor, ListTransactionsRequest(states, [], longer_than_ms))
    matching: dict[str, int] = {}
    for broker_id, answer in answers.items():
        async for listed in slices.over(() if answer is None else answer.transaction_states):
            if search in listed.transactional_id:
                matching[listed.transactional_id] = broker_id
    values, shown = slice_rows(start, count, await slices.in_order(list(matching.items())))
    return {
        "search": search,
        "state": state,
        "longer_than": longer_than,
        **values,
        "is_complete": not any(answer is None or answer.error_code for answer in answers.values()),
        "transactions": await _rows(visitor, shown),
    }


async def _rows(visitor: Visitor, shown: Sequence[tuple[str, int]]) -> list[TransactionRow]:
    """Return rows of transactional ids with their coordinators; those that have gone meanwhile are left out."""
    by_broker: dict[int, list[str]] = {}
    for name, broker_id in shown:
        by_broker.setdefault(broker_id, []).append(name)
    rows: dict[str, TransactionRow] = {}
    for broker_id, names in by_broker.items():
        with suppress(KafkaError):
            for state in (await visitor.ask(DescribeTransactionsRequest(names), broker_id)).transaction_states:
                if not state.error_code:
                    rows[state.transactional_id] = _row(visitor, broker_id, state)
    return [rows[name] for name, _ in shown if name in rows]


def _row(visitor: Visitor, coordinator: int, state: TransactionState) -> TransactionRow:
    is_open = state.transaction_state in _OPEN and state.transaction_start_time_ms >= 0
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
    coordinator = transaction_coordinator(visitor.services, id)
    [state] = (await visitor.ask(DescribeTransactionsRequest([id]), coordinator)).transaction_states
    raise_for(state.error_code)
    keys = ((topic.topic, index) for topic in state.topics for index in topic.partitions)
    values, shown = slice_rows(start, count, [key async for key in visitor.services.runtime.slices.over(keys)])
    partitions: list[TopicPartition] = [{"topic": topic, "partition": index} for topic, index in shown]
    return {**_row(visitor, coordinator, state), **values, "partitions": partitions}


async def fence_producer(visitor: Visitor, id: TransactionalId) -> FencedProducer:
    """Shut out the producer of a transactional id, and abort its open transaction."""
    coordinator = transaction_coordinator(visitor.services, id)
    [state] = (await visitor.ask(DescribeTransactionsRequest([id]), coordinator)).transaction_states
    raise_for(state.error_code)
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
    values, shown = slice_rows(start, count, await _producers(visitor, topic, partition))
    return {
        "topic": topic,
        "partition": partition,
        **values,
        "producers": [
            {
                "producer_id": writer.producer_id,
                "producer_epoch": writer.producer_epoch,
                "last_sequence": writer.last_sequence,
                "last_timestamp": writer.last_timestamp,
                "transaction_start": writer.current_txn_start_offset if writer.current_txn_start_offset >= 0 else None,
            }
            for writer in shown
        ],
    }


async def _producers(visitor: Visitor, topic: str, index: int) -> list[ProducerState]:
    """Return producers in order; those with an open transaction come first."""
    request = DescribeProducersRequest([TopicRequest(topic, [index])])
    answer = await visitor.ask(request, leader_of(visitor, topic, index))
    [partition] = answer.topics[0].partitions
    raise_for(partition.error_code, partition.error_message)
    return await visitor.services.runtime.slices.in_order(
        partition.active_producers, key=lambda writer: (writer.current_txn_start_offset < 0, writer.producer_id)
    )


async def abort_transaction(
    visitor: Visitor, topic: Name, producer_id: Offset, partition: Index = 0
) -> AbortedProducer:
    """Write a marker that aborts a producer's transaction in one partition, which its coordinator has forgotten."""
    writers = [
        writer
        for writer in await _producers(visitor, topic, partition)
        if writer.producer_id == producer_id and writer.current_txn_start_offset >= 0
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
    answer = await visitor.ask(WriteTxnMarkersRequest([marker]), leader_of(visitor, topic, partition))
    [result] = answer.markers[0].topics[0].partitions
    raise_for(result.error_code)
    return {"topic": topic, "partition": partition, "producer_id": producer_id}
