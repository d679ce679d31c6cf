"""Answers that clients got while the broker was killed again and again: the evidence for `checks`.

The broker's *life* counts its kills. A record that was handed to its client in one life and acknowledged in a later one
may have been sent more than once; one whose life is the same was sent once, whatever the client does.

Producers and consumers write from threads of their own, each its own part; `checks` read what is there at that time.
"""

from __future__ import annotations

import threading
from collections import Counter
from enum import Enum
from typing import Final

import attrs

from tests.crash.stamps import Stamp

Partition = tuple[str, int]  # topic, index

UNANSWERED: Final = -1
UNTOLD: Final = -2  # acknowledged without an offset


class Promise(Enum):
    """Guarantee of a producer: how often each record is in the log."""

    ONCE = "idempotent: once, and no other is missing before it"
    AT_MOST_ONCE = "without retries: once if acknowledged, else once or not at all"
    AT_LEAST_ONCE = "with retries: once for each time that it was sent"
    REPEATED = "with retries, while leaders move: at least once if acknowledged"


@attrs.define
class Sent:
    """Records that one producer sent to one partition. Lists are indexed by sequence numbers."""

    producer: str
    partition: Partition
    promise: Promise
    offsets: list[int] = attrs.field(factory=list)  # as acknowledged; UNANSWERED, UNTOLD
    begun: list[int] = attrs.field(factory=list)  # in which life of the broker
    ended: list[int] = attrs.field(factory=list)  # the life in which it was acknowledged or failed; UNANSWERED
    failures: dict[int, str] = attrs.field(factory=dict)

    def begin(self, life: int) -> Stamp:
        """The next record goes to the client."""
        self.begun.append(life)
        self.ended.append(UNANSWERED)
        self.offsets.append(UNANSWERED)
        return Stamp(self.producer, *self.partition, len(self.offsets) - 1)

    def acknowledge(self, sequence: int, offset: int | None, life: int) -> None:
        self.offsets[sequence] = UNTOLD if offset is None or offset < 0 else offset
        self.ended[sequence] = life

    def fail(self, sequence: int, reason: str, life: int) -> None:
        self.failures[sequence] = reason
        self.ended[sequence] = life

    def as_of_now(self) -> Sent:
        """Return a copy with the acknowledgements so far: later reads must contain them."""
        return attrs.evolve(self, offsets=list(self.offsets))

    @property
    def acknowledged(self) -> int:
        """Return the number of acknowledged records."""
        return sum(offset != UNANSWERED for offset in self.offsets)


@attrs.define
class Committed:
    """A group's offset in one partition: what was acknowledged last, and the furthest that was tried."""

    acknowledged: int = -1
    tried: int = -1
    count: int = 0


@attrs.define
class History:
    """All evidence of one run."""

    life: int = 0
    sent: dict[tuple[str, Partition], Sent] = attrs.field(factory=dict)
    seen: dict[Partition, dict[int, Stamp]] = attrs.field(factory=dict)  # by offset, by any consumer
    committed: dict[tuple[str, Partition], Committed] = attrs.field(factory=dict)
    contradictions: list[str] = attrs.field(factory=list)  # of what readers saw
    readers: Counter[str] = attrs.field(factory=Counter)  # how much each group read
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def sender(self, producer: str, partition: Partition, promise: Promise) -> Sent:
        """Return the record of what a producer sends to a partition."""
        with self._lock:
            return self.sent.setdefault((producer, partition), Sent(producer, partition, promise))

    def see(self, partition: Partition, offset: int, stamp: Stamp, reader: str = "") -> None:
        """A consumer read a record."""
        with self._lock:
            self.readers[reader] += 1
            before = self.seen.setdefault(partition, {}).setdefault(offset, stamp)
        if before != stamp:
            self.contradict(f"{partition} at {offset}: a consumer read {before}, later one read {stamp}")

    def contradict(self, what: str) -> None:
        """A consumer met something that must not be."""
        with self._lock:
            self.contradictions.append(what)

    def try_commit(self, group: str, partition: Partition, offset: int) -> None:
        with self._lock:
            one = self.committed.setdefault((group, partition), Committed())
            one.tried = max(one.tried, offset)

    def commit(self, group: str, partition: Partition, offset: int) -> None:
        """A commit was acknowledged."""
        with self._lock:
            one = self.committed[group, partition]
            one.acknowledged = max(one.acknowledged, offset)
            one.count += 1

    def commit_of(self, group: str, partition: Partition) -> Committed:
        """Return the offsets that a group has committed in a partition so far."""
        with self._lock:
            return attrs.evolve(self.committed.get((group, partition), Committed()))

    def as_of_now(self) -> Evidence:
        """Return what clients know: later reads must contain all of it."""
        with self._lock:
            return Evidence(
                [sent.as_of_now() for sent in self.sent.values()],
                {partition: dict(records) for partition, records in self.seen.items()},
                {key: attrs.evolve(one) for key, one in self.committed.items()},
            )


@attrs.frozen
class Evidence:
    """A history at one instant."""

    sent: list[Sent]
    seen: dict[Partition, dict[int, Stamp]]
    committed: dict[tuple[str, Partition], Committed]
