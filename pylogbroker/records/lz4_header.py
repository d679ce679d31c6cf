"""Header checksums of LZ4 frames: by the specification, and as in Kafka's v0 messages.

    0        4     5     6                    6 or 14
    +--------+-----+-----+--------------------+----+----------
    | magic  | FLG | BD  | content size (opt) | HC | blocks ...
    +--------+-----+-----+--------------------+----+----------

HC is the second byte of the descriptor's xxHash-32 (FLG, BD, content size). v0 messages hash the magic, too: an old
mistake of Kafka's clients.
"""

from __future__ import annotations

import struct

from pylogbroker.errors import CorruptRecords
from pylogbroker.records.model import Buffer

MAGIC = b"\x04\x22\x4d\x18"
_CONTENT_SIZE = 0x08
_DICTIONARY_ID = 0x01
_MASK = 0xFFFFFFFF
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK


def short_xxh32(data: bytes) -> int:
    """Return the xxHash-32, seed 0, of fewer than 16 bytes, as headers have."""
    whole = len(data) & ~3
    digest = _PRIME_5 + len(data)
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        digest = _rotate(digest + word * _PRIME_3, 17) * _PRIME_4
    for byte in data[whole:]:
        digest = _rotate(digest + byte * _PRIME_5, 11) * _PRIME_1
    digest &= _MASK
    digest = (digest ^ digest >> 15) * _PRIME_2 & _MASK
    digest = (digest ^ digest >> 13) * _PRIME_3 & _MASK
    return digest ^ digest >> 16


def _descriptor_end(frame: bytes) -> int:
    if len(frame) < 7 or frame[:4] != MAGIC:
        raise CorruptRecords("not an LZ4 frame")
    if frame[4] & _DICTIONARY_ID:
        raise CorruptRecords("an LZ4 frame that needs a dictionary")
    end = 14 if frame[4] & _CONTENT_SIZE else 6
    if len(frame) <= end:
        raise CorruptRecords("an LZ4 frame that ends in its header")
    return end


def _with_checksum(frame: Buffer, hashed_from: int) -> bytes:
    frame = bytes(frame)
    end = _descriptor_end(frame)
    checksum = short_xxh32(frame[hashed_from:end]) >> 8 & 0xFF
    return b"%b%c%b" % (frame[:end], checksum, frame[end + 1 :])


def with_standard_checksum(frame: Buffer) -> bytes:
    return _with_checksum(frame, 4)


def with_v0_checksum(frame: Buffer) -> bytes:
    return _with_checksum(frame, 0)
