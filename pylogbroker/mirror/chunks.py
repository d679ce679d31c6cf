"""Fetched chunks of many partitions, taken from each partition in turn."""

from __future__ import annotations

import abc

import attrs

from pylogbroker.client.consumer.fetch_buffer import Chunk, FetchBuffer
from pylogbroker.mirror.batches import ConvertedRecords, mirrored
from pylogbroker.records import Buffer


@attrs.define(eq=False, repr=False)
class SourceChunk(Chunk, abc.ABC):
    """Records of one fetch, from `position` on."""

    position: int = attrs.field(kw_only=True)

    @abc.abstractmethod
    def converted(self) -> ConvertedRecords | None:
        """Return the batches for the target; may be called in a thread. Raise KafkaError for damaged records."""


@attrs.define(eq=False, repr=False)
class RawChunk(SourceChunk):
    """Records as a broker has sent them, and the aborted transactions among them."""

    records: Buffer = attrs.field(kw_only=True)
    aborted: tuple[tuple[int, int], ...] = attrs.field(kw_only=True)

    def converted(self) -> ConvertedRecords | None:
        return mirrored(self.records, self.position, self.aborted)


@attrs.define(eq=False, repr=False)
class ReadyChunks:
    """Partitions that have chunks, in the order in which they are taken."""

    _ready: dict[FetchBuffer, None] = attrs.field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self._ready)

    def filled(self, buffer: FetchBuffer) -> None:
        self._ready[buffer] = None

    def forget(self, buffer: FetchBuffer) -> None:
        self._ready.pop(buffer, None)

    def take(self) -> tuple[FetchBuffer, SourceChunk] | None:
        """Remove and return the oldest chunk of the next partition; None without one."""
        while self._ready:
            buffer = next(iter(self._ready))
            del self._ready[buffer]
            if buffer.closed or not buffer.chunks:
                continue
            chunk = buffer.take()
            assert isinstance(chunk, SourceChunk)
            if buffer.chunks:
                self._ready[buffer] = None
            buffer.delivered = buffer.done = chunk.next_offset
            return buffer, chunk
        return None
