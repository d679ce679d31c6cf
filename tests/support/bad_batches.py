"""Record batches that contradict themselves, packed by hand: every field can be given a wrong value, the CRC is right.

What a batch and a record look like stands in Kafka's protocol guide; nothing of the broker's own codecs is used.
"""

from __future__ import annotations

import gzip
import struct
from typing import Any

import cramjam
import crc32c
import lz4.frame

NOW = 1_700_000_000_000
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_AFTER_CRC = struct.Struct(">hiqqqhii")


def varint(value: int) -> bytes:
    """A zigzag varint."""
    left = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*encoded, left])


def field(data: bytes | None, size: int | None = None) -> bytes:
    """A key or a value, perhaps with another length than its own."""
    own = -1 if data is None else len(data)
    return varint(own if size is None else size) + (data or b"")


def record(
    delta: int,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    *,
    attributes: int = 0,
    time: int = 0,
    key_size: int | None = None,
    value_size: int | None = None,
    headers: bytes = b"\0",
    longer_by: int = 0,
    rest: bytes = b"",
) -> bytes:
    """One record; `longer_by` falsifies its length, `rest` follows within it."""
    body = bytes([attributes]) + varint(time) + varint(delta)
    body += field(key, key_size) + field(value, value_size) + headers + rest
    return varint(len(body) + longer_by) + body


def batch(
    records: bytes,
    count: int,
    *,
    codec: int = NONE,
    packed: bytes | None = None,
    base_offset: int = 0,
    length: int | None = None,
    magic: int = 2,
    attributes: int = 0,
    last_delta: int | None = None,
    first_timestamp: int = NOW,
    max_timestamp: int = NOW,
    producer: tuple[int, int, int] = (-1, -1, -1),
    flip_crc: int = 0,
) -> bytes:
    """One batch; `packed` stands in for the compressed records."""
    payload = compressed(codec, records) if packed is None else packed
    last = count - 1 if last_delta is None else last_delta
    after = _AFTER_CRC.pack(attributes | codec, last, first_timestamp, max_timestamp, *producer, count) + payload
    size = len(after) + 9 if length is None else length
    return struct.pack(">qiibI", base_offset, size, -1, magic, crc32c.crc32c(after) ^ flip_crc) + after


def compressed(codec: int, data: bytes) -> bytes:
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    if codec == SNAPPY:
        raw = bytes(cramjam.snappy.compress_raw(data))
        return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(raw)) + raw
    if codec == LZ4:
        return lz4.frame.compress(data, block_linked=False)
    return bytes(cramjam.zstd.compress(data)) if codec == ZSTD else data


def good(count: int = 3) -> bytes:
    return b"".join(record(delta) for delta in range(count))


def _records() -> dict[str, tuple[bytes, int]]:
    """Wrong insides: the records' bytes and the count in the header."""
    three, others = good(), record(1) + record(2)
    header = varint(1) + field(b"h") + field(b"x")
    return {
        "one record too few": (three, 4),
        "one record too many": (three, 2),
        "the last record is longer than the batch": (good(2) + record(2, longer_by=1), 3),
        "the first record is longer than the batch": (record(0, longer_by=100) + others, 3),
        "a record is shorter than its fields": (record(0, longer_by=-1) + others, 3),
        "a record is longer than its fields": (record(0, rest=b"\0") + others, 3),
        "a record that takes in the next": (record(0, longer_by=len(record(1))) + record(1) + record(1), 2),
        "a record without anything": (varint(0) + others, 3),
        "a record of negative length": (varint(-1) + others, 3),
        "a record of one byte": (varint(1) + b"\0" + others, 3),
        "a length of more than 32 bits": (b"\xff\xff\xff\xff\xff\x01" + others, 3),
        "a length that never ends": (b"\xff" * 10 + others, 3),
        "no bytes at all": (b"", 3),
        "noise": (bytes(range(7, 250, 3)), 3),
        "zeros": (bytes(60), 3),
        "offsets that stand still": (record(0) + record(0) + record(0), 3),
        "offsets that go back": (record(2) + record(1) + record(0), 3),
        "offsets with a gap": (record(0) + record(2) + record(3), 3),
        "offsets that begin at 1": (others + record(3), 3),
        "offsets below 0": (record(-1) + record(0) + record(1), 3),
        "an offset delta of more than 32 bits": (record(0) + record(1 << 33) + record(2), 3),
        "attributes in a record": (record(0, attributes=1) + others, 3),
        "a key longer than the record": (record(0, key_size=9) + others, 3),
        "a key longer than the batch": (record(0, key_size=900) + others, 3),
        "a key of length -2": (record(0, key_size=-2) + others, 3),
        "a value longer than the record": (record(0, value_size=9) + others, 3),
        "a value longer than the batch": (record(0, value_size=900) + others, 3),
        "a value shorter than it is": (record(0, value_size=4) + others, 3),
        "a value of length -2": (record(0, value_size=-2) + others, 3),
        "a negative number of headers": (record(0, headers=varint(-1)) + others, 3),
        "more headers than there are": (record(0, headers=varint(2) + header[1:]) + others, 3),
        "many more headers than bytes": (record(0, headers=varint(1 << 30)) + others, 3),
        "a header without a key": (record(0, headers=varint(1) + field(None) + field(b"x")) + others, 3),
        "a header key too long": (record(0, headers=varint(1) + field(b"h", 99) + field(b"x")) + others, 3),
        "a header value too long": (record(0, headers=varint(1) + field(b"h") + field(b"x", 99)) + others, 3),
        "a header value of length -2": (record(0, headers=varint(1) + field(b"h") + field(b"", -2)) + others, 3),
        "a header key that is not UTF-8": (record(0, headers=varint(1) + field(b"\xff") + field(b"x")) + record(1), 2),
        "a null key of length -2": (record(0, None, key_size=-2) + others, 3),
        "a null value of length -2": (record(0, value=None, value_size=-2) + others, 3),
        "a time before the first": (record(0, time=-5) + others, 3),
        "a time of more than 64 bits": (record(0, time=(1 << 63) - 1) + others, 3),
        "bytes behind the last record": (three + b"\0", 3),
        "zeros behind the last record": (three + bytes(8), 3),
    }


def _headers() -> dict[str, dict[str, Any]]:
    """Wrong headers around good records."""
    return {
        "a wrong crc": {"flip_crc": 1},
        "a base offset": {"base_offset": 5},
        "a negative base offset": {"base_offset": -5},
        "a length too long by one": {"length": 49 + len(good()) + 1},
        "a length too short by one": {"length": 49 + len(good()) - 1},
        "a length below the smallest": {"length": 10},
        "a length of zero": {"length": 0},
        "a negative length": {"length": -1},
        "magic 3": {"magic": 3},
        "magic -1": {"magic": -1},
        "magic 1": {"magic": 1},
        "a last offset delta too large": {"last_delta": 3},
        "a last offset delta too small": {"last_delta": 1},
        "a negative last offset delta": {"last_delta": -1},
        "a count of 0": {"count": 0, "last_delta": -1},
        "a count of 0, a delta of 0": {"count": 0, "last_delta": 0},
        "a negative count": {"count": -1, "last_delta": -2},
        "the largest count": {"count": (1 << 31) - 1},
        "an unknown codec, 5": {"attributes": 5},
        "an unknown codec, 7": {"attributes": 7},
        "append time": {"attributes": 0x08},
        "transactional without a producer": {"attributes": 0x10},
        "control": {"attributes": 0x20},
        "control and transactional": {"attributes": 0x30, "producer": (1, 0, 0)},
        "a delete horizon": {"attributes": 0x40},
        "attributes that do not exist": {"attributes": 0x7F80},
        "a producer without a sequence number": {"producer": (1, 0, -1)},
        "a producer without an epoch": {"producer": (1, -1, 0)},
        "an epoch without a producer": {"producer": (-1, 3, -1)},
        "a sequence number without a producer": {"producer": (-1, -1, 3)},
        "a producer below -1": {"producer": (-2, 0, 0)},
        "a max timestamp before its records": {"max_timestamp": NOW - 5},
        "no max timestamp": {"max_timestamp": -1},
        "a max timestamp after its records": {"max_timestamp": NOW + 5},
        "no first timestamp": {"first_timestamp": -1},
        "a first timestamp below -1": {"first_timestamp": -5, "max_timestamp": -5},
    }


def _frames() -> dict[str, bytes]:
    """Wrong surroundings of good batches."""
    one = batch(good(), 3)
    return {
        "two batches": one + one,
        "a cut off second batch": one + one[:-1],
        "a few bytes behind the batch": one + bytes(5),
        "seventeen zeros behind the batch": one + bytes(17),
        "cut off by one byte": one[:-1],
        "the header alone": one[:61],
        "half of the header": one[:30],
        "ten bytes": one[:10],
    }


def _payloads() -> dict[str, bytes]:
    """Wrong compressed bytes."""
    data = good()
    found = {}
    for codec, name in ((GZIP, "gzip"), (SNAPPY, "snappy"), (LZ4, "lz4"), (ZSTD, "zstd")):
        whole = compressed(codec, data)
        bodies = {
            "nothing": b"",
            "noise": bytes(range(7, 250, 3)),
            "zeros": bytes(60),
            "cut off": whole[:-5],
            "one byte alone": whole[:1],
            "uncompressed records": data,
            "noise behind": whole + b"\x07noise",
            "zeros behind": whole + bytes(9),
            "itself twice": whole + whole,
            "nothing, compressed": compressed(codec, b""),
        }
        found |= {f"{name}: {what}": batch(b"", 3, codec=codec, packed=body) for what, body in bodies.items()}
    found["gzip: really zstd"] = batch(b"", 3, codec=GZIP, packed=compressed(ZSTD, data))
    found["zstd: really gzip"] = batch(b"", 3, codec=ZSTD, packed=compressed(GZIP, data))
    found["lz4: really snappy"] = batch(b"", 3, codec=LZ4, packed=compressed(SNAPPY, data))
    found["snappy: really lz4"] = batch(b"", 3, codec=SNAPPY, packed=compressed(LZ4, data))
    found["snappy: without Java's frames"] = batch(
        b"", 3, codec=SNAPPY, packed=bytes(cramjam.snappy.compress_raw(data))
    )
    return found


def batches() -> dict[str, bytes]:
    """Every one by what is wrong with it. Those with wrong insides are there uncompressed and under two codecs."""
    found = _frames() | _payloads()
    for name, terms in _headers().items():
        found[name] = batch(good(), **{"count": 3, **terms})
    for name, (records, count) in _records().items():
        found[name] = batch(records, count)
        found[f"gzip: {name}"] = batch(records, count, codec=GZIP)
        found[f"lz4: {name}"] = batch(records, count, codec=LZ4)
    return found


def bombs() -> dict[str, bytes]:
    """Small batches that hold a lot: zeros, or one record that is all right but for its size."""
    zeros = bytes(1 << 24)
    value_size = len(zeros) * 32
    head = bytes(3) + field(None) + varint(value_size)
    size = len(head) + value_size + 1
    found = {}
    for codec, name in ((GZIP, "gzip"), (ZSTD, "zstd")):
        piece = compressed(codec, zeros)
        found[f"{name}: half a GiB of zeros"] = batch(b"", 1, codec=codec, packed=piece * 32)
        found[f"{name}: 112 MiB of zeros"] = batch(b"", 1, codec=codec, packed=piece * 7)
        whole = compressed(codec, varint(size) + head) + piece * 32 + compressed(codec, b"\0")
        found[f"{name}: one record of half a GiB"] = batch(b"", 1, codec=codec, packed=whole)
    return found
