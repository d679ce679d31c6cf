"""Streams as plain iterators."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import wait
from contextlib import suppress
from functools import partial
from itertools import chain, islice, takewhile
from typing import Self

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.client.consumer.streams import Stream as AsyncStream
from pylogbroker.client.messages import Message
from pylogbroker.client.sync.background import Background, Pending
from pylogbroker.interfaces import TopicPartition

#: reading time of messages taken at once: a slow reader withholds few
_PREFETCH_SECONDS = 0.05
_PREFETCH_MESSAGES_MAX = 2000
_PREFETCH_OF_RUNS_MAX = 100_000  # no message is made of them


class Stream:
    """Iterator over messages: `for message in stream`.

    Iteration ends when the connector is closed, or after `consumer.timeout.ms` without a message. It can continue then,
    and after Ctrl-C, without loss. The stream takes several messages at a time; commits count unreturned ones as
    unread.

    Many messages are read faster in runs, by one thread:

        while run := stream.next_run():
            print(run.values())
            stream.mark_read(len(run))
    """

    def __init__(self, background: Background, stream: AsyncStream) -> None:
        self.count = 0  # messages returned
        self._background = background
        self._stream = stream
        self._messages: deque[Message] = deque()
        self._runs: deque[Sequence[Message]] = deque()  # after `_messages`; each of one partition
        self._pending: Pending[list[Sequence[Message]]] | None = None
        self._filling = threading.Lock()
        self._prefetch_messages = 1
        self._filled_at = 0.0
        self._dropped: frozenset[TopicPartition] = frozenset()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        message = self.get(self._stream.timeout)
        if message is None:
            raise StopIteration
        return message

    def get(self, timeout: float | None = None) -> Message | None:
        """Return the next message; None at the end, or after `timeout` seconds."""
        while True:
            message: Message | None
            try:
                message = self._messages[0]
                del self._messages[0]  # no call between this and `return`: Ctrl-C comes before or after
            except IndexError:
                message = None
            if message is None:  # outside `except`: errors must not chain to IndexError
                if not self._fill(timeout):
                    return None
            elif not self._dropped or not self._is_dropped(message):
                self.count += 1
                return message

    def get_many(self, most: int = _PREFETCH_MESSAGES_MAX, timeout: float | None = None) -> list[Message]:
        """Return at most `most` messages once there are any; none at the end, or after `timeout` seconds."""
        messages: list[Message] = []
        try:
            while not messages and (self._messages or self._fill(timeout, most)):
                self._move(messages, most)
                if self._dropped:
                    messages = [message for message in messages if not self._is_dropped(message)]
            self.count += len(messages)
        except BaseException:
            self._messages.extendleft(reversed(messages))
            raise
        return messages

    def next_run(self) -> Sequence[Message]:
        """Return the next messages of one partition, as many as there are; wait for them as an iteration does.

        They count as unread, and the next call returns them again, until `mark_read`. None at the end.
        """
        while self._messages or self._runs or self._fill_runs(self._stream.timeout):
            run = self._first_run()
            if not self._dropped or not self._is_dropped(run[0]):
                return run
            self._skip(len(run))
        return ()

    def mark_read(self, count: int) -> None:
        """Count the first messages of what `next_run` returned as read."""
        self._skip(count)
        self.count += count

    def _first_run(self) -> Sequence[Message]:
        if not self._messages:
            return self._runs[0]
        messages = self._messages.copy()
        topic, partition = messages[0].topic, messages[0].partition
        return [*takewhile(lambda message: (message.topic, message.partition) == (topic, partition), messages)]

    def _skip(self, count: int) -> None:
        if self._messages:
            self._messages = deque(islice(self._messages.copy(), count, None))
            return
        rest = self._runs[0][count:]
        if len(rest):
            self._runs[0] = rest
        else:
            del self._runs[0]

    def _move(self, messages: list[Message], most: int) -> None:
        with suppress(IndexError):
            while len(messages) < most:
                message = self._messages[0]
                del self._messages[0]  # as in `get`
                messages.append(message)

    def _fill(self, timeout: float | None, most: int = 0) -> bool:
        """Make messages of runs, which are taken first if there are none; return whether there are messages."""
        if not self._filling.acquire(timeout=-1 if timeout is None else timeout):
            return False
        try:
            if not self._messages:
                if not self._runs:
                    self._take(most or self._next_prefetch(_PREFETCH_MESSAGES_MAX), timeout)
                messages, no_runs = deque(chain.from_iterable(self._runs)), deque[Sequence[Message]]()
                self._messages = messages  # no call between this and the next line
                self._runs = no_runs
            return bool(self._messages)
        finally:
            self._filling.release()

    def _fill_runs(self, timeout: float | None) -> bool:
        """Take runs; return whether there are any."""
        with self._filling:
            self._take(self._next_prefetch(_PREFETCH_OF_RUNS_MAX), timeout)
            return bool(self._runs)

    def _take(self, count: int, timeout: float | None) -> None:
        self._background.check("Stream")
        if self._pending is None:
            self._pending = Pending()  # keeps messages that arrive after a timeout or Ctrl-C
        pending = self._pending
        if pending.deferred is None:
            self._background.start(pending, partial(self._get_runs, count))
        try:
            wait([pending.future], timeout)
            if not pending.future.done():
                return
            runs = deque(pending.future.result())
        except Exception:
            self._pending = None
            raise
        self._dropped = frozenset()
        self._runs = runs  # before `_pending` is cleared: `unread` must miss none
        self._pending = None
        self._filled_at = time.monotonic()

    def _get_runs(self, count: int) -> Deferred[list[Sequence[Message]]]:
        """Make a list on the reactor thread: `forget` removes runs that have arrived."""
        return self._stream.get_many(count).addCallback(lambda messages: list(messages.runs))

    def _next_prefetch(self, most: int) -> int:
        taken = time.monotonic() - self._filled_at
        if taken > _PREFETCH_SECONDS:
            self._prefetch_messages = max(1, self._prefetch_messages // 2)
        elif taken < _PREFETCH_SECONDS / 2:
            self._prefetch_messages = min(most, self._prefetch_messages * 2)
        return self._prefetch_messages

    # On the reactor thread, which must never wait for a reader: take no lock.

    def unread(self) -> dict[TopicPartition, int]:
        """Return the first unreturned offset, by partition."""
        waiting = [*self._messages.copy(), *(run[0] for run in self._runs.copy())]
        here = [message for message in waiting if not self._is_dropped(message)]
        first = [*here, *(run[0] for run in self._arrived())]
        return {(message.topic, message.partition): message.offset for message in reversed(first)}

    def forget(self, topic: str, partition: int) -> None:
        arrived = self._arrived()
        arrived[:] = [run for run in arrived if (run[0].topic, run[0].partition) != (topic, partition)]
        self._dropped |= {(topic, partition)}  # the reader may be taking other messages

    def _arrived(self) -> list[Sequence[Message]]:
        """Return runs not taken, as after a timeout."""
        pending = self._pending
        if pending is None or not pending.future.done() or pending.future.exception():
            return []
        return pending.future.result()

    def _is_dropped(self, message: Message) -> bool:
        return (message.topic, message.partition) in self._dropped


@attrs.frozen
class StreamRelay:
    """Unread messages of a connector's streams; on the reactor thread."""

    _streams: Sequence[Stream]

    def unread(self) -> dict[TopicPartition, int]:
        return {key: offset for stream in self._streams for key, offset in stream.unread().items()}

    def forget(self, partition: TopicPartition) -> None:
        for stream in self._streams:
            stream.forget(*partition)
