"""Lags of all partitions and topics of a mirror, kept as offsets change: there may be thousands."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.interfaces import TopicPartition


@attrs.frozen
class Lag:
    """Offsets of a partition: what was taken, and where committed records end. -1 is unknown."""

    next_offset: int
    end: int

    @property
    def records(self) -> int:
        """Return the offsets between both; -1 if unknown."""
        return -1 if self.end < 0 or self.next_offset < 0 else max(0, self.end - self.next_offset)


@attrs.define
class TopicLag:
    """Records of a topic that are not mirrored yet, of the partitions whose ends are known."""

    partitions: int = 0
    records: int = 0


@attrs.define(eq=False, repr=False)
class LagTable:
    records: int = 0
    """Records of all partitions that are not mirrored yet."""
    _partitions: dict[TopicPartition, Lag] = attrs.field(factory=dict)
    _topics: dict[str, TopicLag] = attrs.field(factory=dict)
    _behind: set[TopicPartition] = attrs.field(factory=set)
    """Partitions that have a lag, or an unknown one."""

    @property
    def partitions(self) -> Mapping[TopicPartition, Lag]:
        """Lags by the source's partition. One that changes is another object."""
        return self._partitions

    @property
    def topics(self) -> Mapping[str, TopicLag]:
        return self._topics

    @property
    def are_zero(self) -> bool:
        return not self._behind

    def update(self, buffer: FetchBuffer) -> None:
        """Note the present offsets of a partition."""
        stable = buffer.last_stable_offset
        end = stable if stable >= 0 else buffer.high_watermark
        key = buffer.key
        before = self._partitions.get(key)
        if before is None or before.next_offset != buffer.delivered or before.end != end:
            self._put(key, before, Lag(buffer.delivered, end))

    def remove(self, key: TopicPartition) -> None:
        lag = self._partitions.pop(key, None)
        if lag is None:
            return
        topic = self._topics[key[0]]
        topic.partitions -= 1
        self._add(topic, -max(0, lag.records))
        self._behind.discard(key)
        if not topic.partitions:
            del self._topics[key[0]]

    def _put(self, key: TopicPartition, before: Lag | None, lag: Lag) -> None:
        topic = self._topics.get(key[0]) or self._topics.setdefault(key[0], TopicLag())
        records_before = 0
        if before is None:
            topic.partitions += 1
        else:
            records_before = max(0, before.records)
        self._partitions[key] = lag
        records = lag.records
        self._add(topic, max(0, records) - records_before)
        if records:
            self._behind.add(key)
        else:
            self._behind.discard(key)

    def _add(self, topic: TopicLag, records: int) -> None:
        topic.records += records
        self.records += records
