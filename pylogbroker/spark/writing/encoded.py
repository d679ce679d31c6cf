"""Encoded records of one batch, which get their producer and sequence number when they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from pylogbroker.records.batch import TRANSACTIONAL, seal
from pylogbroker.records.columnar.encode import encode as encode_columns
from pylogbroker.records.log_entry import entries
from pylogbroker.records.model import Buffer, Codec, Record

OVERHEAD: Final = 61  # bytes before a batch's records


@attrs.frozen
class Encoded:
    """Records of one batch, without its header."""

    records: Buffer
    count: int
    timestamp: int
    codec: Codec

    def __len__(self) -> int:
        return OVERHEAD + len(self.records)

    def sealed(self, producer: tuple[int, int, int], *, transactional: bool = False) -> bytes:
        """Return the whole batch; `producer` is id, epoch and first sequence number."""
        attributes = self.codec | (TRANSACTIONAL if transactional else 0)
        last = self.count - 1
        return seal((0, -1, attributes, last, self.timestamp, self.timestamp, *producer, self.count), self.records)  # type: ignore[arg-type]

    def halves(self) -> tuple[Encoded, Encoded]:
        """Re-encode as two batches: slow, for a leader that rejects one."""
        [entry] = entries(self.sealed((-1, -1, -1)))
        records = list(entry.records())
        middle = len(records) // 2
        return self._of(records[:middle]), self._of(records[middle:])

    def _of(self, records: Sequence[Record]) -> Encoded:
        columns = ([getattr(record, name) for record in records] for name in ("key", "value", "timestamp", "headers"))
        batch = encode_columns(*columns, codec=self.codec)
        return attrs.evolve(self, records=batch[OVERHEAD:], count=len(records))
