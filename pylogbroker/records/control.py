"""Control batches: the markers that end transactions, and the types of control records in KRaft's metadata log.

A marker is the only record of a transactional v2 batch, with producer id and epoch, but no sequence number:

    key    version int16 = 0 | type int16             0 abort, 1 commit
    value  version int16 = 0 | coordinator epoch int32

Control records of the metadata log have such keys, with types from 2 on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import attrs

from pylogbroker.errors import CorruptRecords, InvalidRecords
from pylogbroker.records.builder import build
from pylogbroker.records.model import Record

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = 2, 3, 4, 5, 6


@attrs.frozen
class Marker:
    committed: bool
    coordinator_epoch: int


def end_marker(committed: bool, coordinator_epoch: int, producer_id: int, producer_epoch: int, timestamp: int) -> bytes:
    key = _KEY.pack(0, _COMMIT if committed else _ABORT)
    return build(
        [Record(0, timestamp, key, _VALUE.pack(0, coordinator_epoch))],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def control_key(kind: int) -> bytes:
    """Return the key of a control record."""
    return _KEY.pack(0, kind)


def control_type(record: Record) -> int:
    """Return the type in the key of a control record; raise CorruptRecords."""
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptRecords(f"the control record at offset {record.offset} has no type")
    kind: int = _KEY.unpack_from(record.key)[1]
    return kind


def read_marker(read: Callable[[], Iterator[Record]]) -> Marker | None:
    """Return the marker of a control batch, whose records `read` decodes.

    Return None if they are damaged, compacted, or of another type.
    """
    try:
        record = next(read(), None)
        if record is None or record.key is None or record.value is None:
            return None
        version, kind = _KEY.unpack_from(record.key)
        if version < 0 or kind not in (_ABORT, _COMMIT):
            return None
        version, coordinator_epoch = _VALUE.unpack_from(record.value)
    except (struct.error, CorruptRecords, InvalidRecords):
        return None
    return Marker(kind == _COMMIT, coordinator_epoch) if version >= 0 else None
