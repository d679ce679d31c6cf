"""Bringing producer states back: from the newest snapshot that is sound, and the entries behind it.

Only headers are read.  A snapshot beyond the log's end is of no use and is removed, as is one that is damaged, and one
that an earlier stop left in the middle of a segment.  Where entries are damaged, what they tell of producers is missed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

from pylogbroker.errors import CorruptRecords
from pylogbroker.storage import names, producer_snapshots
from pylogbroker.storage.checkpoints import DamagedFile
from pylogbroker.storage.files import remove
from pylogbroker.storage.producers import ProducerState, ProducerStates
from pylogbroker.storage.segment import Segment


def load_producers(
    path: str, snapshots: Collection[int], segments: tuple[Segment, ...], log_end_offset: int
) -> tuple[ProducerStates, int]:
    """The states as of `log_end_offset`, and the offset of the snapshot they were taken from (-1: none)."""
    offset, known = _newest(path, snapshots, log_end_offset)
    bases = {segment.base_offset for segment in segments}
    for older in snapshots:
        if older < offset and older not in bases:
            remove(names.file_of(path, older, names.SNAPSHOT))
    states = ProducerStates(known)
    for segment, end in _with_ends(segments, log_end_offset):
        if end > offset:
            with suppress(CorruptRecords):
                _replay(segment, offset, states)
    return states, offset


def _newest(path: str, snapshots: Iterable[int], log_end_offset: int) -> tuple[int, list[ProducerState]]:
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


def _replay(segment: Segment, offset: int, states: ProducerStates) -> None:
    header = segment.find(offset) if offset > segment.base_offset else None
    for _, entry in segment.entry_headers(0 if header is None else header.position):
        if entry.producer_id >= 0 and entry.base_offset >= offset:
            states.record(entry)
