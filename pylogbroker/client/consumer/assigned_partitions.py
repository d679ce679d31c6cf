"""Assigned partitions, from assignment to revocation.

assign   a buffer for each partition, on the stream with the fewest --> start offset --> fetch
revoke   stop giving messages --> wait for the reader, at most `reader_timeout` --> commit --> forget
lose     stop giving messages --> forget: another member may read them already
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import attrs
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, ensureDeferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.client.consumer.committer import Committer, processed_offsets
from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.client.consumer.fetcher import Fetcher
from pylogbroker.client.consumer.positions import Positions
from pylogbroker.client.consumer.streams import Stream
from pylogbroker.client.errors import TopicRecreated
from pylogbroker.interfaces import TopicPartition

log = Logger()

#: for the commit of a revoked partition
_COMMIT_SECONDS_MAX: Final = 5.0


class RebalanceListener(Protocol):
    """Callbacks for changes of the assignment. The group waits for `revoked` and `lost`."""

    def assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Handle new partitions before reading; `seek` can replace the committed offset."""

    def revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions no longer read, which can still be committed."""

    def lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that others read already."""


class NoListener:
    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        pass

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        pass

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        pass


class Relay(Protocol):
    """Takes messages from streams before readers ask. Called on the reactor thread."""

    def unread(self) -> Mapping[TopicPartition, int]:
        """Return first unread offsets."""

    def forget(self, partition: TopicPartition) -> None: ...


class NoRelay:
    def unread(self) -> Mapping[TopicPartition, int]:
        return {}

    def forget(self, partition: TopicPartition) -> None:
        pass


@attrs.define(eq=False, repr=False)
class AssignedPartitions:
    _clock: IReactorTime
    _streams_of: Callable[[str], Sequence[Stream]]
    _limit: int  # buffered bytes per partition
    _reader_timeout: float  # seconds
    _auto_commit: bool
    listener: RebalanceListener
    _make_parts: Callable[[AssignedPartitions], tuple[Committer, Fetcher, Positions]]
    committer: Committer = attrs.field(init=False)
    fetcher: Fetcher = attrs.field(init=False)
    positions: Positions = attrs.field(init=False)
    buffers: dict[TopicPartition, FetchBuffer] = attrs.field(factory=dict)
    paused: set[TopicPartition] = attrs.field(factory=set)
    relay: Relay = attrs.field(factory=NoRelay)
    _stream_of: dict[FetchBuffer, Stream] = attrs.field(factory=dict)
    _revoking: dict[FetchBuffer, None] = attrs.field(factory=dict)  # still ours
    _ending: bool = False
    _tasks: dict[Deferred[None], None] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.committer, self.fetcher, self.positions = self._make_parts(self)

    # called by the group

    def assign(self, partitions: Mapping[TopicPartition, int | None]) -> Deferred[None]:
        """Read each partition on the stream of its number; None: on the one with the fewest."""
        buffers = [self._open(key, number) for key, number in partitions.items() if key not in self.buffers]
        return self._spawn(self._begin(buffers))

    async def revoke(self, partitions: Collection[TopicPartition]) -> None:
        buffers = self._close(partitions)
        self._revoking.update(dict.fromkeys(buffers.values()))
        try:
            await self._until_processed(buffers.values())
            if self._auto_commit:
                same = [buffer for buffer in buffers.values() if self.fetcher.recreated(buffer) is None]
                await self.committer.commit_quietly(processed_offsets(same), buffers, _COMMIT_SECONDS_MAX)
            await self._call_listener(self.listener.revoked, partitions)
        finally:
            for buffer in buffers.values():
                self._revoking.pop(buffer, None)
            self._forget(buffers)

    async def lose(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(self._close(partitions))
        await self._call_listener(self.listener.lost, partitions)

    def is_ours(self, buffer: FetchBuffer) -> bool:
        return self.buffers.get(buffer.key) is buffer or buffer in self._revoking

    def finish(self) -> None:
        self._ending = True
        buffers, given = self.ours(), self.given()
        for key, offset in given.items():
            buffers[key].delivered = offset
        self._forget(buffers)
        self.mark_processed(given, buffers)
        for buffer in tuple(self._revoking):
            buffer.on_done()

    def close(self) -> None:
        self.committer.stop()
        self.fetcher.close()
        for task in list(self._tasks):
            task.cancel()

    # called by the program

    def seek(self, key: TopicPartition, offset: int) -> None:
        buffer = self.buffers[key]
        buffer.begin(offset)
        self._moved(buffer)

    def pause(self, key: TopicPartition) -> None:
        """Drop messages not yet given; `resume` fetches them again."""
        buffer, done = self.buffers[key], self.buffers[key].done
        self.paused.add(key)
        self.fetcher.leave_out(buffer)
        if buffer.delivered >= 0:
            buffer.restart(self.given()[key])
            self._moved(buffer)
            buffer.done = done  # the reader may still process messages

    def resume(self, key: TopicPartition) -> None:
        if key in self.paused:
            self.paused.discard(key)
            self.fetcher.add(self.buffers[key])

    def ours(self) -> dict[TopicPartition, FetchBuffer]:
        return {**{buffer.key: buffer for buffer in self._revoking}, **self.buffers}

    def given(self) -> dict[TopicPartition, int]:
        """Return the next offsets after given messages."""
        unread = self.relay.unread()
        return {key: unread.get(key, buffer.delivered) for key, buffer in self.ours().items() if buffer.delivered >= 0}

    def mark_processed(
        self, offsets: Mapping[TopicPartition, int], buffers: Mapping[TopicPartition, FetchBuffer]
    ) -> None:
        for key, offset in offsets.items():
            buffer = buffers[key]
            if buffer.done < offset <= buffer.delivered:
                buffer.done = offset
                buffer.on_done()

    # called by the fetcher

    def filled(self, buffer: FetchBuffer) -> None:
        self._stream_of[buffer].filled(buffer)

    def out_of_range(self, buffer: FetchBuffer) -> None:
        self._spawn(self._reposition(buffer))

    def truncated(self, buffer: FetchBuffer, end: int) -> None:
        given = self.given()[buffer.key]
        if given <= end or self.positions.goes_back(buffer, given, end):
            buffer.restart(min(given, end))
            self._moved(buffer)

    def recreated(self, buffer: FetchBuffer, error: TopicRecreated) -> None:
        """Forget messages and offsets of the deleted topic; they must not be committed for the new one."""
        buffer.forget_topic()
        self._stream_of[buffer].forget(buffer)
        self.relay.forget(buffer.key)
        self._spawn(self._start_again(buffer, error))

    def fail_one(self, buffer: FetchBuffer, error: Exception) -> None:
        if not buffer.closed:
            self._stream_of[buffer].fail(error)

    # steps

    def _open(self, key: TopicPartition, number: int | None) -> FetchBuffer:
        buffer = FetchBuffer(*key, limit=self._limit)
        streams = self._streams_of(buffer.topic)
        stream = min(streams, key=lambda candidate: len(candidate.buffers)) if number is None else streams[number]
        self.buffers[key] = buffer
        self._stream_of[buffer] = stream
        stream.attach(buffer)
        self.fetcher.add(buffer)
        return buffer

    def _moved(self, buffer: FetchBuffer) -> None:
        """Drop messages of the former position, and fetch from the present one."""
        self._stream_of[buffer].forget(buffer)
        self.relay.forget(buffer.key)
        if buffer.key not in self.paused:
            self.fetcher.add(buffer)  # an error may have stopped fetching

    async def _begin(self, buffers: list[FetchBuffer]) -> None:
        await self._call_listener(self.listener.assigned, [buffer.key for buffer in buffers])
        await self.positions.begin(buffers)
        self.fetcher.wake()

    async def _start_again(self, buffer: FetchBuffer, error: TopicRecreated) -> None:
        await self.positions.recreated(buffer, error)
        self.fetcher.wake()

    async def _reposition(self, buffer: FetchBuffer) -> None:
        await self.positions.out_of_range(buffer)
        self.fetcher.wake()

    def _close(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, FetchBuffer]:
        buffers = {key: buffer for key in partitions if (buffer := self.buffers.pop(key, None)) is not None}
        self.paused.difference_update(buffers)
        for buffer in buffers.values():
            self.fetcher.remove(buffer)
            self._stream_of.pop(buffer).detach(buffer)
        return buffers

    async def _until_processed(self, buffers: Iterable[FetchBuffer]) -> None:
        busy = [buffer for buffer in buffers if buffer.is_processing]
        if self._ending:
            self.mark_processed(self.given(), self.ours())
            return
        if not busy:
            return
        processed: Deferred[None] = Deferred()

        def look() -> None:
            if not processed.called and (self._ending or not any(buffer.is_processing for buffer in busy)):
                processed.callback(None)

        for buffer in busy:
            buffer.on_done = look
        with suppress(TimeoutError):  # another member gets its messages again
            await processed.addTimeout(self._reader_timeout, self._clock)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.relay.forget(partition)

    async def _call_listener(
        self, method: Callable[[Collection[TopicPartition]], Any], partitions: Collection[TopicPartition]
    ) -> None:
        try:
            await maybeDeferred(method, partitions)
        except Exception:
            log.failure("the rebalance listener failed")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> Deferred[None]:
        task = ensureDeferred(work)
        self._tasks[task] = None
        done: Deferred[None] = Deferred()

        def finish(result: Failure | None) -> None:
            self._tasks.pop(task, None)
            if isinstance(result, Failure) and not result.check(CancelledError):
                log.failure("a task of the consumer failed", result)
            done.callback(None)

        task.addBoth(finish)
        return done
