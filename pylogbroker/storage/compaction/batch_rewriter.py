"""Writes batches with fewer or no records, and shorter messages of v0 and v1.

Records are copied, unless the batch gets a delete horizon: it replaces the first timestamp, so all timestamp deltas are
encoded again. Base offset, last offset delta and producer fields do not change.

Messages of v0 and v1 cannot be empty. If a segment's last one must stay, but is not the last of its key, it becomes a
tombstone. The later record, or its absence, says the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import numpy as np

from pylogbroker.records import NO_TIMESTAMP, LogEntry, Record, build
from pylogbroker.records.batch import CONTROL, DELETE_HORIZON, TIMESTAMP_TYPE, TRANSACTIONAL, seal
from pylogbroker.records.columnar.varints import Bytes, Flags, Ints, Words
from pylogbroker.records.compression import codec_of, compress
from pylogbroker.storage.compaction.blocks import Block
from pylogbroker.storage.compaction.record_columns import RecordColumns

_KEPT_WHEN_EMPTY: Final = TIMESTAMP_TYPE | TRANSACTIONAL | CONTROL


def emptied(entry: LogEntry) -> bytes:
    return _sealed(entry, entry.attributes & _KEPT_WHEN_EMPTY, NO_TIMESTAMP, entry.max_timestamp, 0, b"")


def rewritten(block: Block, rows: RecordColumns, keep: Flags, due: Flags, horizon: int) -> Iterator[tuple[int, bytes]]:
    """Yield index and new bytes of each batch; each must keep a record. Batches that are `due` get the horizon."""
    kept = np.flatnonzero(keep)
    if not len(kept):
        return
    batch = rows.batch[kept]
    borders = np.flatnonzero(batch[1:] != batch[:-1]) + 1
    firsts = np.concatenate((np.zeros(1, np.int64), borders))
    newest = block.first_timestamps[batch[firsts]] + np.maximum.reduceat(rows.timestamp_delta[kept], firsts)
    numbers = batch[firsts].tolist()
    bounds = [*firsts.tolist(), len(kept)]
    for slot, number in enumerate(numbers):
        chosen = kept[bounds[slot] : bounds[slot + 1]]
        entry = block.entry(number)
        first_timestamp, attributes = entry.first_timestamp, entry.attributes
        if due[number]:
            payload = _with_horizon(rows, chosen, first_timestamp - horizon)
            first_timestamp, attributes = horizon, attributes | DELETE_HORIZON
        else:
            payload = _copied(rows, chosen)
        max_timestamp = entry.max_timestamp if attributes & TIMESTAMP_TYPE else int(newest[slot])
        yield number, _sealed(entry, attributes, first_timestamp, max_timestamp, len(chosen), payload)


def _copied(rows: RecordColumns, chosen: Ints) -> bytes:
    """Copy neighbours together."""
    start, end = rows.start[chosen], rows.end[chosen]
    apart = np.flatnonzero(start[1:] != end[:-1])
    starts = [int(start[0]), *start[apart + 1].tolist()]
    ends = [*end[apart].tolist(), int(end[-1])]
    raw = rows.data.data
    return b"".join([raw[a:b] for a, b in zip(starts, ends, strict=True)])


def _with_horizon(rows: RecordColumns, chosen: Ints, shift: int) -> bytes:
    delta = rows.timestamp_delta[chosen] + shift
    rest, end = rows.offset_delta_at[chosen], rows.end[chosen]
    stamp, stamp_size = _encoded(delta)
    size, size_size = _encoded(1 + stamp_size + end - rest)
    head_size = size_size + 1 + stamp_size
    behind = np.cumsum(head_size)
    begin = behind - head_size
    heads = np.zeros(int(behind[-1]), np.uint8)
    _scatter(heads, begin, size, size_size)
    _scatter(heads, begin + size_size + 1, stamp, stamp_size)
    raw, new = rows.data.data, heads.data
    parts: list[memoryview] = []
    for a, b, c, d in zip(begin.tolist(), behind.tolist(), rest.tolist(), end.tolist(), strict=True):
        parts += (new[a:b], raw[c:d])
    return b"".join(parts)


def _encoded(values: Ints) -> tuple[Words, Ints]:
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    size = np.ones(len(values), np.int64)
    for bits in range(7, 64, 7):
        size += zigzag >> np.uint64(bits) != 0
    return zigzag, size


def _scatter(target: Bytes, at: Ints, zigzag: Words, size: Ints) -> None:
    for index in range(int(size.max())):
        some = np.flatnonzero(size > index)
        byte = (zigzag[some] >> np.uint64(7 * index)).astype(np.uint8) & 0x7F
        byte[size[some] > index + 1] |= 0x80
        target[at[some] + index] = byte


def _sealed(
    entry: LogEntry, attributes: int, first_timestamp: int, max_timestamp: int, count: int, payload: bytes
) -> bytes:
    fields = (
        entry.base_offset,
        entry.leader_epoch,
        attributes,
        entry.last_offset - entry.base_offset,
        first_timestamp,
        max_timestamp,
        entry.producer_id,
        entry.producer_epoch,
        entry.base_sequence,
        count,
    )
    return seal(fields, compress(codec_of(attributes), payload) if payload else payload)


def shortened(entry: LogEntry, records: Sequence[Record], keep: Sequence[bool], must_stay: bool) -> bytes | None:
    """Return the message with the kept records, if any. With `must_stay` its last offset does not change."""
    kept = [record for record, stays in zip(records, keep, strict=True) if stays]
    if must_stay and not keep[-1]:
        kept.append(attrs.evolve(records[-1], value=None))
    if not kept:
        return None
    return build(
        kept,
        magic=entry.magic,
        codec=entry.codec,
        base_offset=None,
        timestamp_type=entry.timestamp_type,
        append_time=entry.max_timestamp,
    )
