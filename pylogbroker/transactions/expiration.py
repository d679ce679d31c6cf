"""Forgetting transactional ids that were not used for long: a sweep of every partition, and tombstones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import attrs

from pylogbroker.coordinators import Timers
from pylogbroker.transactions.record_writer import TransactionRecordWriter
from pylogbroker.transactions.settings import TransactionSettings
from pylogbroker.transactions.states import IDLE
from pylogbroker.transactions.transaction import Shard, Transaction

_APPEND_BYTES_MAX = 256 * 1024  # of transactional ids in one append, well below a batch's limit


@attrs.define(eq=False)
class Expiration:
    """Looks for transactional ids to forget, at the settings' interval."""

    _settings: TransactionSettings
    _timers: Timers
    _writer: TransactionRecordWriter

    def begin(self, shard: Shard, now_ms: int, position: float) -> None:
        """Sweep a partition from now on; `position` from 0 to 1 is where in the interval, since not all go at once."""
        due = now_ms + max(int(self._settings.expiration_interval_ms * position), 1)
        shard.sweep = self._timers.start(due, partial(self._sweep, shard))

    def _sweep(self, shard: Shard, now_ms: int) -> None:
        expired = [each for each in shard.transactions.values() if self._is_expired(each, now_ms)]
        for some in _in_appends(expired):
            self._writer.forget(shard, some, now_ms, _remove)
        shard.sweep = self._timers.start(now_ms + self._settings.expiration_interval_ms, partial(self._sweep, shard))

    def _is_expired(self, transaction: Transaction, now_ms: int) -> bool:
        metadata = transaction.metadata
        unused_since = now_ms - self._settings.expiration_ms
        return transaction.pending is None and metadata.state in IDLE and metadata.updated_ms <= unused_since


def _in_appends(transactions: Iterable[Transaction]) -> Iterator[list[Transaction]]:
    some: list[Transaction] = []
    size = 0
    for transaction in transactions:
        some.append(transaction)
        size += len(transaction.transactional_id)
        if size > _APPEND_BYTES_MAX:
            yield some
            some, size = [], 0
    if some:
        yield some


def _remove(transaction: Transaction) -> None:
    transaction.stop_timers()
    del transaction.shard.transactions[transaction.transactional_id]
