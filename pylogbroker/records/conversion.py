"""From one message format to another: up for what old clients send, down for what old clients read.

Both keep offsets, timestamps and codecs, and pass on what needs no conversion as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from pylogbroker.records.buffers import Buffer
from pylogbroker.records.building import build
from pylogbroker.records.entry import Entry, entries
from pylogbroker.records.model import Codec, Record


def up_convert(buffer: Buffer, *, leader_epoch: int = -1) -> bytes:
    """Entries of v0 and v1 as batches of v2, one for each entry."""
    return b"".join(_up(entry, leader_epoch) for entry in entries(buffer))


def _up(entry: Entry, leader_epoch: int) -> Buffer:
    if entry.magic == 2:
        return entry.buffer
    return build(
        entry.records(),
        codec=entry.codec,
        base_offset=None,
        timestamp_type=entry.timestamp_type,
        append_time=entry.max_timestamp,
        leader_epoch=leader_epoch,
    )


def down_convert(buffer: Buffer, magic: int, *, first_offset: int = 0) -> bytes:
    """Entries as a reader that knows no format above `magic` (0 or 1) takes them.

    Headers are dropped and control batches left out.  Records below `first_offset`, where the reader begins, are left
    out too, except from compressed entries.
    """
    return b"".join(_down(entry, magic, first_offset) for entry in entries(buffer, partial=True))


def _down(entry: Entry, magic: int, first_offset: int) -> Buffer:
    if entry.is_control and entry.magic == 2:
        return b""
    if entry.magic <= magic:
        return entry.buffer
    records = list(_plain(entry, first_offset))
    if not records:
        return b""
    return build(
        records,
        magic=magic,
        codec=entry.codec,
        base_offset=None,
        timestamp_type=entry.timestamp_type,
        append_time=entry.max_timestamp,
    )


def _plain(entry: Entry, first_offset: int) -> Iterator[Record]:
    from_all = entry.codec is not Codec.NONE
    for record in entry.records():
        if from_all or record.offset >= first_offset:
            yield Record(record.offset, record.timestamp, record.key, record.value)
