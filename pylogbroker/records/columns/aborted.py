"""Which batches a reader of committed records does not get to see: those of transactions that were aborted."""

from __future__ import annotations

from collections.abc import Iterable

from pylogbroker.records.entry import Entry


class AbortedTransactions:
    """What a broker says of a stretch of log, followed batch by batch.

    A transaction begins to count at its first offset and ends with its producer's marker.
    """

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        """Producer ids and first offsets."""
        self._coming = sorted(((first, producer_id) for producer_id, first in transactions), reverse=True)
        self._open: set[int] = set()

    def hides(self, entry: Entry) -> bool:
        """Whether the next v2 batch belongs to one of them."""
        while self._coming and self._coming[-1][0] <= entry.last_offset:
            self._open.add(self._coming.pop()[1])
        if entry.producer_id not in self._open:
            return False
        if entry.is_control:
            marker = entry.marker
            if marker is not None and not marker.committed:
                self._open.discard(entry.producer_id)
        return entry.is_transactional
