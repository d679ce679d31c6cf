"""Messages and requests of 0.7 for tests: recorded bytes, and others made and read by `struct` and `zlib`."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence

from kafka.codec import snappy_encode

GZIP, SNAPPY = 1, 2

ONE = bytes.fromhex("00000009 01 00 7a6c86f1 6f6e65")
TWO = bytes.fromhex("00000009 01 00 11ca8a66 74776f")
THREE = bytes.fromhex("0000000b 01 00 46c5d8f5 7468726565")
HELLO = bytes.fromhex("0000000b 01 00 3610a686 68656c6c6f")
ZIPPED = bytes.fromhex(
    "0000002f 01 01 390a3ebb 1f8b08000000000000ff636060e06064b0dafd7e69ba210398bd78d33ef9742300d020ed1318000000"
)
"""Recorded messages; the last one holds "g1" and "g2"."""

PRODUCE_ONE = bytes.fromhex("0000001a 0000 000174 00000000 0000000d") + ONE
MULTIPRODUCE_TWO = bytes.fromhex("0000001c 0003 0001 000174 00000000 0000000d") + TWO
FETCH = bytes.fromhex("00000015 0001 000174 00000000 0000000000000000 000186a0")
FETCHED = bytes.fromhex("0000001c 0000") + ONE + TWO
LATEST = bytes.fromhex("00000015 0004 000174 00000000 ffffffffffffffff 0000000a")
LATEST_ANSWER = bytes.fromhex("00000016 0000 00000002 000000000000001a 0000000000000000")
EARLIEST = bytes.fromhex("00000015 0004 000174 00000000 fffffffffffffffe 0000000a")
EARLIEST_ANSWER = bytes.fromhex("0000000e 0000 00000001 0000000000000000")
"""Recorded exchanges, of the topic `t`."""


def message(payload: bytes, magic: int = 1, attributes: int = 0) -> bytes:
    body = (bytes([1, attributes]) if magic else b"\0") + struct.pack(">I", zlib.crc32(payload)) + payload
    return struct.pack(">i", len(body)) + body


def wrapped(payloads: Sequence[bytes], codec: int = GZIP, magic: int = 1) -> bytes:
    """Messages of a magic, compressed as one."""
    inside = b"".join(message(payload, magic) for payload in payloads)
    return message(gzip.compress(inside) if codec == GZIP else snappy_encode(inside), 1, codec)


def read_set(data: bytes) -> list[tuple[int, bytes]]:
    """Position and payload of each whole message, not decompressed; all CRCs are checked."""
    found, position = [], 0
    while position + 4 <= len(data):
        (size,) = struct.unpack_from(">i", data, position)
        if position + 4 + size > len(data):
            break
        head = 6 if data[position + 4] else 5
        (crc,) = struct.unpack_from(">I", data, position + head)
        payload = data[position + head + 4 : position + 4 + size]
        assert zlib.crc32(payload) == crc
        found.append((position, payload))
        position += 4 + size
    return found


def _place(topic: bytes, partition: int) -> bytes:
    return struct.pack(">h", len(topic)) + topic + struct.pack(">i", partition)


def request(number: int, body: bytes) -> bytes:
    return struct.pack(">ih", 2 + len(body), number) + body


def produce(topic: bytes, partition: int, data: bytes) -> bytes:
    return request(0, _place(topic, partition) + struct.pack(">i", len(data)) + data)


def fetch(topic: bytes, partition: int, offset: int, max_size: int = 1 << 20) -> bytes:
    return request(1, _place(topic, partition) + struct.pack(">qi", offset, max_size))


def multifetch(*parts: tuple[bytes, int, int, int]) -> bytes:
    ranges = (_place(topic, partition) + struct.pack(">qi", *rest) for topic, partition, *rest in parts)
    return request(2, struct.pack(">h", len(parts)) + b"".join(ranges))


def offsets(topic: bytes, partition: int, time: int, count: int) -> bytes:
    return request(4, _place(topic, partition) + struct.pack(">qi", time, count))


def answer(error: int, rest: bytes = b"") -> bytes:
    return struct.pack(">ih", 2 + len(rest), error) + rest


def offsets_answer(error: int, *found: int) -> bytes:
    return answer(error, struct.pack(f">i{len(found)}q", len(found), *found))
