"""What is asked of the coordinator and what it answers, free of any wire version."""

from __future__ import annotations

import attrs

from pylogbroker.coordinators import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from pylogbroker.errors import ErrorCode

NO_TIME = -1


@attrs.frozen
class InitProducerId:
    """InitProducerId of a producer with a transactional id. One that recovers gives the id and epoch that it has."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@attrs.frozen
class InitResult:
    """The answer to it: the id and epoch that the producer has from now on."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@attrs.frozen
class TransactionDescription:
    """What DescribeTransactions tells of a transactional id. `start_ms` is that of the present or the
    last transaction, -1 if the producer has had none yet."""

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
    """What ListTransactions tells of a transactional id."""

    transactional_id: str
    producer_id: int
    state: str


@attrs.frozen
class TransactionList:
    """The answer to ListTransactions; `unknown_states` are the asked-for states that there are none of."""

    error: ErrorCode
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[TransactionOverview, ...] = ()
