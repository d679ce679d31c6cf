"""Counts and names in frames, whose encodings depend on the version of the API.

    version     count of elements, size of records   size of a name       tags
    ----------  -----------------------------------  -------------------  --------------------------
    flexible    varint of the number + 1             varint of size + 1   one byte, 0 if there are none
    older       int32                                int16                none

Null, tagged fields and whatever else is rare raise `Unusual`.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from pylogbroker.broker.repeated import PREFIX_AT
from pylogbroker.wire import WireError
from pylogbroker.wire.primitives import read_uvarint, uvarint

PARTITIONS_MAX: Final = 200
"""Partitions of a request that are handled at once: a few milliseconds. The usual path handles more in steps."""

_REST_BYTES_MAX: Final = 512
"""Constant bytes at the end; a longer rest is not remembered."""

_unpack_int = Struct(">i").unpack_from
_unpack_short = Struct(">h").unpack_from


class Unusual(Exception):
    """The request must take the usual path."""


NOT_KNOWN: Final = (Unusual, WireError, IndexError, error)
"""Raised for requests that are unusual, or not sound."""


def first_difference(one: bytes, other: bytes) -> int:
    """Return the first position at which two encodings differ."""
    return next(at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)


def prefix_of(frame: memoryview, body_at: int, before: bytes, rest: bytes = b"") -> bytes | None:
    """Return what is between the correlation id of a frame and the end of `before`.

    Return None unless its body, which is at `body_at`, begins with `before`, and ends with `rest`.
    """
    end = body_at + len(before)
    if len(rest) > _REST_BYTES_MAX or frame[body_at:end] != before or frame[len(frame) - len(rest) :] != rest:
        return None
    return bytes(frame[PREFIX_AT:end])


class FlexibleFrames:
    tags: Final = b"\0"
    no_elements: Final = b"\1"

    @staticmethod
    def count(number: int) -> bytes:
        return uvarint(number + 1)

    @staticmethod
    def around_count(without: bytes, with_one: bytes) -> tuple[bytes, bytes]:
        """Return what is before and behind the count of a list, by encodings without and with an element."""
        at = first_difference(without, with_one)
        return without[:at], without[at + 1 :]

    @staticmethod
    def read_count(frame: memoryview, at: int) -> tuple[int, int]:
        """Return a count or a size, and the position behind it; raise Unusual for null."""
        size, at = read_uvarint(frame, at)
        if not size:
            raise Unusual
        return size - 1, at

    read_name_size = read_count

    @staticmethod
    def behind_tags(frame: memoryview, at: int) -> int:
        if frame[at]:
            raise Unusual
        return at + 1


class OlderFrames:
    tags: Final = b""
    no_elements: Final = bytes(4)
    count: Final = Struct(">i").pack

    @staticmethod
    def around_count(without: bytes, with_one: bytes) -> tuple[bytes, bytes]:
        at = first_difference(without, with_one) - 3  # the last byte of the count differs
        return without[:at], without[at + 4 :]

    @staticmethod
    def read_count(frame: memoryview, at: int) -> tuple[int, int]:
        [size] = _unpack_int(frame, at)
        if size < 0:
            raise Unusual
        return size, at + 4

    @staticmethod
    def read_name_size(frame: memoryview, at: int) -> tuple[int, int]:
        [size] = _unpack_short(frame, at)
        if size < 0:
            raise Unusual
        return size, at + 2

    @staticmethod
    def behind_tags(frame: memoryview, at: int) -> int:
        return at


Frames = FlexibleFrames | OlderFrames


def frames_of(is_flexible: bool) -> Frames:
    return FlexibleFrames() if is_flexible else OlderFrames()
