"""Streams as plain iterators."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import wait
from contextlib import suppress
from functools import partial
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


class Stream:
    """Iterator over messages: `for message in stream`.

    Iteration ends when the connector is closed, or after `consumer.timeout.ms` without a message. It can continue then,
    and after Ctrl-C, without loss. The stream takes several messages at a time; commits count unreturned ones as
    unread.
    """

    def __init__(self, background: Background, stream: AsyncStream) -> None:
        self.count = 0  # messages returned
        self._background = background
        self._stream = stream
        self._messages: deque[Message] = deque()
        self._pending: Pending[list[Message]] | None = None
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

    def _move(self, messages: list[Message], most: int) -> None:
        with suppress(IndexError):
            while len(messages) < most:
                message = self._messages[0]
                del self._messages[0]  # as in `get`
                messages.append(message)

    def _fill(self, timeout: float | None, most: int = 0) -> bool:
        if not self._filling.acquire(timeout=-1 if timeout is None else timeout):
            return False
        try:
            if not self._messages:
                self._take(most or self._next_prefetch(), timeout)
            return bool(self._messages)
        finally:
            self._filling.release()

    def _take(self, count: int, timeout: float | None) -> None:
        self._background.check("Stream")
        if self._pending is None:
            self._pending = Pending()  # keeps messages that arrive after a timeout or Ctrl-C
        pending = self._pending
        if pending.deferred is None:
            self._background.start(pending, partial(self._get_list, count))
        try:
            wait([pending.future], timeout)
            if not pending.future.done():
                return
            messages = pending.future.result()
        except Exception:
            self._pending = None
            raise
        self._dropped = frozenset()
        self._messages = deque(messages)  # before `_pending` is cleared: `unread` must miss none
        self._pending = None
        self._filled_at = time.monotonic()

    def _get_list(self, count: int) -> Deferred[list[Message]]:
        """Make messages on the reactor thread: `forget` removes those that have arrived."""
        return self._stream.get_many(count).addCallback(list)

    def _next_prefetch(self) -> int:
        taken = time.monotonic() - self._filled_at
        if taken > _PREFETCH_SECONDS:
            self._prefetch_messages = max(1, self._prefetch_messages // 2)
        elif taken < _PREFETCH_SECONDS / 2:
            self._prefetch_messages = min(_PREFETCH_MESSAGES_MAX, self._prefetch_messages * 2)
        return self._prefetch_messages

    # On the reactor thread, which must never wait for a reader: take no lock.

    def unread(self) -> dict[TopicPartition, int]:
        """Return the first unreturned offset, by partition."""
        here = [message for message in self._messages.copy() if not self._is_dropped(message)]
        waiting = [*here, *self._arrived()]
        return {(message.topic, message.partition): message.offset for message in reversed(waiting)}

    def forget(self, topic: str, partition: int) -> None:
        arrived = self._arrived()
        arrived[:] = [message for message in arrived if (message.topic, message.partition) != (topic, partition)]
        self._dropped |= {(topic, partition)}  # the reader may be taking other messages

    def _arrived(self) -> list[Message]:
        """Return messages not taken, as after a timeout."""
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
