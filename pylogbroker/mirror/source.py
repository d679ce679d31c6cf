"""The source of a mirror: fetches batches of many partitions, and holds them until the copier takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.client.consumer.fetcher import Fetcher, FetchSettings
from pylogbroker.client.consumer.list_offsets import list_offsets
from pylogbroker.client.errors import RecordTooLarge, TopicRecreated, is_retriable
from pylogbroker.errors import KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.chunks import RawChunk, ReadyChunks, SourceChunk
from pylogbroker.mirror.errors import MirrorError
from pylogbroker.mirror.lag_table import LagTable
from pylogbroker.mirror.lost_offsets import LostOffsets
from pylogbroker.mirror.positions import Position
from pylogbroker.records import Buffer
from pylogbroker.records.log_entry import last_entry
from pylogbroker.rpc.errors import error_of
from pylogbroker.rpc.retries import Pauses
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import PartitionData

log = Logger()

EARLIEST: Final = -2
LATEST: Final = -1
_PARTITION_BYTES_MIN: Final = 65_536
_PARTITION_BYTES_MAX: Final = 1_048_576
_PAUSE_SECONDS: Final = 0.2
_STARTED_AT_ONCE: Final = 500
"""Partitions that begin before other work runs."""


@attrs.define(eq=False, repr=False)
class SourceReader:
    """Fetches partitions from their positions on.

    `on_ready` is called when there is a chunk to take, or a fetch has returned none. `on_failed` gets the error of a
    partition that is not fetched any more. `buffer_bytes` bounds the chunks that wait, except for those in flight.
    """

    _cluster: Cluster
    _clock: IReactorTime
    _pauses: Pauses
    _settings: FetchSettings
    _buffer_bytes: int
    _on_ready: Callable[[], object]
    _on_failed: Callable[[TopicPartition, Exception], object]
    _lost: LostOffsets
    _restarts_recreated: bool
    _fetcher: Fetcher = attrs.field(init=False)
    _ready: ReadyChunks = attrs.field(factory=ReadyChunks)
    lags: LagTable = attrs.field(factory=LagTable, init=False)
    _bytes: int = 0
    """Size of the chunks that wait."""

    def __attrs_post_init__(self) -> None:
        self._fetcher = Fetcher(
            self._cluster,
            self._clock,
            self._settings,
            self._unpack,
            self._filled,
            self._out_of_range,
            self._failed,
            self._truncated,
            self._recreated,
            self._has_space,
        )
        self._unwatch = self._cluster.watch(self._fetcher.wake)

    _unwatch: Callable[[], None] = attrs.field(init=False)

    def close(self) -> None:
        self._unwatch()
        self._fetcher.close()

    # partitions

    @property
    def partitions(self) -> Mapping[TopicPartition, FetchBuffer]:
        return self._fetcher.buffers

    async def start(self, positions: Mapping[TopicPartition, Position | None]) -> None:
        """Fetch from these positions, and drop all that was fetched before; None is the start of the log."""
        first = await self._first_offsets([key for key, position in positions.items() if position is None])
        limit = self._limit(len(self.partitions.keys() | positions.keys()))
        for number, (key, position) in enumerate(positions.items(), 1):
            if number % _STARTED_AT_ONCE == 0:
                await deferLater(self._clock, 0)
            buffer = self._fetcher.buffers.get(key) or FetchBuffer(*key, limit)
            self._forget(buffer)
            if position is None:
                buffer.begin(first[key])
            else:
                buffer.begin(position.next_offset, position.leader_epoch)
            self._fetcher.add(buffer)
            self.lags.update(buffer)

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        for key in partitions:
            buffer = self._fetcher.buffers.get(key)
            if buffer is not None:
                self._forget(buffer)
                self._fetcher.remove(buffer)
                self.lags.remove(key)

    def _limit(self, partitions: int) -> int:
        share = self._buffer_bytes // max(1, 2 * partitions)
        return min(max(share, _PARTITION_BYTES_MIN), _PARTITION_BYTES_MAX)

    async def _first_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = {}
        missing = list(partitions)
        while missing:
            answers, errors = await list_offsets(self._cluster, dict.fromkeys(missing, EARLIEST), committed=True)
            offsets |= answers
            for key, code in errors.items():
                if not code.retriable:
                    raise error_of(code, f"{key[0]}-{key[1]}: {error_of(code).detail}")
            missing = [key for key in missing if key not in answers]
            if missing:
                await self._pauses.pause(_PAUSE_SECONDS)
        return offsets

    # chunks

    @property
    def has_chunks(self) -> bool:
        return bool(self._ready)

    def take(self) -> tuple[FetchBuffer, SourceChunk] | None:
        """Remove and return the oldest chunk of the next partition, each in turn; None without one."""
        taken = self._ready.take()
        if taken is not None:
            buffer, chunk = taken
            had_space = self._has_space()
            self._bytes -= chunk.size
            if not had_space:
                self._fetcher.wake()
            self.lags.update(buffer)
        return taken

    def _has_space(self) -> bool:
        return self._bytes < self._buffer_bytes

    def _forget(self, buffer: FetchBuffer) -> None:
        """Drop the chunks of a partition."""
        self._ready.forget(buffer)
        self._bytes -= buffer.buffered

    # what the fetcher reports

    def _unpack(self, buffer: FetchBuffer, data: PartitionData) -> RawChunk | None:
        self.lags.update(buffer)
        if data.records:
            chunk = _unpacked(buffer, data)
            self._bytes += chunk.size
            return chunk
        self._on_ready()  # the end of the partition is known
        return None

    def _filled(self, buffer: FetchBuffer) -> None:
        self._ready.filled(buffer)
        self._on_ready()

    def _failed(self, buffer: FetchBuffer, error: Exception) -> None:
        self._forget(buffer)
        self.lags.remove(buffer.key)
        self._on_failed(buffer.key, error)

    def _recreated(self, buffer: FetchBuffer, error: TopicRecreated) -> None:
        self.stop([buffer.key])
        self._on_failed(buffer.key, error)

    def _truncated(self, buffer: FetchBuffer, end: int) -> None:
        log.warn(
            "the source has lost records of {topic}-{partition} that are mirrored: offsets {end} to {position} were"
            " truncated; the mirror goes on at {end}",
            topic=buffer.topic,
            partition=buffer.partition,
            end=end,
            position=buffer.position,
        )
        self._forget(buffer)
        buffer.restart(end)
        self.lags.update(buffer)

    def _out_of_range(self, buffer: FetchBuffer) -> None:
        position = buffer.position
        buffer.lose_position()
        problem = "the range of {topic}-{partition} in the source is not known"
        work = self._go_on(buffer, position, buffer.round)
        run_in_background(log, work, problem, topic=buffer.topic, partition=buffer.partition)

    async def _go_on(self, buffer: FetchBuffer, position: int, begun: int) -> None:
        """Go on within the log; say which records are lost."""
        while not buffer.closed and buffer.round == begun:
            try:
                first = await self._edge(buffer.key, EARLIEST)
                end = await self._edge(buffer.key, LATEST)
            except PylogbrokerError as error:
                if not is_retriable(error):
                    self._failed(buffer, error)
                    return
                await self._pauses.pause(_PAUSE_SECONDS)
                continue
            if not buffer.closed and buffer.round == begun:
                self._go_on_between(buffer, position, first, end)
            return

    def _go_on_between(self, buffer: FetchBuffer, position: int, first: int, end: int) -> None:
        if position > end and self._has_no_id(buffer.topic):
            self._go_on_in_another(buffer, position, first, end)
            return
        if position < first:
            self._lost.add(buffer.key, position, first)
        log.warn(_gap(position, first, end), topic=buffer.topic, partition=buffer.partition)
        buffer.continue_at(min(max(position, first), end))

    def _has_no_id(self, topic: str) -> bool:
        info = self._cluster.topics().get(topic)
        return info is not None and info.topic_id == NO_ID

    def _go_on_in_another(self, buffer: FetchBuffer, position: int, first: int, end: int) -> None:
        """Copy a log from its start, which is that of another topic: a truncation would show the leader epoch."""
        why = (
            f"its log ends at offset {end}, before the mirror's position {position}: the topic was deleted and created"
            " again, or has lost records"
        )
        if not self._restarts_recreated:
            cure = "to copy it from its start, set --restart-recreated (topics.recreated=restart)"
            self._failed(buffer, MirrorError(f"{why}; {cure}"))
            return
        text = "{topic}-{partition} is mirrored from its start: {why}"
        log.warn(text, topic=buffer.topic, partition=buffer.partition, why=why)
        buffer.continue_at(first)

    async def _edge(self, partition: TopicPartition, time: int) -> int:
        offsets, errors = await list_offsets(self._cluster, {partition: time}, committed=False)
        if partition in errors:
            raise KafkaError(code=errors[partition])
        return offsets[partition]


def _gap(position: int, first: int, end: int) -> str:
    if position < first:
        return (
            "records were lost: {topic}-{partition} "
            f"of the source begins at offset {first} now, and {first - position} offsets before it were deleted"
            " before they were mirrored"
        )
    if position <= end:
        return f"the source did not have offset {position} of {{topic}}-{{partition}} for a moment; the mirror goes on"
    return (
        "{topic}-{partition} "
        f"of the source ends at offset {end}, before the mirror's position {position}: the source has lost records;"
        f" the mirror goes on at {min(position, end)}"
    )


def _unpacked(buffer: FetchBuffer, data: PartitionData) -> RawChunk:
    records = data.records
    last = last_entry(records)  # type: ignore[arg-type]
    if last is None:
        raise RecordTooLarge(
            f"{buffer.topic}-{buffer.partition} has a message at offset {buffer.position} that is larger than a fetch"
        )
    hidden = tuple(
        (transaction.producer_id, transaction.first_offset) for transaction in data.aborted_transactions or ()
    )
    return RawChunk(
        iter(()),
        len(records),  # type: ignore[arg-type]
        last.next_offset,
        epoch=last.leader_epoch,
        position=buffer.position,
        records=_detached(records),  # type: ignore[arg-type]
        aborted=hidden,
    )


def _detached(records: Buffer) -> Buffer:
    """Copy a small part of a large response, which it would keep in memory."""
    if isinstance(records, memoryview) and len(records) * 2 < memoryview(records.obj).nbytes:
        return bytes(records)
    return records
