"""The seam to whatever keeps the records of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record

Stored = Callable[[ErrorCode, int], None]
"""Called once per append with how it went and the time in ms."""


class GroupStore(Protocol):
    """An append-only log per partition."""

    def append(self, partition: int, records: Sequence[Record], done: Stored) -> None:
        """Append all of these records or none, and call `done`, at once or later, when they are as safe as the log's
        settings ask for. Appends to one partition are done, and reported as done, in the order of the calls. The
        records' offsets are the store's to give. Errors are reported, never raised."""
