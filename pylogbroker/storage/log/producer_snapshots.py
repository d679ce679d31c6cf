"""Snapshots of producer states, in Kafka's layout, to save restarts from reading whole logs.

```
 0  2  version            1
 2  4  CRC-32C            of all that follows
 6  4  number of entries  then, for each producer, 46 bytes:

 0  8  producer id
 8  2  epoch
10  4  last sequence
14  8  last offset        of the producer's last batch; -1 if there is none
22  4  offset delta       last minus first offset of that batch
26  8  timestamp
34  4  coordinator epoch
38  8  first offset       of the open transaction; -1 if there is none
```

Kafka ignores what follows: earlier batches. After a restart, producers repeat all batches in flight, and each must be
recognized as a duplicate.

```
 0  4  number of batches  then, for each, oldest first, 40 bytes:

 0  8  producer id
 8  4  first sequence
12  4  last sequence
16  8  first offset
24  8  last offset
32  8  timestamp
```
"""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from collections.abc import Iterable
from struct import Struct
from typing import Final

from pylogbroker.records import crc32c
from pylogbroker.storage.checkpoints import DamagedFile
from pylogbroker.storage.files import opened, read_file, write_at
from pylogbroker.storage.log.producer_states import NONE, ProducerStateEntry, WrittenBatch

_HEADER: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
_OLDER: Final = Struct(">qiiqqq")
_VERSION: Final = 1


def encode(states: Iterable[ProducerStateEntry]) -> bytes:
    entries = list(states)
    older = [_OLDER.pack(state.producer_id, *batch) for state in entries for batch in state.batches[:-1]]
    body = _table([_ENTRY.pack(*_fields(state)) for state in entries]) + (_table(older) if older else b"")
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerStateEntry]:
    """Raise DamagedFile for a damaged or incomplete snapshot."""
    if data == _WITHOUT_PRODUCERS:  # as most are
        return []
    body = memoryview(data)[_HEADER.size :]
    try:
        version, crc = _HEADER.unpack_from(data)
        if version != _VERSION or crc32c(body) != crc:
            raise DamagedFile("a producer snapshot with a wrong version or checksum")
        entries, rest = _rows(body, _ENTRY)
        older, rest = _rows(rest, _OLDER) if rest else ([], rest)
    except struct.error:
        raise DamagedFile(f"an incomplete producer snapshot of {len(data)} bytes") from None
    if rest:
        raise DamagedFile(f"a producer snapshot with {len(rest)} bytes too many")
    batches = defaultdict(list)
    for producer_id, *fields in older:
        batches[producer_id].append(WrittenBatch(*fields))
    return [_state(batches[fields[0]], *fields) for fields in entries]


def write(path: str, states: Iterable[ProducerStateEntry]) -> None:
    """Write without a sync: the checksum shows a torn snapshot."""
    data = encode(states)
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
        write_at(fd, [data], 0, len(data))


def read(path: str) -> list[ProducerStateEntry]:
    return decode(read_file(path) or b"")


def _table(rows: list[bytes]) -> bytes:
    return _COUNT.pack(len(rows)) + b"".join(rows)


def _rows(body: memoryview, row: Struct) -> tuple[list[tuple[int, ...]], memoryview]:
    (count,) = _COUNT.unpack_from(body)
    end = _COUNT.size + count * row.size
    if not _COUNT.size <= end <= len(body):
        raise struct.error
    return list(row.iter_unpack(body[_COUNT.size : end])), body[end:]


def _fields(state: ProducerStateEntry) -> tuple[int, ...]:
    if state.batches:
        batch = state.batches[-1]
        last = batch.last_sequence, batch.last_offset, batch.last_offset - batch.first_offset
    else:
        last = NONE, NONE, 0
    return (
        state.producer_id,
        state.epoch,
        *last,
        state.last_timestamp,
        state.coordinator_epoch,
        state.transaction_start,
    )


def _state(
    older: Iterable[WrittenBatch],
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction_start: int,
) -> ProducerStateEntry:
    batches: tuple[WrittenBatch, ...] = ()
    if last_offset >= 0:
        first_sequence = (last_sequence - delta) & 0x7FFFFFFF
        last = WrittenBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
        batches = (*older, last)
    return ProducerStateEntry(producer_id, epoch, batches, timestamp, coordinator_epoch, transaction_start)


_WITHOUT_PRODUCERS: Final = encode(())
