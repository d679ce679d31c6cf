"""Offsets that the source has deleted before they were mirrored, such as while the mirror was down."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pylogbroker.interfaces import TopicPartition


@attrs.define(eq=False, repr=False)
class LostOffsets:
    """Counts by topics of the source. Not each offset had a record: compaction and transactions leave gaps."""

    _by_topic: dict[str, int] = attrs.field(factory=dict)

    def add(self, partition: TopicPartition, position: int, first: int) -> None:
        """Note that a log begins at `first` now, behind the mirror's position."""
        topic, _ = partition
        self._by_topic[topic] = self._by_topic.get(topic, 0) + first - position

    def by_topic(self) -> Mapping[str, int]:
        return dict(self._by_topic)
