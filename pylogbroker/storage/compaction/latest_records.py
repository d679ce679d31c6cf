"""Decides which records are the last of their keys, after the first pass.

Below the first dirty offset, keys are looked up. From there on the offsets in the map are enough, and the map's memory
is freed.
"""

from __future__ import annotations

import numpy as np

from pylogbroker.records.columnar.varints import Flags, Ints
from pylogbroker.storage.compaction.key_hash import KeyHash
from pylogbroker.storage.compaction.offset_map import OffsetMap
from pylogbroker.storage.compaction.record_chunks import RecordChunk


class LatestRecords:
    """Call it in the order of the log."""

    def __init__(self, key_map: OffsetMap, key_hash: KeyHash, first_dirty: int) -> None:
        self._map = key_map
        self._hash = key_hash
        self._first_dirty = first_dirty
        self._offsets: Ints | None = None
        self.without_key = 0  # of the clean part

    def __call__(self, chunk: RecordChunk) -> Flags:
        """Return whether each record has a key and is its last."""
        if self._offsets is None and len(chunk.offsets) and chunk.offsets.min() >= self._first_dirty:
            self._offsets = self._map.into_offsets()
        return self._in_clean_part(chunk) if self._offsets is None else _are_in(chunk.offsets, self._offsets)

    def _in_clean_part(self, chunk: RecordChunk) -> Flags:
        keyed = chunk.keys.length >= 0
        self.without_key += int(np.count_nonzero(~keyed & (chunk.offsets < self._first_dirty)))
        latest = np.zeros(len(keyed), np.bool_)
        latest[keyed] = self._map.last(*self._hash(chunk.keys.some(keyed))) <= chunk.offsets[keyed]
        return latest


def _are_in(offsets: Ints, members: Ints) -> Flags:
    if not len(members) or not len(offsets):
        return np.zeros(len(offsets), np.bool_)
    slots = np.searchsorted(members, offsets)
    flags: Flags = members[np.minimum(slots, len(members) - 1)] == offsets
    return flags
