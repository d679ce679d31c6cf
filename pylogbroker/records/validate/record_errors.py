"""Errors of records that a topic rejects or that cannot be decoded.

A matching CRC proves that a batch arrived as sent. So damage inside it, or a size beyond the limit, is InvalidRecords,
not CorruptRecords.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords, PylogbrokerError, RejectionReason
from pylogbroker.records.batch import TIMESTAMP_TYPE
from pylogbroker.records.decompression_errors import Overflow
from pylogbroker.records.log_entry import LogEntry
from pylogbroker.records.model import NO_TIMESTAMP, Record, TimestampType
from pylogbroker.records.portable_forms import NotPortable
from pylogbroker.records.validate.append_rules import AppendRules

_RECORD_ERRORS_MAX: Final = 1000


class TooCostly(PylogbrokerError):
    """Validation takes too long here: run `convert` in a worker thread first."""


class NeedsRecompression(TooCostly):
    """Some consumers cannot read the batch as it is: `convert` encodes it again."""


def valid_records(entry: LogEntry, rules: AppendRules, now_ms: int) -> Iterator[Record]:
    """Yield the valid records, then raise InvalidRecords with the others."""
    faults: list[tuple[int, ErrorCode, str]] = []
    for index, record in enumerate(_decoded(entry, rules)):
        fault = _fault(record, entry, rules, now_ms)
        if fault is None:
            yield record
        else:
            faults.append((index, *fault))
            if len(faults) == _RECORD_ERRORS_MAX:
                break
    if faults:
        untimely = any(code is ErrorCode.INVALID_TIMESTAMP for _, code, _ in faults)
        without_key = sum(code is not ErrorCode.INVALID_TIMESTAMP for _, code, _ in faults)
        raise InvalidRecords(
            f"one or more records are not valid, the first because: {faults[0][2]}",
            ErrorCode.INVALID_TIMESTAMP if untimely else ErrorCode.INVALID_RECORD,
            tuple((index, message) for index, _, message in faults),
            RejectionReason.NO_KEY if without_key else None,
            without_key,
        )


def _decoded(entry: LogEntry, rules: AppendRules) -> Iterator[Record]:
    if entry.magic < 2:
        yield from _decoded_of_old(entry, rules)
        return
    as_created = attrs.evolve(entry, attributes=entry.attributes & ~TIMESTAMP_TYPE)
    with compression_errors(rules):
        records = as_created.records(inline_limit(rules))
    try:
        for offset, record in enumerate(records, entry.base_offset):
            if record.offset != offset:
                raise InvalidRecords(
                    f"a record with offset {record.offset} in the place of {offset}",
                    reason=RejectionReason.OFFSET_OR_SEQUENCE,
                )
            yield record
    except CorruptRecords as error:
        raise InvalidRecords(error.detail) from None


def _decoded_of_old(entry: LogEntry, rules: AppendRules) -> Iterator[Record]:
    try:
        yield from entry.records(inline_limit(rules))
    except Overflow as error:
        raise _overflow(error, rules) from None


def _fault(record: Record, entry: LogEntry, rules: AppendRules, now_ms: int) -> tuple[ErrorCode, str] | None:
    if rules.keys_required and record.key is None:
        return ErrorCode.INVALID_RECORD, "a record of a compacted topic needs a key"
    if rules.timestamp_type is TimestampType.CREATE_TIME and record.timestamp != NO_TIMESTAMP:
        earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
        if not earliest <= record.timestamp <= latest:
            return ErrorCode.INVALID_TIMESTAMP, f"timestamp {record.timestamp} is outside of {earliest} to {latest}"
    elif entry.timestamp_type:
        return ErrorCode.INVALID_TIMESTAMP, "producers do not set timestamp type LogAppendTime"
    return None


def inline_limit(rules: AppendRules) -> int:
    return (
        min(rules.inline_bytes_max, rules.decompressed_bytes_max) if rules.magic == 2 else rules.decompressed_bytes_max
    )


def _overflow(error: Overflow, rules: AppendRules) -> PylogbrokerError:
    return (
        TooCostly(error.detail) if inline_limit(rules) < rules.decompressed_bytes_max else InvalidRecords(error.detail)
    )


@contextmanager
def compression_errors(rules: AppendRules) -> Iterator[None]:
    """Raise InvalidRecords for damaged or excessive data of a v2 batch, NeedsRecompression for an unusual form."""
    try:
        yield
    except NotPortable as error:
        raise NeedsRecompression(str(error)) from None
    except Overflow as error:
        raise _overflow(error, rules) from None
    except CorruptRecords as error:
        raise InvalidRecords(error.detail, ErrorCode.UNKNOWN_SERVER_ERROR) from None
