"""Transactions on the way through a log, from its begin: what of them the cleaner keeps.

| entry                                    | may go                                                   |
|------------------------------------------|----------------------------------------------------------|
| data of a transaction that was aborted   | at once                                                  |
| other data                               | as all records                                           |
| abort or commit, data seen before it     | no: readers and restarts need it                         |
| abort or commit, no data seen before it  | once its delete horizon, set when that is found, passed  |
| a marker that was emptied                | at once                                                  |
| any other control batch                  | no                                                       |

An aborted transaction whose marker is met after data of it were seen goes into the new transaction index.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pylogbroker.records import LogEntry
from pylogbroker.records.control import parse_marker
from pylogbroker.storage.log.transaction_index import AbortedTxn


@attrs.define
class _Open:
    """An aborted transaction between its first offset and its marker."""

    transaction: AbortedTxn
    seen: bool = False  # data of it


@attrs.define
class CleanedTransactions:
    """Is told of the entries of transactions in the order of the log."""

    _coming: list[AbortedTxn]  # the next one last
    _aborted: dict[int, _Open] = attrs.field(factory=dict)  # by producer id
    _committed: set[int] = attrs.field(factory=set)

    @classmethod
    def of(cls, aborted: Iterable[AbortedTxn]) -> CleanedTransactions:
        return cls(sorted(set(aborted), key=lambda each: each.first_offset, reverse=True))

    def data(self, producer_id: int, last_offset: int) -> bool:
        """Whether this batch of a transaction was aborted."""
        self._reach(last_offset)
        found = self._aborted.get(producer_id)
        if found is None or found.transaction.last_offset < last_offset:
            self._committed.add(producer_id)
            return False
        found.seen = True
        return True

    def control(self, entry: LogEntry) -> tuple[bool, AbortedTxn | None]:
        """Whether this control batch has served, and the aborted transaction that it ends and still stands for."""
        self._reach(entry.last_offset)
        if not entry.count:
            return True, None
        marker = parse_marker(entry)
        if marker is None:
            return False, None
        if marker.committed:
            seen = entry.producer_id in self._committed
            self._committed.discard(entry.producer_id)
            return not seen, None
        found = self._aborted.pop(entry.producer_id, None)
        return (False, found.transaction) if found is not None and found.seen else (True, None)

    def _reach(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            transaction = self._coming.pop()
            self._aborted[transaction.producer_id] = _Open(transaction)
