"""Counts of what comes into partitions and goes out, by topic, since the start of the broker.

They are integers that a batch of records changes, and that metrics read. A topic's counts end with its last partition
here; they stay part of the totals.
"""

from __future__ import annotations

from collections import Counter

import attrs

from pylogbroker.broker.partitions.conversion_costs import ConversionCosts
from pylogbroker.errors import ErrorCode, RejectionReason


@attrs.define(eq=False, repr=False)
class TopicTraffic:
    """Counts of the partitions of one topic."""

    partitions: int = 0
    """Partitions that count here."""
    appends: int = 0
    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    """To consumers."""
    replication_bytes_out: int = 0
    fetches: int = 0
    rejected_bytes: int = 0
    """Of records that were too large."""
    append_errors: Counter[ErrorCode] = attrs.field(factory=Counter)
    fetch_errors: Counter[ErrorCode] = attrs.field(factory=Counter)
    rejections: Counter[RejectionReason] = attrs.field(factory=Counter)
    produce_conversions: int = 0
    """Records that came in another format or codec than the topic's."""
    fetch_conversions: int = 0
    """Records that a client's version of the protocol could not have as they are stored."""
    _costs: ConversionCosts = attrs.field(factory=ConversionCosts)
    """Shared by all topics."""

    def produce_converted(self, records: int, size: int, ns: int, /) -> None:
        """Count records that were converted to `size` bytes in `ns` nanoseconds. Any thread may call."""
        with self._costs.lock:
            self.produce_conversions += records
            self._costs.produce.add(size, ns)

    def fetch_converted(self, records: int, size: int, ns: int, /) -> None:
        """Count like `produce_converted`."""
        with self._costs.lock:
            self.fetch_conversions += records
            self._costs.fetch.add(size, ns)

    def add(self, other: TopicTraffic) -> None:
        self.appends += other.appends
        self.messages_in += other.messages_in
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.replication_bytes_out += other.replication_bytes_out
        self.fetches += other.fetches
        self.rejected_bytes += other.rejected_bytes
        self.append_errors += other.append_errors
        self.fetch_errors += other.fetch_errors
        self.rejections += other.rejections
        self.produce_conversions += other.produce_conversions
        self.fetch_conversions += other.fetch_conversions


@attrs.define(eq=False, repr=False)
class Traffic:
    topics: dict[str, TopicTraffic] = attrs.field(factory=dict, init=False)
    conversion_costs: ConversionCosts = attrs.field(factory=ConversionCosts, init=False)
    of_others: TopicTraffic = attrs.field(init=False)
    """Sum of topics that have no partition here any more, and of those that were not found."""

    def __attrs_post_init__(self) -> None:
        self.of_others = self._new()

    def join(self, topic: str) -> TopicTraffic:
        """Return the counts of a topic for one more partition."""
        traffic = self.topics.get(topic)
        if traffic is None:
            traffic = self.topics[topic] = self._new()
        traffic.partitions += 1
        return traffic

    def _new(self) -> TopicTraffic:
        return TopicTraffic(costs=self.conversion_costs)

    def leave(self, topic: str) -> None:
        """Forget one partition of a topic."""
        traffic = self.topics[topic]
        traffic.partitions -= 1
        if not traffic.partitions:
            self.of_others.add(self.topics.pop(topic))

    def of(self, topic: str) -> TopicTraffic:
        """Return the counts of a topic, or those of others."""
        return self.topics.get(topic, self.of_others)
