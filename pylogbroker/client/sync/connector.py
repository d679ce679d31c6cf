"""The group consumer without Deferreds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from pylogbroker.client.consumer.connector import ConsumerConnector as AsyncConnector
from pylogbroker.client.consumer.filters import TopicFilter
from pylogbroker.client.consumer.streams import Stream as AsyncStream
from pylogbroker.client.sync.blocking_client import SECONDS_MAX, BlockingClient
from pylogbroker.client.sync.streams import Stream, StreamRelay
from pylogbroker.interfaces import TopicPartition

T = TypeVar("T")


class ConsumerConnector(BlockingClient[AsyncConnector]):
    """Group member; takes the arguments of `pylogbroker.client.ConsumerConnector`."""

    def __init__(
        self, bootstrap: str | Iterable[str] | None = None, *, group: str, timeout: float = SECONDS_MAX, **options: Any
    ) -> None:
        super().__init__(partial(AsyncConnector, bootstrap, group=group, **options), timeout, options)
        self._streams: list[Stream] = []

    def create_message_streams(
        self, topics: Mapping[str, int], timeout: float | None = None
    ) -> dict[str, list[Stream]]:
        """Create each topic's number of streams."""
        create = partial(self._begin, partial(self._client.create_message_streams, topics))
        created = self._call("create_message_streams", create, timeout)
        return {topic: self._wrap(streams) for topic, streams in created.items()}

    def create_message_streams_by_filter(
        self, topics: TopicFilter, count: int = 1, timeout: float | None = None
    ) -> list[Stream]:
        """Create `count` streams for all matching topics, including later ones."""
        create = partial(self._begin, partial(self._client.create_message_streams_by_filter, topics, count))
        return self._wrap(self._call("create_message_streams_by_filter", create, timeout))

    def stream(self, topic: str, timeout: float | None = None) -> Stream:
        return self.create_message_streams({topic: 1}, timeout)[topic][0]

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions read now."""
        return self._client.assignment

    def commit_offsets(self, offsets: Mapping[TopicPartition, int] | None = None, timeout: float | None = None) -> None:
        """Commit these offsets, or the streams' positions; the message returned last counts as processed."""
        self._call("commit_offsets", partial(self._client.commit_offsets, offsets), timeout)

    def committed(
        self, partitions: Iterable[TopicPartition] | None = None, timeout: float | None = None
    ) -> Mapping[TopicPartition, int]:
        """Return committed offsets, by default of all assigned partitions."""
        return self._call("committed", partial(self._client.committed, partitions), timeout)

    def position(self, topic: str, partition: int) -> int | None:
        """Return the next message's offset; None until known."""
        return self._at_once("position", lambda: self._client.position(topic, partition))

    def lag(self, topic: str, partition: int) -> int | None:
        """Return high watermark minus position; None until both are known."""
        return self._at_once("lag", lambda: self._client.lag(topic, partition))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at this offset, or at the next message."""
        self._at_once("seek", lambda: self._client.seek(topic, partition, offset))

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return self._client.paused

    def pause(self, topic: str, partition: int) -> None:
        """Withhold messages until `resume` or reassignment."""
        self._at_once("pause", lambda: self._client.pause(topic, partition))

    def resume(self, topic: str, partition: int) -> None:
        self._at_once("resume", lambda: self._client.resume(topic, partition))

    def shutdown(self, timeout: float | None = None) -> None:
        """Commit positions if `enable.auto.commit`, leave the group and end the streams."""
        self.close(timeout)

    def _wrap(self, streams: Iterable[AsyncStream]) -> list[Stream]:
        wrapped = [Stream(self._background, stream) for stream in streams]
        self._streams += wrapped
        return wrapped

    def _at_once(self, what: str, work: Callable[[], T]) -> T:
        async def on_the_reactors_thread() -> T:
            return work()

        return self._call(what, on_the_reactors_thread, None)

    async def _begin(self, create: Callable[[], Awaitable[T]]) -> T:
        self._client.relay_through(StreamRelay(self._streams))
        return await create()

    def _trouble(self) -> str:
        return self._client.trouble

    async def _close(self, seconds: float | None) -> None:
        await self._client.shutdown()
