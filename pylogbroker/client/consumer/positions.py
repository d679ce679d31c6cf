"""Start offsets: the committed offset or, without a valid one, by `auto.offset.reset`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.client.consumer.list_offsets import list_offsets
from pylogbroker.client.errors import ClientError, OutOfRange, TopicRecreated, Truncated, is_retriable
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.errors import error_of
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST

log = Logger()

_POLICIES: Final[Mapping[str, int | None]] = {
    "earliest": EARLIEST,
    "smallest": EARLIEST,
    "latest": LATEST,
    "largest": LATEST,
    "none": None,
}
"""`auto.offset.reset`, current and old values."""


_OUTDATED: Final = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
"""Rejections of a member that the next heartbeat ends: with its present epoch, or with the loss of its partitions."""


class NoOffset(ClientError):
    """A partition has no committed offset, and `auto.offset.reset` is none."""


Committed = Callable[[Iterable[TopicPartition]], Coroutine[Any, Any, Mapping[TopicPartition, int]]]


@attrs.define(eq=False, repr=False)
class Positions:
    _cluster: Cluster
    _clock: IReactorTime
    _policy: str
    _read_committed: bool
    _backoff: float
    _committed: Committed
    _on_error: Callable[[FetchBuffer, Exception], None]

    async def begin(self, buffers: Iterable[FetchBuffer]) -> None:
        """Start buffers at committed offsets, the others by `reset`."""
        waiting = _without_position(buffers)
        while waiting:
            try:
                committed = await self._committed([buffer.key for buffer in waiting])
                break
            except PylogbrokerError as error:
                waiting = await self._after(error, _without_position(waiting))
        waiting = _without_position(waiting)
        for buffer in waiting:
            if (offset := committed.get(buffer.key, -1)) >= 0:
                buffer.begin(offset)
                buffer.committed = offset
        await self.reset(_without_position(waiting))

    async def reset(self, buffers: Iterable[FetchBuffer]) -> None:
        """Start other buffers by `auto.offset.reset`."""
        time = _POLICIES[self._policy]
        if time is None:
            for buffer in _without_position(buffers):
                self._on_error(
                    buffer,
                    NoOffset(
                        f"auto.offset.reset is none, but no offset is committed for {buffer.topic}/{buffer.partition}"
                    ),
                )
            return
        waiting = _without_position(buffers)
        while waiting:
            try:
                offsets, errors = await list_offsets(
                    self._cluster, {buffer.key: time for buffer in waiting}, self._read_committed
                )
            except PylogbrokerError as error:
                waiting = await self._after(error, _without_position(waiting))
                continue
            for buffer in _without_position(waiting):
                if buffer.key in offsets:
                    buffer.begin(offsets[buffer.key])
                elif not errors[buffer.key].retriable:
                    self._on_error(buffer, error_of(errors[buffer.key]))
            waiting = [
                buffer
                for buffer in _without_position(waiting)
                if buffer.key not in offsets and errors[buffer.key].retriable
            ]
            if waiting:
                await self._pause()

    async def out_of_range(self, buffer: FetchBuffer) -> None:
        offset, begun = buffer.position, buffer.round
        log.info(
            "offset {offset} of {topic}/{partition} is out of range",
            topic=buffer.topic,
            partition=buffer.partition,
            offset=offset,
        )
        buffer.lose_position()
        try:
            if _POLICIES[self._policy] is None:
                first, end = [await self._edge(buffer, time) for time in (EARLIEST, LATEST)]
                self._on_error(buffer, OutOfRange(buffer.topic, buffer.partition, offset, first, end))
            elif buffer.round == begun:
                await self._jump(buffer)
        except PylogbrokerError as error:
            self._on_error(buffer, error)

    async def recreated(self, buffer: FetchBuffer, error: TopicRecreated) -> None:
        """Start a buffer without position whose topic was deleted and created again."""
        if _POLICIES[self._policy] is None:
            self._on_error(buffer, error)
            return
        log.warn("{error}; it is read by auto.offset.reset={policy}", error=error, policy=self._policy)
        await self.reset([buffer])

    def goes_back(self, buffer: FetchBuffer, offset: int, end: int) -> bool:
        """Return whether to reread after a truncation below given messages; otherwise report it."""
        error = Truncated(buffer.topic, buffer.partition, offset, end)
        if _POLICIES[self._policy] is None:
            buffer.lose_position()
            self._on_error(buffer, error)
            return False
        log.warn("{error}", error=error)
        return True

    async def _edge(self, buffer: FetchBuffer, time: int) -> int:
        offsets, _ = await list_offsets(self._cluster, {buffer.key: time}, self._read_committed)
        return offsets.get(buffer.key, -1)

    async def _jump(self, buffer: FetchBuffer) -> None:
        time = _POLICIES[self._policy]
        begun = buffer.round
        while not buffer.closed and buffer.round == begun and buffer.position < 0 and time is not None:
            offsets, errors = await list_offsets(self._cluster, {buffer.key: time}, self._read_committed)
            if buffer.round != begun:
                return
            if buffer.key in offsets:
                buffer.jump(offsets[buffer.key])
            elif errors[buffer.key].retriable:
                await self._pause()
            else:
                raise error_of(errors[buffer.key])

    async def _after(self, error: PylogbrokerError, buffers: list[FetchBuffer]) -> list[FetchBuffer]:
        if is_retriable(error) or (isinstance(error, KafkaError) and error.code in _OUTDATED):
            await self._pause()
            return buffers
        for buffer in buffers:
            self._on_error(buffer, error)
        return []

    async def _pause(self) -> None:
        await deferLater(self._clock, self._backoff)


def _without_position(buffers: Iterable[FetchBuffer]) -> list[FetchBuffer]:
    return [buffer for buffer in buffers if buffer.position < 0 and not buffer.closed]
