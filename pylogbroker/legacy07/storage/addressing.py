"""Byte addressing of Kafka 0.7's message format.

A log takes sets of 0.7 messages, and records from Kafka's clients if the format can express them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords
from pylogbroker.legacy07.records.message_sets import (
    check_legacy07,
    from_legacy07,
    is_costly_legacy07_set,
    prepare_legacy07,
    to_legacy07,
)
from pylogbroker.legacy07.records.messages import HEADER_SIZES, SIZE_PREFIX, messages, parse_legacy07, whole_size
from pylogbroker.legacy07.storage.directories import holds_kafka07
from pylogbroker.records import AppendRules, Buffer, ConversionListener, LogEntry, PreparedRecords
from pylogbroker.records.conversion import SizeBudget
from pylogbroker.storage import Origin
from pylogbroker.storage.log.addressing import ByteAddressing
from pylogbroker.storage.log.header_scan import Fields, Read

_FOREIGN_DATA: Final = (
    "holds data of Kafka 0.7: move it away, and import it from there by `pylogbroker migrate kafka07`"
)

_BLOCK_BYTES: Final = 4096
_HEADER_BYTES_MAX: Final = max(HEADER_SIZES)
_INLINE_BYTES_MAX: Final = 64 * 1024  # of records to be recompressed where they are appended


class _Legacy07Addressing:
    message_format = "0.7"

    def scan(self, read: Read, position: int, end: int, base_offset: int) -> Iterator[Fields]:
        block: Buffer = b""
        start = position
        while position < end:
            if len(block) - (position - start) < _HEADER_BYTES_MAX:
                block, start = read(min(_BLOCK_BYTES, end - position), position), position
            size = whole_size(block, position - start, len(block), base_offset + position)
            if position + size > end:
                raise CorruptRecords(f"no message at position {position}")
            yield position, size, base_offset + position, base_offset + position + size - 1
            position += size

    def parse(self, buffer: memoryview, offset: int, size: int) -> LogEntry:
        return parse_legacy07(buffer, offset, size)

    def entries(self, buffer: Buffer, offset: int) -> Iterator[LogEntry]:
        return messages(buffer, offset, partial=True)

    def claimed_size(self, buffer: Buffer) -> int:
        return SIZE_PREFIX + int.from_bytes(buffer[:SIZE_PREFIX], "big", signed=True)

    def is_costly(self, buffer: Buffer, origin: Origin) -> bool:
        return origin is not Origin.NATIVE or is_costly_legacy07_set(buffer)

    def convert(
        self, buffer: Buffer, rules: AppendRules, origin: Origin, now_ms: int, on_converted: ConversionListener
    ) -> Buffer:
        if origin is Origin.NATIVE:
            return check_legacy07(buffer, rules)
        return to_legacy07(buffer, rules, now_ms, rules.decompressed_bytes_max, on_converted)

    def prepare(
        self,
        buffer: Buffer,
        rules: AppendRules,
        origin: Origin,
        log_end_offset: int,
        now_ms: int,
        on_converted: ConversionListener,
    ) -> PreparedRecords:
        if origin is Origin.COORDINATOR:
            detail = "message format 0.7 has neither idempotent producers nor transactions"
            raise InvalidRecords(detail, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        if origin is Origin.CLIENT:
            limit = min(rules.inline_bytes_max, _INLINE_BYTES_MAX)
            buffer = to_legacy07(buffer, rules, now_ms, limit, on_converted)
        if origin in (Origin.CLIENT, Origin.CONVERTED):
            rules = rules.after_conversion
        return prepare_legacy07(buffer, rules, log_end_offset)

    def to_offset_addressed(
        self, buffer: Buffer, position: int, magic: int, budget: SizeBudget, *, first_offset: int
    ) -> bytes:
        return from_legacy07(buffer, position, magic, budget, first_offset=first_offset)

    def describe_foreign_data(self, path: str) -> str | None:
        return _FOREIGN_DATA if holds_kafka07(path) else None


ADDRESSING: Final[ByteAddressing] = _Legacy07Addressing()
