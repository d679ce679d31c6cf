"""Turning what a decompressor raises into the project's own error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import cramjam

from pylogbroker.errors import CorruptRecords

_PANIC = "PanicException"
"""What a failure inside of native Rust code is raised as: not an `Exception`, and exported by no module."""


@contextmanager
def as_corrupt(what: str) -> Iterator[None]:
    """Raise CorruptRecords about `what` instead of any way for a native decompressor to fail."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, cramjam.DecompressionError) or type(error).__name__ == _PANIC:
            raise CorruptRecords(f"{what}: {error}") from None
        raise
