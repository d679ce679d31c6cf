"""Compressed records in the forms of other encoders, and damaged ones: a case for each freedom of a format.

`payloads(codec, data)` has them by name. `data` is `SPLIT_AT` bytes and more, which some cases hold in two parts.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import lz4.block
import lz4.frame
import snappy
import zstandard

from pylogbroker.records import Codec
from pylogbroker.records.lz4_header import short_xxh32

SPLIT_AT = 1000
_SKIPPABLE = struct.pack("<II", 0x184D2A50, 4) + b"skip"


def payloads(codec: Codec, data: bytes) -> dict[str, bytes]:
    """Return the cases of one codec; the first is the usual form."""
    return dict(_CASES[codec](data))


# LZ4

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_BLOCKS_OF_64_KB = 0x40
_VERSION, _INDEPENDENT, _BLOCK_CHECKSUMS, _SIZE, _CONTENT_CHECKSUM, _RESERVED, _DICTIONARY = (
    0x40,
    0x20,
    0x10,
    0x08,
    0x04,
    0x02,
    0x01,
)
_USUAL = _VERSION | _INDEPENDENT


def lz4_frame(
    blocks: bytes,
    flags: int = _USUAL,
    descriptor: int = _BLOCKS_OF_64_KB,
    fields: bytes = b"",
    end: bytes = bytes(4),
    wrong: int = 0,
) -> bytes:
    """Return a frame around encoded `blocks`; `wrong` alters the header's checksum."""
    head = bytes([flags, descriptor]) + fields
    return _LZ4_MAGIC + head + bytes([short_xxh32(head) >> 8 & 0xFF ^ wrong]) + blocks + end


def _block(data: bytes) -> bytes:
    packed = lz4.block.compress(data, store_size=False)
    return struct.pack("<I", len(packed)) + packed


def _stored(data: bytes) -> bytes:
    return struct.pack("<I", len(data) | 1 << 31) + data


def _blocks(data: bytes, size: int = 65536) -> bytes:
    return b"".join(_block(data[start : start + size]) for start in range(0, len(data), size))


def _lz4_cases(data: bytes) -> Iterator[tuple[str, bytes]]:
    blocks, first, second = _blocks(data), data[:SPLIT_AT], data[SPLIT_AT:]
    plain = lz4_frame(blocks)
    checked = lz4.frame.compress(data, block_linked=False, content_checksum=True, store_size=False)
    block_checked = lz4.frame.compress(data, block_linked=False, block_checksum=True, store_size=False)
    yield "usual", plain
    yield "blocks of 256 KB", lz4_frame(_blocks(data, 262144), descriptor=0x50)
    yield "blocks of 1 MB", lz4_frame(_blocks(data, 1 << 20), descriptor=0x60)
    yield "blocks of 4 MB", lz4_frame(_blocks(data, 4 << 20), descriptor=0x70)
    yield "stored blocks", lz4_frame(b"".join(_stored(data[at : at + 65536]) for at in range(0, len(data), 65536)))
    yield "a short block before others", lz4_frame(_block(first) + _blocks(second))
    yield "content size", lz4_frame(blocks, _USUAL | _SIZE, fields=struct.pack("<Q", len(data)))
    yield "content size, too small", lz4_frame(blocks, _USUAL | _SIZE, fields=struct.pack("<Q", len(data) - 1))
    yield "content size, too large", lz4_frame(blocks, _USUAL | _SIZE, fields=struct.pack("<Q", len(data) + 1))
    yield "content size of nothing", lz4_frame(blocks, _USUAL | _SIZE, fields=bytes(8))
    yield "content size, huge", lz4_frame(blocks, _USUAL | _SIZE, fields=b"\xff" * 8)
    yield "content checksum", checked
    yield "content checksum, wrong", checked[:-1] + bytes([checked[-1] ^ 1])
    yield "content checksum, cut off", checked[:-4]
    yield "content checksum, cut off within", checked[:-2]
    yield "block checksums", block_checked
    yield "block checksum, wrong", block_checked[:-5] + bytes([block_checked[-5] ^ 1]) + bytes(4)
    yield "header checksum, wrong", lz4_frame(blocks, wrong=1)
    yield "linked blocks", lz4_frame(blocks, _VERSION)
    yield "dictionary id", lz4_frame(blocks, _USUAL | _DICTIONARY, fields=struct.pack("<I", 7))
    yield "dictionary id of zero", lz4_frame(blocks, _USUAL | _DICTIONARY, fields=bytes(4))
    yield "reserved flag", lz4_frame(blocks, _USUAL | _RESERVED)
    yield "reserved low bit of the descriptor", lz4_frame(blocks, descriptor=0x41)
    yield "reserved high bit of the descriptor", lz4_frame(blocks, descriptor=0xC0)
    for code in range(4):
        yield f"block size code {code}", lz4_frame(blocks, descriptor=code << 4)
    for version in (0, 2, 3):
        yield f"version {version}", lz4_frame(blocks, version << 6 | _INDEPENDENT)
    yield "a stored block larger than declared", lz4_frame(_stored(data))
    yield "a block larger than declared", lz4_frame(_block(data))
    yield "an empty stored block first", lz4_frame(_stored(b"") + blocks)
    yield "an empty stored block last", lz4_frame(blocks + _stored(b""))
    yield "an empty stored block within", lz4_frame(_block(first) + _stored(b"") + _blocks(second))
    yield "an empty stored block as end", lz4_frame(blocks, end=_stored(b""))
    yield "an empty block first", lz4_frame(_block(b"") + blocks)
    yield "an empty block within", lz4_frame(_block(first) + _block(b"") + _blocks(second))
    yield "an empty block last", lz4_frame(blocks + _block(b""))
    yield "a damaged block", lz4_frame(blocks[:-20] + b"\xff" * 20)
    yield "no end mark", lz4_frame(blocks, end=b"")
    yield "a cut off end mark", lz4_frame(blocks, end=b"\0\0")
    yield "a cut off block", plain[:-10]
    yield "a byte after the end", plain + b"\0"
    yield "zeros after the end", plain + bytes(64)
    yield "text after the end", plain + b"some text after the end"
    yield "a skippable frame first", _SKIPPABLE + plain
    yield "a skippable frame last", plain + _SKIPPABLE
    yield "an empty frame first", lz4_frame(b"") + plain
    yield "an empty frame last", plain + lz4_frame(b"")
    yield "two frames", lz4_frame(_blocks(first)) + lz4_frame(_blocks(second))
    yield "only an empty frame", lz4_frame(b"")
    yield "the legacy format", b"\x02\x21\x4c\x18" + _block(data)
    yield "raw block", lz4.block.compress(data, store_size=False)


# gzip


def gzip_member(
    data: bytes, flags: int = 0, fields: bytes = b"", method: int = 8, crc: int = 0, size: int = 0, level: int = 6
) -> bytes:
    """Return a member; `crc` and `size` are added to the trailer's right values."""
    deflate = zlib.compressobj(level, zlib.DEFLATED, -15)
    head = b"\x1f\x8b" + bytes([method, flags]) + bytes(4) + b"\0\xff" + fields
    trailer = struct.pack("<II", zlib.crc32(data) + crc & 0xFFFFFFFF, len(data) + size & 0xFFFFFFFF)
    return head + deflate.compress(data) + deflate.flush() + trailer


def _gzip_cases(data: bytes) -> Iterator[tuple[str, bytes]]:
    plain, first, second = gzip_member(data), data[:SPLIT_AT], data[SPLIT_AT:]
    header = b"\x1f\x8b\x08\x02" + bytes(4) + b"\0\xff"
    header_crc = struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    yield "usual", plain
    yield "stored", gzip_member(data, level=0)
    yield "name", gzip_member(data, 0x08, b"records\0")
    yield "comment", gzip_member(data, 0x10, b"records\0")
    yield "extra field", gzip_member(data, 0x04, struct.pack("<H", 8) + b"ab\4\0data")
    yield "extra field, cut off", gzip_member(data, 0x04, b"\xff\xff")
    yield "text flag", gzip_member(data, 0x01)
    yield "header checksum", gzip_member(data, 0x02, header_crc)
    yield "header checksum, wrong", gzip_member(data, 0x02, bytes([header_crc[0] ^ 1, header_crc[1]]))
    for bit in (5, 6, 7):
        yield f"reserved flag {bit}", gzip_member(data, 1 << bit)
    yield "method 7", gzip_member(data, method=7)
    yield "checksum, wrong", gzip_member(data, crc=1)
    yield "size, wrong", gzip_member(data, size=1)
    yield "no trailer", plain[:-8]
    yield "a cut off trailer", plain[:-3]
    yield "cut off data", plain[:-20]
    yield "damaged data", plain[:40] + b"\xff" * 20 + plain[60:]
    yield "a byte after the end", plain + b"\0"
    yield "zeros after the end", plain + bytes(64)
    yield "text after the end", plain + b"some text after the end, longer than a header and a trailer"
    yield "half a header after the end", plain + b"\x1f\x8b\x08\0"
    yield "two members", gzip_member(first) + gzip_member(second)
    yield "two members, the first with a wrong checksum", gzip_member(first, crc=1) + gzip_member(second)
    yield "two members, the second with a wrong checksum", gzip_member(first) + gzip_member(second, crc=1)
    yield "zeros between members", gzip_member(first) + bytes(8) + gzip_member(second)
    yield "an empty member first", gzip_member(b"") + plain
    yield "an empty member last", plain + gzip_member(b"")
    yield "only an empty member", gzip_member(b"")
    yield "zlib format", zlib.compress(data)
    yield "raw deflate", zlib.compress(data)[2:-4]


# Snappy

_XERIAL = b"\x82SNAPPY\0"


def _chunk(data: bytes) -> bytes:
    packed: bytes = snappy.compress(data)
    return struct.pack(">i", len(packed)) + packed


def _chunks(data: bytes, size: int = 32768) -> bytes:
    return b"".join(_chunk(data[start : start + size]) for start in range(0, len(data), size))


def _xerial(chunks: bytes, version: int = 1, compatible: int = 1) -> bytes:
    return _XERIAL + struct.pack(">ii", version, compatible) + chunks


def _varint(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _claiming(data: bytes, size: int) -> bytes:
    """Return a raw block that claims to hold `size` bytes."""
    return _varint(size) + snappy.compress(data)[len(_varint(len(data))) :]


def _snappy_cases(data: bytes) -> Iterator[tuple[str, bytes]]:
    chunks, first, second = _chunks(data), data[:SPLIT_AT], data[SPLIT_AT:]
    plain, raw = _xerial(chunks), snappy.compress(data)
    yield "usual", plain
    yield "raw", raw
    yield "one large block", _xerial(_chunk(data))
    yield "small blocks", _xerial(_chunks(data, 1000))
    for version, compatible in ((0, 1), (2, 1), (2, 2), (1, 0), (1, 2), (-1, 1), (1, -1), (0, 0)):
        yield f"version {version}, compatible {compatible}", _xerial(chunks, version, compatible)
    yield "two streams", _xerial(_chunks(first)) + _xerial(_chunks(second))
    yield "two streams, the second of version 9", _xerial(_chunks(first)) + _xerial(_chunks(second), 9, 9)
    yield "a header last", plain + _xerial(b"")
    yield "an empty stream first", _xerial(b"") + plain
    yield "only a header", _xerial(b"")
    yield "a cut off header", plain[:12]
    yield "an empty block first", _xerial(_chunk(b"") + chunks)
    yield "an empty block within", _xerial(_chunk(first) + _chunk(b"") + _chunks(second))
    yield "an empty block last", plain + _chunk(b"")
    yield "a chunk of no bytes first", _xerial(bytes(4) + chunks)
    yield "a chunk of no bytes last", plain + bytes(4)
    yield "a chunk of a negative size last", plain + b"\xff" * 4
    yield "a byte after the end", plain + b"\0"
    yield "three bytes after the end", plain + b"\0\0\0"
    yield "text after the end", plain + b"some text after the end"
    yield "a cut off chunk", plain[:-10]
    yield "a chunk whose size is too small", _xerial(struct.pack(">i", len(raw) - 1) + raw)
    yield "a chunk whose size is too large", _xerial(struct.pack(">i", len(raw) + 1) + raw)
    yield "a byte within a chunk, after its block", _xerial(struct.pack(">i", len(raw) + 1) + raw + b"\0")
    yield "raw, a byte after the end", raw + b"\0"
    yield "raw, cut off", raw[:-1]
    yield "raw, size too small", _claiming(data, len(data) - 1)
    yield "raw, size too large", _claiming(data, len(data) + 1)
    yield "raw, two blocks", snappy.compress(first) + snappy.compress(second)
    yield "raw, empty", b"\0"
    yield "block, size too small", _xerial(_sized(_claiming(data, len(data) - 1)))
    yield "block, size too large", _xerial(_sized(_claiming(data, len(data) + 1)))
    yield "block, size in a long varint", _xerial(_sized(_long_varint(len(data)) + raw[len(_varint(len(data))) :]))
    yield "a damaged block", plain[:-20] + b"\xff" * 20
    yield "the standard framing", snappy.StreamCompressor().compress(data)


def _sized(block: bytes) -> bytes:
    return struct.pack(">i", len(block)) + block


def _long_varint(value: int) -> bytes:
    return bytes([value >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21)]) + b"\0"


# zstd

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def _zstd_frame(blocks: bytes, window_log: int = 17, descriptor: int = 0, fields: bytes = b"") -> bytes:
    """Return a frame with a window; `fields` follow it."""
    return _ZSTD_MAGIC + bytes([descriptor, window_log - 10 << 3]) + fields + blocks


def _raw_blocks(data: bytes, size: int = 1 << 17) -> bytes:
    starts = range(0, len(data), size)
    return b"".join(_zstd_block(data[start : start + size], is_last=start == starts[-1]) for start in starts)


def _zstd_block(data: bytes, *, is_last: bool, kind: int = 0, size: int | None = None) -> bytes:
    head = (len(data) if size is None else size) << 3 | kind << 1 | is_last
    return head.to_bytes(3, "little") + data


def _zstd_cases(data: bytes) -> Iterator[tuple[str, bytes]]:
    first, second = data[:SPLIT_AT], data[SPLIT_AT:]
    plain = zstandard.ZstdCompressor(write_content_size=False).compress(data)
    sized = zstandard.ZstdCompressor().compress(data)
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    yield "usual", _streamed(data)
    yield "content size", sized
    yield "no content size", plain
    yield "level 19", zstandard.ZstdCompressor(level=19).compress(data)
    yield "checksum", checked
    yield "checksum, wrong", checked[:-1] + bytes([checked[-1] ^ 1])
    yield "checksum, cut off", checked[:-4]
    yield "blocks of one byte", _zstd_frame(_raw_blocks(data, 1))
    yield "raw blocks", _zstd_frame(_raw_blocks(data))
    for log in (10, 22, 23, 24, 25, 26, 27, 28, 30, 31, 41):
        yield f"window of 2^{log}", _zstd_frame(_raw_blocks(data, 1000), log)
    yield "window of 2^27 and an eighth", _ZSTD_MAGIC + bytes([0, 17 << 3 | 1]) + _raw_blocks(data)
    for log in (20, 27, 28, 31):
        yield (
            f"window of 2^{log}, with the content size",
            _zstd_frame(_raw_blocks(data), log, 0xC0, struct.pack("<Q", len(data))),
        )
    yield "blocks larger than the window", _zstd_frame(_raw_blocks(data), 10)
    yield "a block larger than 128 KB", _zstd_frame(_raw_blocks(data, 1 << 18), 20)
    for name, size in (("too small", len(data) - 1), ("too large", len(data) + 1), ("huge", 1 << 40), ("nothing", 0)):
        yield f"content size, {name}", _zstd_frame(_raw_blocks(data), 17, 0xC0, struct.pack("<Q", size))
        segment = _ZSTD_MAGIC + bytes([0xE0]) + struct.pack("<Q", size) + _raw_blocks(data)
        yield f"content size of a single segment, {name}", segment
    yield "single segment", _ZSTD_MAGIC + bytes([0xE0]) + struct.pack("<Q", len(data)) + _raw_blocks(data)
    yield "dictionary id", _zstd_frame(_raw_blocks(data), 17, 0x01, b"\7")
    yield "dictionary id of zero", _zstd_frame(_raw_blocks(data), 17, 0x01, b"\0")
    yield "reserved bit", _zstd_frame(_raw_blocks(data), 17, 0x08)
    yield "unused bit", _zstd_frame(_raw_blocks(data), 17, 0x10)
    yield "an empty block first", _zstd_frame(_zstd_block(b"", is_last=False) + _raw_blocks(data))
    yield "an empty block last", _zstd_frame(_last_block_open(data) + _zstd_block(b"", is_last=True))
    yield (
        "a repeated byte of no length last",
        _zstd_frame(_last_block_open(data) + _zstd_block(b"x", is_last=True, kind=1, size=0)),
    )
    yield "reserved kind of block last", _zstd_frame(_last_block_open(data) + _zstd_block(b"", is_last=True, kind=3))
    yield "no last block", _zstd_frame(_last_block_open(data))
    yield "cut off data", plain[:-10]
    yield "cut off by a byte", plain[:-1]
    yield "a byte after the end", plain + b"\0"
    yield "zeros after the end", plain + bytes(64)
    yield "text after the end", plain + b"some text after the end"
    yield "a magic after the end", plain + _ZSTD_MAGIC
    yield "a skippable frame first", _SKIPPABLE + plain
    yield "a skippable frame last", plain + _SKIPPABLE
    yield "a skippable frame before the content size", _SKIPPABLE + sized
    yield "a skippable frame, cut off", plain + _SKIPPABLE[:-2]
    yield "an empty frame first", zstandard.compress(b"") + plain
    yield "an empty frame last", plain + zstandard.compress(b"")
    yield "two frames", _streamed(first) + _streamed(second)
    yield "two frames with content sizes", zstandard.compress(first) + zstandard.compress(second)
    yield "two frames with checksums", _checked(first) + _checked(second)
    yield "two frames, the second with another window", _streamed(first) + _zstd_frame(_raw_blocks(second), 28)
    yield "only an empty frame", zstandard.compress(b"")
    yield "only a skippable frame", _SKIPPABLE
    yield "version 0.7", b"\x27\xb5\x2f\xfd" + _old_zstd_blocks(data)
    yield "version 0.7 after a frame", _streamed(first) + b"\x27\xb5\x2f\xfd" + _old_zstd_blocks(second)
    yield "no magic", plain[4:]


def _old_zstd_blocks(data: bytes) -> bytes:
    """Return the rest of a frame of version 0.7: a window of 128 KB, raw blocks, and the end."""
    blocks = bytearray(b"\0\x38")
    for start in range(0, len(data), 1000):
        block = data[start : start + 1000]
        blocks += bytes([1 << 6, *len(block).to_bytes(2, "big")]) + block
    return bytes(blocks) + b"\xc0\0\0"


def _streamed(data: bytes) -> bytes:
    writer = zstandard.ZstdCompressor().compressobj()
    return writer.compress(data) + writer.flush()


def _checked(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def _last_block_open(data: bytes) -> bytes:
    return b"".join(_zstd_block(data[start : start + 1000], is_last=False) for start in range(0, len(data), 1000))


_CASES: dict[Codec, Callable[[bytes], Iterator[tuple[str, bytes]]]] = {
    Codec.GZIP: _gzip_cases,
    Codec.SNAPPY: _snappy_cases,
    Codec.LZ4: _lz4_cases,
    Codec.ZSTD: _zstd_cases,
}
