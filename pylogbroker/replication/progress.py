"""Progress of one follower, as its leader knows it from fetches of the present leader epoch."""

from __future__ import annotations

from typing import Final

import attrs

from pylogbroker.replication.log import UNKNOWN_OFFSET

UNKNOWN_BROKER_EPOCH: Final = -1


@attrs.define(eq=False, repr=False)
class FollowerProgress:
    last_caught_up_ms: int | None = None
    """Last time at which the follower had all that the leader had; members of the ISR begin with the leadership."""
    log_end_offset: int = UNKNOWN_OFFSET
    """Offset of the last fetch: the follower has all records below."""
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    """Unknown before Fetch 15 (KIP-903)."""
    _last_fetch_ms: int = 0
    _leader_end_at_last_fetch: int = UNKNOWN_OFFSET

    def fetched(self, offset: int, log_start_offset: int, broker_epoch: int, leader_end: int, now_ms: int) -> None:
        if offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif offset >= self._leader_end_at_last_fetch != UNKNOWN_OFFSET:
            self.last_caught_up_ms = max(self.last_caught_up_ms or 0, self._last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._last_fetch_ms = now_ms
        self._leader_end_at_last_fetch = leader_end

    def waited(self, fetch_ms: int) -> None:
        """Note a fetch at the offset of the last one; the leader had no more records then than at that one."""
        if self.log_end_offset >= self._leader_end_at_last_fetch != UNKNOWN_OFFSET:
            self.last_caught_up_ms = max(self.last_caught_up_ms or 0, fetch_ms)

    def is_caught_up(self, leader_end: int, now_ms: int, lag_time_max_ms: int) -> bool:
        if self.log_end_offset == leader_end:
            return True
        return self.last_caught_up_ms is not None and now_ms - self.last_caught_up_ms <= lag_time_max_ms
