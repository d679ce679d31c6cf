"""The seam to whatever keeps the records of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record

AppendCallback = Callable[[ErrorCode, int], None]
"""Called once per append with how it went and the time in ms."""


@attrs.frozen
class ProducerIdAndEpoch:
    """A transactional producer: records that are its are part of the transaction that it has open."""

    producer_id: int
    epoch: int


class GroupLogPort(Protocol):
    """An append-only log per partition."""

    def append(
        self,
        partition: int,
        records: Collection[Record],
        done: AppendCallback,
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Append all of these records or none, and call `done`, at once or later, when they are as safe as the log's
        settings ask for. Appends to one partition are done, and reported as done, in the order of the calls. The
        records' offsets are the store's to give. With a producer they are part of its transaction, and
        INVALID_PRODUCER_EPOCH if the log knows a younger epoch of it. Errors are reported, never raised. Records that
        cannot be encoded, which only a long collection may hold, are MESSAGE_TOO_LARGE."""
