"""Compression of records.

Declared sizes are not trusted: output goes into an anonymous mapping, whose pages exist only once written, and are
freed at once. For snappy see `snappy_framing`.
"""

from __future__ import annotations

import contextlib
import mmap
import zlib
from collections.abc import Callable
from typing import Any

import cramjam

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords
from pylogbroker.records import lz4_header, snappy_framing
from pylogbroker.records.decompression_errors import Overflow, as_corrupt
from pylogbroker.records.model import Buffer, Codec, view
from pylogbroker.records.portable_forms import GZIP_WINDOW_BITS, NotPortable, is_portable

DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024
_CODECS = tuple(Codec)
_STEP = 64 * 1024
_GZIP_PIECE = 16 * 1024  # each of many members costs a copy of the rest of its piece
_SMALL = 1024 * 1024  # output that needs no mapping
_MAX_LZ4_RATIO = 255
_MAX_ZSTD_RATIO = 1 << 17


def compress(codec: Codec, data: Buffer, level: int | None = None, magic: int = 2) -> bytes:
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        return _gzip(data, level)
    if codec is Codec.SNAPPY:
        return snappy_framing.compress(data)
    if codec is Codec.LZ4:
        frame = _lz4(data, level)
        return lz4_header.with_v0_checksum(frame) if magic == 0 else frame
    reject_zstd_before_v2(codec, magic)
    return bytes(cramjam.zstd.compress(data, level=level))


def decompress(codec: Codec, data: Buffer, magic: int = 2, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Raise CorruptRecords for damaged data, Overflow for more than `limit` bytes."""
    return bytes(inflate(codec, data, magic, limit))


def inflate(codec: Codec, data: Buffer, magic: int = 2, limit: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """Like `decompress`, but may return `data` itself or a read-only `memoryview`."""
    if codec is Codec.NONE:
        return data
    if not data:
        raise CorruptRecords("no compressed data")
    if codec is Codec.GZIP:
        return _gunzip(data, limit)
    if codec is Codec.SNAPPY:
        return snappy_framing.decompress(data, limit)
    if codec is Codec.LZ4:
        frame = lz4_header.with_standard_checksum(data) if magic == 0 else data
        return _into_mapping(cramjam.lz4.decompress_into, frame, min(limit, len(frame) * _MAX_LZ4_RATIO))
    reject_zstd_before_v2(codec, magic)
    return _into_mapping(cramjam.zstd.decompress_into, data, min(limit, len(data) * _MAX_ZSTD_RATIO))


def inflate_portable(codec: Codec, data: Buffer, limit: int) -> Buffer:
    """Like `inflate` for v2; raise NotPortable unless all consumers can read the data as it is."""
    if codec is Codec.GZIP:
        return _gunzip(data, limit, is_single=True) if data else inflate(codec, data, 2, limit)
    if not is_portable(codec, data):
        raise NotPortable(f"{codec.name.lower()} data in a form that not all consumers read")
    return inflate(codec, data, 2, limit)


def codec_of(attributes: int) -> Codec:
    """Raise InvalidRecords for an unknown codec."""
    number = attributes & 0x07
    if number >= len(_CODECS):
        raise InvalidRecords(f"unknown compression type {number}", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return _CODECS[number]


def reject_zstd_before_v2(codec: Codec, magic: int) -> None:
    if codec is Codec.ZSTD and magic < 2:
        raise InvalidRecords(f"zstd is not part of message format v{magic}", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _gzip(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, GZIP_WINDOW_BITS)
    return compressor.compress(data) + compressor.flush()


def _gunzip(data: Buffer, limit: int, *, is_single: bool = False) -> Buffer:
    if limit <= _SMALL:
        member = zlib.decompressobj(GZIP_WINDOW_BITS)
        with contextlib.suppress(zlib.error):
            output = member.decompress(data, limit + 1)
            if member.eof and not member.unused_data and len(output) <= limit:
                return output
    return _gunzip_in_pieces(view(data), limit, is_single)


def _gunzip_in_pieces(data: memoryview, limit: int, is_single: bool) -> Buffer:
    """Decompress large data or several members, which zeros may follow; also describes damage."""
    area, size, behind, end = _mapping(limit), 0, 0, len(data)
    member = zlib.decompressobj(GZIP_WINDOW_BITS)
    while True:
        piece = data[behind : behind + _GZIP_PIECE]
        try:
            output = member.decompress(piece, _STEP)
        except zlib.error as error:
            raise CorruptRecords(f"damaged gzip data: {error}") from None
        if size + len(output) > limit:
            raise Overflow("gzip data that holds more than is allowed")
        area[size : size + len(output)] = output
        size += len(output)
        behind += len(piece) - len(member.unused_data if member.eof else member.unconsumed_tail)
        if member.eof:
            if behind < end and is_single:
                raise NotPortable("gzip data with something after its first member")
            if behind == end or (not data[behind] and not any(data[behind:])):
                return memoryview(area)[:size]
            member = zlib.decompressobj(GZIP_WINDOW_BITS)
        elif not piece and not output:
            raise CorruptRecords("damaged gzip data: it ends too early")


def _lz4(data: Buffer, level: int | None) -> bytes:
    """Return independent blocks: the Java client reads no others."""
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _into_mapping(decompress_into: Callable[[Buffer, Any], int], data: Buffer, capacity: int) -> Buffer:
    area = _mapping(capacity)
    with as_corrupt(f"compressed data that is damaged or exceeds {capacity} bytes"):
        return memoryview(area)[: decompress_into(data, area)]


def _mapping(capacity: int) -> mmap.mmap:
    return mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
