from __future__ import annotations

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import Codec, Record, build, entries
from pylogbroker.records.compression import compress, decompress
from pylogbroker.records.lz4_header import MAGIC, short_xxh32, with_standard_checksum, with_v0_checksum


def sanity_buffer(size: int) -> bytes:
    """The bytes that xxHash's own self-test hashes."""
    generator, found = 2654435761, bytearray()
    for _ in range(size):
        found.append(generator >> 56)
        generator = generator * 11400714785074694797 % (1 << 64)
    return bytes(found)


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (sanity_buffer(1), 0xCF65B03E),
        (sanity_buffer(14), 0x1208E7E2),
    ],
    ids=lambda value: None,
)
def test_published_hashes(data: bytes, digest: int) -> None:
    assert short_xxh32(data) == digest


@given(st.binary(max_size=100), st.booleans(), st.booleans(), st.sampled_from([0, 4, 5, 6, 7]))
def test_the_lz4_librarys_headers_are_right_already(data: bytes, sized: bool, linked: bool, block_size: int) -> None:
    frame = lz4.frame.compress(data, store_size=sized, block_linked=linked, block_size=block_size)
    assert with_standard_checksum(frame) == frame


@pytest.mark.parametrize("sized", [True, False])
def test_spoiled_frames_are_read_once_mended(sized: bool) -> None:
    frame = lz4.frame.compress(b"data " * 50, store_size=sized)
    wrong = with_v0_checksum(frame)
    end = 14 if sized else 6
    assert [at for at in range(len(frame)) if frame[at] != wrong[at]] == [end]
    assert wrong[end] == short_xxh32(frame[:end]) >> 8 & 0xFF
    assert with_standard_checksum(wrong) == frame
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(wrong)


def test_v0_is_written_wrong_and_read_either_way() -> None:
    data = b"data " * 50
    wrong = compress(Codec.LZ4, data, magic=0)
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(wrong)
    assert lz4.frame.decompress(with_standard_checksum(wrong)) == data
    assert decompress(Codec.LZ4, wrong, magic=0) == data
    assert decompress(Codec.LZ4, lz4.frame.compress(data), magic=0) == data


def test_later_formats_insist_on_the_right_checksum() -> None:
    with pytest.raises(CorruptRecords):
        decompress(Codec.LZ4, compress(Codec.LZ4, b"data", magic=0), magic=1)


def test_a_v0_message_set_in_lz4() -> None:
    records = [Record(offset, -1, b"key", b"value %d" % offset) for offset in range(30)]
    [entry] = entries(build(records, magic=0, codec=Codec.LZ4))
    entry.check()
    assert list(entry.records()) == records


@pytest.mark.parametrize(
    "frame",
    [b"", MAGIC, MAGIC + b"\x60\x40", b"LZ4!" + bytes(20), MAGIC + b"\x61" + bytes(20), MAGIC + b"\x68" + bytes(9)],
    ids=bytes.hex,
)
def test_invalid_frames_are_rejected(frame: bytes) -> None:
    for function in (with_standard_checksum, with_v0_checksum):
        with pytest.raises(CorruptRecords):
            function(frame)
    with pytest.raises(CorruptRecords):
        decompress(Codec.LZ4, frame, magic=0)
