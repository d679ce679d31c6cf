"""Batches of aborted transactions, which consumers with `read_committed` must skip."""

from __future__ import annotations

from collections.abc import Iterable

from pylogbroker.records.log_entry import LogEntry


class AbortedTransactions:
    """Aborted transactions of a fetch response, matched against its batches in order.

    A transaction is open from its first offset to its producer's abort marker.
    """

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        """Take pairs of producer id and first offset."""
        self._coming = sorted(((first, producer_id) for producer_id, first in transactions), reverse=True)
        self._open: set[int] = set()

    def hides(self, entry: LogEntry) -> bool:
        """Return True if the next v2 batch belongs to an aborted transaction."""
        while self._coming and self._coming[-1][0] <= entry.last_offset:
            self._open.add(self._coming.pop()[1])
        if entry.producer_id not in self._open:
            return False
        if entry.is_control:
            marker = entry.marker
            if marker is not None and not marker.committed:
                self._open.discard(entry.producer_id)
        return entry.is_transactional
