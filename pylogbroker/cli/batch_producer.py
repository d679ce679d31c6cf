"""A producer of lines for `LineSender`: records of one topic, encoded many at once, sent by a thread that blocks.

Each lot of lines is one batch; with keys, one for each of their partitions. A lot without keys goes to the next
partition. Lots are acknowledged in the order in which leaders acknowledge their records.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self

import attrs

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.client import settings as client_settings
from pylogbroker.client.errors import RecordTooLarge
from pylogbroker.client.producer import SomeFailed
from pylogbroker.client.producer.options import options_of
from pylogbroker.interfaces import TopicPartition
from pylogbroker.partition_hash import partition_of_key
from pylogbroker.records.columnar import encode
from pylogbroker.spark.writing.encoded import OVERHEAD, Encoded
from pylogbroker.spark.writing.producer import IdempotentProducer
from pylogbroker.spark.writing.producer_ids import identify

_RECORD_BYTES: Final = 32  # most that a record takes besides its key and value
_BATCH_BYTES_MAX: Final = 1 << 19
_END_SECONDS: Final = 1.0

#: Settings that only the producer of `client` has.
UNSUPPORTED: Final = frozenset(
    {
        "callback.handlers",
        "event.handler",
        "key.serializer",
        "partitioner.class",
        "producer.type",
        "transactional.id",
        "value.serializer",
        "zookeeper.connect",
    }
)


@attrs.define(eq=False, repr=False)
class _Lot:
    values: Sequence[bytes]
    keys: Sequence[bytes | None] | None
    future: Future[Sequence[Any]]
    left: int
    failure: SomeFailed | None = None

    def acknowledge(self, count: int) -> None:
        self.left -= count
        if not self.left:
            if self.failure is None:
                self.future.set_result(self.values)
            else:
                self.future.set_exception(self.failure)


class BatchProducer:
    def __init__(self, topic: str, settings: Mapping[str, Any]) -> None:
        self._topic = topic
        self._settings = client_settings.read(client_settings.PRODUCER, settings)
        options = options_of(self._settings)
        self._codec, self._level = options.codec_of(topic), options.level
        self._record_max = options.max_request_size - OVERHEAD
        self._batch_max = min(_BATCH_BYTES_MAX, self._record_max)
        self._queue: SimpleQueue[_Lot | None] = SimpleQueue()
        self._unwritten: dict[TopicPartition, deque[tuple[_Lot, int]]] = {}
        self._waiting: dict[_Lot, None] = {}
        self._next = 0
        self._trouble: Callable[[], str] = str  # of the thread's producer, once there is one
        self._thread = Thread(target=self._run, name="producer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._queue.put(None)
        self._thread.join(_END_SECONDS)  # it may wait for a broker that does not answer

    @property
    def trouble(self) -> str:
        """Why records are not acknowledged now; empty if nothing is known."""
        return self._trouble()

    def submit_many(self, records: Sequence[tuple[Any, ...]]) -> Future[Sequence[Any]]:
        """Send records, `(topic, value)` or `(topic, value, key)`; the future has as many results.

        It raises SomeFailed from a record on that is too large.
        """
        values = [record[1] for record in records]
        keys = [record[2] for record in records] if records and len(records[0]) > 2 else None
        lot = _Lot(values, keys, Future(), len(values))
        self._queue.put(lot)
        return lot.future

    def _run(self) -> None:
        try:
            with BlockingCluster(self._settings) as cluster:
                identity = identify(cluster)
                partitions = len(cluster.topics([self._topic])[self._topic].partitions)
                with IdempotentProducer(cluster, identity, written=self._acknowledge) as producer:
                    self._trouble = lambda: producer.trouble
                    self._send_all(producer, partitions)
        except BaseException as error:
            self._fail(error)

    def _send_all(self, producer: IdempotentProducer, partitions: int) -> None:
        while True:
            if producer.has_unwritten and self._queue.empty():
                producer.wait()
                continue
            lot = self._queue.get()
            if lot is None:
                return
            self._waiting[lot] = None
            self._check_sizes(lot)
            for partition, values, keys in self._by_partition(lot, partitions):
                key = self._topic, partition
                self._unwritten.setdefault(key, deque()).append((lot, len(values)))
                producer.send({key: [*self._encoded(values, keys, producer.limit(self._topic))]})
            if not lot.left:
                self._finish(lot, 0)

    def _check_sizes(self, lot: _Lot) -> None:
        """Cut a lot before a record that is too large."""
        longest = max(map(len, lot.values)) + (max(len(key or b"") for key in lot.keys) if lot.keys else 0)
        if longest + _RECORD_BYTES <= self._record_max:
            return
        for number, value in enumerate(lot.values):
            size = len(value) + len((lot.keys[number] if lot.keys else None) or b"") + _RECORD_BYTES
            if size > self._record_max:
                error = RecordTooLarge(
                    f"a record of {size} bytes is larger than max.request.size, {self._record_max + OVERHEAD}: raise it"
                    " with -X, and the topic's max.message.bytes with it"
                )
                results: list[Any] = [None] * number + [error] * (len(lot.values) - number)
                lot.failure, lot.left = SomeFailed(results), number
                lot.values, lot.keys = lot.values[:number], lot.keys[:number] if lot.keys else None
                return

    def _by_partition(
        self, lot: _Lot, partitions: int
    ) -> Iterator[tuple[int, Sequence[bytes], Sequence[bytes | None] | None]]:
        if not lot.values:
            return
        self._next += 1
        without_key = self._next % partitions
        if lot.keys is None or partitions == 1:
            yield without_key, lot.values, lot.keys
            return
        chosen: dict[int, tuple[list[bytes], list[bytes | None]]] = {}
        for value, key in zip(lot.values, lot.keys, strict=True):
            values, keys = chosen.setdefault(
                without_key if key is None else partition_of_key(key, partitions), ([], [])
            )
            values.append(value)
            keys.append(key)
        for partition, (values, keys) in chosen.items():
            yield partition, values, keys

    def _encoded(
        self, values: Sequence[bytes], keys: Sequence[bytes | None] | None, limit: int | None
    ) -> Iterator[Encoded]:
        now_ms = time.time_ns() // 1_000_000
        for some in _slices(values, keys, min(self._batch_max, limit or self._batch_max)):
            count = len(values[some])
            batch = encode(
                None if keys is None else keys[some],
                values[some],
                [now_ms] * count,
                codec=self._codec,
                level=self._level,
            )
            yield Encoded(memoryview(batch)[OVERHEAD:], count, now_ms, self._codec)

    def _acknowledge(self, key: TopicPartition, count: int) -> None:
        unwritten = self._unwritten[key]
        while count:
            lot, records = unwritten.popleft()
            done = min(records, count)
            if done < records:
                unwritten.appendleft((lot, records - done))
            count -= done
            self._finish(lot, done)

    def _finish(self, lot: _Lot, count: int) -> None:
        if lot.left == count:
            self._waiting.pop(lot, None)
        lot.acknowledge(count)

    def _fail(self, error: BaseException) -> None:
        """Fail all lots, also those that come later."""
        lots = [*self._waiting]
        while True:
            for lot in lots:
                lot.future.set_exception(error)
            following = self._queue.get()
            if following is None:
                return
            lots = [following]


def _slices(values: Sequence[bytes], keys: Sequence[bytes | None] | None, most: int) -> Iterator[slice]:
    """Yield slices of at most so many bytes, or of one record."""
    sizes = (
        list(map(len, values))
        if keys is None
        else [len(value) + len(key or b"") for value, key in zip(values, keys, strict=True)]
    )
    if sum(sizes) + _RECORD_BYTES * len(sizes) <= most:
        yield slice(0, len(sizes))
        return
    start = total = 0
    for number, size in enumerate(sizes):
        if total and total + size + _RECORD_BYTES > most:
            yield slice(start, number)
            start, total = number, 0
        total += size + _RECORD_BYTES
    yield slice(start, len(sizes))
