"""A stream as a plain iterator."""

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

from pylogbroker.client.consumer.streams import Stream as AsyncStream
from pylogbroker.client.messages import Message
from pylogbroker.client.sync.background import Background, Pending
from pylogbroker.interfaces import TopicPartition

#: A stream takes as many messages at a time as its reader is done with in these seconds, and at most so many.
STRIDE_SECONDS = 0.05
STRIDE_MESSAGES = 2000


class Stream:
    """Messages, as a plain iterator: `for message in stream`.

    The iteration ends when the connector is closed, or nothing came for `consumer.timeout.ms`; it can be taken up again
    then, and after Ctrl-C, and no message is lost. Messages come from the reactor's thread several at a time: as many
    as the reader was done with in a twentieth of a second, so that a slow one keeps nothing from others. Those that
    were not given yet count as not read when offsets are committed.
    """

    def __init__(self, background: Background, stream: AsyncStream) -> None:
        self.count = 0  # of messages given so far
        self._background = background
        self._stream = stream
        self._messages: deque[Message] = deque()
        self._pending: Pending[list[Message]] | None = None
        self._filling = threading.Lock()
        self._stride = 1
        self._filled_at = 0.0
        self._dropped: frozenset[TopicPartition] = frozenset()  # of what is in `_messages`

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        message = self.get(self._stream.timeout)
        if message is None:
            raise StopIteration
        return message

    def get(self, timeout: float | None = None) -> Message | None:
        """The next message; None if the stream has ended, or nothing came in so many seconds."""
        while True:
            message: Message | None
            try:
                message = self._messages[0]
                del self._messages[0]  # nothing is called between this and `return`: Ctrl-C comes before or after
            except IndexError:
                message = None
            if message is None:  # not within `except`: what is raised here has nothing to do with that
                if not self._fill(timeout):
                    return None
            elif not self._dropped or not self._is_dropped(message):
                self.count += 1
                return message

    def get_many(self, most: int = STRIDE_MESSAGES, timeout: float | None = None) -> list[Message]:
        """Messages, as soon as there are any; none if the stream has ended, or nothing came in so many seconds."""
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
        """Whether there are messages now."""
        if not self._filling.acquire(timeout=-1 if timeout is None else timeout):
            return False
        try:
            if not self._messages:
                self._take(most or self._next_stride(), timeout)
            return bool(self._messages)
        finally:
            self._filling.release()

    def _take(self, count: int, timeout: float | None) -> None:
        self._background.check("Stream")
        pending = self._pending or self._background.begin(partial(self._stream.get_many, count))
        self._pending = pending  # so that what comes after a timeout, or Ctrl-C, is not lost
        try:
            wait([pending.future], timeout)
            if not pending.future.done():
                return
            messages = pending.future.result()
        except Exception:
            self._pending = None
            raise
        self._dropped = frozenset()
        self._messages = deque(messages)  # before the other is let go: nothing is unaccounted for in between
        self._pending = None
        self._filled_at = time.monotonic()

    def _next_stride(self) -> int:
        taken = time.monotonic() - self._filled_at
        if taken > STRIDE_SECONDS:
            self._stride = max(1, self._stride // 2)
        elif taken < STRIDE_SECONDS / 2:
            self._stride = min(STRIDE_MESSAGES, self._stride * 2)
        return self._stride

    # On the reactor's thread, which never waits for the reader's: the lock is not taken.

    def unread(self) -> dict[TopicPartition, int]:
        """Of each partition of which messages are here that were not given yet, the offset of the first of them."""
        here = [message for message in self._messages.copy() if not self._is_dropped(message)]
        waiting = [*here, *self._arrived()]
        return {(message.topic, message.partition): message.offset for message in reversed(waiting)}

    def forget(self, topic: str, partition: int) -> None:
        """What is here of a partition is not wanted."""
        arrived = self._arrived()
        arrived[:] = [each for each in arrived if (each.topic, each.partition) != (topic, partition)]
        self._dropped |= {(topic, partition)}  # the reader may take from the others meanwhile

    def _arrived(self) -> list[Message]:
        """What has come and was not taken over yet: because the wait for it was given up, say."""
        pending = self._pending
        if pending is None or not pending.future.done() or pending.future.exception():
            return []
        return pending.future.result()

    def _is_dropped(self, message: Message) -> bool:
        return (message.topic, message.partition) in self._dropped


@attrs.frozen
class Relay:
    """What lies in the hands of a connector's streams; on the reactor's thread."""

    _streams: Sequence[Stream]

    def unread(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that its reader was not given yet."""
        return {key: offset for stream in self._streams for key, offset in stream.unread().items()}

    def forget(self, partition: TopicPartition) -> None:
        """What is here of the partition is not wanted."""
        for stream in self._streams:
            stream.forget(*partition)
