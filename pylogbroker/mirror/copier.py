"""One session of a mirror: from the committed positions on, until an error or the end.

    fence earlier sessions, read the positions
      |
      v
    wait for records --> put them, flush --> put their positions, flush --> commit --+
      ^                                                                              |
      +------------------------------------------------------------------------------+

Positions are put when the records have offsets in the target, because listeners add headers that have these.

Any error ends the session. The next one fences it, which aborts its transaction, and reads the positions again. So
there is one way to recover, and it is the way of a first start.

The next transaction begins at the earliest `commit_interval` after the last commit, unless it is full. So a record that
comes alone is committed at once, and a stream of records in few transactions. A transaction is full by its bytes or its
partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.batches import ConvertedRecords
from pylogbroker.mirror.chunks import SourceChunk
from pylogbroker.mirror.errors import TopicStopped
from pylogbroker.mirror.positions import Position, PositionTable, position_batches, position_in, position_partition
from pylogbroker.mirror.rate_limit import RateLimit
from pylogbroker.mirror.settings import MirrorSettings
from pylogbroker.mirror.target import REQUEST_BYTES_MAX, AcknowledgedBatch, TargetWriter
from pylogbroker.mirror.wake_up import WakeUp
from pylogbroker.records import Header

_THREAD_BYTES_MIN: Final = 65_536
"""Size from which records are checked and encoded in a thread."""
_UNSENT_BYTES_MAX: Final = 16_777_216
CHUNKS_AT_ONCE: Final = 40
"""Small chunks that are put before other work runs."""
TRANSACTION_PARTITIONS_MAX: Final = 250
"""With more partitions, encoding the batch of their positions would hold up other work for long."""

InThread = Callable[..., Deferred[Any]]


class ChunkReader(Protocol):
    """Fetched chunks of the source."""

    @property
    def has_chunks(self) -> bool: ...

    def take(self) -> tuple[FetchBuffer, SourceChunk] | None:
        """Remove and return a chunk, of each partition in turn; None without one."""


class CopyListener(Protocol):
    """Gets what a session commits, on the reactor thread. Must not raise or block."""

    def headers(
        self, batches: Sequence[AcknowledgedBatch], positions: Mapping[TopicPartition, Position]
    ) -> Mapping[TopicPartition, Header]:
        """Return headers for positions that are about to be committed, with the batches in each partition's order.

        `positions` are those of the partitions that moved on. If the commit fails, another session begins.
        """

    def committed(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Take note that what `headers` was called with is committed."""


@attrs.define
class CopyCounts:
    records: int = 0
    bytes: int = 0
    commits: int = 0
    skipped: int = 0
    """Offsets without a record for the target: markers, aborted and compacted records."""


@attrs.define(eq=False, repr=False)
class Copier:
    """Copies from `reader` to `writer`. `topics` has the target's name of each source topic.

    `source_id` is the id of the source's cluster.
    """

    _clock: IReactorTime
    _settings: MirrorSettings
    _reader: ChunkReader
    _writer: TargetWriter
    _table: PositionTable
    _positions_topic: str
    _positions_partitions: int
    _wake_up: WakeUp
    _in_thread: InThread
    _limit: RateLimit
    _listeners: Sequence[CopyListener]
    _on_idle: Callable[[], object]
    """Called when all that was fetched is committed."""

    _counts: CopyCounts
    _topics: Mapping[str, str]
    _source_id: str
    _moved: dict[TopicPartition, Position | None] = attrs.field(factory=dict)
    """Positions that are not committed yet."""
    _set: list[Deferred[None]] = attrs.field(factory=list)
    """Waits for positions that were set, and not by copying."""
    is_committed: bool = True
    """Whether the target has committed all records that were taken from the reader."""
    _is_stopping: bool = False
    _committed_at: float = float("-inf")

    async def run(self) -> None:
        """Copy until `stop`, or raise the first error."""
        while not self._is_stopping:
            await self._wait_for_chunks()
            if await self._transfer():
                await self._commit()

    def stop(self) -> None:
        """Let `run` return after the current transaction."""
        self._is_stopping = True
        self._wake_up.call()

    def wake_up(self) -> None:
        """See whether there is anything to do."""
        self._wake_up.call()

    def set_positions(self, positions: Mapping[TopicPartition, Position | None]) -> Deferred[None]:
        """Commit positions of partitions that are not copied; None deletes one. Fire when that is done."""
        done: Deferred[None] = Deferred()
        self._moved.update(positions)
        self._set.append(done)
        self._wake_up.call()
        return done

    async def _wait_for_chunks(self) -> None:
        while not self._is_stopping:
            self._writer.check()
            delay = self._limit.wait(self._clock.seconds())
            if self._set or (self._reader.has_chunks and not delay):
                return
            if not self._reader.has_chunks:
                self._on_idle()
            await self._wake_up.wait(delay or None)

    async def _transfer(self) -> bool:
        """Put the records of a transaction; return False if there are none."""
        due = self._committed_at + self._settings.commit_interval
        size = unsent = chunks = 0
        while size < self._settings.transaction_bytes_max and len(self._moved) < TRANSACTION_PARTITIONS_MAX:
            now = self._clock.seconds()
            delay = self._limit.wait(now)
            taken = None if delay or self._is_stopping else self._reader.take()
            if taken is not None:
                was_committed, self.is_committed = self.is_committed, False
                put = await self._put(*taken)
                self.is_committed = was_committed and not put
                size += put
                chunks += 1
                if not self._reader.has_chunks or self._writer.unsent_bytes - unsent >= REQUEST_BYTES_MAX:
                    self._writer.send()
                    await self._wait_for_space()
                    unsent = self._writer.unsent_bytes
                if chunks % CHUNKS_AT_ONCE == 0:
                    await deferLater(self._clock, 0)
            elif now >= due or self._is_stopping:
                break
            else:
                await self._wake_up.wait(min(due - now, delay) if delay else due - now)
                self._writer.check()
        return size > 0 or bool(self._set)

    async def _put(self, buffer: FetchBuffer, chunk: SourceChunk) -> int:
        key, round_before = buffer.key, buffer.round
        name, partition = key
        records = await self._prepared(name, partition, chunk)
        if records is None or buffer.round != round_before or buffer.closed:
            return 0
        size = 0
        for batch in records.batches:
            self._writer.put((self._topics[name], partition), batch, key)
            size += batch.size
            self._counts.records += batch.count
        if size:
            number = position_partition(self._table.source, name, partition, self._positions_partitions)
            self._writer.announce((self._positions_topic, number))
        self._counts.skipped += records.skipped
        self._counts.bytes += size
        self._limit.take(size, self._clock.seconds())
        self._moved[key] = position_in(records.next_offset, buffer.topic_id, self._source_id, chunk.epoch)
        return size

    async def _prepared(self, topic: str, partition: int, chunk: SourceChunk) -> ConvertedRecords | None:
        try:
            if chunk.size < _THREAD_BYTES_MIN:
                return chunk.converted()
            result: ConvertedRecords | None = await self._in_thread(chunk.converted)
        except KafkaError as error:
            place = f"{topic}-{partition} of the source, from offset {chunk.position} on"
            raise TopicStopped(topic, f"records of {place}, cannot be read: {error}") from error
        return result

    async def _wait_for_space(self) -> None:
        while self._writer.unsent_bytes > _UNSENT_BYTES_MAX:
            await self._wake_up.wait()
            self._writer.check()

    async def _commit(self) -> None:
        moved, self._moved = self._moved, {}
        done, self._set = self._set, []
        await self._writer.flushed()
        written = [batch for batch in self._writer.written if batch.source is not None]
        positions = {key: at for key, at in moved.items() if at is not None}
        headers: dict[TopicPartition, Header] = {}
        for listener in self._listeners:
            headers |= listener.headers(written, positions)
        now = int(self._clock.seconds() * 1000)
        for number, batch in position_batches(self._table.source, moved, headers, self._positions_partitions, now):
            self._writer.put((self._positions_topic, number), batch, None)
        await self._writer.flushed()
        await self._writer.end()
        self._committed_at = self._clock.seconds()
        self.is_committed = True
        self._table.update(moved)
        self._counts.commits += 1
        for listener in self._listeners:
            listener.committed(positions)
        for waiting in done:
            waiting.callback(None)
