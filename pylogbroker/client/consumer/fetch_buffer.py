"""Fetch buffer of one assigned partition, and its offsets.

    done         delivered     position
     |  with the  |  buffered   |  not fetched yet
     |  reader    |             |

`delivered` is the first offset not given to the reader, `done` the first that it may still process. Asking for more
finishes earlier messages.

A buffer with `limit` bytes is not fetched for, but a fetch may be in flight. So it holds at most twice the limit, or
one larger batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID

import attrs

from pylogbroker.client.errors import PluginFailed
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire import NO_ID

if TYPE_CHECKING:
    from pylogbroker.client.messages import Message, Piece

_NO_POSITION = -1


def _nobody() -> None:
    pass


def _ignore(buffer: FetchBuffer) -> None:
    pass


@attrs.define(eq=False, repr=False)
class Chunk:
    pieces: Iterator[Piece]
    size: int
    next_offset: int  # offset that follows in the log
    error: Exception | None = None  # raised in place of the next message
    epoch: int = -1  # leader epoch of its last batch
    _piece: Piece = ()  # the rest of the one that is being read

    def draw(self, count: int) -> list[Sequence[Message]]:
        """Return runs of at most `count` messages in all; none if empty.

        An unreadable message raises its error after earlier ones are returned. Messages that a decoder rejects are then
        skipped; damaged bytes are not.
        """
        error, self.error = self.error, None
        runs: list[Sequence[Message]] = []
        try:
            if error is not None:
                raise error
            self._draw_to(runs, count)
        except Exception as problem:
            if not isinstance(problem, PluginFailed):
                self._piece, self.pieces = (), _FailingIterator(problem)
            if not any(runs):
                raise
            self.error = problem
        return [run for run in runs if run]

    def _draw_to(self, runs: list[Sequence[Message]], count: int) -> None:
        while True:
            piece = self._piece
            if isinstance(piece, Sequence):
                run, self._piece = piece[:count], piece[count:]
                runs.append(run)
            else:
                messages: list[Message] = []
                runs.append(messages)  # before an error
                messages.extend(islice(piece, count))
            count -= len(runs[-1])
            following = next(self.pieces, None) if count else None
            if following is None:
                return
            self._piece = following


@attrs.frozen
class _FailingIterator:
    _error: Exception

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        raise self._error


@attrs.define(eq=False, repr=False)
class FetchBuffer:
    topic: str
    partition: int
    limit: int
    position: int = _NO_POSITION
    delivered: int = _NO_POSITION
    done: int = _NO_POSITION
    committed: int = _NO_POSITION
    high_watermark: int = -1
    last_stable_offset: int = -1
    buffered: int = 0
    chunks: deque[Chunk] = attrs.field(factory=deque)
    closed: bool = False
    full_since: float | None = None
    not_before: float = 0.0  # no fetch before, after an error
    round: int = 0  # incremented by `begin`
    epoch: int = -1  # leader epoch of the batch before `position`
    checked_epoch: int = -1  # last leader epoch whose log is known to reach `position`
    topic_id: UUID = NO_ID
    """Id of the topic that has the position, as answers to fetches show it; NO_ID before the first one."""
    on_change: Callable[[FetchBuffer], object] = _ignore
    """Called when there is another position, or space in a buffer that was full."""
    on_done: Callable[[], object] = _nobody

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def full(self) -> bool:
        return self.buffered >= self.limit

    @property
    def is_processing(self) -> bool:
        return self.done != self.delivered

    def begin(self, offset: int, epoch: int = -1) -> None:
        """Read from `offset` of whichever topic now has the name; drop fetched messages.

        With the leader epoch of the batch before it, a truncation since then is detected.
        """
        self.topic_id = NO_ID
        self.restart(offset)
        self.epoch = self.checked_epoch = epoch

    def restart(self, offset: int) -> None:
        """Read from `offset` of the same topic; drop fetched messages."""
        self.position = self.delivered = self.done = offset
        self.epoch = -1
        self.round += 1
        self._forget()
        self.on_change(self)

    def forget_topic(self) -> None:
        """Drop the position, and all messages and offsets of a topic that is deleted."""
        self.begin(_NO_POSITION)
        self.committed = _NO_POSITION

    def jump(self, offset: int) -> None:
        """Fetch from `offset`; keep fetched messages."""
        self.position, self.epoch, self.topic_id = offset, -1, NO_ID
        if not self.chunks:
            self.delivered = self.done = offset
        self.on_change(self)

    def continue_at(self, offset: int) -> None:
        """Fetch from `offset` of the same topic; keep fetched messages."""
        self.position = offset
        self.on_change(self)

    def lose_position(self) -> None:
        """Do not fetch until there is another position; keep fetched messages."""
        self.position = _NO_POSITION
        self.on_change(self)

    def add(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.buffered += chunk.size
        self.position = chunk.next_offset
        self.epoch = chunk.epoch

    def draw(self, count: int) -> tuple[list[Sequence[Message]], int]:
        """Return runs of messages of the oldest chunk, and the next offset."""
        chunk = self.chunks[0]
        runs = chunk.draw(count)
        if chunk.error is not None or sum(map(len, runs)) == count:
            return runs, runs[-1][-1].next_offset
        self.take()
        return runs, chunk.next_offset

    def take(self) -> Chunk:
        """Remove the oldest chunk, and make space for more."""
        chunk, was_full = self.chunks.popleft(), self.full
        self.buffered -= chunk.size
        if was_full:
            self.full_since = None
            self.on_change(self)
        return chunk

    def mark_processed(self) -> None:
        if self.done != self.delivered:
            self.done = self.delivered
            self.on_done()

    def close(self) -> None:
        self.closed = True
        self.on_change = _ignore
        self._forget()

    def _forget(self) -> None:
        self.chunks.clear()
        self.buffered = 0
        self.full_since = None
