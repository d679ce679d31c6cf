"""How far a stream goes with its next micro-batch, by what there is in the topics now.

| partition                      | begins at                                                                 |
|--------------------------------|---------------------------------------------------------------------------|
| there at the first batch       | what the options say                                                      |
| comes later                    | its first offset; if that is not 0, something has been lost               |
| is gone, with its topic        | is left out: what was not read of it has been lost                        |
| ends before where it was, or   | its first offset: the topic has been made anew, and what was not read of  |
| its topic has another id       | the old one has been lost                                                 |

What has been lost is an error, with `failOnDataLoss`.  Without, what is gone or begins anew is a step at once, with
nothing in it if need be: it has to be in Spark's log before the new log grows as long as the old one was.  (Topics' ids
are not in that log: a topic that is made anew, and as long as it was, while no query runs, is not recognized.)

A new leader may tell an end that is behind what was read, for a moment, so it is asked `fetchOffset.numRetries` times.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.client.errors import is_retriable
from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.spark.brokers.cluster import EARLIEST, LATEST, Cluster
from pylogbroker.spark.options import ReadOptions
from pylogbroker.spark.options.positions import named
from pylogbroker.spark.reading.bounds import missing, offsets_for, partitions_for, refuse_missing
from pylogbroker.spark.reading.losses import lost
from pylogbroker.spark.reading.planning import limited
from pylogbroker.spark.reading.waiting import Watch

_LOOK_AGAIN: Final = 1.0  # seconds after which topics are asked for anew
_WAIT: Final = 0.2  # seconds that an idle stream waits for something new before it tells Spark that there is nothing

Positions = dict[TopicPartition, int]


@attrs.frozen
class Step:
    """Where a micro-batch ends, and where those partitions begin that do not go on from the one before."""

    ends: Positions
    begins: Positions


class Progress:
    """Of one query."""

    def __init__(self, options: ReadOptions) -> None:
        self.ends: Positions = {}
        """Where partitions ended when they were last asked."""
        self._options = options
        self._cluster = Cluster(options.settings)
        self._watch = Watch(self._cluster)
        self._partitions: list[TopicPartition] = []
        self._ids: dict[str, UUID] = {}
        self._remade: set[str] = set()
        self._looked = float("-inf")
        self._target: Positions | None = None
        self._last_step = float("-inf")

    def close(self) -> None:
        """Drop all connections."""
        self._watch.close()
        self._cluster.close()

    def stop_at_latest(self) -> None:
        """Go no further than what there is now."""
        self._look_now()
        self._target = self._latest(self._partitions)

    def first(self, most: int | None) -> Step:
        """Where reading begins, in any case, and what of it is in the first batch."""
        self._look_now()
        refuse_missing(missing(self._cluster, self._options.topics, self._partitions))
        begins = offsets_for(
            self._cluster,
            self._options.start,
            self._partitions,
            starting=True,
            latest_if_none=self._options.latest_if_none,
        )
        self._ask_ends(begins)
        return self._step(self._within(begins, most) or begins, begins)

    def next(self, known: Positions, most: int | None, everything: bool) -> Step | None:
        """The step from there, after a little waiting if there is nothing yet; None if there still is not."""
        self._look()
        self._ask_ends(known)
        begins = self._begins(known)
        anew = {key: begin for key, begin in begins.items() if known.get(key) != begin}
        end = self._end(begins, most, everything)
        if end is None and (known.keys() - begins.keys() or known.keys() & anew.keys()):
            end = begins
        if end is None and self._target is None:
            self._watch.wait(self.ends, _WAIT)
            self._ask_ends(begins)
            end = self._end(begins, most, everything)
        return None if end is None else self._step(end, anew)

    def _step(self, end: Positions, begins: Positions) -> Step:
        self._last_step = time.monotonic()
        self._remade.clear()
        return Step(end, begins)

    # -- how far ---------------------------------------------------------------------------------------------------

    def _end(self, begins: Positions, most: int | None, everything: bool) -> Positions | None:
        """Where a batch ends that begins there; None if there is too little for one."""
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

    # -- topics and partitions that come and go --------------------------------------------------------------------

    def _look(self) -> None:
        """See which partitions there are, every now and then."""
        if time.monotonic() - self._looked >= _LOOK_AGAIN:
            self._look_now()

    def _look_now(self) -> None:
        self._partitions = partitions_for(self._cluster, self._options.topics)
        for topic in {topic for topic, _ in self._partitions}:
            found = self._cluster.topic_id(topic)
            if self._ids.setdefault(topic, found) != found:
                self._ids[topic] = found
                self._remade.add(topic)
        self._looked = time.monotonic()

    def _ask_ends(self, known: Positions) -> None:
        """Where all partitions end that there are, asked again while some end before what is known of them."""
        retries = self._options.retries
        for attempt in range(retries.attempts):
            if attempt:
                time.sleep(retries.pause)
            self.ends = self._latest_there()
            if not any(end < known.get(key, 0) for key, end in self.ends.items() if key[0] not in self._remade):
                return

    def _latest_there(self) -> Positions:
        """The ends of all partitions, of those that are left if a topic is deleted meanwhile."""
        retries = self._options.retries
        try:
            return self._latest(self._partitions, retries.attempts * retries.pause)
        except PylogbrokerError as error:
            if not is_retriable(error):
                raise
        self._look_now()
        return self._latest(self._partitions)

    def _latest(self, partitions: Collection[TopicPartition], seconds: float | None = None) -> Positions:
        if not partitions:
            return {}
        found = self._cluster.offsets(dict.fromkeys(partitions, LATEST), seconds)
        return {key: each.offset for key, each in found.items()}

    def _begins(self, known: Positions) -> Positions:
        """Where each partition that there is now goes on, or begins."""
        gone = known.keys() - self.ends.keys()
        if gone:
            lost(self._options.fail_on_data_loss, f"there is no {named(gone)} any more")
        cut = [key for key, end in self.ends.items() if key in known and (end < known[key] or key[0] in self._remade)]
        for key in cut:
            lost(
                self._options.fail_on_data_loss,
                f"{named([key])} was read up to {known[key]}, but has been made anew, or cut off",
            )
        new = [key for key in self.ends if key not in known]
        firsts = self._firsts([*new, *cut])
        for key in new:
            if firsts[key]:
                lost(self._options.fail_on_data_loss, f"{named([key])} is new, but begins at {firsts[key]}")
        return {key: firsts[key] if key in firsts else known[key] for key in self.ends}

    def _firsts(self, partitions: Collection[TopicPartition]) -> Positions:
        if not partitions:
            return {}
        found = self._cluster.offsets(dict.fromkeys(partitions, EARLIEST))
        return {key: each.offset for key, each in found.items()}
