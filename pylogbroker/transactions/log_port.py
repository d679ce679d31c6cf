"""The seams to whatever keeps the records of `__transaction_state`, gives out producer ids and writes markers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record
from pylogbroker.transactions.requests import TopicPartition

AppendCallback = Callable[[ErrorCode, int], None]
"""Called once per append with how it went and the time in ms."""

ProducerIdTaken = Callable[[ErrorCode, int, int], None]
"""Called once with how it went, the producer id (-1 if there was an error) and the time in ms."""

MarkersWritten = Callable[[Mapping[TopicPartition, ErrorCode], int], None]
"""Called once with how it went for each partition of the marker and the time in ms."""


@attrs.frozen
class TransactionMarker:
    """What ends a producer's transaction in these partitions: one control batch in each."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    partitions: tuple[TopicPartition, ...]


@attrs.frozen
class TransactionTimeout:
    """A transaction that is aborted because it was open for longer than its timeout."""

    transactional_id: str
    producer_id: int
    open_ms: int
    timeout_ms: int
    partitions: int  # how many it had


def ignore_timeout(found: TransactionTimeout) -> None:
    """For a coordinator whose time-outs nobody wants to know of."""


class TransactionLogPort(Protocol):
    """An append-only log per partition of `__transaction_state`, and the partitions that transactions write to.

    Each `done` is called at once or later. Errors are reported, never raised.
    """

    def append(self, partition: int, records: Sequence[Record], done: AppendCallback, on_disk: bool = False) -> None:
        """Append all of these records or none, and call `done` when they are as safe as the log's settings ask for, or
        with `on_disk` when a loss of power cannot take them any more. Appends to one partition are done in the order
        of the calls. The records' offsets are the store's to give."""

    def take_producer_id(self, done: ProducerIdTaken) -> None:
        """Give out a producer id that was never given out before."""

    def write_markers(self, marker: TransactionMarker, done: MarkersWritten) -> None:
        """Append the marker to each of its partitions and call `done` with the error of every one of them. A partition
        that does not exist has UNKNOWN_TOPIC_OR_PARTITION, and is not asked for again; others that failed are."""
