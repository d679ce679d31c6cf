"""One partition on its way to a stream: what was fetched of it and not yet read, and how far everybody is.

    done         handed        position
     |  with the  |  buffered   |  not fetched yet
     |  reader    |             |

`position` is what is fetched next, `handed` the first record that the reader has not been given, `done` the first one
that it may still be busy with. A reader is done with what it was given when it comes for more.

A feed that holds `limit` bytes is full: nothing is fetched for it until the reader has taken some. Since a fetch for
as much again may be under way when it is not, twice the limit is what it can hold, or one batch, if that is larger.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from pylogbroker.client.errors import PluginFailed
from pylogbroker.interfaces import TopicPartition

if TYPE_CHECKING:
    from pylogbroker.client.messages import Message

NOWHERE = -1


def _nobody() -> None:
    pass


@attrs.define(eq=False)
class Chunk:
    """What one fetch has brought of a partition."""

    messages: Iterator[Message]
    size: int
    next_offset: int  # of what follows it in the log
    error: Exception | None = None  # of the message that comes next
    epoch: int = -1  # of the leader that wrote the last of it

    def draw(self, count: int) -> list[Message]:
        """At most so many messages; none if it is empty.

        What one that cannot be read raises is raised when those before it are gone. One that a decoder refuses is
        passed over then; damaged bytes are not.
        """
        error, self.error = self.error, None
        messages: list[Message] = []
        try:
            if error is not None:
                raise error
            messages.extend(islice(self.messages, count))
        except Exception as problem:
            if not isinstance(problem, PluginFailed):
                self.messages = _Refusing(problem)
            if not messages:
                raise
            self.error = problem
        return messages


@attrs.frozen
class _Refusing:
    """Raises the same error again and again."""

    _error: Exception

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        raise self._error


@attrs.define(eq=False)
class Feed:
    """A partition that is read."""

    topic: str
    partition: int
    limit: int
    position: int = NOWHERE
    handed: int = NOWHERE
    done: int = NOWHERE
    committed: int = NOWHERE
    high_watermark: int = -1
    last_stable_offset: int = -1
    buffered: int = 0
    chunks: deque[Chunk] = attrs.field(factory=deque)
    closed: bool = False
    full_since: float | None = None
    not_before: float = 0.0  # when it may be fetched again after an error
    round: int = 0  # counts the times that reading began elsewhere
    epoch: int = -1  # of the leader that wrote what is before `position`; -1 if that is not known
    sure_until: int = -1  # the last leader epoch in which all of that was there
    on_room: Callable[[], object] = _nobody
    on_done: Callable[[], object] = _nobody

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def full(self) -> bool:
        """Whether nothing is to be fetched until the reader has taken something."""
        return self.buffered >= self.limit

    @property
    def lent(self) -> bool:
        """Whether the reader may still be busy with something."""
        return self.done != self.handed

    @property
    def lag(self) -> int | None:
        """How many offsets there are behind what the reader was given; None if not known yet."""
        return None if self.high_watermark < 0 or self.handed < 0 else max(0, self.high_watermark - self.handed)

    def begin(self, offset: int) -> None:
        """Read from this offset on, and forget what was fetched."""
        self.position = self.handed = self.done = offset
        self.epoch = -1
        self.round += 1
        self._forget()

    def jump(self, offset: int) -> None:
        """Go on elsewhere, once what was fetched is read."""
        self.position, self.epoch = offset, -1
        if not self.chunks:
            self.handed = self.done = offset

    def add(self, chunk: Chunk) -> None:
        """What was fetched at `position`."""
        self.chunks.append(chunk)
        self.buffered += chunk.size
        self.position = chunk.next_offset
        self.epoch = chunk.epoch

    def draw(self, count: int) -> tuple[list[Message], int]:
        """At most so many messages of the oldest chunk, and the offset behind them. The chunk goes when it is empty."""
        chunk = self.chunks[0]
        messages = chunk.draw(count)
        if len(messages) == count or chunk.error is not None:
            return messages, messages[-1].next_offset
        self.chunks.popleft()
        self.buffered -= chunk.size
        self.full_since = None
        self.on_room()
        return messages, chunk.next_offset

    def returned(self) -> None:
        """The reader has come for more."""
        if self.done != self.handed:
            self.done = self.handed
            self.on_done()

    def close(self) -> None:
        """Nothing of it is read any more."""
        self.closed = True
        self.on_room = _nobody
        self._forget()

    def _forget(self) -> None:
        self.chunks.clear()
        self.buffered = 0
        self.full_since = None
