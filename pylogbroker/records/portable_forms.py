"""Forms of compressed data that all consumers read: Kafka's in Java, librdkafka, and those in Python and Go.

Decompressors accept more than some consumers do:

    codec     a form is portable with
    gzip      one member, and nothing after it
    snappy    one stream of version 1 (xerial), or a raw block
    lz4       one frame, of independent blocks that are not empty, without a dictionary id; nothing around it
    zstd      frames of the current format, and skippable frames

The functions read the structure alone. Data that they accept may be damaged, which decompression finds. They may reject
damaged data.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from pylogbroker.errors import PylogbrokerError
from pylogbroker.records import lz4_header, snappy_framing
from pylogbroker.records.model import Buffer, Codec, view

GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS
_GZIP_STEP: Final = 64 * 1024

_unpack_size = struct.Struct("<I").unpack_from
_LZ4_FLAGS: Final = 0b1110_0011  # version, independence of blocks, reserved, dictionary id
_LZ4_PORTABLE: Final = 0b0110_0000
_LZ4_BLOCK_CHECKSUMS: Final = 0x10
_LZ4_CONTENT_SIZE: Final = 0x08
_LZ4_CONTENT_CHECKSUM: Final = 0x04
_LZ4_STORED: Final = 1 << 31

_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE: Final = 0x184D2A50  # the lowest four bits may be any
_ZSTD_DICTIONARY_SIZES: Final = (0, 1, 2, 4)
_ZSTD_CONTENT_SIZES: Final = (0, 2, 4, 8)
_ZSTD_REPEATED_BYTE: Final = 1


class NotPortable(PylogbrokerError):
    """Compressed data in a form that some consumers cannot read."""


def is_portable(codec: Codec, data: Buffer) -> bool:
    """Return whether data, if undamaged, is in a form that all consumers read. Decompresses gzip."""
    try:
        if codec is Codec.GZIP:
            return _is_one_member(view(data))
        if codec is Codec.SNAPPY:
            return snappy_framing.is_of_version_1(data)
        if codec is Codec.LZ4:
            return _is_plain_lz4(data)
        return codec is Codec.NONE or _is_current_zstd(data)
    except (IndexError, struct.error):
        return False


def _is_one_member(data: memoryview) -> bool:
    member = zlib.decompressobj(GZIP_WINDOW_BITS)
    behind = 0
    try:
        while not member.eof:
            piece = data[behind : behind + _GZIP_STEP]
            output = member.decompress(piece, _GZIP_STEP)
            if not piece and not output:
                return False
            behind += len(piece) - len(member.unused_data if member.eof else member.unconsumed_tail)
    except zlib.error:
        return False
    return behind == len(data)


def _is_plain_lz4(data: Buffer) -> bool:
    flags = data[4]
    if data[:4] != lz4_header.MAGIC or flags & _LZ4_FLAGS != _LZ4_PORTABLE:
        return False
    position = 7
    if flags & _LZ4_CONTENT_SIZE:
        position += 8
        if not any(data[6:14]):  # some decoders compare it, others take it for none
            return False
    checksum = 4 if flags & _LZ4_BLOCK_CHECKSUMS else 0
    while word := _unpack_size(data, position)[0]:
        size = word & ~_LZ4_STORED
        if size < 1 if word & _LZ4_STORED else size < 2:  # an empty block, which ends or stops Java's decoder
            return False
        position += 4 + size + checksum
    return position + (8 if flags & _LZ4_CONTENT_CHECKSUM else 4) == len(data)


def _is_current_zstd(data: Buffer) -> bool:
    position, end = 0, len(data)
    while position < end:
        (magic,) = _unpack_size(data, position)
        if magic == _ZSTD_MAGIC:
            position = _behind_zstd_frame(data, position + 4)
        elif magic & ~0x0F == _ZSTD_SKIPPABLE:
            position += 8 + _unpack_size(data, position + 4)[0]
        else:
            return False
    return position == end


def _behind_zstd_frame(data: Buffer, position: int) -> int:
    descriptor = data[position]
    is_single_segment = descriptor >> 5 & 1
    content_size = _ZSTD_CONTENT_SIZES[descriptor >> 6] or is_single_segment
    position += 2 - is_single_segment + _ZSTD_DICTIONARY_SIZES[descriptor & 3] + content_size
    is_last = 0
    while not is_last:
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        is_last = header & 1
        position += 3 + (1 if header >> 1 & 3 == _ZSTD_REPEATED_BYTE else header >> 3)
    return position + (4 if descriptor & 4 else 0)
