"""Reports of the conversions of appended records."""

from __future__ import annotations

from typing import Protocol

import attrs


class ConversionListener(Protocol):
    def __call__(self, records: int, size: int, ns: int, /) -> None:
        """Count records that were converted to `size` bytes in `ns` nanoseconds. Any thread calls."""


def _ignore_conversion(records: int, size: int, ns: int, /) -> None:
    """Do nothing."""


@attrs.define(eq=False)
class ConversionPort:
    """Listener of one log, which is set after the log's rules are made."""

    on_converted: ConversionListener = _ignore_conversion
