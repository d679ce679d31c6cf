"""Access of the workloads to a broker: topics for one measurement, and checked trials."""

import itertools
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import attrs

from benchmarks import requests
from benchmarks.driver import SIZE, call, connect
from benchmarks.errors import BenchmarkError

NO_SETTINGS: Mapping[str, str] = {}
WAIT_SECONDS_MAX = 30.0
_number = itertools.count()


@attrs.frozen
class Session:
    """Address of a broker, and requests to it."""

    host: str
    port: int
    replicas: Sequence[int] = ()  # of the topics created; none: one

    @property
    def administrator(self) -> "Session":
        """Session with the broker that creates and deletes topics."""
        return self

    def leader(self, topic: str, partition: int) -> "Session":
        """Session with the broker that leads a partition."""
        return self

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        with closing(connect(self.host, self.port)) as sock:
            yield sock

    @contextmanager
    def topic(self, partitions: int = 1, settings: Mapping[str, str] = NO_SETTINGS) -> Iterator[str]:
        """Create a topic, wait until it has leaders, and delete it at the end of the `with` block."""
        name = f"benchmark-{time.time_ns()}-{next(_number)}"
        with self.administrator.connection() as sock:
            self.create(sock, name, partitions, settings)
            try:
                yield name
            finally:
                expect(requests.deleted(call(sock, requests.delete_topic_request(name))), [0], "deletion")

    def create(self, sock: socket.socket, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic and wait until every partition has a leader."""
        request = requests.create_topic_request(name, partitions, settings, self.replicas)
        expect(requests.created(call(sock, request)), [0], "creation")
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while -1 in self.end_offsets(name, partitions):
            if time.monotonic() > deadline:
                raise BenchmarkError(f"topic {name} of {partitions} partitions has no leader")
            time.sleep(0.01)

    def end_offsets(self, topic: str, partitions: int = 1) -> list[int]:
        """Return the end offset of each partition of a topic, -1 without a leader."""
        with self.connection() as sock:
            return requests.end_offsets(call(sock, requests.end_offsets_request(topic, partitions)))


@attrs.frozen
class FollowingSession(Session):
    """Session with a cluster: every request goes to the broker that the metadata names."""

    @property
    def administrator(self) -> Session:
        return self._brokers(self._metadata())[0]

    def leader(self, topic: str, partition: int) -> Session:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while (address := requests.leader_address(self._metadata(topic), partition)) is None:
            if time.monotonic() > deadline:
                raise BenchmarkError(f"partition {partition} of topic {topic} has no leader")
            time.sleep(0.01)
        return Session(*address)

    def end_offsets(self, topic: str, partitions: int = 1) -> list[int]:
        answers = [broker.end_offsets(topic, partitions) for broker in self._brokers(self._metadata())]
        return [max(offsets) for offsets in zip(*answers, strict=True)]

    def _metadata(self, *topics: str) -> bytes:
        with self.connection() as sock:
            return call(sock, requests.metadata_request(topics))

    def _brokers(self, metadata: bytes) -> list[Session]:
        """Sessions with all brokers, the controller's first."""
        return [Session(*address) for address in requests.broker_addresses(metadata)]


def try_produce(sock: socket.socket, request: bytes, base_offsets: list[int]) -> int:
    """Send a produce request once, check its response and return the response's total size."""
    body = call(sock, request)
    expect(requests.produced(body), [(0, offset) for offset in base_offsets], "produce")
    return len(body) + SIZE.size


def try_fetch(sock: socket.socket, request: bytes, records: list[bytes]) -> bytes:
    """Send a fetch request once, check the records, and return the frame of the response.

    The check leaves out base offset and leader epoch, which a broker sets; both are before the batch's checksum.
    """
    body = call(sock, request)
    got = requests.fetched(body)
    expect([(code, len(each)) for code, each in got], [(0, len(each)) for each in records], "fetch")
    if any(got_records[16:61] != each[16:61] for (_, got_records), each in zip(got, records, strict=True)):
        raise BenchmarkError("fetch: the records differ from those produced")
    return SIZE.pack(len(body)) + body


def expect(got: object, wanted: object, what: str) -> None:
    if got != wanted:
        raise BenchmarkError(f"{what}: {got} instead of {wanted}")
