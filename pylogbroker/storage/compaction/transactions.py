"""Decides which parts of transactions the cleaner keeps.

| batch                                    | may be dropped                                           |
|------------------------------------------|----------------------------------------------------------|
| data of an aborted transaction           | at once                                                  |
| other data                               | like all records                                         |
| abort or commit, data seen before it     | no: readers and restarts need it                         |
| abort or commit, no data seen before it  | when its delete horizon, set by the first such pass, passed |
| marker without records                   | at once                                                  |
| other control batch                      | no                                                       |

An aborted transaction with data before its marker goes into the new index.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pylogbroker.records import LogEntry
from pylogbroker.storage.log.transaction_index import AbortedTxn


@attrs.define
class _Open:
    """Aborted transaction before its marker."""

    transaction: AbortedTxn
    seen: bool = False  # whether its data was seen


@attrs.define
class CleanedTransactions:
    """Call it in the order of the log."""

    _coming: list[AbortedTxn]  # not begun yet, the next one last
    _aborted: dict[int, _Open] = attrs.field(factory=dict)  # by producer id
    _committed: set[int] = attrs.field(factory=set)

    @classmethod
    def of(cls, aborted: Iterable[AbortedTxn]) -> CleanedTransactions:
        return cls(sorted(set(aborted), key=lambda transaction: transaction.first_offset, reverse=True))

    def data(self, producer_id: int, last_offset: int) -> bool:
        self._reach(last_offset)
        ongoing = self._aborted.get(producer_id)
        if ongoing is None or ongoing.transaction.last_offset < last_offset:
            self._committed.add(producer_id)
            return False
        ongoing.seen = True
        return True

    def control(self, entry: LogEntry) -> tuple[bool, AbortedTxn | None]:
        """Return whether this control batch may be dropped, and the aborted transaction that it still ends."""
        self._reach(entry.last_offset)
        if not entry.count:
            return True, None
        marker = entry.marker
        if marker is None:
            return False, None
        if marker.committed:
            seen = entry.producer_id in self._committed
            self._committed.discard(entry.producer_id)
            return not seen, None
        ongoing = self._aborted.pop(entry.producer_id, None)
        return (False, ongoing.transaction) if ongoing is not None and ongoing.seen else (True, None)

    def _reach(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            transaction = self._coming.pop()
            self._aborted[transaction.producer_id] = _Open(transaction)
