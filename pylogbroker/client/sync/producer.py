"""The producer without Deferreds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, Self, TypeVar

from pylogbroker.client.producer.errors import SomeFailed
from pylogbroker.client.producer.model import Counts, GroupMember, Offsets, ProducerRecord, RecordMetadata
from pylogbroker.client.producer.producer import Producer as AsyncProducer
from pylogbroker.client.sync.background import Pending, TimedOut
from pylogbroker.client.sync.blocking_client import SECONDS_MAX, BlockingClient
from pylogbroker.client.sync.submissions import Submissions
from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import ICallbackHandler
from pylogbroker.records import Header

T = TypeVar("T")

#: per lot of `send_many`
_BULK_RECORDS = 5000
#: besides key and value
RECORD_BYTES = 64


class Producer(BlockingClient[AsyncProducer]):
    """Producer; takes the arguments and settings of `pylogbroker.client.Producer`.

    `send` and `send_many` wait for acknowledgements, `submit` only above 32 MB of unacknowledged records. `close`, also
    at a `with` block's end, first sends queued records.
    """

    def __init__(self, bootstrap: str | None = None, *, timeout: float = SECONDS_MAX, **options: Any) -> None:
        super().__init__(partial(AsyncProducer, bootstrap, **options), timeout, options)
        self._submissions = Submissions(self._background.reactor.callFromThread)

    @property
    def callback_handlers(self) -> tuple[ICallbackHandler, ...]:
        """Handlers in order; they run on the reactor thread."""
        return self._client.callback_handlers

    @property
    def counts(self) -> Counts:
        return self._client.counts

    @property
    def trouble(self) -> str:
        """Why records are not acknowledged, as far as is known: the last errors of brokers; "" without one."""
        return self._client.trouble

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
        timeout: float | None = None,
    ) -> RecordMetadata:
        """Send a record; return its metadata. After `TimedOut` it may still be written."""
        send = partial(self._client.send, topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
        return self._call(f"send to {topic!r}", send, timeout, keep=True)

    def submit(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
        timeout: float | None = None,
    ) -> Future[RecordMetadata]:
        """Send in the background. The timeout limits the wait for space; after `TimedOut` nothing was sent."""
        self._background.check(f"{self._name}.submit")
        send = partial(self._client.send, topic, value, key, partition=partition, timestamp=timestamp, headers=headers)
        size, seconds = RECORD_BYTES + _size(value) + _size(key), self._seconds(timeout)
        future = self._submissions.submit(send, size, seconds)
        if future is None:
            late = TimedOut(f"{self._name}.submit to {topic!r}: no space within {seconds:g} s; the record was not sent")
            raise self._explained(late)
        return future

    def submit_many(
        self, records: Sequence[ProducerRecord | tuple[Any, ...]], *, timeout: float | None = None
    ) -> Future[list[RecordMetadata]]:
        """Send records in the background, as `send_many` takes them.

        The future has the metadata of each, or raises SomeFailed. The timeout is that of `submit`.
        """
        self._background.check(f"{self._name}.submit_many")
        given = list(records)
        size, seconds = sum(map(_record_size, given)), self._seconds(timeout)
        future = self._submissions.submit(partial(self._client.send_many, given), size, seconds)
        if future is None:
            late = TimedOut(f"{self._name}.submit_many: no space within {seconds:g} s; the records were not sent")
            raise self._explained(late)
        return future

    def send_many(
        self, records: Iterable[ProducerRecord | tuple[Any, ...]], *, timeout: float | None = None
    ) -> list[RecordMetadata]:
        """Send records, `(topic, value)`, `(topic, value, key)` or `ProducerRecord`; return the metadata of each.

        Lots of some thousand records are read, each with its own timeout. A failure ends reading, and raises SomeFailed
        with each record's result.
        """
        what, seconds = f"{self._name}.send_many", self._seconds(timeout)
        self._background.check(what)
        waiting: deque[Pending[list[RecordMetadata]]] = deque()
        results: list[RecordMetadata | BaseException] = []
        for lot in _lots(records, _BULK_RECORDS):
            waiting.append(self._background.begin(partial(self._client.send_many, lot)))
            if len(waiting) > 1 and not self._gather(waiting.popleft(), results, seconds, what):
                break
        for pending in waiting:
            self._gather(pending, results, seconds, what)
        metadata = [result for result in results if isinstance(result, RecordMetadata)]
        if len(metadata) < len(results):
            raise SomeFailed(results)
        return metadata

    def _gather(
        self,
        pending: Pending[list[RecordMetadata]],
        results: list[RecordMetadata | BaseException],
        seconds: float | None,
        what: str,
    ) -> bool:
        try:
            metadata = self._background.wait(pending, seconds, what)
        except SomeFailed as error:
            results += error.results
            return False
        except TimedOut as error:
            raise self._explained(error) from None
        results += metadata
        return True

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all records are acknowledged or failed."""
        self._call("flush", self._client.flush, timeout)

    def begin(self, timeout: float | None = None) -> None:
        self._call("begin", self._client.begin, timeout)

    def send_offsets(self, offsets: Offsets, group: str | GroupMember, timeout: float | None = None) -> None:
        """Commit a group's offsets in the transaction."""
        self._call("send_offsets", partial(self._client.send_offsets, offsets, group), timeout)

    def commit(self, timeout: float | None = None) -> None:
        self._call("commit", self._client.commit, timeout, keep=True)

    def abort(self, timeout: float | None = None) -> None:
        self._call("abort", self._client.abort, timeout, keep=True)

    @contextmanager
    def transaction(self, timeout: float | None = None) -> Iterator[Self]:
        """Run a `with` block in a transaction: commit at its end, abort if it raises, Ctrl-C included.

        A failed commit is aborted too; a commit that times out continues.
        """
        self.begin(timeout)
        try:
            yield self
        except BaseException as error:
            self._abort_because(error, timeout)
            raise
        try:
            self.commit(timeout)
        except TimedOut:
            raise
        except PylogbrokerError as error:
            self._abort_because(error, timeout)
            raise

    def _abort_because(self, error: BaseException, timeout: float | None) -> None:
        try:
            self.abort(timeout)
        except PylogbrokerError as another:
            error.add_note(f"the transaction could not be aborted: {another}")

    def _trouble(self) -> str:
        return self.trouble

    async def _close(self, seconds: float | None) -> None:
        await self._client.close(seconds)


def _record_size(record: ProducerRecord | tuple[Any, ...]) -> int:
    parts = (record.value, record.key) if isinstance(record, ProducerRecord) else record[1:]
    return RECORD_BYTES + sum(map(_size, parts))


def _size(part: object) -> int:
    return len(part) if isinstance(part, bytes | str) else 0


def _lots(records: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(records)
    while lot := list(islice(iterator, size)):
        yield lot
