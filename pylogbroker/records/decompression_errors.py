"""Exceptions of decompressors, translated into CorruptRecords."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import cramjam

from pylogbroker.errors import CorruptRecords

_FULL = "failed to write whole buffer"
"""Message of Rust for a full output buffer."""

_PANIC = "PanicException"
"""Failure in Rust code: not an `Exception`, and exported by no module."""


class Overflow(CorruptRecords):
    """Compressed data that expands beyond the limit."""


@contextmanager
def as_corrupt(what: str) -> Iterator[None]:
    """Raise CorruptRecords or Overflow; `what` begins the message."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, cramjam.DecompressionError) or type(error).__name__ == _PANIC:
            kind = Overflow if _FULL in str(error) else CorruptRecords
            raise kind(f"{what}: {error}") from None
        raise
