"""Records of a share group, as its members report them, and what is wrong about them.

A client may have fetched a record before a member polls: a delivery has the time since which it can have been acquired.
Members report from several processes, whose reports arrive in any order; times are of the system's monotonic clock.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from tests.cluster.replica_logs import LogRecord
from tests.crash.checks import Violation
from tests.crash.history import Partition
from tests.crash.stamps import NotStamped, Stamp, stamp_in

ACCEPT: Final = "ACCEPT"
RELEASE: Final = "RELEASE"
REJECT: Final = "REJECT"
GROUP: Final = "workers"
DELIVERIES_MAX: Final = 5
_PREFIX: Final = "__dlq.errors."
_EXHAUSTED: Final = "Offset delivery count exceeded the threshold."
_REJECTED: Final = "Offset rejected by client."

RecordId = tuple[Partition, int]


@attrs.frozen
class Delivery:
    """A record that a member got; it was acquired `since` a time, or later."""

    record: RecordId
    count: int
    since: float
    member: str


@attrs.frozen
class _Finished:
    count: int
    at: float
    member: str


#: Figures of a run from its beginning on: kills may come before the first record.
_COUNTS = ("records delivered", "  again", "records finished", "dead letters")


@attrs.define
class SharedRecords:
    """`stale_seconds`: how long a leader that another one has replaced may go on."""

    stale_seconds: float = 1.0
    counts: Counter[str] = attrs.field(factory=lambda: Counter(dict.fromkeys(_COUNTS, 0)))
    _finished: dict[RecordId, _Finished] = attrs.field(factory=dict)
    _last: dict[RecordId, Delivery] = attrs.field(factory=dict)
    _stamps: dict[RecordId, Stamp] = attrs.field(factory=dict)
    _accepted: set[RecordId] = attrs.field(factory=set)
    """Records of acknowledgements that accept; some may have had no effect."""
    _rejected: set[tuple[RecordId, int]] = attrs.field(factory=set)
    _violations: list[Violation] = attrs.field(factory=list)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def deliver(self, delivery: Delivery, value: bytes | None) -> None:
        """Note a record that a member got."""
        with self._lock:
            self.counts["records delivered"] += 1
            self.counts["  again"] += delivery.record in self._last
            self._check_value(delivery.record, value)
            if not 0 < delivery.count <= DELIVERIES_MAX:
                self._note("count", f"{delivery} has a count that is not allowed")
            former = self._last.get(delivery.record)
            if former is None or former.since < delivery.since:
                self._last[delivery.record] = delivery
            self._check_finished(delivery.record, delivery)

    def _check_value(self, record: RecordId, value: bytes | None) -> None:
        try:
            stamp = stamp_in(value)
        except NotStamped as error:
            self._note("made up", f"{record} is delivered as {error}")
            return
        if self._stamps.setdefault(record, stamp) != stamp:
            self._note("changed", f"{record} is {stamp}, and was {self._stamps[record]}")

    def acknowledging(self, delivery: Delivery, kind: str) -> None:
        """Note an acknowledgement before it is sent."""
        with self._lock:
            if kind == ACCEPT:
                self._accepted.add(delivery.record)
            elif kind == REJECT:
                self._rejected.add((delivery.record, delivery.count))

    def acknowledge(self, delivery: Delivery, kind: str, at: float) -> None:
        """Note an acknowledgement that was answered without error before a time."""
        if kind == RELEASE:
            return
        with self._lock:
            self.counts["records finished"] += 1
            self.counts[f"  by {delivery.member}"] += 1
            self._finished[delivery.record] = _Finished(delivery.count, at, delivery.member)
            self._check_finished(delivery.record, self._last.get(delivery.record))

    def _check_finished(self, record: RecordId, delivery: Delivery | None) -> None:
        finished = self._finished.get(record)
        if finished is not None and delivery is not None and delivery.since > finished.at + self.stale_seconds:
            late = delivery.since - finished.at
            self._note("again", f"{delivery} was acquired at least {late:.1f} s after {finished}")

    def _note(self, kind: str, what: str) -> None:
        self._violations.append(Violation(kind, what))

    def violations(self) -> list[Violation]:
        with self._lock:
            return list(self._violations)

    # -- the end -----------------------------------------------------------------------------------------------------

    def missing(self, acknowledged: Iterable[Stamp], letters: Iterable[LogRecord]) -> Iterator[Violation]:
        """Yield records that the group has finished, which were neither accepted nor are dead letters.

        A slow machine may lose all deliveries of a record: it becomes a dead letter that no member has seen.
        """
        dead, unseen = set(), set()
        for letter in letters:
            record = self._record_of(letter)
            yield from self._check_letter(record, letter)
            dead.add(record)
            if record not in self._stamps:
                unseen.add(stamp_in(letter.value))
        self.counts["dead letters"] = len(dead)
        self.counts["  that no member has seen"] = len(unseen)
        records = {stamp: record for record, stamp in self._stamps.items()}
        for stamp in acknowledged:
            record = records.get(stamp)
            if stamp in unseen:
                continue
            if record is None:
                yield Violation("undelivered", f"{stamp} was not delivered to any member")
            elif record not in self._accepted and record not in dead:
                yield Violation("unfinished", f"{self._last[record]} was neither accepted nor rejected")

    @staticmethod
    def _record_of(letter: LogRecord) -> RecordId:
        headers = _headers(letter)
        return (headers["topic"], int(headers["partition"])), int(headers["offset"])

    def _check_letter(self, record: RecordId, letter: LogRecord) -> Iterator[Violation]:
        headers = _headers(letter)
        count = int(headers["delivery.count"])
        is_exhausted = count == DELIVERIES_MAX
        is_rejected = (record, count) in self._rejected
        may_say = [*([_EXHAUSTED] if is_exhausted else []), *([_REJECTED] if is_rejected else [])]
        if headers["group"] != GROUP or headers["message"] not in (may_say or (_REJECTED,)):
            yield Violation("letter", f"the dead letter of {record} says {headers}")
        if not is_exhausted and not is_rejected:
            yield Violation("letter", f"{record} became a dead letter after {count} deliveries, and was not rejected")
        if record in self._stamps and stamp_in(letter.value) != self._stamps[record]:
            yield Violation("letter", f"the dead letter of {record} is {letter.value!r}")


def _headers(letter: LogRecord) -> Mapping[str, str]:
    return {name.removeprefix(_PREFIX): (value or b"").decode() for name, value in letter.headers}
