"""Encoded records of one batch, which get their producer and sequence number when they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

import attrs

from pylogbroker.records.batch import TRANSACTIONAL, seal
from pylogbroker.records.columnar.encode import encode as encode_columns
from pylogbroker.records.log_entry import entries
from pylogbroker.records.model import Buffer, Codec, Header, Record

OVERHEAD: Final = 61  # bytes before a batch's records


@attrs.frozen
class Encoded:
    """Records of one batch, without its header."""

    records: Buffer
    count: int
    timestamp: int
    """Of the first record, to which the records refer."""

    codec: Codec
    max_timestamp: int = attrs.field(default=attrs.Factory(lambda self: self.timestamp, takes_self=True))

    @classmethod
    def of(
        cls,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[tuple[Header, ...]] | None = None,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
    ) -> Self:
        batch = encode_columns(keys, values, timestamps, headers, codec=codec, level=level)
        return cls(memoryview(batch)[OVERHEAD:], len(values), timestamps[0], codec, max(timestamps))

    def __len__(self) -> int:
        return OVERHEAD + len(self.records)

    def sealed(self, producer: tuple[int, int, int], *, transactional: bool = False) -> bytes:
        """Return the whole batch; `producer` is id, epoch and first sequence number."""
        attributes = self.codec | (TRANSACTIONAL if transactional else 0)
        last = self.count - 1
        times = (self.timestamp, self.max_timestamp)
        return seal((0, -1, attributes, last, *times, *producer, self.count), self.records)  # type: ignore[arg-type]

    def halves(self) -> tuple[Encoded, Encoded]:
        """Re-encode as two batches: slow, for a leader that rejects one."""
        [entry] = entries(self.sealed((-1, -1, -1)))
        records = list(entry.records())
        middle = len(records) // 2
        return self._of(records[:middle]), self._of(records[middle:])

    def _of(self, records: Sequence[Record]) -> Encoded:
        columns = ([getattr(record, name) for record in records] for name in ("key", "value", "timestamp", "headers"))
        return self.of(*columns, codec=self.codec)
