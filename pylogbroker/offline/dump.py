"""Contents of a broker's files as rows: segments, indexes, snapshots, checkpoints.

Files of Kafka have the same forms. Records of KRaft's metadata log, by its directory or the name of a snapshot, are
decoded.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from math import isfinite
from typing import Any, Final
from uuid import UUID

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.java.text import is_digits
from pylogbroker.offline.stopped_broker import OfflineError
from pylogbroker.offline.verification import OFFSET_ENTRY, TIME_ENTRY, mapped
from pylogbroker.records import LogEntry, Record, control, entries
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import read_epochs, read_offsets
from pylogbroker.storage.log import producer_snapshots
from pylogbroker.storage.log.partition_metadata import id_text
from pylogbroker.storage.log.transaction_index import TransactionIndex
from pylogbroker.storage.metadata.directory import QUORUM_STATE, SNAPSHOT_SUFFIX
from pylogbroker.storage.metadata.segments import SUFFIX
from pylogbroker.wire.metadata_records import decode_record, record_version

Row = dict[str, Any]

_CONTROLS: Final = {
    control.LEADER_CHANGE: "LeaderChange",
    control.SNAPSHOT_HEADER: "SnapshotHeader",
    control.SNAPSHOT_FOOTER: "SnapshotFooter",
    control.KRAFT_VERSION: "KRaftVersion",
    control.KRAFT_VOTERS: "KRaftVoters",
}
_OFFSETS = (names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS, names.CLEANER_CHECKPOINT)
_OFFSET_MAX = 2**63 - 1


def dump(path: str, with_records: bool = False) -> Iterator[Row]:
    """Yield the rows of a file, and those of records instead of batches `with_records`.

    Raise OfflineError for a file of another kind, and StorageFailure or CorruptRecords for a damaged one.
    """
    name = os.path.basename(path)
    if name in _OFFSETS:
        for (topic, partition), offset in (read_offsets(path) or {}).items():
            yield {"topic": topic, "partition": partition, "offset": offset}
        return
    if name == names.LEADER_EPOCHS:
        for epoch, start in read_epochs(path) or ():
            yield {"epoch": epoch, "start_offset": start}
        return
    stem, suffix = os.path.splitext(name)
    if suffix == SNAPSHOT_SUFFIX or (suffix == SUFFIX and _is_of_metadata(path)):
        yield from _metadata(path, with_records)
        return
    if name == QUORUM_STATE:
        yield from _quorum_state(path)
        return
    if not is_digits(stem):
        raise OfflineError(f"{path}: expected a segment, an index, a snapshot or a checkpoint, by its own name")
    yield from _of_segment(path, int(stem), suffix, with_records)


def _of_segment(path: str, base: int, suffix: str, with_records: bool) -> Iterator[Row]:
    if suffix in (names.RECORDS, SUFFIX):
        yield from _batches(path, with_records)
    elif suffix == names.OFFSET_INDEX:
        for relative, position in OFFSET_ENTRY.iter_unpack(_entries(path, OFFSET_ENTRY.size)):
            yield {"offset": base + relative, "position": position}
    elif suffix == names.TIME_INDEX:
        for timestamp, relative in TIME_ENTRY.iter_unpack(_entries(path, TIME_ENTRY.size)):
            yield {"timestamp": timestamp, "offset": base + relative}
    elif suffix == names.TRANSACTION_INDEX:
        index = TransactionIndex(path, os.path.getsize(path))
        for aborted in index.overlapping(0, _OFFSET_MAX)[0]:
            yield aborted._asdict()
    elif suffix == names.SNAPSHOT:
        for state in producer_snapshots.read(path):
            batches = [batch._asdict() for batch in state.batches]
            yield {**attrs.asdict(state, recurse=False), "batches": batches}
    else:
        raise OfflineError(f"{path}: files of the kind {suffix} have no rows")


def _is_of_metadata(path: str) -> bool:
    return os.path.basename(os.path.dirname(os.path.abspath(path))) == names.METADATA_DIRECTORY


def _metadata(path: str, with_records: bool) -> Iterator[Row]:
    """Yield rows of a segment or a snapshot of KRaft's metadata log."""
    if not with_records:
        yield from _batches(path, with_records)
        return
    with mapped(path) as data:
        for entry in entries(data, partial=True):
            for record in entry.records():
                yield _control_row(record) if entry.is_control else _metadata_row(record)
            del entry


def _control_row(record: Record) -> Row:
    kind = control.control_type(record)
    return _row(record, _CONTROLS.get(kind, f"control {kind}"), None, None)


def _metadata_row(record: Record) -> Row:
    value = bytes(record.value or b"")
    decoded = decode_record(value)
    return _row(record, type(decoded).__name__, record_version(value), _json(decoded))


def _row(record: Record, kind: str, version: int | None, data: Any) -> Row:
    return {"offset": record.offset, "timestamp": record.timestamp, "type": kind, "version": version, "data": data}


def _json(value: Any) -> Any:
    """Return a record's fields as values of JSON: ids in Kafka's form, bytes as base64."""
    if isinstance(value, UUID):
        return id_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, float) and not isfinite(value):  # JSON has no such number
        return str(value)
    if isinstance(value, list):
        return [_json(element) for element in value]
    if attrs.has(type(value)):
        return {field.name: _json(getattr(value, field.name)) for field in attrs.fields(type(value))}
    return value


def _quorum_state(path: str) -> Iterator[Row]:
    with open(path, "rb") as file:
        data = file.read()
    try:
        state = json.loads(data)
        row = {"leader": state["leaderId"], "leader_epoch": state["leaderEpoch"], "voted": state["votedId"]}
    except (ValueError, LookupError, TypeError) as error:
        raise CorruptRecords(f"{path} is not complete: {error!r}") from None
    yield row


def _entries(path: str, size: int) -> bytes:
    with open(path, "rb") as file:
        data = file.read()
    return data[: len(data) // size * size]


def _batches(path: str, with_records: bool) -> Iterator[Row]:
    position = 0
    with mapped(path) as data:
        for entry in entries(data, partial=True):
            if with_records:
                yield from map(_record, entry.records())
            else:
                yield _batch(entry, position)
            position += entry.size
            del entry


def _batch(entry: LogEntry, position: int) -> Row:
    try:
        entry.check()
        is_valid = True
    except CorruptRecords:
        is_valid = False
    return {
        "base_offset": entry.base_offset,
        "last_offset": entry.last_offset,
        "count": entry.count,
        "position": position,
        "size": entry.size,
        "magic": entry.magic,
        "compression": entry.codec.name.lower(),
        "max_timestamp": entry.max_timestamp,
        "leader_epoch": entry.leader_epoch,
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "base_sequence": entry.base_sequence,
        "transactional": entry.is_transactional,
        "control": entry.is_control,
        "valid_crc": is_valid,
    }


def _record(record: Record) -> Row:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else bytes(data).decode("utf-8", "backslashreplace")
