"""State shared by fetch requests: sessions, converted records, and waiting requests."""

from __future__ import annotations

from collections import Counter

import attrs

from pylogbroker.broker.fetch.conversion_cache import ConversionCache
from pylogbroker.broker.fetch.sessions import FetchSessions
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.runtime.throttles import LEADER_RATE, throttle_of
from pylogbroker.broker.services import DelayedRequest
from pylogbroker.config import RACK_AWARE_SELECTOR, BrokerConfig
from pylogbroker.replication.throttle import ReplicationThrottle


@attrs.frozen(eq=False, repr=False)
class FetchService:
    """`bytes_max` bounds the records in a response; `selects_by_rack` sends consumers to followers (KIP-392).

    `leader_throttle` is for throttled followers that are not in sync.
    """

    sessions: FetchSessions
    bytes_max: int
    leader_throttle: ReplicationThrottle
    selects_by_rack: bool = False
    conversion_cache: ConversionCache = attrs.field(factory=ConversionCache, init=False)
    delayed: dict[DelayedRequest, None] = attrs.field(factory=dict, init=False)
    expired: Counter[str] = attrs.field(factory=Counter, init=False)
    """Fetches that waited for their whole time, by "consumer" and "follower"."""

    @classmethod
    def of(cls, config: BrokerConfig, runtime: Runtime) -> FetchService:
        slots = config.max_incremental_fetch_session_cache_slots
        selects_by_rack = config.replica_selector_class == RACK_AWARE_SELECTOR
        throttle = throttle_of(config, LEADER_RATE, runtime)
        return cls(FetchSessions(slots), config.fetch_max_bytes, throttle, selects_by_rack)

    def expire_all(self) -> None:
        for request in tuple(self.delayed):
            request.expire()
