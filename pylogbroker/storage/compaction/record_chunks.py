"""Records of a block in chunks of about 65,000, in order: offsets and keys, for all formats.

Payloads of v2 are read in place; compressed ones are copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.records import HEADER_V2, Record
from pylogbroker.records.columnar.varints import Bytes, Flags, Ints
from pylogbroker.records.compression import codec_of, decompress
from pylogbroker.storage.compaction.blocks import PADDING, Block, DamagedEntry
from pylogbroker.storage.compaction.key_hash import keys_of
from pylogbroker.storage.compaction.record_columns import Keys, RecordColumns, read_columns, read_keys

_RECORDS_MAX: Final = 1 << 16  # of a chunk, unless a single batch has more
_BYTES_MAX: Final = 8 << 20  # of decompressed payloads, likewise
_CODEC: Final = 0x07


class BatchChunk:
    def __init__(self, block: Block, numbers: Ints, rows: RecordColumns) -> None:
        self.numbers = numbers
        self.rows = rows
        self.batch = rows.batch
        self.offsets: Ints = block.base_offsets[rows.batch] + rows.offset_delta

    @cached_property
    def keys(self) -> Keys:
        return read_keys(self.rows)


class MessageChunk:
    def __init__(self, numbers: Ints, records: list[list[Record]]) -> None:
        self.numbers = numbers
        self.records = records
        self.batch: Ints = np.repeat(numbers, [len(batch_records) for batch_records in records])
        self.offsets: Ints = np.array(
            [record.offset for batch_records in records for record in batch_records], np.int64
        )

    @cached_property
    def keys(self) -> Keys:
        return keys_of([record.key for batch_records in self.records for record in batch_records])


RecordChunk: TypeAlias = BatchChunk | MessageChunk


def record_chunks(block: Block, flags: Flags) -> Iterator[RecordChunk]:
    """Yield the records of flagged batches; raise DamagedEntry for a damaged one."""
    chosen = np.flatnonzero(flags)
    if not len(chosen):
        return
    is_old = block.magics[chosen] < 2
    for run in np.split(chosen, np.flatnonzero(is_old[1:] != is_old[:-1]) + 1):
        if block.magics[run[0]] < 2:
            yield from (MessageChunk(part, _messages(block, part)) for part in _parts(np.ones_like(run), run))
        elif (block.attributes[run] & _CODEC).any():
            yield from _compressed(block, run)
        else:
            for part in _parts(block.counts[run], run):
                begins = block.starts[part] + HEADER_V2.size
                yield _batches(block, part, block.data, begins, block.starts[part] + block.sizes[part])


def _parts(counts: Ints, numbers: Ints) -> list[Ints]:
    shares = np.cumsum(counts) // _RECORDS_MAX
    return np.split(numbers, np.flatnonzero(shares[1:] != shares[:-1]) + 1)


def _batches(block: Block, numbers: Ints, data: Bytes, begins: Ints, ends: Ints) -> BatchChunk:
    return BatchChunk(block, numbers, read_columns(data, numbers, begins, ends, block.counts[numbers]))


def _compressed(block: Block, numbers: Ints) -> Iterator[BatchChunk]:
    first, size, records = 0, 0, 0
    payloads: list[bytes | memoryview] = []
    for behind, number in enumerate(numbers.tolist(), 1):
        payloads.append(_payload(block, number))
        size += len(payloads[-1])
        records += int(block.counts[number])
        if size >= _BYTES_MAX or records >= _RECORDS_MAX or behind == len(numbers):
            sizes = np.array([len(payload) for payload in payloads], np.int64)
            data = np.frombuffer(b"".join((*payloads, bytes(PADDING))), np.uint8)
            ends = np.cumsum(sizes)
            yield _batches(block, numbers[first:behind], data, ends - sizes, ends)
            first, size, records = behind, 0, 0
            payloads.clear()


def _payload(block: Block, number: int) -> bytes | memoryview:
    payload = block.raw(number, number + 1)[HEADER_V2.size :]
    attributes = int(block.attributes[number])
    if not attributes & _CODEC or not block.counts[number]:
        return payload
    try:
        return decompress(codec_of(attributes), payload)
    except (CorruptRecords, InvalidRecords) as error:
        raise DamagedEntry(number, error.detail) from error


def _messages(block: Block, numbers: Ints) -> list[list[Record]]:
    records = []
    for number in numbers.tolist():
        try:
            records.append(list(block.entry(number).records()))
        except (CorruptRecords, InvalidRecords) as error:
            raise DamagedEntry(number, error.detail) from error
    return records
