"""Port of a coordinator for appends to its topic's partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record

TopicPartition = tuple[str, int]
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1

AppendCallback = Callable[[ErrorCode, int], None]
"""Called once per append with its error and the time in ms."""


@attrs.frozen
class ProducerIdAndEpoch:
    """Producer of an append in an open transaction."""

    producer_id: int
    epoch: int


class LogPort(Protocol):
    def append(
        self,
        partition: int,
        records: Collection[Record],
        done: AppendCallback,
        producer: ProducerIdAndEpoch | None = None,
        on_disk: bool = False,
    ) -> None:
        """Append all records or none, and call `done`, at once or later.

        `done` is called when the records are as safe as the log's settings demand, with `on_disk` when they are synced.
        Appends to a partition and their `done` calls are in order, but one that fails may be done before earlier ones.
        A worker thread may iterate over `records`.

        Errors are passed to `done`, never raised: INVALID_PRODUCER_EPOCH if the log has a newer epoch of `producer`,
        MESSAGE_TOO_LARGE if the records cannot be encoded.
        """

    def append_unreplicated(self, partition: int, records: Collection[Record]) -> None:
        """Append as with acks=0: also while too few replicas are in sync. A failure is logged."""
