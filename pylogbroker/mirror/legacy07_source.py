"""A broker of Kafka 0.7 as the source of a mirror, by its protocol: `simple://host:port`.

The protocol names no topics, so the mirror's settings do. A topic's partitions are found by requests for their offsets.
Positions are bytes in the log of this broker; a cluster of several brokers needs a mirror for each. Messages have
neither keys nor timestamps, and come without their compression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.client.errors import OutOfRange, is_retriable
from pylogbroker.client.messages import MessageSet
from pylogbroker.client.metadata import PartitionInfo, TopicInfo
from pylogbroker.client.simple_consumer import EARLIEST, SimpleConsumer
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.batches import ConvertedRecords, MirroredBatch, new_batch
from pylogbroker.mirror.chunks import ReadyChunks, SourceChunk
from pylogbroker.mirror.lag_table import LagTable
from pylogbroker.mirror.lost_offsets import LostOffsets
from pylogbroker.mirror.positions import Position
from pylogbroker.mirror.wake_up import WakeUp
from pylogbroker.records import NO_TIMESTAMP
from pylogbroker.rpc.errors import Closed, NotConnected
from pylogbroker.rpc.retries import Pauses
from pylogbroker.rpc.settings import Address, parse_address
from pylogbroker.wire import NO_ID

log = Logger()

_SCHEME: Final = "simple://"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_PARTITIONS_MAX: Final = 1000
_PARTITION: Final = PartitionInfo(0, -1, (0,), (0,))
_POLL_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 1.0
_BATCH_BYTES_MAX: Final = 262_144
_BUFFER_BYTES: Final = 1_048_576


def is_legacy07(bootstrap: str) -> bool:
    return bootstrap.lower().startswith(_SCHEME)


def legacy07_address(bootstrap: str) -> Address:
    """Raise ConfigError unless it is one address."""
    return parse_address(bootstrap[len(_SCHEME) :])


class Legacy07Source:
    """Topics of one broker. Raises ConfigError for topics that are no names."""

    def __init__(self, reactor: Any, bootstrap: str, topics: Iterable[str]) -> None:
        self.address = legacy07_address(bootstrap)
        self._names = tuple(topics)
        for name in self._names:
            if not _NAME.fullmatch(name) or "*" in name:
                raise ConfigError(f"topics: {name!r} is no name: a broker of Kafka 0.7 lists no topics, so name each")
        self.consumer = SimpleConsumer(self.address.host, self.address.port, reactor=reactor, protocol="simple")
        self._topics: dict[str, TopicInfo] = {}

    def __str__(self) -> str:
        return f"{_SCHEME}{self.address}"

    @property
    def alias(self) -> str:
        return re.sub(r"[^A-Za-z0-9._-]", "-", str(self.address))

    def topics(self) -> Mapping[str, TopicInfo]:
        return self._topics

    async def refresh(self) -> None:
        """Find the partitions of each topic."""
        for name in self._names:
            partitions = len(self._topics[name].partitions) if name in self._topics else 0
            while partitions < _PARTITIONS_MAX and await self._exists(name, partitions):
                partitions += 1
            self._topics[name] = TopicInfo(name, NO_ID, (_PARTITION,) * partitions)

    async def _exists(self, topic: str, partition: int) -> bool:
        try:
            await self.consumer.get_offsets_before(topic, partition, EARLIEST)
        except KafkaError as error:
            if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_SERVER_ERROR):
                return False
            raise
        return True

    def close(self) -> Deferred[None]:
        return self.consumer.close()


@attrs.define(eq=False, repr=False)
class Legacy07Chunk(SourceChunk):
    messages: MessageSet = attrs.field(kw_only=True)

    def converted(self) -> ConvertedRecords:
        batches = tuple(self._batches())
        return ConvertedRecords(batches, self.next_offset, -1, 0)

    def _batches(self) -> Iterator[MirroredBatch]:
        values: list[bytes | None] = []
        size = 0
        for message in self.messages:
            if values and size + len(message.value) > _BATCH_BYTES_MAX:
                yield self._batch(values)
                values, size = [], 0
            values.append(message.value)
            size += len(message.value)
        if values:
            yield self._batch(values)

    def _batch(self, values: list[bytes | None]) -> MirroredBatch:
        batch = new_batch([None] * len(values), values, NO_TIMESTAMP)
        return attrs.evolve(batch, first_offset=self.position, next_offset=self.next_offset)


class Legacy07Reader:
    """Polls the partitions of one broker; the protocol has no waiting fetch."""

    def __init__(
        self,
        source: Legacy07Source,
        reactor: Any,
        on_ready: Callable[[], object],
        on_failed: Callable[[TopicPartition, Exception], object],
        lost: LostOffsets,
    ) -> None:
        self._consumer = source.consumer
        self._lost = lost
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._buffers: dict[TopicPartition, FetchBuffer] = {}
        self._ready = ReadyChunks()
        self.lags = LagTable()
        self._wake_up = WakeUp(reactor)
        self._pauses = Pauses(reactor)
        self._polling = run_in_background(log, self._poll(), "fetching from a broker of Kafka 0.7 failed")

    @property
    def partitions(self) -> Mapping[TopicPartition, FetchBuffer]:
        return self._buffers

    @property
    def has_chunks(self) -> bool:
        return bool(self._ready)

    async def start(self, positions: Mapping[TopicPartition, Position | None]) -> None:
        for key, position in positions.items():
            if position is None:
                first = (await self._consumer.get_offsets_before(*key, EARLIEST) or [0])[0]
            else:
                first = position.next_offset
            buffer = self._buffers.setdefault(key, FetchBuffer(*key, _BUFFER_BYTES))
            buffer.on_change = self._wake_up.call
            self._ready.forget(buffer)
            buffer.begin(first)
            self.lags.update(buffer)
        self._wake_up.call()

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        for key in partitions:
            buffer = self._buffers.pop(key, None)
            if buffer is not None:
                self._ready.forget(buffer)
                buffer.close()
                self.lags.remove(key)

    def take(self) -> tuple[FetchBuffer, SourceChunk] | None:
        taken = self._ready.take()
        if taken is not None:
            self.lags.update(taken[0])
        return taken

    def close(self) -> None:
        self._pauses.close()
        self._polling.cancel()

    async def _poll(self) -> None:
        while True:
            try:
                buffers = [buffer for buffer in self._buffers.values() if not buffer.full]
                if not buffers:
                    await self._wake_up.wait()
                elif not await self._fetch(buffers):
                    await self._pauses.pause(_POLL_SECONDS)
            except (Closed, CancelledError):
                return
            except PylogbrokerError as error:
                if not (is_retriable(error) or isinstance(error, NotConnected)):
                    raise
                log.warn("the source is not reached: {error}", error=error)
                await self._pauses.pause(_RETRY_SECONDS)

    async def _fetch(self, buffers: list[FetchBuffer]) -> bool:
        """Fetch once; return whether there were messages."""
        rounds = [buffer.round for buffer in buffers]
        sets = await self._consumer.multifetch((*buffer.key, buffer.position) for buffer in buffers)
        is_news = False
        for buffer, begun, messages in zip(buffers, rounds, sets, strict=True):
            if not buffer.closed and buffer.round == begun:
                is_news = self._take(buffer, messages) or is_news
                if not buffer.closed:
                    self.lags.update(buffer)
        self._on_ready()
        return is_news

    def _take(self, buffer: FetchBuffer, messages: MessageSet) -> bool:
        error = messages.error
        if isinstance(error, OutOfRange):
            log.warn("records were lost: {error}; the mirror goes on within the log", error=error)
            if buffer.position < error.first:
                self._lost.add(buffer.key, buffer.position, error.first)
            buffer.restart(min(max(buffer.position, error.first), error.end))
            return True
        if error is not None:
            self.stop([buffer.key])
            self._on_failed(buffer.key, error)
            return False
        position, following = buffer.position, messages.next_offset
        if following == position:
            buffer.high_watermark = position
            return False
        buffer.high_watermark = max(buffer.high_watermark, following)
        buffer.add(Legacy07Chunk(iter(()), len(messages.data), following, position=position, messages=messages))
        self._ready.filled(buffer)
        return True
