"""The judge of a compacted log, in which every key has one writer, who numbers its records.

| kind        | what is wrong                                                                                   |
|-------------|-------------------------------------------------------------------------------------------------|
| lost        | of a key, neither the last acknowledged record is there nor a later one, nor was it deleted     |
| risen       | a deleted key's mark is gone, and an older value is there                                       |
| moved       | a record is not at the offset that was acknowledged, or where it was before                     |
| order       | a writer's later record comes before an earlier one, or one is there twice                      |
| foreign     | a record that its writer did not send                                                           |
| damaged     | an entry with a wrong CRC, or an offset that is not larger than the one before                  |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
from kafka.record import MemoryRecords

from tests.crash.checks import Violation
from tests.crash.history import UNANSWERED
from tests.crash.stamps import NotStamped, Stamp, stamp_in

STAMP = "stamp"  # the header that says what a record is: a mark of deletion has no value


@attrs.frozen
class Found:
    """A record as it is read."""

    offset: int
    key: bytes
    deletes: bool
    stamp: Stamp


@attrs.define
class Written:
    """Records of one writer in one partition, by sequence number."""

    keys: list[bytes] = attrs.field(factory=list)
    deletes: list[bool] = attrs.field(factory=list)
    offsets: list[int] = attrs.field(factory=list)  # as acknowledged, or UNANSWERED

    def begin(self, key: bytes, deletes: bool) -> int:
        """The next record goes to the client; its number."""
        self.keys.append(key)
        self.deletes.append(deletes)
        self.offsets.append(UNANSWERED)
        return len(self.keys) - 1

    def as_of_now(self) -> Written:
        """Return the records acknowledged so far: later reads must contain them."""
        return attrs.evolve(self, offsets=list(self.offsets))

    def last(self, key: bytes) -> int:
        """A key's last record."""
        return max(number for number, each in enumerate(self.keys) if each == key)


@attrs.define
class CompactedLog:
    """One partition, as it was read last, and where each record was ever seen."""

    found: list[Found] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)
    places: dict[tuple[str, int], int] = attrs.field(factory=dict)  # by writer and sequence

    def read(self, data: bytes) -> None:
        """The whole log was read."""
        self.found = []
        reader = MemoryRecords(data)
        while (batch := reader.next_batch()) is not None:
            if not batch.validate_crc():
                self.problems.append(f"an entry with a wrong CRC at {batch.base_offset}")
                return
            for record in batch:
                self._take(record)

    def _take(self, record: object) -> None:
        offset: int = record.offset  # type: ignore[attr-defined]
        if self.found and offset <= self.found[-1].offset:
            self.problems.append(f"offset {offset} behind {self.found[-1].offset}")
        try:
            stamp = stamp_in(dict(record.headers).get(STAMP))  # type: ignore[attr-defined]
        except NotStamped as error:
            self.problems.append(f"a record at {offset} that nobody sent: {error}")
            return
        self.found.append(Found(offset, bytes(record.key), record.value is None, stamp))  # type: ignore[attr-defined]

    def check(self, writers: Mapping[str, Written]) -> Iterator[Violation]:
        """All that is there against what each writer wrote."""
        for problem in self.problems:
            yield Violation("damaged", problem)
        for producer in {one.stamp.producer for one in self.found} - writers.keys():
            yield Violation("foreign", f"records of {producer}")
        for producer, written in writers.items():
            found = [one for one in self.found if one.stamp.producer == producer]
            yield from self._check_places(written, found)
            yield from _check_order(found)
            yield from _check_keys(producer, written, found)

    def _check_places(self, written: Written, found: Sequence[Found]) -> Iterator[Violation]:
        for one in found:
            number = one.stamp.sequence
            if number >= len(written.keys) or (written.keys[number], written.deletes[number]) != (one.key, one.deletes):
                yield Violation("foreign", f"{one}")
                continue
            before = self.places.setdefault((one.stamp.producer, number), one.offset)
            if one.offset != before:
                yield Violation("moved", f"{one} was at {before}")
            elif number < len(written.offsets) and written.offsets[number] not in (UNANSWERED, one.offset):
                yield Violation("moved", f"{one} was acknowledged at {written.offsets[number]}")


def _check_order(found: Sequence[Found]) -> Iterator[Violation]:
    highest = -1
    for one in found:
        if one.stamp.sequence <= highest:
            yield Violation("order", f"{one} behind record {highest}")
        highest = max(highest, one.stamp.sequence)


def _check_keys(producer: str, written: Written, found: Sequence[Found]) -> Iterator[Violation]:
    """The last of each key."""
    there = {one.key: one.stamp.sequence for one in found}
    acknowledged = {
        written.keys[number]: number for number, offset in enumerate(written.offsets) if offset != UNANSWERED
    }
    deletes = list(written.deletes)  # that may be in the log, acknowledged or not
    deleted = {key: number for number, key in enumerate(written.keys[: len(deletes)]) if deletes[number]}
    for key, last in acknowledged.items():
        number = there.get(key, -1)
        if number >= last or (number < 0 and deleted.get(key, -1) >= last):
            continue
        kind = "risen" if number >= 0 and written.deletes[last] else "lost"
        yield Violation(kind, f"{key.decode()} of {producer}: record {last} is acknowledged, {number} is there")
