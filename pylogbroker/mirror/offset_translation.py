"""Offsets of mirrored records in both clusters, by partition. No I/O.

A record has another offset in the target, because transactions leave markers in either log, and compaction leaves gaps.
Records that a mirror copied together make a run: their offsets grow by one in both logs.

    upstream    10 11 12 | 13 |  14 15 | 16 17 18          13 is a marker
    downstream   0  1  2 |  3 |   4  5 |  6 |  7  8  9     3 and 6 are markers
    runs        10->0, 3 records      14->4, 2 records     16->7, 3 records

An offset in a run is translated by its distance from the start. One between two runs becomes the start of the later one
if that follows the earlier: the mirror copied nothing in between. Otherwise nobody knows what was copied there, and the
end of the earlier run is taken: a consumer that starts there may read records again, but skips none.

A map holds a limited number of runs. Beyond it, every second run of the older half is forgotten. So the distance
between remembered runs grows with their age, as with MirrorMaker's offset syncs.

A run is stored as an offset sync of its last record. MirrorMaker reads that, and ignores the header `pylogbroker-run`:

    120 101 223     120 records; the run follows the one with 101 in the last place (`-`: unknown, -1: it is the first);
                    all records below 223 are copied
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.interfaces import TopicPartition
from pylogbroker.java.text import is_digits
from pylogbroker.mirror_records.formats import OffsetSync
from pylogbroker.records import Header

RUNS_MAX: Final = 4096
"""Runs of one partition."""
RUNS_OF_ALL_PARTITIONS_MAX: Final = 1_000_000
NOTHING_BEFORE: Final = -1

_RUNS_MIN: Final = 64
_HEADER: Final = "pylogbroker-run"
_UNKNOWN: Final = "-"
_DIGITS_MAX: Final = 18


@attrs.frozen
class Run:
    """Records whose offsets grow by one in both logs.

    `copied_to`: all records below this offset of the source are copied.
    `after`: `copied_to` of the run before, NOTHING_BEFORE of the first; None if runs may be missing before this one.
    """

    upstream: int
    downstream: int
    records: int
    after: int | None
    copied_to: int

    @property
    def upstream_end(self) -> int:
        return self.upstream + self.records

    @property
    def downstream_end(self) -> int:
        return self.downstream + self.records

    def sync(self, topic: str, partition: int) -> OffsetSync:
        """Return the last record of the run."""
        return OffsetSync(topic, partition, self.upstream_end - 1, self.downstream_end - 1)

    def header(self) -> Header:
        """Return what the offset sync of the run lacks."""
        after = _UNKNOWN if self.after is None else self.after
        return _HEADER, f"{self.records} {after} {self.copied_to}".encode()


def run_of(sync: OffsetSync, headers: Iterable[Header]) -> Run:
    """Return the run of an offset sync; one of MirrorMaker is a run of one record that follows none."""
    text = next((value for name, value in headers if name == _HEADER), None)
    if text is None:
        return Run(sync.upstream, sync.downstream, 1, None, sync.upstream + 1)
    numbers = text.decode("ascii", "replace").split(" ")
    if len(numbers) != 3:
        raise CorruptRecords(f"{text!r:.100} does not describe the run of {sync}")
    records, copied_to = _number(numbers[0]), _number(numbers[2])
    after = None if numbers[1] == _UNKNOWN else _number(numbers[1])
    run = Run(sync.upstream - records + 1, sync.downstream - records + 1, records, after, copied_to)
    if records < 1 or min(run.upstream, run.downstream) < 0 or copied_to < run.upstream_end:
        raise CorruptRecords(f"{text!r:.100} does not describe the run of {sync}")
    return run


@attrs.frozen
class TranslatedOffset:
    """Offset in the other cluster. If it is not exact, records from it on may have been read already."""

    offset: int
    is_exact: bool


class PartitionTranslation:
    """Runs of one partition, in order."""

    def __init__(self, runs_max: int = RUNS_MAX) -> None:
        self.runs_max = runs_max
        self._upstream = array("q")
        self._downstream = array("q")
        self._records = array("q")
        self._follows = bytearray()
        self._copied_to = NOTHING_BEFORE
        self._last_run_copied_to = NOTHING_BEFORE
        self._is_complete = True

    def __len__(self) -> int:
        return len(self._records)

    @property
    def runs(self) -> list[tuple[int, int, int, bool]]:
        """Remembered runs: upstream, downstream, records, and whether the run follows the one before."""
        follows = map(bool, self._follows)
        return list(zip(self._upstream, self._downstream, self._records, follows, strict=True))

    def resume(self, position: int | None) -> None:
        """Begin to copy at a stored position, or without one; runs that were not stored may be missing before it."""
        first = NOTHING_BEFORE if position is None else position
        self._is_complete = first == self._last_run_copied_to
        self._copied_to = first

    def copied(self, upstream: int, downstream: int, records: int, copied_to: int) -> Run:
        """Add records that were just copied; return them as a run to be stored."""
        after = self._last_run_copied_to if self._is_complete else None
        run = Run(upstream, downstream, records, after, max(copied_to, upstream + records))
        self.add(run)
        return run

    def passed(self, copied_to: int) -> None:
        """Note that the source has nothing to copy below an offset."""
        self._copied_to = max(self._copied_to, copied_to)

    def add(self, run: Run) -> None:
        """Add the newest run. Older runs end where it begins: records that are copied again count once."""
        if self._has(run):
            return
        follows = run.after is not None and run.after == self._last_run_copied_to
        self._cut_off(run)
        self._copied_to = self._last_run_copied_to = run.copied_to
        self._is_complete = True
        if self._records and follows and self._ends == (run.upstream, run.downstream):
            self._records[-1] += run.records
            return
        self._append(run.upstream, run.downstream, run.records, follows)
        if len(self) > self.runs_max:
            self._thin()

    def downstream(self, upstream: int) -> TranslatedOffset | None:
        """Translate the offset of the next record to read from the source to the target; None if unknown."""
        translated = self._translated(upstream, self._upstream, self._downstream)
        if translated is not None and upstream > self._copied_to:
            return TranslatedOffset(translated.offset, is_exact=False)
        return translated

    def upstream(self, downstream: int) -> TranslatedOffset | None:
        """Translate the offset of the next record to read from the target to the source; None if unknown."""
        return self._translated(downstream, self._downstream, self._upstream)

    def _translated(self, offset: int, starts: array[int], others: array[int]) -> TranslatedOffset | None:
        last = len(self._records) - 1
        place = bisect_right(starts, offset) - 1
        if place < 0:
            is_first = last >= 0 and self._follows[0]
            return TranslatedOffset(others[0], is_exact=True) if is_first else None
        distance = offset - starts[place]
        if distance < self._records[place]:
            return TranslatedOffset(others[place] + distance, is_exact=True)
        if place < last and self._follows[place + 1]:
            return TranslatedOffset(others[place + 1], is_exact=True)
        return TranslatedOffset(others[place] + self._records[place], is_exact=place == last and self._is_complete)

    @property
    def _ends(self) -> tuple[int, int]:
        return self._upstream[-1] + self._records[-1], self._downstream[-1] + self._records[-1]

    def _has(self, run: Run) -> bool:
        """Return whether the last run has all records of this one."""
        if not self._records:
            return False
        distance = run.upstream - self._upstream[-1]
        is_within = distance >= 0 and distance + run.records <= self._records[-1]
        return is_within and run.downstream - self._downstream[-1] == distance

    def _cut_off(self, run: Run) -> None:
        while self._records:
            left = min(run.upstream - self._upstream[-1], run.downstream - self._downstream[-1])
            if left > 0:
                self._records[-1] = min(self._records[-1], left)
                return
            del self._upstream[-1], self._downstream[-1], self._records[-1], self._follows[-1]

    def _append(self, upstream: int, downstream: int, records: int, follows: bool) -> None:
        self._upstream.append(upstream)
        self._downstream.append(downstream)
        self._records.append(records)
        self._follows.append(follows)

    def _thin(self) -> None:
        """Forget every second run of the older half."""
        rows = self.runs
        del self._upstream[:], self._downstream[:], self._records[:], self._follows[:]
        last_kept = -1
        for place, (upstream, downstream, records, follows) in enumerate(rows):
            if place % 2 == 0 or place >= len(rows) // 2:
                self._append(upstream, downstream, records, follows and last_kept == place - 1)
                last_kept = place


@attrs.define(eq=False, repr=False)
class OffsetTranslation:
    """Maps of all partitions of a mirror, by the topics of the source."""

    by_partition: dict[TopicPartition, PartitionTranslation] = attrs.field(factory=dict)
    _runs_max: int = RUNS_MAX

    def of(self, partition: TopicPartition) -> PartitionTranslation:
        """Return the map of a partition, which is made if there is none."""
        translation = self.by_partition.get(partition)
        if translation is None:
            if (len(self.by_partition) + 1) * self._runs_max > RUNS_OF_ALL_PARTITIONS_MAX:
                self._halve()
            translation = self.by_partition[partition] = PartitionTranslation(self._runs_max)
        return translation

    def find(self, partition: TopicPartition) -> PartitionTranslation | None:
        return self.by_partition.get(partition)

    def load(self, sync: OffsetSync, headers: Iterable[Header]) -> None:
        """Add the run of a stored offset sync; raise CorruptRecords if it is none."""
        self.of((sync.topic, sync.partition)).add(run_of(sync, headers))

    def forget(self, topic: str) -> None:
        """Forget the runs of a topic: its source or its copy was recreated."""
        for partition in [partition for partition in self.by_partition if partition[0] == topic]:
            del self.by_partition[partition]

    def _halve(self) -> None:
        self._runs_max = max(_RUNS_MIN, self._runs_max // 2)
        for translation in self.by_partition.values():
            translation.runs_max = self._runs_max


def _number(text: str) -> int:
    if text == str(NOTHING_BEFORE):
        return NOTHING_BEFORE
    if not is_digits(text) or len(text) > _DIGITS_MAX:
        raise CorruptRecords(f"{text!r:.100} in the header of an offset sync is not a number")
    return int(text)
