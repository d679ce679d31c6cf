"""Message formats v0, v1 and v2: records to bytes and back. No I/O.

>>> from pylogbroker.records import Codec, Record, build, entries
>>> batch = build([Record(0, 1500, b"key", b"value"), Record(1, 1501, None, b"")], codec=Codec.ZSTD)
>>> [entry] = entries(batch)
>>> entry.check()
>>> entry.count, entry.codec.name, entry.max_timestamp
(2, 'ZSTD', 1501)
>>> [record.value for record in entry.records()]
[b'value', b'']

Damaged bytes raise CorruptRecords. Records that the target cannot hold raise InvalidRecords.
"""

from pylogbroker.records.batch import HEADER_V2
from pylogbroker.records.builder import build
from pylogbroker.records.checksum import crc32c
from pylogbroker.records.control import Marker, end_marker
from pylogbroker.records.conversion import SizeBudget, down_convert, never, up_convert
from pylogbroker.records.conversion_listener import ConversionListener, ignore_conversion
from pylogbroker.records.log_entry import ENTRY_PREFIX, MAGIC_AT, LogEntry, complete_entries, entries, entry_size
from pylogbroker.records.model import NO_TIMESTAMP, Buffer, Codec, Header, Record, TimestampType
from pylogbroker.records.validate.append_rules import NO_BOUND, AppendRules
from pylogbroker.records.validate.batches import (
    AppendedEntry,
    PreparedRecords,
    convert,
    is_costly,
    prepare,
    prepare_run,
)
from pylogbroker.records.validate.record_errors import TooCostly
from pylogbroker.records.varint import decode_varint, encode_varint

__all__ = [
    "ENTRY_PREFIX",
    "HEADER_V2",
    "MAGIC_AT",
    "NO_BOUND",
    "NO_TIMESTAMP",
    "AppendRules",
    "AppendedEntry",
    "Buffer",
    "Codec",
    "ConversionListener",
    "Header",
    "LogEntry",
    "Marker",
    "PreparedRecords",
    "Record",
    "SizeBudget",
    "TimestampType",
    "TooCostly",
    "build",
    "complete_entries",
    "convert",
    "crc32c",
    "decode_varint",
    "down_convert",
    "encode_varint",
    "end_marker",
    "entries",
    "entry_size",
    "ignore_conversion",
    "is_costly",
    "never",
    "prepare",
    "prepare_run",
    "up_convert",
]
