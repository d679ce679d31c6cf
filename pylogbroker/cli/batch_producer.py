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
import numpy as np

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.cli.line_records import LineRecords, Target
from pylogbroker.client import settings as client_settings
from pylogbroker.client.errors import RecordTooLarge
from pylogbroker.client.producer import SomeFailed
from pylogbroker.client.producer.options import options_of
from pylogbroker.interfaces import TopicPartition
from pylogbroker.records import Header
from pylogbroker.records.batch import encode_headers
from pylogbroker.records.columnar.varints import Ints
from pylogbroker.spark.writing.encoded import OVERHEAD, Encoded
from pylogbroker.spark.writing.key_hash import partitions_of_keys
from pylogbroker.spark.writing.producer import IdempotentProducer
from pylogbroker.spark.writing.producer_ids import identify

_RECORD_BYTES: Final = 32  # most that a record takes besides its key and value
_BATCH_BYTES_MAX: Final = 1 << 19
_END_SECONDS: Final = 1.0
_PADDING: Final = b"\0\0\0"  # keys are read in words of four bytes

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
    columns: LineRecords
    future: Future[Sequence[Any]]
    left: int
    failure: SomeFailed | None = None

    def acknowledge(self, count: int) -> None:
        self.left -= count
        if not self.left:
            if self.failure is None:
                self.future.set_result(self.columns.values)
            else:
                self.future.set_exception(self.failure)


class BatchProducer:
    def __init__(self, target: Target, settings: Mapping[str, Any]) -> None:
        self._target = target
        self._topic = target.topic
        self._settings = client_settings.read(client_settings.PRODUCER, settings)
        options = options_of(self._settings)
        self._codec, self._level = options.codec_of(target.topic), options.level
        self._record_max = options.max_request_size - OVERHEAD
        self._batch_max = min(_BATCH_BYTES_MAX, self._record_max)
        self._fixed_bytes = _RECORD_BYTES + (len(encode_headers(target.headers)) if target.headers else 0)
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

    def submit(self, columns: LineRecords) -> Future[Sequence[Any]]:
        """Send records; the future has as many results. It raises SomeFailed from a record on that is too large."""
        lot = _Lot(columns, Future(), len(columns))
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
            sizes = self._check_sizes(lot)
            for partition, columns, own_sizes in self._by_partition(lot.columns, sizes, partitions):
                key = self._topic, partition
                self._unwritten.setdefault(key, deque()).append((lot, len(columns)))
                producer.send({key: [*self._encoded(columns, own_sizes, producer.limit(self._topic))]})
            if not lot.left:
                self._finish(lot, 0)

    def _check_sizes(self, lot: _Lot) -> Ints:
        """Return the most bytes that each record takes; cut a lot before a record that is too large."""
        sizes = _sizes(lot.columns) + self._fixed_bytes
        if len(sizes) and sizes.max() > self._record_max:
            number = int((sizes > self._record_max).argmax())
            error = RecordTooLarge(
                f"a record of {sizes[number]} bytes is larger than max.request.size, {self._record_max + OVERHEAD}:"
                " raise it with -X, and the topic's max.message.bytes with it"
            )
            results: list[Any] = [None] * number + [error] * (len(sizes) - number)
            lot.failure, lot.left = SomeFailed(results), number
            lot.columns = lot.columns.first(number)
        return sizes[: len(lot.columns)]

    def _by_partition(
        self, columns: LineRecords, sizes: Ints, partitions: int
    ) -> Iterator[tuple[int, LineRecords, Ints]]:
        if not len(columns):
            return
        self._next += 1
        without_key = self._next % partitions
        if self._target.partition is not None:
            yield self._target.partition, columns, sizes
        elif columns.keys is None or partitions == 1:
            yield without_key, columns, sizes
        else:
            numbers = partitions_of(columns.keys, partitions, without_key)
            for partition in np.unique(numbers).tolist():
                chosen = np.flatnonzero(numbers == partition)
                yield partition, columns.take(chosen.tolist()), sizes[chosen]

    def _encoded(self, columns: LineRecords, sizes: Ints, limit: int | None) -> Iterator[Encoded]:
        now_ms = time.time_ns() // 1_000_000
        for some in _slices(sizes, min(self._batch_max, limit or self._batch_max)):
            part = columns.slice(some)
            times = part.timestamps
            timestamps = [now_ms] * len(part) if times is None else [now_ms if time is None else time for time in times]
            yield Encoded.of(
                part.keys, part.values, timestamps, self._headers(part), codec=self._codec, level=self._level
            )

    def _headers(self, columns: LineRecords) -> Sequence[tuple[Header, ...]] | None:
        fixed = self._target.headers
        if columns.headers is not None:
            return [(*own, *fixed) for own in columns.headers] if fixed else columns.headers
        return [fixed] * len(columns) if fixed else None

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


def _sizes(columns: LineRecords) -> Ints:
    """Return the bytes of keys, values and own headers; numbers of headers take `_RECORD_BYTES` or less."""
    sizes = _lengths(columns.values)
    if columns.keys is not None:
        sizes += _lengths(columns.keys)
    if columns.headers is not None:
        sizes += np.fromiter((len(encode_headers(own)) if own else 0 for own in columns.headers), np.int64)
    return sizes


def _lengths(fields: Sequence[bytes | None]) -> Ints:
    filled = [field or b"" for field in fields] if None in fields else fields
    return np.fromiter(map(len, filled), np.int64, len(fields))  # type: ignore[arg-type]


def partitions_of(keys: Sequence[bytes | None], partitions: int, without_key: int) -> Ints:
    """Return the partition of each key."""
    lengths = _lengths(keys)
    data = np.frombuffer(b"".join(key or b"" for key in keys) + _PADDING, np.uint8)
    numbers = partitions_of_keys(data, np.cumsum(lengths) - lengths, lengths, partitions).astype(np.int64)
    if None in keys:
        numbers[[key is None for key in keys]] = without_key
    return numbers


def _slices(sizes: Ints, most: int) -> Iterator[slice]:
    """Yield slices of records that take at most so many bytes together, or of one record."""
    behind = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(behind[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(behind, before + most, side="right")))
        yield slice(start, stop)
        start = stop
