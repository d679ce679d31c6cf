"""Rates of a mirror between two looks at its counts."""

from __future__ import annotations

from typing import Final

import attrs

from pylogbroker.mirror.copier import CopyCounts

_SECONDS_MIN: Final = 0.001


@attrs.define
class CopyRates:
    _at: float
    _records: int = 0
    _bytes: int = 0

    def since_last(self, now: float, counts: CopyCounts) -> tuple[float, float]:
        """Return records and bytes per second since the last call."""
        seconds = max(now - self._at, _SECONDS_MIN)
        rates = (counts.records - self._records) / seconds, (counts.bytes - self._bytes) / seconds
        self._at, self._records, self._bytes = now, counts.records, counts.bytes
        return rates
