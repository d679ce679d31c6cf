"""Segments of the metadata log's copy: batches exactly as they were fetched, one after the other, without gaps.

Loading checks the CRC, the offset and the epoch of each batch, and cuts the log at the first that is wrong. All methods
block.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import LogEntry, entries
from pylogbroker.storage import names
from pylogbroker.storage.files import FileHandle, read_file, remove, sync_file, truncate, write_at
from pylogbroker.storage.log.leader_epochs import LeaderEpochs

SUFFIX: Final = ".log"


@attrs.define
class _MetadataSegment:
    base_offset: int
    path: str
    size: int = 0


@attrs.define(eq=False, repr=False)
class MetadataSegments:
    """`end_offset` is behind the last batch, `start_offset` that of the first."""

    _directory: str
    _segment_bytes: int
    end_offset: int = 0
    epochs: LeaderEpochs = attrs.field(init=False)
    _segments: list[_MetadataSegment] = attrs.field(factory=list, init=False)
    _open: list[FileHandle] = attrs.field(factory=list, init=False)
    """The last segment's, while batches are appended."""
    _synced_from: int = attrs.field(default=0, init=False)
    """Number of segments that need no sync."""

    def __attrs_post_init__(self) -> None:
        self.epochs = LeaderEpochs(self._directory, [])

    @property
    def start_offset(self) -> int:
        return self._segments[0].base_offset if self._segments else self.end_offset

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def load(self) -> tuple[list[LogEntry], str]:
        """Read all batches; return those before the first wrong one, and what was cut off, empty for nothing."""
        batches: list[LogEntry] = []
        parsed = filter(None, map(names.parse_file, os.listdir(self._directory)))
        damage = ""
        for base_offset in sorted(base for base, suffix in parsed if suffix == SUFFIX):
            segment = _MetadataSegment(base_offset, names.file_of(self._directory, base_offset, SUFFIX))
            if damage:
                remove(segment.path)
                continue
            if self._segments and base_offset != self.end_offset:
                damage = f"cut before {os.path.basename(segment.path)}: offset {self.end_offset} is missing"
                remove(segment.path)
                continue
            self._segments.append(segment)
            self.end_offset = base_offset
            damage = self._load_segment(segment, batches)
        return batches, damage

    def _load_segment(self, segment: _MetadataSegment, batches: list[LogEntry]) -> str:
        data = read_file(segment.path) or b""
        reason = "the last batch is incomplete"
        try:
            for entry in entries(data, partial=True):
                self._check(entry)
                batches.append(entry)
                self._note(entry)
                segment.size += entry.size
        except CorruptRecords as error:
            reason = error.detail
        if segment.size == len(data):
            return ""
        truncate(segment.path, segment.size)
        return f"cut {len(data) - segment.size} bytes off {os.path.basename(segment.path)}: {reason}"

    def _check(self, entry: LogEntry) -> None:
        if entry.magic != 2 or entry.base_offset != self.end_offset or entry.leader_epoch < self.epochs.latest:
            raise CorruptRecords(
                f"a batch of format v{entry.magic} is at offset {entry.base_offset} of epoch {entry.leader_epoch}, "
                f"behind offset {self.end_offset} of epoch {self.epochs.latest}"
            )
        entry.check()

    def _note(self, entry: LogEntry) -> None:
        self.epochs.observe(entry.leader_epoch, entry.base_offset)
        self.end_offset = entry.next_offset

    def append(self, batches: Sequence[LogEntry]) -> None:
        """Append batches that follow the last one; on OSError nothing has changed."""
        size = sum(batch.size for batch in batches)
        if not self._segments or (self._segments[-1].size and self._segments[-1].size + size > self._segment_bytes):
            self.roll()
        segment = self._segments[-1]
        if not self._open:
            self._open.append(FileHandle.open(segment.path, os.O_RDWR | os.O_CREAT))
        try:
            write_at(self._open[0].fd, [batch.buffer for batch in batches], segment.size, size)
        except OSError:
            os.ftruncate(self._open[0].fd, segment.size)
            raise
        segment.size += size
        for batch in batches:
            self._note(batch)

    def roll(self) -> None:
        """Begin a new segment, unless the last one is empty."""
        if self._segments and not self._segments[-1].size:
            return
        self._open.clear()
        segment = _MetadataSegment(self.end_offset, names.file_of(self._directory, self.end_offset, SUFFIX))
        self._open.append(FileHandle.open(segment.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))
        self._segments.append(segment)

    def cut(self, offset: int) -> None:
        """Drop the batches from `offset` on, where one begins."""
        if offset >= self.end_offset:
            return
        if offset < self.start_offset:
            self.restart(offset)
            return
        self._open.clear()
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            remove(self._segments.pop().path)
        segment = self._segments[-1]
        size = sum(entry.size for entry in self._entries_of(segment) if entry.next_offset <= offset)
        truncate(segment.path, size)
        segment.size = size
        self.end_offset = offset
        self.epochs.truncate_end(offset)
        self._synced_from = min(self._synced_from, len(self._segments) - 1)

    @staticmethod
    def _entries_of(segment: _MetadataSegment) -> Sequence[LogEntry]:
        return list(entries((read_file(segment.path) or b"")[: segment.size]))

    def restart(self, offset: int) -> None:
        """Drop all batches; the next one has `offset`. A crash in between leaves the first batches."""
        self._open.clear()
        while self._segments:
            remove(self._segments.pop().path)
        self.end_offset, self._synced_from = offset, 0
        self.epochs.replace(())
        self.roll()

    def remove_before(self, offset: int) -> None:
        """Remove segments of which all batches are before `offset`."""
        while len(self._segments) > 1 and self._segments[1].base_offset <= offset:
            remove(self._segments.pop(0).path)
            self._synced_from = max(self._synced_from - 1, 0)
        self.epochs.truncate_start(self.start_offset)

    def opened(self) -> list[tuple[FileHandle, int]]:
        """Return the segments' files with their sizes, to be read while the log goes on."""
        return [(FileHandle.open(segment.path), segment.size) for segment in self._segments if segment.size]

    def sync(self) -> None:
        self.epochs.save()
        for segment in self._segments[self._synced_from :]:
            sync_file(segment.path)
        self._synced_from = max(len(self._segments) - 1, 0)
        sync_file(self._directory)

    def close(self) -> None:
        self._open.clear()
