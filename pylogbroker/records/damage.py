"""Turning what a decompressor raises into the project's own errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import cramjam

from pylogbroker.errors import CorruptRecords

_FULL = "failed to write whole buffer"
"""What Rust's standard library says when there is more output than room for it."""

_PANIC = "PanicException"
"""What a failure inside of native Rust code is raised as: not an `Exception`, and exported by no module."""


class Overflow(CorruptRecords):
    """Compressed data that holds more than is allowed."""


@contextmanager
def as_corrupt(what: str) -> Iterator[None]:
    """Raise CorruptRecords, or Overflow, about `what` instead of any way for a native decompressor to fail."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, cramjam.DecompressionError) or type(error).__name__ == _PANIC:
            kind = Overflow if _FULL in str(error) else CorruptRecords
            raise kind(f"{what}: {error}") from None
        raise
