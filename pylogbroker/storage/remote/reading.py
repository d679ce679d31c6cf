"""Reads records of remote segments, as `storage.log.log_reader` reads those of local ones.

Record batches are read in chunks of a MiB, whose checksums the segment's indexes have. Several are read by one request.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import Buffer, crc32c, entries
from pylogbroker.storage.checkpoints import DamagedFile
from pylogbroker.storage.log import producer_snapshots
from pylogbroker.storage.log.addressing import OFFSET_ADDRESSED
from pylogbroker.storage.log.header_scan import Header, IndexDamaged, Read, find_boundary, find_offset, headers
from pylogbroker.storage.log.producer_states import ProducerStateEntry
from pylogbroker.storage.log.timestamp_lookup import TimestampedOffset
from pylogbroker.storage.log.transaction_index import AbortedTxn
from pylogbroker.storage.remote import object_names, segment_indexes
from pylogbroker.storage.remote.checked_store import CheckedStore
from pylogbroker.storage.remote.chunk_cache import ChunkCache
from pylogbroker.storage.remote.lineage import Pieces, SegmentPiece, find
from pylogbroker.storage.remote.manifest import DamagedObject, Epochs, RemoteSegment
from pylogbroker.storage.remote.segment_indexes import CHUNK_BYTES, SegmentIndexes

_CHUNKS_MAX: Final = 8
"""Chunks in one request."""

_PAIR: Final = 2
"""Chunks of one request that stay together in memory: the cache may hold twice its limit, if one of each is dropped."""

_HEADER_BYTES_MAX: Final = 61
_end = attrgetter("end_offset")


@attrs.frozen
class RemoteRecords:
    """Batches, none of them cut; `next_offset` is above the offsets of all records in them."""

    data: Buffer
    next_offset: int


@attrs.frozen
class RestoredState:
    """State of a log at an offset."""

    offset: int
    epochs: Epochs
    producers: tuple[ProducerStateEntry, ...]


@attrs.frozen(eq=False, repr=False)
class RemoteReader:
    """Reads segments of one partition. All methods block; several threads may call them.

    They raise StoreFailure if the store fails, DamagedObject or CorruptRecords for objects that are not what was
    written.
    """

    _store: CheckedStore
    _cache: ChunkCache
    _topic_id: UUID
    _partition: int
    _note_read: Callable[[int], None] = lambda size: None
    """Called with the bytes of each read from the store."""

    def read(
        self, pieces: Pieces, offset: int, max_bytes: int, upto: int, *, min_one: bool = True
    ) -> RemoteRecords | None:
        """Return batches of one piece, from the one with `offset` on, below `upto`; None if no piece has the offset.

        With `min_one` the first may exceed `max_bytes`. After a compaction, offsets at the end of a piece may have no
        records: those of the next piece follow. If none follows, there are no batches, and `next_offset` is its end.
        """
        number = find(pieces, offset)
        if number is None:
            return None
        end = offset
        while number < len(pieces) and pieces[number].first_offset <= end and end < upto:
            records = self._read_piece(pieces[number], offset, max_bytes, upto, min_one)
            if records is not None:
                return records
            end = pieces[number].end_offset
            number += 1
        return RemoteRecords(b"", end)

    def _read_piece(
        self, piece: SegmentPiece, offset: int, max_bytes: int, upto: int, min_one: bool
    ) -> RemoteRecords | None:
        segment = piece.segment
        indexes = self.indexes(segment)
        read = self._reader_of(segment, indexes)
        header = _find(read, segment, indexes, max(offset, piece.first_offset))
        if header is None:
            return None
        position, stop, next_offset = header.position, segment.size, segment.end_offset
        bound = min(upto, piece.end_offset)
        if bound < segment.end_offset:
            behind = _find(read, segment, indexes, bound)
            if behind is not None:
                stop, next_offset = behind.position, bound
        limit = position + max_bytes
        if limit < stop or position // CHUNK_BYTES < (stop - 1) // CHUNK_BYTES:
            last = self._last_boundary(read, segment, indexes, position, limit)
            if last is not None and last.position < stop:
                stop, next_offset = last.position, last.first_offset
                if stop == position and min_one:
                    stop, next_offset = stop + last.size, last.last_offset + 1
        if stop <= position:
            return None if position >= segment.size or header.first_offset >= bound else RemoteRecords(b"", offset)
        return RemoteRecords(read(stop - position, position), next_offset)

    def _last_boundary(
        self, read: Read, segment: RemoteSegment, indexes: SegmentIndexes, position: int, limit: int
    ) -> Header | None:
        """Return the first batch behind those to read: those that end in the chunk where they begin, if there are any.

        Other batches are copied into one buffer, which keeps other threads waiting.
        """
        chunk_end = (position // CHUNK_BYTES + 1) * CHUNK_BYTES
        if chunk_end < limit:
            last = _boundary(read, segment, indexes, position, chunk_end)
            if last is not None and last.position > position:
                return last
        return _boundary(read, segment, indexes, position, limit)

    def aborted_transactions(self, pieces: Pieces, first_offset: int, upto: int) -> tuple[list[AbortedTxn], bool]:
        """Return the transactions that overlap `first_offset` to `upto`, and whether they are all.

        Pieces without markers of aborted transactions may be missing. The markers of others may be in the local log.
        """
        transactions: list[AbortedTxn] = []
        for piece in pieces[bisect_right(pieces, first_offset, key=_end) :]:
            if not 0 <= piece.segment.first_aborted < upto:
                continue
            for aborted in self.indexes(piece.segment).transactions:
                if not piece.first_offset <= aborted.last_offset < piece.end_offset:
                    continue
                if aborted.last_offset >= first_offset and aborted.first_offset < upto:
                    transactions.append(aborted)
                if aborted.last_stable_offset >= upto:
                    return transactions, True
        return transactions, False

    def find_timestamp(self, pieces: Pieces, timestamp: int, start: int) -> TimestampedOffset | None:
        """Return the first record with at least this timestamp, at or after offset `start`."""
        for piece in pieces:
            if piece.segment.max_timestamp >= timestamp and piece.end_offset > start:
                match = self._find_in_piece(piece, timestamp, max(start, piece.first_offset))
                if match is not None:
                    return match
        return None

    def _find_in_piece(self, piece: SegmentPiece, timestamp: int, start: int) -> TimestampedOffset | None:
        segment = piece.segment
        indexes = self.indexes(segment)
        read = self._reader_of(segment, indexes)
        header = _find(read, segment, indexes, max(indexes.offset_of_time(timestamp), start))
        if header is None:
            return None
        for batch in headers(OFFSET_ADDRESSED.scan(read, header.position, segment.size, segment.base_offset)):
            if batch.first_offset >= piece.end_offset:
                return None
            head = memoryview(read(min(_HEADER_BYTES_MAX, batch.size), batch.position))
            if OFFSET_ADDRESSED.parse(head, 0, batch.size).max_timestamp < timestamp:
                continue
            for entry in entries(read(batch.size, batch.position)):
                for record in entry.records():
                    if record.timestamp >= timestamp and start <= record.offset < piece.end_offset:
                        return TimestampedOffset(record.offset, record.timestamp, entry.leader_epoch)
        return None

    def epochs_before(self, segments: Iterable[RemoteSegment], offset: int, epoch_max: int) -> Epochs:
        """Return the leader epochs of a log that begin before an offset, as the latest leader has archived them.

        `epoch_max` is the log's latest one. There are none if no segment has the record before the offset.
        """
        segment = _latest_with(segments, offset - 1, epoch_max)
        return () if segment is None else tuple(entry for entry in self.indexes(segment).epochs if entry[1] < offset)

    def state_at(self, segments: Iterable[RemoteSegment], offset: int, epoch_max: int) -> RestoredState | None:
        """Return the state of a log at an offset, as the latest leader has archived it; None without a segment."""
        segment = _latest_with(segments, offset - 1, epoch_max)
        if segment is None:
            return None
        indexes = self.indexes(segment)
        epochs = tuple(entry for entry in indexes.epochs if entry[1] < offset)
        try:
            producers = producer_snapshots.decode(indexes.producers)
        except DamagedFile as error:  # no file of this broker
            raise DamagedObject(f"the indexes of {segment.name} have {error.detail}") from error
        return RestoredState(offset, epochs, tuple(state for state in producers if _is_before(state, offset)))

    def indexes(self, segment: RemoteSegment) -> SegmentIndexes:
        def load() -> tuple[SegmentIndexes, int]:
            data = self._store.read(self._name(segment) + object_names.INDEX, 0, segment.index_size + 1)
            self._note_read(len(data))
            indexes = segment_indexes.decode(segment, data)
            return indexes, indexes.weight

        return self._cache.get((segment.name.id, -1), load)

    def _name(self, segment: RemoteSegment) -> str:
        return object_names.partition_prefix(self._topic_id, self._partition) + str(segment.name)

    def _reader_of(self, segment: RemoteSegment, indexes: SegmentIndexes) -> Read:
        """Return a function that reads from the segment's record batches, through the cache."""

        def read(length: int, position: int) -> Buffer:
            end = min(position + length, segment.size)
            if position >= end:
                return b""
            first, last = position // CHUNK_BYTES, (end - 1) // CHUNK_BYTES
            parts = [memoryview(self._chunk(segment, indexes, number, last)) for number in range(first, last + 1)]
            parts[-1] = parts[-1][: end - last * CHUNK_BYTES]
            parts[0] = parts[0][position - first * CHUNK_BYTES :]
            return parts[0] if len(parts) == 1 else b"".join(parts)

        return read

    def _chunk(self, segment: RemoteSegment, indexes: SegmentIndexes, number: int, last: int) -> Buffer:
        """Return a chunk. If it is not cached, read those up to `last`, and another one, by the same request."""
        segment_id = segment.name.id

        def load() -> tuple[Buffer, int]:
            stop = number + 1
            while stop <= min(last + 1, len(indexes.chunks) - 1) and stop - number < _CHUNKS_MAX:
                if self._cache.has((segment_id, stop)):
                    break
                stop += 1
            for other, data in self._load(segment, indexes, number, stop):
                if other == number:
                    first = data
                else:
                    self._cache.keep((segment_id, other), data, len(data))
            return first, len(first)

        return self._cache.get((segment_id, number), load)

    def _load(
        self, segment: RemoteSegment, indexes: SegmentIndexes, first: int, stop: int
    ) -> Iterator[tuple[int, Buffer]]:
        start, end = first * CHUNK_BYTES, min(stop * CHUNK_BYTES, segment.size)
        name = self._name(segment) + object_names.LOG
        data = self._store.read(name, start, end - start)
        self._note_read(len(data))
        if len(data) != end - start:
            raise DamagedObject(f"{name} has fewer bytes than its manifest says")
        is_pair = stop - first <= _PAIR  # a copy would keep other threads waiting
        for number in range(first, stop):
            at = (number - first) * CHUNK_BYTES
            chunk: Buffer = memoryview(data)[at : at + CHUNK_BYTES] if is_pair else data[at : at + CHUNK_BYTES]
            if crc32c(chunk) != indexes.chunks[number]:
                raise DamagedObject(f"{name} is damaged: the checksum of its MiB {number} is wrong")
            yield number, chunk


def _latest_with(segments: Iterable[RemoteSegment], offset: int, epoch_max: int) -> RemoteSegment | None:
    """Return the segment with an offset that the latest leader has copied."""
    with_offset = [
        segment
        for segment in segments
        if segment.base_offset <= offset < segment.end_offset and segment.epochs[-1][0] <= epoch_max
    ]
    return max(with_offset, key=lambda segment: (segment.name.leader_epoch, segment.end_offset), default=None)


def _is_before(state: ProducerStateEntry, offset: int) -> bool:
    """Return whether all that a producer's state knows is before an offset."""
    last = state.batches[-1].last_offset if state.batches else -1
    return max(last, state.transaction_start) < offset


def _find(read: Read, segment: RemoteSegment, indexes: SegmentIndexes, offset: int) -> Header | None:
    """Return the first batch with records at or above `offset`, or None."""
    return _by_index(
        indexes.position(offset),
        lambda position, indexed: find_offset(_scan(read, segment, position), offset, indexed),
    )


def _boundary(read: Read, segment: RemoteSegment, indexes: SegmentIndexes, start: int, limit: int) -> Header | None:
    """Return the first batch at or after position `start` that ends beyond `limit`."""
    indexed, position = indexes.offset_at(limit)
    if position <= start:
        return find_boundary(_scan(read, segment, start), limit)
    return _by_index(
        (indexed, position),
        lambda position, indexed: find_boundary(_scan(read, segment, max(position, start)), limit, indexed),
    )


def _scan(read: Read, segment: RemoteSegment, position: int) -> Iterator[tuple[int, int, int, int]]:
    return OFFSET_ADDRESSED.scan(read, position, segment.size, segment.base_offset)


def _by_index(entry: tuple[int, int], look: Callable[[int, int], Header | None]) -> Header | None:
    """Look from an index entry on; from the segment's beginning if the entry is wrong."""
    indexed, position = entry
    try:
        return look(position, indexed)
    except (IndexDamaged, CorruptRecords):
        if not position:
            raise
        return look(0, -1)
