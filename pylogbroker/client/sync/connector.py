"""The consumer of groups without Deferreds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from pylogbroker.client.consumer.connector import ConsumerConnector as AsyncConnector
from pylogbroker.client.consumer.filters import TopicFilter
from pylogbroker.client.consumer.streams import Stream as AsyncStream
from pylogbroker.client.sync.blocking import TIMEOUT, Blocking
from pylogbroker.client.sync.streams import Stream
from pylogbroker.interfaces import TopicPartition

T = TypeVar("T")


class ConsumerConnector(Blocking[AsyncConnector]):
    """A member of a consumer group; takes the arguments of `pylogbroker.client.ConsumerConnector`."""

    def __init__(
        self, bootstrap: str | Iterable[str] | None = None, *, group: str, timeout: float = TIMEOUT, **options: Any
    ) -> None:
        super().__init__(partial(AsyncConnector, bootstrap, group=group, **options), timeout)
        self._streams: list[Stream] = []

    def create_message_streams(
        self, topics: Mapping[str, int], timeout: float | None = None
    ) -> dict[str, list[Stream]]:
        """So many streams for each topic."""
        created = self._call("create_message_streams", partial(self._client.create_message_streams, topics), timeout)
        return {topic: self._wrap(streams) for topic, streams in created.items()}

    def create_message_streams_by_filter(
        self, topics: TopicFilter, count: int = 1, timeout: float | None = None
    ) -> list[Stream]:
        """So many streams for the topics that match, those that come later too."""
        create = partial(self._client.create_message_streams_by_filter, topics, count)
        return self._wrap(self._call("create_message_streams_by_filter", create, timeout))

    def stream(self, topic: str, timeout: float | None = None) -> Stream:
        """One stream of one topic: the usual case."""
        return self.create_message_streams({topic: 1}, timeout)[topic][0]

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member reads now."""
        return self._client.assignment

    def commit_offsets(self, offsets: Mapping[TopicPartition, int] | None = None, timeout: float | None = None) -> None:
        """Commits these, or how far the streams were read; the message given last counts as dealt with."""
        self._call("commit_offsets", partial(self._commit, offsets), timeout)

    def committed(
        self, partitions: Iterable[TopicPartition] | None = None, timeout: float | None = None
    ) -> Mapping[TopicPartition, int]:
        """What the group has committed for these, or for all that this member reads. -1 is nothing."""
        return self._call("committed", partial(self._client.committed, partitions), timeout)

    def position(self, topic: str, partition: int) -> int | None:
        """The offset of the next message that a stream gives; None as long as that is being found out."""
        return self._at_once("position", lambda: self._position(topic, partition))

    def lag(self, topic: str, partition: int) -> int | None:
        """How many offsets of the partition are behind the position; None if that is not known yet."""
        return self._at_once("lag", lambda: self._lag(topic, partition))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Lets the next message of the partition be the one at this offset, or the first behind it."""
        self._at_once("seek", lambda: self._seek(topic, partition, offset))

    def shutdown(self, timeout: float | None = None) -> None:
        """Commits how far the streams were read, if `enable.auto.commit`, leaves the group and ends the streams."""
        self.close(timeout)

    def _wrap(self, streams: Iterable[AsyncStream]) -> list[Stream]:
        wrapped = [Stream(self._background, stream) for stream in streams]
        self._streams += wrapped
        return wrapped

    def _at_once(self, what: str, work: Callable[[], T]) -> T:
        async def on_the_reactors_thread() -> T:
            return work()

        return self._call(what, on_the_reactors_thread, None)

    # On the reactor's thread. What is in a stream's hands and was not given yet counts as not read.

    async def _commit(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        await self._client.commit_offsets(self._read() if offsets is None else offsets)

    async def _close(self, seconds: float | None) -> None:
        for (topic, partition), offset in self._unread().items():
            self._client.seek(topic, partition, offset)
        await self._client.shutdown()

    def _position(self, topic: str, partition: int) -> int | None:
        position = self._client.position(topic, partition)
        return self._unread().get((topic, partition), position)

    def _lag(self, topic: str, partition: int) -> int | None:
        lag, position = self._client.lag(topic, partition), self._client.position(topic, partition)
        if lag is None or position is None:
            return None
        return lag + position - self._unread().get((topic, partition), position)

    def _seek(self, topic: str, partition: int, offset: int) -> None:
        self._client.seek(topic, partition, offset)
        for stream in self._streams:
            stream.forget(topic, partition)

    def _read(self) -> dict[TopicPartition, int]:
        positions = {key: self._position(*key) for key in self._client.assignment}
        return {key: offset for key, offset in positions.items() if offset is not None}

    def _unread(self) -> dict[TopicPartition, int]:
        ours, unread = self._client.assignment, [stream.unread() for stream in self._streams]
        return {key: offset for each in unread for key, offset in each.items() if key in ours}
