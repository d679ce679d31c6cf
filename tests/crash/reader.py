"""The harness's own reader: Fetch and OffsetFetch requests of its making, and the files of a broker that is dead."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from tests.clients.stored_batches import ask
from tests.crash.content import end_of
from tests.crash.history import Partition

_FETCH: Final = 11
_OFFSET_FETCH: Final = 5
_LIST_OFFSETS: Final = 1
_EARLIEST, _LATEST = -2, -1
_MOST: Final = 50_000_000
_WAIT_SECONDS_MAX: Final = 120.0  # seconds until a broker that has just started must answer
_NOT_YET: Final = {
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    6: "NOT_LEADER_OR_FOLLOWER",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
}


class Unreadable(Exception):
    """The broker does not give what it should have."""


class Reader:
    """Reads whole partitions, and groups' offsets, from the broker at `bootstrap`."""

    def __init__(self, bootstrap: str, data_dir: Path) -> None:
        self._bootstrap = bootstrap
        self._data_dir = data_dir

    def read(self, partition: Partition, *, committed_only: bool = False) -> bytes:
        """All entries up to the high watermark, as the broker sends them."""
        parts: list[bytes] = []
        offset, end = 0, 1  # the end is not known yet
        while offset < end:
            answer = patiently(lambda at=offset: self.fetch(partition, at, committed_only))  # type: ignore[misc]
            data = bytes(answer.records or b"")
            end = answer.last_stable_offset if committed_only else answer.high_watermark
            if offset < end and not data:
                raise Unreadable(f"nothing at {offset} of {partition}, which ends at {end}")
            parts.append(data)
            offset = max(offset, next_offset(data))
        return b"".join(parts)

    def fetch(self, partition: Partition, offset: int, committed_only: bool = False) -> Any:
        """The answer for a partition, which may have an error."""
        one = FetchRequest.FetchTopic.FetchPartition(
            partition=partition[1], fetch_offset=offset, partition_max_bytes=_MOST, log_start_offset=-1
        )
        request = FetchRequest(
            replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=_MOST, isolation_level=int(committed_only),
            session_id=0, session_epoch=-1, topics=[FetchRequest.FetchTopic(topic=partition[0], partitions=[one])],
        )  # fmt: skip
        return ask(self._leader(partition), request, FetchResponse, _FETCH).responses[0].partitions[0]

    def _leader(self, partition: Partition) -> str:
        """Address of the broker that serves a partition, each time it is asked; one of a cluster may be another."""
        return self._bootstrap

    def _coordinator(self, group: str) -> str:
        """Address of the broker that has a group's offsets."""
        return self._bootstrap

    def ends(self, partition: Partition) -> tuple[int, int]:
        """The last stable offset, and the high watermark."""
        answer = patiently(lambda: self.fetch(partition, 0, committed_only=True))
        return answer.last_stable_offset, answer.high_watermark

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """The log start, and the high watermark, of a partition whose first records may be deleted."""
        return self._listed(partition, _EARLIEST), self._listed(partition, _LATEST)

    def _listed(self, partition: Partition, timestamp: int) -> int:
        row = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=partition[1], timestamp=timestamp
        )
        topics = [ListOffsetsRequest.ListOffsetsTopic(name=partition[0], partitions=[row])]

        def question() -> Any:
            request = ListOffsetsRequest(replica_id=-1, topics=topics)
            answer = ask(self._leader(partition), request, ListOffsetsResponse, _LIST_OFFSETS)
            return answer.topics[0].partitions[0]

        offset: int = patiently(question).offset
        return offset

    def committed(self, group: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """A group's offsets; -1 where it has none."""
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        asked = [OffsetFetchRequest.OffsetFetchRequestTopic(name=n, partition_indexes=p) for n, p in topics.items()]
        request = OffsetFetchRequest(group_id=group, topics=asked)
        answer = patiently(lambda: ask(self._coordinator(group), request, OffsetFetchResponse, _OFFSET_FETCH))
        found = [(topic.name, one) for topic in answer.topics for one in topic.partitions]
        return {(topic, one.partition_index): one.committed_offset for topic, one in found}

    def files(self, partition: Partition) -> bytes:
        """The entries in the files of a partition, as they are."""
        return b"".join(path.read_bytes() for path in self._segments(partition))

    def last_file(self, partition: Partition) -> tuple[int, bytes]:
        """The base offset of a partition's last segment, and what is in its file."""
        path = self._segments(partition)[-1]
        return int(path.stem), path.read_bytes()

    def segments(self, partition: Partition) -> int:
        """Return the number of segments of a partition."""
        return len(self._segments(partition))

    def _segments(self, partition: Partition) -> list[Path]:
        return sorted((self._data_dir / f"{partition[0]}_{partition[1]}").glob("*.kafka"))


def next_offset(data: bytes) -> int:
    """The offset behind the last entry of an answer; -1 if there is none."""
    return end_of(data) or -1


def patiently(question: Callable[[], Any]) -> Any:
    """An answer about a partition or a group, asked again while the broker has yet to get there."""
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while True:
        answer = question()
        if not answer.error_code:
            return answer
        if answer.error_code not in _NOT_YET or time.monotonic() > deadline:
            raise Unreadable(f"error {answer.error_code}: {_NOT_YET.get(answer.error_code, answer)}")
        time.sleep(0.01)
