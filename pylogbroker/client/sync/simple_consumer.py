"""The simple consumer without Deferreds. The iterating thread decodes a set of messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from pylogbroker.client.messages import MessageSet
from pylogbroker.client.simple_consumer import FetchSpec
from pylogbroker.client.simple_consumer import SimpleConsumer as AsyncSimpleConsumer
from pylogbroker.client.sync.blocking_client import SECONDS_MAX, BlockingClient
from pylogbroker.interfaces import TopicPartition


class SimpleConsumer(BlockingClient[AsyncSimpleConsumer]):
    """One connection to one broker, no state; takes the arguments of `pylogbroker.client.SimpleConsumer`."""

    def __init__(
        self, host: str = "localhost", port: int = 9092, *, timeout: float = SECONDS_MAX, **options: Any
    ) -> None:
        super().__init__(partial(AsyncSimpleConsumer, host, port, **options), timeout, options)

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_bytes: int | None = None,
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        timeout: float | None = None,
    ) -> MessageSet:
        """Fetch up to `max_bytes` from an offset; a larger first message whole."""
        waiting = {"max_wait_ms": max_wait_ms, "min_bytes": min_bytes}
        fetch = partial(self._client.fetch, topic, partition, offset, max_bytes, **waiting)
        return self._call(f"fetch from {topic}/{partition}", fetch, timeout)

    def multifetch(
        self, specs: Iterable[FetchSpec], *, max_wait_ms: int = 0, min_bytes: int = 0, timeout: float | None = None
    ) -> list[MessageSet]:
        """Fetch sets in one request, each of `(topic, partition, offset[, max_bytes])`."""
        waiting = {"max_wait_ms": max_wait_ms, "min_bytes": min_bytes}
        return self._call("multifetch", partial(self._client.multifetch, list(specs), **waiting), timeout)

    def get_offsets_before(
        self, topic: str, partition: int, time: int, max_offsets: int = 1, timeout: float | None = None
    ) -> list[int]:
        """Return offsets from which to read messages written before `time`: milliseconds, LATEST or EARLIEST."""
        find = partial(self._client.get_offsets_before, topic, partition, time, max_offsets)
        return self._call(f"get_offsets_before of {topic}/{partition}", find, timeout)

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "", timeout: float | None = None
    ) -> None:
        """Commit for a group without members."""
        self._call("commit_offsets", partial(self._client.commit_offsets, group, offsets, metadata), timeout)

    def fetch_offsets(
        self, group: str, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """Return each committed offset, or None."""
        return self._call("fetch_offsets", partial(self._client.fetch_offsets, group, list(partitions)), timeout)

    async def _close(self, seconds: float | None) -> None:
        await self._client.close()
