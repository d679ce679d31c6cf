"""Reports of the conversions of appended records."""

from __future__ import annotations

from typing import Protocol


class ConversionListener(Protocol):
    def __call__(self, records: int, size: int, ns: int, /) -> None:
        """Count records that were converted to `size` bytes in `ns` nanoseconds. Any thread calls."""


def ignore_conversion(records: int, size: int, ns: int, /) -> None:
    """Do nothing."""
