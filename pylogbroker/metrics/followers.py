"""Metrics of connections that follow topics by HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition


class TopicFollowers(Protocol):
    """Followers of a topic now, how many of them are behind, and the records that the slowest has not got."""

    @property
    def topic(self) -> str: ...
    @property
    def followers(self) -> int: ...
    @property
    def behind(self) -> int: ...
    @property
    def lag(self) -> int: ...


class FollowerCounts(Protocol):
    """Totals; `ended` is by who has ended the connection."""

    begun: int
    records: int
    bytes: int
    skipped: int

    @property
    def ended(self) -> Mapping[Any, int]: ...


class Following(Protocol):
    """The part of the HTTP server that followers are connected to."""

    @property
    def counts(self) -> FollowerCounts: ...

    async def by_topic(self) -> Sequence[TopicFollowers]: ...


async def collect_followers(out: Exposition, following: Following) -> None:
    counts = following.counts
    out.add(families.FOLLOWERS_BEGUN, counts.begun)
    for ended_by in ("client", "broker"):
        out.add(families.FOLLOWERS_ENDED, counts.ended.get(ended_by, 0), ended_by)
    out.add(families.FOLLOWER_RECORDS, counts.records)
    out.add(families.FOLLOWER_BYTES, counts.bytes)
    out.add(families.FOLLOWER_SKIPPED, counts.skipped)
    for topic in await following.by_topic():
        out.add(families.FOLLOWERS, topic.followers, topic.topic)
        out.add(families.FOLLOWERS_BEHIND, topic.behind, topic.topic)
        out.add(families.FOLLOWER_LAG_MAX, topic.lag, topic.topic)
