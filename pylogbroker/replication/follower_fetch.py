"""Fetch request of a follower, as its leader sees it."""

from __future__ import annotations

from typing import NamedTuple

from pylogbroker.replication.log import UNKNOWN_EPOCH
from pylogbroker.replication.progress import UNKNOWN_BROKER_EPOCH


class FollowerFetch(NamedTuple):
    """Fields of a follower's Fetch request for one partition."""

    replica_id: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int = UNKNOWN_EPOCH
    """Unknown before Fetch 12."""
    log_start_offset: int = 0
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    """Unknown before Fetch 15."""
