"""Encoder of records in any message format."""

from __future__ import annotations

from collections.abc import Iterable

from pylogbroker.errors import ErrorCode, InvalidRecords
from pylogbroker.records.batch import CONTROL, TIMESTAMP_TYPE, TRANSACTIONAL, build_batch
from pylogbroker.records.message_set import build_message_set
from pylogbroker.records.model import NO_TIMESTAMP, Codec, Record, TimestampType


def build(
    records: Iterable[Record],
    *,
    magic: int = 2,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    base_offset: int | None = 0,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_time: int = NO_TIMESTAMP,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = -1,
) -> bytes:
    """Encode one batch (v2), messages, or one compressed message set (v0, v1).

    Offsets are consecutive from `base_offset`; if it is None, records keep theirs, which must increase. With
    LOG_APPEND_TIME, `append_time` is each timestamp. Raise InvalidRecords if the format cannot hold a record.
    """
    attributes = TIMESTAMP_TYPE if timestamp_type and magic else 0
    if magic == 2:
        attributes |= (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
        producer = (producer_id, producer_epoch, base_sequence)
        return build_batch(records, base_offset, codec, level, attributes, append_time, producer, leader_epoch)
    if transactional or control or producer_id >= 0:
        detail = f"message format v{magic} has neither idempotent producers nor transactions"
        raise InvalidRecords(detail, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    return build_message_set(records, magic, base_offset, codec, level, attributes, append_time)
