from __future__ import annotations

import contextlib
import gzip
import struct
import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords
from pylogbroker.records import Codec
from pylogbroker.records.compression import codec_of, compress, decompress
from pylogbroker.records.decompression_errors import as_corrupt
from tests.records.memory_growth import peak_growth
from tests.support.examples import examples

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
DATA = st.one_of(st.binary(max_size=200), st.binary(min_size=1, max_size=20).map(lambda piece: piece * 9000))
MIB = 1 << 20
by_codec = pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: codec.name)

UNXERIAL = struct.Struct(">8sii")


def oracle_decompress(codec: Codec, data: bytes) -> bytes:
    if codec is Codec.GZIP:
        return gzip.decompress(data)
    if codec is Codec.LZ4:
        return lz4.frame.decompress(data)
    if codec is Codec.ZSTD:
        return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    assert UNXERIAL.unpack_from(data) == (b"\x82SNAPPY\0", 1, 1)
    blocks, rest = [], data[UNXERIAL.size :]
    while rest:
        (size,) = struct.unpack_from(">i", rest)
        blocks.append(snappy.uncompress(rest[4 : 4 + size]))
        rest = rest[4 + size :]
    return b"".join(blocks)


@by_codec
@given(data=DATA, level=st.none() | st.integers(1, 9))
@settings(max_examples=examples(25), deadline=None)
def test_peers_decompress_our_output(codec: Codec, data: bytes, level: int | None) -> None:
    packed = compress(codec, data, level)
    assert oracle_decompress(codec, packed) == data
    assert decompress(codec, memoryview(packed)) == data


@given(data=DATA, linked=st.booleans(), size=st.booleans(), content=st.booleans(), block=st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_lz4_frames_of_others(data: bytes, linked: bool, size: bool, content: bool, block: bool) -> None:
    frame = lz4.frame.compress(
        data, block_linked=linked, store_size=size, content_checksum=content, block_checksum=block
    )
    assert decompress(Codec.LZ4, frame) == data


@pytest.mark.parametrize("level", [-5, 1, 3, 19, 22])
@pytest.mark.parametrize("sized", [True, False])
def test_zstd_frames_of_others(level: int, sized: bool) -> None:
    data = b"".join(b"line %d of a log\n" % number for number in range(8000))  # more than a block
    writer = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=sized).compressobj()
    frame = writer.compress(data) + writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + writer.flush()
    assert decompress(Codec.ZSTD, frame) == data
    assert decompress(Codec.ZSTD, frame + frame) == data * 2


def test_gzip_of_several_members() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


@given(data=DATA)
@settings(max_examples=examples(20), deadline=None)
def test_raw_snappy_blocks(data: bytes) -> None:
    assert decompress(Codec.SNAPPY, snappy.compress(data)) == data


def test_lz4_blocks_are_independent_as_java_wants_them() -> None:
    frame = compress(Codec.LZ4, b"0123456789" * 100_000)
    assert lz4.frame.get_frame_info(frame)["block_linked"] is False


@by_codec
def test_every_truncation_is_noticed(codec: Codec) -> None:
    packed = compress(codec, b"some text that is repeated, some text that is repeated " * 3)
    for length in range(len(packed)):
        if codec is Codec.SNAPPY and length == UNXERIAL.size:
            continue  # the framing's header alone is a stream of no blocks
        with pytest.raises(CorruptRecords):
            decompress(codec, packed[:length])


@by_codec
def test_no_corruption_raises_anything_else(codec: Codec) -> None:
    packed = compress(codec, b"some text that is repeated, some text that is repeated " * 3)
    for position in range(len(packed)):
        for bits in (0x01, 0x80, 0xFF):
            damaged = bytearray(packed)
            damaged[position] ^= bits
            try:
                found = decompress(codec, damaged, limit=MIB)
            except CorruptRecords:
                continue
            assert len(found) <= MIB


@by_codec
@given(data=st.binary(max_size=60))
@settings(max_examples=examples(60), deadline=None)
def test_nonsense_raises_nothing_else(codec: Codec, data: bytes) -> None:
    start = {
        Codec.GZIP: b"\x1f\x8b\x08\0",
        Codec.SNAPPY: b"",
        Codec.LZ4: b"\x04\x22\x4d\x18",
        Codec.ZSTD: b"\x28\xb5\x2f\xfd",
    }
    for attempt in (data, start[codec] + data):
        with contextlib.suppress(CorruptRecords):
            assert len(decompress(codec, attempt, limit=MIB)) <= MIB


BOMBS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.GZIP: lambda data: gzip.compress(data, 1),
    Codec.SNAPPY: lambda data: compress(Codec.SNAPPY, data),
    Codec.LZ4: lz4.frame.compress,
    Codec.ZSTD: zstandard.compress,
}


@by_codec
def test_bombs_take_no_more_than_the_limit(codec: Codec) -> None:
    bomb = BOMBS[codec](bytes(200 * MIB))
    with peak_growth() as growth, pytest.raises(CorruptRecords):
        decompress(codec, bomb, limit=4 * MIB)
    assert growth.bytes < 24 * MIB


@by_codec
def test_the_limit_itself_is_allowed(codec: Codec) -> None:
    packed = compress(codec, bytes(MIB))
    assert decompress(codec, packed, limit=MIB) == bytes(MIB)
    with pytest.raises(CorruptRecords):
        decompress(codec, packed, limit=MIB - 1)


def _lz4_claiming(size: int) -> bytes:
    """A frame of 'abc' whose header claims `size` bytes, with a checksum that agrees (lz4 makes it)."""
    return lz4.frame.LZ4FrameCompressor().begin(source_size=size) + struct.pack("<I", 3 | 1 << 31) + b"abc" + bytes(4)


LIES = {
    "zstd content size": (Codec.ZSTD, struct.pack("<IBBQ", 0xFD2FB528, 0xC0, 0x58, 2 << 30) + b"\1\0\0"),
    "zstd single segment": (Codec.ZSTD, struct.pack("<IBQ", 0xFD2FB528, 0xE0, 2 << 30) + b"\1\0\0"),
    "zstd segment of 100 MiB": (Codec.ZSTD, struct.pack("<IBQ", 0xFD2FB528, 0xE0, 100 << 20) + b"\1\0\0"),
    "zstd window": (Codec.ZSTD, struct.pack("<IBB", 0xFD2FB528, 0x00, 21 << 3) + b"\1\0\0"),
    "lz4 content size": (Codec.LZ4, _lz4_claiming(2 << 30)),
    "snappy block": (Codec.SNAPPY, b"\xff\xff\xff\xff\x07" + b"\0abc"),
    "snappy block of 60 MiB": (Codec.SNAPPY, b"\x80\x80\x80\x1e" + b"\0abc"),
    "xerial size": (Codec.SNAPPY, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + struct.pack(">i", (1 << 31) - 1) + b"abc"),
    "xerial negative size": (Codec.SNAPPY, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + struct.pack(">i", -1) + b"abc"),
    "xerial size of nothing": (Codec.SNAPPY, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + bytes(4) + b"abc"),
    "xerial block's size": (
        Codec.SNAPPY,
        b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + struct.pack(">i", 8) + b"\xff\xff\xff\x7f\0abc",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_claims_allocate_nothing(name: str) -> None:
    codec, data = LIES[name]
    with peak_growth() as growth, contextlib.suppress(CorruptRecords):
        assert len(decompress(codec, data)) < 100
    assert growth.bytes < 8 * MIB


def test_many_tiny_members_take_no_quadratic_time() -> None:
    """Each of 20,000 gzip members must not cost a copy of all that follow."""
    data = gzip.compress(b"x") * 20_000
    assert decompress(Codec.GZIP, data) == b"x" * 20_000


def test_gzip_trailer_is_checked() -> None:
    packed = bytearray(gzip.compress(b"data"))
    packed[-8:-4] = struct.pack("<I", zlib.crc32(b"else"))
    with pytest.raises(CorruptRecords):
        decompress(Codec.GZIP, packed)


def test_codecs_that_do_not_exist() -> None:
    for number in (5, 6, 7):
        with pytest.raises(InvalidRecords) as caught:
            codec_of(number)
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_zstd_is_of_v2_only() -> None:
    for function in (compress, lambda codec, data, level, magic: decompress(codec, data, magic)):
        with pytest.raises(InvalidRecords) as caught:
            function(Codec.ZSTD, b"data", None, 1)
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_panic_of_native_code_is_damaged_data() -> None:
    panic = type("PanicException", (BaseException,), {})
    with pytest.raises(CorruptRecords), as_corrupt("data"):
        raise panic("index out of bounds")
    with pytest.raises(KeyboardInterrupt), as_corrupt("data"):
        raise KeyboardInterrupt
