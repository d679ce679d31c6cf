"""Counts of the connections that follow topics by HTTP, for metrics and pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, Protocol

import attrs

EndedBy = Literal["client", "broker"]


@attrs.define(eq=False, repr=False)
class FollowingTotals:
    """Totals since the start of the broker."""

    begun: int = 0
    records: int = 0
    """Records that were sent, once for each follower."""
    bytes: int = 0
    skipped: int = 0
    """Offsets that retention had deleted before a follower read them."""
    ended: Counter[EndedBy] = attrs.field(factory=Counter)


@attrs.frozen
class FollowersNow:
    """Followers of a topic now."""

    topic: str
    followers: int
    behind: int
    """Followers that read older records, or do not take new ones."""
    lag: int
    """Records that the slowest follower has not got, over all its partitions."""


class FollowedTopics(Protocol):
    """The connections to this broker that follow topics."""

    async def by_topic(self, topic: str = "") -> Sequence[FollowersNow]:
        """Return the topics that have followers, or one. Gives way to other work."""
