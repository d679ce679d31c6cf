"""Settings that the state machines of replicas obey."""

from __future__ import annotations

import attrs


@attrs.frozen
class ReplicationSettings:
    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_backoff_ms: int = 1_000
    truncates_on_fetch: bool = True
    """True if leaders compare the last fetched epoch (`inter.broker.protocol.version` 2.7 and later)."""
