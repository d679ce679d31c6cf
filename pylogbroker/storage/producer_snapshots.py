"""Snapshots of producer states, in Kafka's layout, so that a restart need not read the whole log.

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
38  8  first offset       of the transaction that is open; -1 if there is none
```

`<offset>.snapshot` tells the states as of that offset.  Of the five batches that are remembered only the last is kept.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from struct import Struct
from typing import Final

from pylogbroker.records import crc32c
from pylogbroker.storage.checkpoints import DamagedFile
from pylogbroker.storage.files import opened, read_file, write_at
from pylogbroker.storage.producers import NONE, ProducerState, WrittenBatch

_HEADER: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
_VERSION: Final = 1


def encode(states: Iterable[ProducerState]) -> bytes:
    """The bytes of a snapshot."""
    entries = [_ENTRY.pack(*_fields(state)) for state in states]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerState]:
    """The states of a snapshot; DamagedFile if it is not a whole one."""
    try:
        version, crc = _HEADER.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEADER.size)
    except struct.error:
        raise DamagedFile(f"a producer snapshot of {len(data)} bytes") from None
    body = memoryview(data)[_HEADER.size :]
    if version != _VERSION or crc32c(body) != crc or count * _ENTRY.size != len(body) - _COUNT.size:
        raise DamagedFile("a producer snapshot whose version, checksum or size is wrong")
    return [_state(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def write(path: str, states: Iterable[ProducerState]) -> None:
    """Write a snapshot; it is on disk only once it is synced, and its checksum tells if it never got there."""
    data = encode(states)
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
        write_at(fd, [data], 0, len(data))


def read(path: str) -> list[ProducerState]:
    """The states of a snapshot file; DamagedFile if it is not a whole one."""
    return decode(read_file(path) or b"")


def _fields(state: ProducerState) -> tuple[int, ...]:
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
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction_start: int,
) -> ProducerState:
    batches: tuple[WrittenBatch, ...] = ()
    if last_offset >= 0:
        first_sequence = (last_sequence - delta) & 0x7FFFFFFF
        batches = (WrittenBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp),)
    return ProducerState(producer_id, epoch, batches, timestamp, coordinator_epoch, transaction_start)
