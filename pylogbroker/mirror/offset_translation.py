"""Offsets of mirrored records in both clusters, by partition. No I/O.

A record has another offset in the target, because transactions leave markers in either log, and compaction leaves gaps.
Records that a mirror copied together make a run: their offsets grow by one in both logs.

    upstream    10 11 12 | 13 |  14 15 | 16 17 18          13 is a marker
    downstream   0  1  2 |  3 |   4  5 |  6 |  7  8  9     3 and 6 are markers
    runs        10->0, 3 records      14->4, 2 records     16->7, 3 records

An offset in a run is translated by its distance from the start. One between two runs becomes the start of the later one
if that follows the earlier: the mirror copied nothing in between. Otherwise nobody knows what was copied there, and the
end of the earlier run is taken: a consumer that starts there may read records again, but skips none. Before the first
run of which older ones were forgotten, the start of the target's log is taken (`TranslationFromStart`).

A map holds a limited number of runs. Beyond it, every second run of the older half is forgotten. So the distance
between remembered runs grows with their age, as with MirrorMaker's offset syncs.

Runs are stored as the offset sync of the last record of the last one. MirrorMaker reads that, and ignores the header
`pylogbroker-runs`:

    101 223 103:90:20:1 124:111:99  the first run follows the one whose records end the header with 101 in the second
                                    place (`-`: unknown, -1: there is none before); all records below 223 are copied;
                                    then the runs: offsets of the first record in either log, number of records, and
                                    of offsets behind it, if there are any, that have nothing to copy

A position of the mirror has a header of the same form and name, with the runs that are not stored as offset syncs yet.
It is committed with the records that it describes. Without a run it is only the first number.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
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
_HEADER: Final = "pylogbroker-runs"
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

    def text(self) -> str:
        gap = self.copied_to - self.upstream_end
        return f"{self.upstream}:{self.downstream}:{self.records}" + (f":{gap}" if gap else "")

    @property
    def upstream_end(self) -> int:
        return self.upstream + self.records

    @property
    def downstream_end(self) -> int:
        return self.downstream + self.records


@attrs.frozen
class UnstoredRuns:
    """Runs of one partition that a position has, and `after` of the first one."""

    after: int
    runs: tuple[Run, ...] = ()

    @property
    def copied_to(self) -> int:
        """`Run.copied_to` of the last run, which the next one follows."""
        return self.runs[-1].copied_to if self.runs else self.after

    def header(self) -> Header:
        if self.runs:
            return _HEADER, _content(self.runs)
        return _HEADER, str(self.after).encode()


def sync_of(topic: str, partition: int, runs: Sequence[Run]) -> tuple[OffsetSync, Header]:
    """Return runs that follow each other as an offset sync and its header."""
    last = runs[-1]
    sync = OffsetSync(topic, partition, last.upstream_end - 1, last.downstream_end - 1)
    return sync, (_HEADER, _content(runs))


def _content(runs: Sequence[Run]) -> bytes:
    first, last = runs[0], runs[-1]
    after = _UNKNOWN if first.after is None else first.after
    listed = " ".join(run.text() for run in (*runs[:-1], attrs.evolve(last, copied_to=last.upstream_end)))
    return f"{after} {last.copied_to} {listed}".encode()


def runs_of(sync: OffsetSync, headers: Iterable[Header]) -> list[Run]:
    """Return the runs of an offset sync; one of MirrorMaker is a run of one record that follows none."""
    content = _content_of(headers)
    if content is None:
        return [Run(sync.upstream, sync.downstream, 1, None, sync.upstream + 1)]
    runs = _runs(content)
    last = runs[-1]
    if (last.upstream_end, last.downstream_end) != (sync.upstream + 1, sync.downstream + 1):
        raise CorruptRecords(f"{content!r:.100} does not describe the runs of {sync}")
    return runs


def unstored_runs_of(headers: Iterable[Header]) -> UnstoredRuns | None:
    """Return the runs of a position, None if it has no header for them."""
    content = _content_of(headers)
    if content is None:
        return None
    if b" " not in content:
        return UnstoredRuns(_number(content.decode("ascii", "replace")))
    runs = _runs(content)
    if runs[0].after is None:
        return None
    return UnstoredRuns(runs[0].after, tuple(runs))


def _content_of(headers: Iterable[Header]) -> bytes | None:
    return next((value for name, value in headers if name == _HEADER), None)


def _runs(content: bytes) -> list[Run]:
    texts = content.decode("ascii", "replace").split(" ")
    if len(texts) < 3:
        raise _not_runs(content)
    after = None if texts[0] == _UNKNOWN else _number(texts[0])
    copied_to = _number(texts[1])
    runs: list[Run] = []
    for text in texts[2:]:
        numbers = [_number(part) for part in text.split(":")]
        if len(numbers) not in (3, 4) or numbers[2] < 1 or min(numbers) < 0:
            raise _not_runs(content)
        upstream, downstream, records, gap = (*numbers, 0)[:4]
        if runs and (upstream < runs[-1].copied_to or downstream < runs[-1].downstream_end):
            raise _not_runs(content)
        follows = runs[-1].copied_to if runs else after
        runs.append(Run(upstream, downstream, records, follows, upstream + records + gap))
    last = runs[-1]
    if copied_to < last.copied_to:
        raise _not_runs(content)
    runs[-1] = attrs.evolve(last, copied_to=copied_to)
    return runs


def _not_runs(content: bytes) -> CorruptRecords:
    return CorruptRecords(f"{content!r:.100} does not describe runs of records")


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
        self._run_copied_to = array("q")
        self._follows = bytearray()
        self._copied_to = NOTHING_BEFORE
        self._is_complete = True

    def __len__(self) -> int:
        return len(self._records)

    @property
    def runs(self) -> list[tuple[int, int, int, bool]]:
        """Remembered runs: upstream, downstream, records, and whether the run follows the one before."""
        follows = map(bool, self._follows)
        return list(zip(self._upstream, self._downstream, self._records, follows, strict=True))

    def resume(self, position: int, last_run_copied_to: int) -> None:
        """Begin to copy at a position, NOTHING_BEFORE without one.

        `last_run_copied_to` is that of the last run before it: if this map has another one, runs are missing.
        """
        self._copied_to = position
        self._is_complete = last_run_copied_to == self._last_run_copied_to

    def passed(self, copied_to: int) -> None:
        """Note that the source has nothing to copy below an offset."""
        self._copied_to = max(self._copied_to, copied_to)

    def add(self, run: Run) -> None:
        """Add the newest run. Older runs end where it begins: records that are copied again count once."""
        if self._has(run):
            return
        self._cut_off(run)
        follows = run.after == self._last_run_copied_to
        self._copied_to = run.copied_to
        self._is_complete = True
        if self._records and follows and self._ends == (run.upstream, run.downstream):
            self._records[-1] += run.records
            self._run_copied_to[-1] = run.copied_to
            return
        self._append(run.upstream, run.downstream, run.records, run.copied_to, follows)
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

    def is_before_known(self, upstream: int) -> bool:
        """Return whether an offset of the source lies before all remembered runs, and older ones were forgotten."""
        return bool(self._records) and upstream < self._upstream[0] and not self._follows[0]

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
    def _last_run_copied_to(self) -> int:
        return self._run_copied_to[-1] if self._run_copied_to else NOTHING_BEFORE

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
            if left >= self._records[-1]:
                return
            if left > 0:
                self._records[-1] = left
                self._run_copied_to[-1] = self._upstream[-1] + left
                return
            for column in (self._upstream, self._downstream, self._records, self._run_copied_to, self._follows):
                del column[-1]

    def _append(self, upstream: int, downstream: int, records: int, copied_to: int, follows: bool) -> None:
        self._upstream.append(upstream)
        self._downstream.append(downstream)
        self._records.append(records)
        self._run_copied_to.append(copied_to)
        self._follows.append(follows)

    def _thin(self) -> None:
        """Forget every second run of the older half."""
        half = len(self) // 2
        for place in range(2, half + 1, 2):
            self._follows[place] = False
        for column in (self._upstream, self._downstream, self._records, self._run_copied_to, self._follows):
            del column[1:half:2]


@attrs.frozen(eq=False, repr=False)
class TranslationFromStart:
    """Translates offsets before all remembered runs to `start`, where the target's log begins: none is skipped."""

    _runs: PartitionTranslation
    _start: int

    def downstream(self, upstream: int) -> TranslatedOffset | None:
        if self._runs.is_before_known(upstream):
            return TranslatedOffset(self._start, is_exact=False)
        return self._runs.downstream(upstream)

    def upstream(self, downstream: int) -> TranslatedOffset | None:
        return self._runs.upstream(downstream)


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
        """Add the runs of a stored offset sync; raise CorruptRecords if it has none."""
        translation = self.of((sync.topic, sync.partition))
        for run in runs_of(sync, headers):
            translation.add(run)

    def clear(self) -> None:
        """Forget all runs: what is stored is read again."""
        self.by_partition.clear()

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
