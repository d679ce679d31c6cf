"""Restores producer states from the newest undamaged snapshot and the batches after it.

Only headers and markers are read; damaged batches are skipped. Snapshots are removed if damaged, beyond the log's end,
or of an earlier stop inside a segment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile
from pylogbroker.storage.files import remove
from pylogbroker.storage.log import producer_snapshots
from pylogbroker.storage.log.producer_states import EndedTransaction, ProducerStateEntry, ProducerStates
from pylogbroker.storage.log.segment import Segment


@attrs.frozen
class PlannedTruncation:
    """End of a log after a cut, and the producer states there, with the offset of the snapshot that they begin with."""

    end_offset: int
    producers: ProducerStates
    snapshot_offset: int

    @classmethod
    def at(cls, end: int, path: str, segments: tuple[Segment, ...]) -> PlannedTruncation:
        """Like `load_producers` for a log that ends at `end`, but change no file, and ignore batches from `end` on."""
        offset, entries = _newest_sound(path, names.snapshots_in(path), end)
        states = ProducerStates(entries)
        for segment, segment_end in _with_ends(segments, end):
            if segment_end > offset:
                with suppress(CorruptRecords):
                    deque(replay(segment, offset, states, end), maxlen=0)
        return cls(end, states, offset)


def load_producers(
    path: str, snapshots: Collection[int], segments: tuple[Segment, ...], log_end_offset: int
) -> tuple[ProducerStates, int]:
    """Return the states as of `log_end_offset`, and the used snapshot's offset (-1: none)."""
    offset, entries = _newest(path, snapshots, log_end_offset)
    bases = {segment.base_offset for segment in segments}
    for older in snapshots:
        if older < offset and older not in bases:
            remove(names.file_of(path, older, names.SNAPSHOT))
    states = ProducerStates(entries)
    for segment, end in _with_ends(segments, log_end_offset):
        if end > offset:
            with suppress(CorruptRecords):
                deque(replay(segment, offset, states), maxlen=0)
    return states, offset


def remove_snapshots_beyond(offset: int, path: str) -> None:
    for snapshot in names.snapshots_in(path):
        if snapshot > offset:
            remove(names.file_of(path, snapshot, names.SNAPSHOT))


def states_at(path: str, snapshots: Collection[int], segments: Sequence[Segment], number: int) -> ProducerStates:
    base = segments[number].base_offset
    offset, entries = _newest_sound(path, snapshots, base)
    states = ProducerStates(entries)
    for segment, following in pairwise(segments[: number + 1]):
        if following.base_offset > offset:
            with suppress(CorruptRecords):
                deque(replay(segment, offset, states), maxlen=0)
    return states


def _newest_sound(path: str, snapshots: Iterable[int], upto: int) -> tuple[int, list[ProducerStateEntry]]:
    for offset in sorted(snapshots, reverse=True):
        if offset <= upto:
            with suppress(DamagedFile):
                return offset, producer_snapshots.read(names.file_of(path, offset, names.SNAPSHOT))
    return -1, []


def _newest(path: str, snapshots: Iterable[int], log_end_offset: int) -> tuple[int, list[ProducerStateEntry]]:
    for offset in sorted(snapshots, reverse=True):
        name = names.file_of(path, offset, names.SNAPSHOT)
        if offset <= log_end_offset:
            try:
                return offset, producer_snapshots.read(name)
            except DamagedFile:
                pass
        remove(name)
    return -1, []


def _with_ends(segments: tuple[Segment, ...], log_end_offset: int) -> Iterable[tuple[Segment, int]]:
    return zip(segments, [*(segment.base_offset for segment in segments[1:]), log_end_offset], strict=True)


def replay(segment: Segment, offset: int, states: ProducerStates, end: int | None = None) -> Iterator[EndedTransaction]:
    """Record batches from `offset` on, up to `end`; yield the transactions that end."""
    first = segment.find(offset) if offset > segment.base_offset else None
    for header, entry in segment.entry_headers(0 if first is None else first.position):
        if end is not None and entry.base_offset >= end:
            return
        if entry.producer_id >= 0 and entry.base_offset >= offset:
            ended = states.record(segment.file.read_entry(header) if entry.is_control else entry)
            if ended is not None:
                yield ended
