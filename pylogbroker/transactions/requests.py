"""Requests and results, for all protocol versions."""

from __future__ import annotations

import attrs

from pylogbroker.coordinators import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from pylogbroker.errors import ErrorCode

NO_TIME = -1


@attrs.frozen
class InitProducerId:
    """A producer that recovers sends its id and epoch."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@attrs.frozen
class InitResult:
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@attrs.frozen
class EndTransaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


@attrs.frozen
class EndResult:
    """The pair is that of the producer's next transaction."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@attrs.frozen
class TransactionDescription:
    """`start_ms` is of the present or last transaction, -1 without any."""

    error: ErrorCode
    transactional_id: str
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: tuple[TopicPartition, ...] = ()


@attrs.frozen
class TransactionOverview:
    transactional_id: str
    producer_id: int
    state: str


@attrs.frozen
class TransactionList:
    """`unknown_states` are requested, but do not exist."""

    error: ErrorCode
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[TransactionOverview, ...] = ()
