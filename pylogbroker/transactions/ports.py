"""Port of the transaction coordinator: producer ids and markers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.transactions.metadata import TRANSACTIONS_V2

ProducerIdCallback = Callable[[ErrorCode, int, int], None]
"""Called with the error, the producer id (-1 after an error) and the time in ms."""

MarkersCallback = Callable[[Mapping[TopicPartition, ErrorCode], int], None]
"""Called with the error of each partition and the time in ms."""


@attrs.frozen
class TransactionMarker:
    """Ends a producer's transaction by a control batch in each partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int = 0
    """From 2 on, partitions reject the marker unless its epoch is above the producer's (KIP-1228)."""

    def is_before(self, epoch: int) -> bool:
        """Return whether this ends a transaction before that of an epoch: each has an epoch of its own."""
        return self.transaction_version >= TRANSACTIONS_V2 and self.producer_epoch <= epoch


class TransactionPort(Protocol):
    """Calls each `done` once, at once or later, also for errors; never raises."""

    @property
    def transaction_version(self) -> int:
        """Finalized level of transaction.version: version 1 of records from 1 on, transactions v2 from 2 on."""

    def allocate_producer_id(self, done: ProducerIdCallback) -> None:
        """Allocate an unused producer id."""

    def write_markers(self, marker: TransactionMarker, done: MarkersCallback) -> None:
        """Append the marker to its partitions; UNKNOWN_TOPIC_OR_PARTITION for missing ones."""
