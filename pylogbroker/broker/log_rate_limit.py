"""Lines in the log that would come with every request, told once in a while instead."""

from __future__ import annotations

import attrs

INTERVAL_MS = 60_000


@attrs.define
class LogRateLimit:
    """Remembers when each thing was told last; there are only as many as there are things to complain about."""

    _logged_ms: dict[str, int] = attrs.field(factory=dict, init=False)

    def is_due(self, about: str, now_ms: int) -> bool:
        """Whether to tell it now, which is taken for done: the next time comes `INTERVAL_MS` later."""
        last_ms = self._logged_ms.get(about)
        if last_ms is not None and 0 <= now_ms - last_ms < INTERVAL_MS:
            return False
        self._logged_ms[about] = now_ms
        return True
