"""End of a stream's next micro-batch, from the topics' current offsets.

| partition                     | begins at                                                                      |
|-------------------------------|--------------------------------------------------------------------------------|
| exists at the first batch     | the starting option                                                            |
| created later                 | its first offset; if that is not 0, data has been lost                         |
| deleted with its topic        | left out; unread data has been lost                                            |
| topic has a new id            | its first offset; unread data has been lost                                    |
| ends before the read position | its end, if the topic's id is unchanged: the log was truncated.                |
|                               | Else the topic may have been recreated: its first offset                       |

If a loss is no error, such a partition makes a step at once, even an empty one: Spark must log it before the partition
regains its old length. Spark logs the topics' ids, too, so a topic that is recreated between two runs of a query is
noticed. A checkpoint of an earlier version or another source has no ids: they make a step at once. Brokers before Kafka
2.8 have none: there, a recreated topic that has its old length again is not noticed.

A new leader may briefly report an earlier end, a restarted broker miss a topic or know an earlier one of its name. So
missing partitions, those that went backwards, and new ids are looked up `fetchOffset.numRetries` times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.client.errors import TopicRecreated, is_retriable
from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.spark.options import ReadOptions
from pylogbroker.spark.options.positions import named
from pylogbroker.spark.reading.bounds import missing, offsets_for, partitions_for, reject_missing
from pylogbroker.spark.reading.losses import lost
from pylogbroker.spark.reading.record_wait import RecordWait
from pylogbroker.spark.reading.slices import limited
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST
from pylogbroker.wire.schema import NO_ID

_REFRESH_SECONDS: Final = 1.0  # between metadata refreshes
_WAIT: Final = 0.2  # seconds

Positions = dict[TopicPartition, int]
TopicIds = Mapping[str, UUID]


@attrs.frozen
class MicroBatch:
    """Ends, starts of partitions that do not continue the previous batch, and known ids of their topics."""

    ends: Positions
    begins: Positions
    ids: TopicIds


class MicroBatches:
    def __init__(self, options: ReadOptions) -> None:
        self.ends: Positions = {}
        self._options = options
        self._cluster = BlockingCluster(options.settings)
        self._record_wait = RecordWait(self._cluster)
        self._partitions: list[TopicPartition] = []
        self._ids: TopicIds = {}
        self._logged: TopicIds = {}
        self._refreshed = float("-inf")
        self._target: Positions | None = None
        self._last_step = float("-inf")

    def close(self) -> None:
        self._record_wait.close()
        self._cluster.close()

    def stop_at_latest(self) -> None:
        """End the stream at the current ends."""
        self._refresh_until_complete()
        self._target = self._latest(self._partitions)

    def first(self, most: int | None) -> MicroBatch:
        """Return the first step, with all starts."""
        self._cluster.reach()
        self._refresh_until_complete()
        reject_missing(self._missing())
        begins = offsets_for(
            self._cluster,
            self._options.start,
            self._partitions,
            starting=True,
            latest_if_none=self._options.latest_if_none,
        )
        ids = self._ids_of(begins)
        self._ask_ends(begins)
        return self._step(self._within(begins, most) or begins, begins, ids)

    def next(self, reached: Positions, logged: TopicIds, most: int | None, everything: bool) -> MicroBatch | None:
        """Return the step after `reached`, positions in topics with the `logged` ids; without one, wait briefly."""
        self._logged = logged
        self._refresh_if_due()
        self._ask_ends(reached)
        begins = self._begins(reached)
        ids = self._ids_of(begins)
        restarted = {key: begin for key, begin in begins.items() if reached.get(key) != begin}
        end = self._end(begins, most, everything)
        has_new_ids = any(topic in ids and ids[topic] != logged.get(topic) for topic, _ in reached)
        if end is None and (reached.keys() - begins.keys() or reached.keys() & restarted.keys() or has_new_ids):
            end = begins
        if end is None and self._target is None and self._record_wait.wait(self.ends, _WAIT):
            self._ask_ends(begins)
            end = self._end(begins, most, everything)
        return None if end is None else self._step(end, restarted, ids)

    def _step(self, end: Positions, begins: Positions, ids: TopicIds) -> MicroBatch:
        self._last_step = time.monotonic()
        return MicroBatch(end, begins, ids)

    def _ids_of(self, partitions: Collection[TopicPartition]) -> TopicIds:
        """Return the known ids that were compared with the logged ones; the logged ones of topics without an id now."""
        topics = {topic for topic, _ in partitions}
        return {topic: topic_id for topic in topics if (topic_id := self._ids.get(topic) or self._logged.get(topic))}

    def _end(self, begins: Positions, most: int | None, everything: bool) -> Positions | None:
        available = sum(max(0, self._reachable(key) - begin) for key, begin in begins.items())
        too_little = not everything and self._is_too_little(available)
        return None if too_little else self._within(begins, most)

    def _within(self, begins: Positions, most: int | None) -> Positions | None:
        ends = {key: self._reachable(key) for key in begins}
        available = sum(max(0, end - begins[key]) for key, end in ends.items())
        return limited(begins, ends, available if most is None else most) if available else None

    def _reachable(self, key: TopicPartition) -> int:
        end = self.ends.get(key, 0)
        return end if self._target is None else min(end, self._target.get(key, 0))

    def _is_too_little(self, available: int) -> bool:
        limits = self._options.limits
        if limits.least is None or available >= limits.least or self._target is not None:
            return False
        return time.monotonic() - self._last_step < limits.longest_delay / 1000

    def _refresh_if_due(self) -> None:
        if time.monotonic() - self._refreshed >= _REFRESH_SECONDS:
            self._refresh()

    def _refresh(self) -> None:
        self._partitions = partitions_for(self._cluster, self._options.topics)
        ids = self._cluster.topic_ids(topic for topic, _ in self._partitions)
        self._ids = {topic: topic_id for topic, topic_id in ids.items() if topic_id != NO_ID}
        self._refreshed = time.monotonic()

    def _refresh_until_complete(self) -> None:
        self._refresh()
        self._refresh_while(self._missing)

    def _missing(self) -> list[str]:
        return missing(self._cluster, self._options.topics, self._partitions)

    def _refresh_while(self, wrong: Callable[[], object]) -> None:
        for attempt in range(self._options.retries.attempts):
            if attempt:
                time.sleep(self._options.retries.pause)
                self._refresh()
            if not wrong():
                return

    def _ask_ends(self, positions: Positions) -> None:
        """Look up all ends, again while one is before its known position, or its topic has a new id."""

        def are_behind() -> bool:
            self.ends = self._latest_there()
            return any(self.ends.get(key, -1) < at or self._is_recreated(key[0]) for key, at in positions.items())

        self._refresh_while(are_behind)

    def _is_recreated(self, topic: str) -> bool:
        return topic in self._ids and self._logged.get(topic, self._ids[topic]) != self._ids[topic]

    def _latest_there(self) -> Positions:
        """Return all ends; the remaining ones if a topic is deleted meanwhile."""
        retries = self._options.retries
        try:
            return self._latest(self._partitions, retries.attempts * retries.pause)
        except PylogbrokerError as error:
            if not is_retriable(error):
                raise
        self._refresh()
        return self._latest(self._partitions)

    def _latest(self, partitions: Collection[TopicPartition], seconds: float | None = None) -> Positions:
        if not partitions:
            return {}
        offsets = self._cluster.offsets(dict.fromkeys(partitions, LATEST), seconds)
        return {key: listed.offset for key, listed in offsets.items()}

    def _begins(self, positions: Positions) -> Positions:
        gone = positions.keys() - self.ends.keys()
        if gone:
            lost(self._options.fail_on_data_loss, f"there is no {named(gone)} any more")
        if any(end < positions.get(key, 0) for key, end in self.ends.items()):
            self._refresh()  # maybe recreated
        cut = [
            key
            for key, end in self.ends.items()
            if key in positions and (end < positions[key] or self._is_recreated(key[0]))
        ]
        for key in cut:
            lost(
                self._options.fail_on_data_loss,
                f"{named([key])} was read up to {positions[key]}, but {self._why(key[0])}",
            )
        new = [key for key in self.ends if key not in positions]
        firsts = self._firsts([*new, *(key for key in cut if not self._is_same(key[0]))])
        for key in new:
            if firsts[key]:
                lost(self._options.fail_on_data_loss, f"{named([key])} is new, but begins at {firsts[key]}")
        return {key: firsts[key] if key in firsts else min(positions[key], end) for key, end in self.ends.items()}

    def _is_same(self, topic: str) -> bool:
        return topic in self._ids and self._ids[topic] == self._logged.get(topic)

    def _why(self, topic: str) -> str:
        if self._is_recreated(topic):
            return str(TopicRecreated(topic, self._logged[topic], self._ids[topic]))
        return "is shorter now: it was truncated" if self._is_same(topic) else "has been recreated or truncated"

    def _firsts(self, partitions: Collection[TopicPartition]) -> Positions:
        if not partitions:
            return {}
        offsets = self._cluster.offsets(dict.fromkeys(partitions, EARLIEST))
        return {key: listed.offset for key, listed in offsets.items()}
