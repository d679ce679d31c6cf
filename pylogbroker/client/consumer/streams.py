"""Streams: read messages one by one or, far cheaper, many at once.

Each partition feeds one stream, in order; partitions alternate, chunk by chunk. An unread stream stops only its own
partitions. Reading more finishes earlier messages: they may be committed then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import attrs
from twisted.internet.defer import Deferred, ensureDeferred, fail, succeed
from twisted.internet.interfaces import IReactorTime

from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.client.errors import ClientError
from pylogbroker.client.messages import Message, Messages

#: taken from a chunk by the iterator at a time
AT_ONCE = 256


class ConsumerTimeout(ClientError):
    """No message arrived within `consumer.timeout.ms`; reading can continue."""


@attrs.define(eq=False, repr=False)
class Stream:
    """Messages of some partitions, until `shutdown` or a permanent error."""

    _clock: IReactorTime
    batch: int = 500  # default maximum of `get_many`
    timeout: float | None = None  # seconds, for the iterator
    buffers: set[FetchBuffer] = attrs.field(factory=set)
    _ready: deque[FetchBuffer] = attrs.field(factory=deque)  # with messages, each once
    _pending: deque[Message] = attrs.field(factory=deque)  # drawn from `_source` for the iterator
    _source: FetchBuffer | None = None
    _source_end: int = -1
    _lent: list[FetchBuffer] = attrs.field(factory=list)
    _waiting: list[Deferred[None]] = attrs.field(factory=list)
    _ended: bool = False
    _errors: deque[Exception] = attrs.field(factory=deque)

    # reading

    def take(self, count: int | None = None) -> Messages:
        """Return at most `count` messages available now, maybe none."""
        self._return()
        left = self.batch if count is None else count
        runs: list[Sequence[Message]] = [self._take_pending(left)]
        left -= len(runs[0])
        while left > 0 and self._ready:
            try:
                buffer, drawn, end = self._draw(left)
            except Exception as problem:
                if not any(runs):
                    raise
                self._ready[0].chunks[0].error = problem  # raised by the next call
                break
            runs += drawn
            left -= sum(map(len, drawn))
            buffer.delivered = end
            self._lent.append(buffer)
        return Messages(runs)

    def get_many(self, count: int | None = None, timeout: float | None = None) -> Deferred[Messages]:
        """Return at most `count` messages once there are any; none at the end, or after `timeout` seconds."""
        try:
            messages = self.take(count)
        except Exception:
            return fail()
        return succeed(messages) if messages else ensureDeferred(self._take_later(count, timeout))

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Message:
        source = self._source
        if source is not None and self._pending:
            source.mark_processed()
        else:
            source = await self._next_source()
        message = self._pending.popleft()
        source.delivered = message.next_offset if self._pending else self._source_end
        return message

    async def _take_later(self, count: int | None, timeout: float | None) -> Messages:
        deadline = self._deadline(timeout)
        while not self._over() and await self._something(deadline):
            if messages := self.take(count):
                return messages
        return Messages()

    async def _next_source(self) -> FetchBuffer:
        self._return()
        deadline = self._deadline(self.timeout)
        while True:
            while self._ready:
                source, runs, end = self._draw(AT_ONCE)
                self._lent.append(source)
                self._pending.extend(Messages(runs))
                if self._pending:
                    self._source, self._source_end = source, end
                    return source
                source.delivered = source.done = end
            if self._over():
                raise StopAsyncIteration
            if not await self._something(deadline):
                raise ConsumerTimeout(f"no message came for {self.timeout} s")

    def _draw(self, count: int) -> tuple[FetchBuffer, list[Sequence[Message]], int]:
        buffer = self._ready[0]
        chunks = len(buffer.chunks)
        runs, end = buffer.draw(count)
        if len(buffer.chunks) < chunks:
            self._ready.popleft()
            if buffer.chunks:
                self._ready.append(buffer)
        return buffer, runs, end

    def _take_pending(self, most: int) -> list[Message]:
        source, pending = self._source, self._pending
        messages: list[Message] = []
        while pending and len(messages) < most and source is not None:
            messages.append(pending.popleft())
            source.delivered = messages[-1].next_offset if pending else self._source_end
            self._lent.append(source)
        return messages

    def _return(self) -> None:
        for buffer in self._lent:
            buffer.mark_processed()
        self._lent.clear()
        if self._source is not None:
            self._source.mark_processed()
            if not self._pending:
                self._source = None
            else:
                self._lent.append(self._source)

    # waiting

    def _over(self) -> bool:
        if self._errors:
            raise self._errors.popleft()
        return self._ended

    def _deadline(self, timeout: float | None) -> float | None:
        return None if timeout is None else self._clock.seconds() + timeout

    async def _something(self, deadline: float | None) -> bool:
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        timer = None
        if deadline is not None:
            timer = self._clock.callLater(max(0.0, deadline - self._clock.seconds()), self._expire, waiting)
        try:
            await waiting
        except TimeoutError:
            return False
        finally:
            if timer is not None and timer.active():
                timer.cancel()
            if waiting in self._waiting:
                self._waiting.remove(waiting)
        return True

    @staticmethod
    def _expire(waiting: Deferred[None]) -> None:
        waiting.errback(TimeoutError())

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.callback(None)

    # called by the assigned partitions

    def attach(self, buffer: FetchBuffer) -> None:
        self.buffers.add(buffer)
        if buffer.chunks:
            self.filled(buffer)

    def filled(self, buffer: FetchBuffer) -> None:
        self._ready.append(buffer)
        if self._waiting:
            self._wake()

    def detach(self, buffer: FetchBuffer) -> None:
        self.buffers.discard(buffer)
        self.forget(buffer)

    def forget(self, buffer: FetchBuffer) -> None:
        if buffer in self._ready:
            self._ready.remove(buffer)
        if self._source is buffer:
            self._pending.clear()
            self._source_end = buffer.delivered

    def end(self) -> None:
        """End after the available messages."""
        self._ended = True
        self._wake()

    def fail(self, error: Exception) -> None:
        """Raise the error after the available messages."""
        self._errors.append(error)
        self._wake()
