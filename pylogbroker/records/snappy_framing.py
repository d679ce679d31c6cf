"""Snappy in Kafka's messages: the framing of the xerial library, or a single raw block.

    0                         8           12           16
    +-------------------------+-----------+------------+------+-------------+------+-----
    | 82 'S' 'N' 'A' 'P' 'P' 'Y' 00 | version 1 | readable 1 | size | raw block   | size | ...
    +-------------------------+-----------+------------+------+-------------+------+-----

Numbers are 32 bits, big-endian.

A raw block begins with its uncompressed size. Three bytes expand to at most 64, so sizes beyond that ratio are rejected
before memory is allocated.
"""

from __future__ import annotations

import struct

import cramjam
import snappy

from pylogbroker.errors import CorruptRecords
from pylogbroker.records.decompression_errors import Overflow, as_corrupt
from pylogbroker.records.model import Buffer, view

HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_MAGIC = HEADER[:8]
_SIZE = struct.Struct(">i")
_BLOCK = 32 * 1024


def compress(data: Buffer) -> bytes:
    source = view(data)
    parts = [HEADER]
    for start in range(0, len(source), _BLOCK):
        block = snappy.compress(source[start : start + _BLOCK])
        parts += (_SIZE.pack(len(block)), block)
    return b"".join(parts)


def decompress(data: Buffer, limit: int) -> bytes:
    """Raise CorruptRecords for damage, Overflow beyond `limit` bytes."""
    source = view(data)
    if source[: len(_MAGIC)] != _MAGIC:
        return _block(source, limit)
    if len(source) < len(HEADER):
        raise CorruptRecords("snappy data that ends in its header")
    return _framed(source, limit)


def is_of_version_1(data: Buffer) -> bool:
    """Return whether the framing, if any, has the versions that all consumers know."""
    return data[: len(_MAGIC)] != _MAGIC or data[: len(HEADER)] == HEADER


def _framed(source: memoryview, limit: int) -> bytes:
    position, end = len(HEADER), len(source)
    parts: list[bytes] = []
    while position < end:
        if end - position < _SIZE.size:
            raise CorruptRecords("snappy data that ends in a block's size")
        (size,) = _SIZE.unpack_from(source, position)
        position += _SIZE.size
        if not 0 < size <= end - position:
            raise CorruptRecords(f"a snappy block of {size} bytes where {end - position} are left")
        parts.append(_block(source[position : position + size], limit))
        limit -= len(parts[-1])
        position += size
    return b"".join(parts)


def _block(block: memoryview, limit: int) -> bytes:
    with as_corrupt("damaged snappy data"):
        size = cramjam.snappy.decompress_raw_len(block)
        if size * 3 > len(block) * 64:
            raise CorruptRecords(f"a snappy block of {len(block)} bytes that claims to hold {size}")
        if size > limit:
            raise Overflow(f"a snappy block that holds {size} bytes, of {limit} allowed")
        output = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, output)
        return bytes(output)
