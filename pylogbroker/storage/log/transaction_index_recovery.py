"""Checks a log's transaction indexes when it is opened; rebuilds damaged ones from the batches.

A segment without aborted transactions has no index, so a checkpoint has the number and CRC-32C of each index's entries.
Without it, as in Kafka's own logs, indexes need only be consistent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from pylogbroker.errors import CorruptRecords
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile, read_aborted
from pylogbroker.storage.log.producer_recovery import replay, states_at
from pylogbroker.storage.log.segment import Segment


def check_transaction_indexes(
    path: str, snapshots: Collection[int], segments: Sequence[Segment], log_end_offset: int
) -> None:
    """Check the indexes of the first `segments`, up to `log_end_offset`. Blocks."""
    try:
        expected = read_aborted(f"{path}/{names.ABORTED_TRANSACTIONS}")
    except DamagedFile:
        expected = None
    ends = [*(segment.base_offset for segment in segments), log_end_offset][1:]
    for number, (segment, end) in enumerate(zip(segments, ends, strict=True)):
        if not _is_sound(segment, end, expected):
            _rebuild(path, snapshots, segments, number)


def _is_sound(segment: Segment, end: int, expected: Mapping[int, tuple[int, int]] | None) -> bool:
    index = segment.transaction_index
    try:
        index.check(segment.base_offset, end)
    except DamagedFile:
        return False
    return expected is None or expected.get(segment.base_offset, (0, 0)) == (len(index), index.checksum)


def _rebuild(path: str, snapshots: Collection[int], segments: Sequence[Segment], number: int) -> None:
    segment = segments[number]
    segment.transaction_index.clear()
    states = states_at(path, snapshots, segments, number)
    with suppress(CorruptRecords):
        for ended in replay(segment, segment.base_offset, states):
            segment.transaction_index.note(ended, states.first_undecided_offset)
    segment.transaction_index.store()
