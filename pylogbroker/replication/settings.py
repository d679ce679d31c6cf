"""Settings that the state machines of replicas obey."""

from __future__ import annotations

from collections.abc import Callable

import attrs


def never() -> bool:
    return False


@attrs.frozen
class ReplicationSettings:
    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_backoff_ms: int = 1_000
    truncates_on_fetch: bool = True
    """True if leaders compare the last fetched epoch (`inter.broker.protocol.version` 2.7 and later)."""
    begins_at_tiered_end: Callable[[], bool] = never
    """Whether a new replica of an archived partition begins behind the last archived record; it may change."""
