"""Records of a share group as its members see them: what a member may still get, and what must be delivered.

Times are bounds. A record is acquired after its fetch was sent, and before the answer arrives; a leader's epoch counts
if the broker has it at both times. A leader that another one has replaced may not know it: its deliveries are compared
with those of the same epoch alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from pylogbroker.metadata.image import PartitionKey
from tests.cluster.replica_logs import LogRecord
from tests.replication.invariants import Violation
from tests.simulation.cluster import Leadership, SimulatedCluster
from tests.simulation.setup import SHARE_DELIVERIES_MAX, SHARE_GROUP

ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4
_PREFIX: Final = "__dlq.errors."
_REJECTED: Final = "Offset rejected by client."
_EXHAUSTED: Final = "Offset delivery count exceeded the threshold."
_SHOWN_MAX: Final = 5

RecordId = tuple[PartitionKey, int]


@attrs.define(eq=False)
class MemberSession:
    """A share session of a member at a broker. `contested`: when others got records that its member has locked."""

    member: str
    broker: int
    epoch: int = 0
    contested: list[tuple[float, str]] = attrs.field(factory=list)

    def went_on(self, sent_at: float) -> None:
        """Note an answer to a request of the session: it was alive, so what its member had acquired was locked."""
        for time, text in self.contested:
            if time <= sent_at:
                raise Violation(f"17: {text}")


@attrs.define(eq=False)
class Delivery:
    """A record that a member has acquired. `is_settled`: its lock may have ended before `locked_until`."""

    record: RecordId
    count: int
    session: MemberSession
    sent_at: float
    received_at: float
    locked_until: float
    led_before: Leadership | None
    led_after: Leadership | None
    is_settled: bool = False

    @property
    def leadership(self) -> Leadership | None:
        """The leadership in which the record was acquired; None if that is uncertain."""
        return self.led_before if self.led_before == self.led_after else None


@attrs.frozen
class _Settled:
    """An acknowledgement that was answered without error, by a leader whose epoch is at most `leader_epoch`."""

    count: int
    leader_epoch: int
    at: float

    def precedes(self, delivery: Delivery) -> bool:
        """Return whether the leader that delivered a record must have known of this."""
        led = delivery.led_before
        return led is not None and led.epoch >= self.leader_epoch and delivery.sent_at >= self.at


@attrs.define(eq=False)
class ShareLedger:
    _cluster: SimulatedCluster
    delivered: int = 0
    acknowledged: int = 0
    """Records that were accepted or rejected."""
    letters: int = 0
    resets: int = 0
    _last: dict[RecordId, Delivery] = attrs.field(factory=dict)
    _finished: dict[RecordId, _Settled] = attrs.field(factory=dict)
    _released: dict[RecordId, _Settled] = attrs.field(factory=dict)
    _accepted: set[RecordId] = attrs.field(factory=set)
    """Records of acknowledgements that accept; some may have had no effect."""
    _rejected: set[tuple[RecordId, int]] = attrs.field(factory=set)
    """Records and delivery counts of acknowledgements that reject."""

    def deliver(self, delivery: Delivery) -> None:
        """Check a delivery against what came before."""
        record, count = delivery.record, delivery.count
        self.delivered += 1
        if not 0 < count <= SHARE_DELIVERIES_MAX:
            raise Violation(f"19: {record} has delivery count {count}")
        finished, released = self._finished.get(record), self._released.get(record)
        if finished is not None and finished.precedes(delivery):
            raise Violation(f"18: {record} is delivered to {delivery.session.member} after {finished}")
        if released is not None and released.precedes(delivery) and count <= released.count:
            raise Violation(f"19: {record} is delivered with count {count} after {released}")
        former = self._last.get(record)
        if former is not None:
            self._check_former(former, delivery)
        self._last[record] = delivery

    def _check_former(self, former: Delivery, delivery: Delivery) -> None:
        is_comparable = delivery.leadership is not None and former.leadership == delivery.leadership
        if not is_comparable or former.received_at > delivery.sent_at:
            return
        if delivery.count <= former.count:
            raise Violation(f"19: {delivery.record} has count {delivery.count} after {former.count}")
        if former.is_settled or delivery.received_at >= former.locked_until:
            return
        text = f"{delivery.record} is delivered to {delivery.session.member}, {former.session.member} has locked it"
        if former.session is delivery.session:
            raise Violation(f"17: {text}")
        former.session.contested.append((delivery.received_at, text))

    def acknowledging(self, delivery: Delivery, kind: int) -> None:
        """Note an acknowledgement that is sent: it may have an effect at any time."""
        delivery.is_settled = True
        if kind == ACCEPT:
            self._accepted.add(delivery.record)
        elif kind == REJECT:
            self._rejected.add((delivery.record, delivery.count))

    def acknowledge(self, delivery: Delivery, kind: int) -> None:
        """Note an acknowledgement that was answered without error."""
        record = delivery.record
        settled = _Settled(delivery.count, self._cluster.state(record[0]).leader_epoch, self._cluster.world.now)
        if kind == RELEASE and delivery.count < SHARE_DELIVERIES_MAX:
            self._released[record] = settled
        else:
            self._finished[record] = settled
            self.acknowledged += 1

    def end_of(self, key: PartitionKey) -> int:
        """Return the offset behind the last record of a partition that was delivered."""
        return max((offset + 1 for of, offset in self._last if of == key), default=0)

    def reset(self, key: PartitionKey, start: int) -> None:
        """Note that the group begins at an offset: it skips what is before, and gets again what is behind."""
        self.resets += 1
        for known in (self._last, self._finished, self._released):
            for record in [record for record in known if record[0] == key]:
                del known[record]
        self._accepted = {record for record in self._accepted if record[0] != key}
        self._accepted |= {(key, offset) for offset in range(start)}

    # -- the end -----------------------------------------------------------------------------------------------------

    def check_finished(self, letters: Iterable[LogRecord], values: Mapping[PartitionKey, Mapping[int, bytes]]) -> None:
        """Check the records of a group that has finished all of them: each was accepted, or is a dead letter.

        `values` has the records that the group may get, by offset.
        """
        for key, offset in self._last:
            if offset not in values[key]:
                raise Violation(f"21: {key} at {offset} was delivered, and its transaction was aborted")
        dead = {self._check_letter(letter, values) for letter in letters}
        self.letters = len(dead)
        missing = [record for record in _records_of(values) if record not in self._accepted and record not in dead]
        if missing:
            shown = [(record, self._last.get(record)) for record in missing[:_SHOWN_MAX]]
            raise Violation(f"20: {len(missing)} records are finished, and were neither accepted nor rejected: {shown}")

    def _check_letter(self, letter: LogRecord, values: Mapping[PartitionKey, Mapping[int, bytes]]) -> RecordId:
        headers = {name.removeprefix(_PREFIX): (value or b"").decode() for name, value in letter.headers}
        record = (headers["topic"], int(headers["partition"])), int(headers["offset"])
        count, why = int(headers["delivery.count"]), headers["message"]
        may_be = {_EXHAUSTED} if count == SHARE_DELIVERIES_MAX else set()
        may_be |= {_REJECTED} if (record, count) in self._rejected else set()
        if why not in may_be or headers["group"] != SHARE_GROUP:
            raise Violation(f"20: a dead letter says {headers}")
        if letter.value != values[record[0]].get(record[1]):
            raise Violation(f"20: the dead letter of {record} is {letter.value!r}")
        finished = self._finished.get(record)
        if finished is not None and finished.count < count and not self.resets:
            raise Violation(f"20: the dead letter of {record} has count {count} after {finished}")
        return record


def _records_of(values: Mapping[PartitionKey, Mapping[int, bytes]]) -> Iterator[RecordId]:
    return ((key, offset) for key, some in values.items() for offset in some)
