"""`python -m benchmarks.share`: one partition, read by ten members of a share group, and by one classic consumer.

    python -m benchmarks.share              # this broker alone
    python -m benchmarks.share --kafka      # and Apache Kafka 4.4

Members are raw connections of one process, as in `benchmarks.broker`: no client library is the limit. Each fetches up
to 500 records, and accepts them with its next fetch. The processor time is the broker's.
"""

import selectors
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID, uuid4

import attrs
import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import Running, kafka, own
from benchmarks.driver import SIZE, call, receive
from benchmarks.errors import BenchmarkError
from benchmarks.requests import batch, fetch_request, fetched, produce_request
from benchmarks.session import Session, try_produce
from pylogbroker.records.log_entry import last_entry
from pylogbroker.wire import Request, request_codec, response_codec
from pylogbroker.wire.headers import decode_response_header
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pylogbroker.wire.messages.share_fetch import (
    AcknowledgementBatch,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from pylogbroker.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

MEMBERS = 10
RECORDS_PER_FETCH = 500
BATCH_RECORDS = 150
BATCHES = 10_000
FETCH_BYTES = 1 << 20
WANTED = 0.5
JOIN_SECONDS_MAX = 30.0
JOIN_PAUSE_SECONDS = 0.1
_GROUP_RESOURCE = 32
_GROUP_KEY = 0
_ACCEPT = 1
_COORDINATOR_STARTS = (14, 15, 16)
_VERSIONS = {
    MetadataRequest: 12,
    IncrementalAlterConfigsRequest: 1,
    FindCoordinatorRequest: 4,
    ShareFetchRequest: 2,
    ShareGroupHeartbeatRequest: 1,
}


def frame(request: Request) -> bytes:
    codec = request_codec(request.api_key, _VERSIONS[type(request)])
    return b"".join(map(bytes, codec.frame(0, "benchmark", request)))


def decoded(request: type[Request], body: bytes) -> Any:
    view, version = memoryview(body), _VERSIONS[request]
    _, position = decode_response_header(view, request.api_key, version)
    return response_codec(request.api_key, version).decode(view, position)


def next_answer(sock: socket.socket) -> bytes:
    (size,) = SIZE.unpack(receive(sock, SIZE.size))
    return receive(sock, size)


def ask(sock: socket.socket, request: Request) -> Any:
    return decoded(type(request), call(sock, frame(request)))


@attrs.define(eq=False)
class Member:
    """A member that accepts with each fetch what the one before has brought."""

    sock: socket.socket
    name: str
    group: str
    topic_id: UUID
    epoch: int = 0

    def fetch(self, accepted: list[tuple[int, int]]) -> None:
        batches = [AcknowledgementBatch(first, last, [_ACCEPT]) for first, last in accepted]
        topics = [ShareFetchTopic(self.topic_id, [ShareFetchPartition(0, batches)])]
        request = ShareFetchRequest(
            self.group,
            self.name,
            self.epoch,
            500,
            1,
            50 << 20,
            RECORDS_PER_FETCH,
            RECORDS_PER_FETCH,
            topics=topics if batches or not self.epoch else [],
        )
        self.epoch += 1
        self.sock.sendall(frame(request))

    def acquired(self) -> list[tuple[int, int]]:
        response = decoded(ShareFetchRequest, next_answer(self.sock))
        if response.error_code:
            raise BenchmarkError(f"a share fetch has error {response.error_code}: {response.error_message}")
        return [
            (acquired.first_offset, acquired.last_offset)
            for topic in response.responses
            for partition in topic.partitions
            for acquired in partition.acquired_records
        ]


@attrs.frozen
class Figures:
    """Rates of one way to read, in records."""

    per_second: float
    per_cpu_second: float


def measure(running: Running, read: Any, records: int) -> Figures:
    cpu, begin = running.cpu_seconds(), time.perf_counter()
    read()
    elapsed, used = time.perf_counter() - begin, running.cpu_seconds() - cpu
    return Figures(records / elapsed, records / max(used, 0.01))


def read_classic(session: Session, topic: str, records: int) -> None:
    with session.connection() as sock:
        offset = 0
        while offset < records:
            [(error, data)] = fetched(call(sock, fetch_request(topic, [(0, offset)], FETCH_BYTES)))
            entry = last_entry(data)
            if error or entry is None:
                raise BenchmarkError(f"a fetch at offset {offset} has error {error}")
            offset = entry.next_offset


def begin_at_earliest(sock: socket.socket, group: str, topic: str) -> UUID:
    """Let a group begin at the first records of topics; return the id of its topic."""
    setting = AlterableConfig("share.auto.offset.reset", 0, "earliest")
    ask(sock, IncrementalAlterConfigsRequest([AlterConfigsResource(_GROUP_RESOURCE, group, [setting])]))
    [described] = ask(sock, MetadataRequest([MetadataRequestTopic(name=topic)])).topics
    topic_id: UUID = described.topic_id
    return topic_id


def join(sock: socket.socket, group: str, topic: str, topic_id: UUID) -> None:
    """Let a member join the group, so that its partition has a state; leave again when the member has the partition."""
    name, epoch, deadline = str(uuid4()), 0, time.monotonic() + JOIN_SECONDS_MAX
    ask(sock, FindCoordinatorRequest(key_type=_GROUP_KEY, coordinator_keys=[group]))  # creates its topic
    while True:
        answer = ask(sock, ShareGroupHeartbeatRequest(group, name, epoch, None, None if epoch else [topic]))
        if answer.error_code and answer.error_code not in _COORDINATOR_STARTS:
            raise BenchmarkError(f"a heartbeat has error {answer.error_code}: {answer.error_message}")
        if answer.assignment and any(assigned.topic_id == topic_id for assigned in answer.assignment.topic_partitions):
            break
        if time.monotonic() > deadline:
            raise BenchmarkError(f"no member of group {group} got the partition in {JOIN_SECONDS_MAX:.0f} s")
        epoch = epoch if answer.error_code else answer.member_epoch
        time.sleep(JOIN_PAUSE_SECONDS)
    ask(sock, ShareGroupHeartbeatRequest(group, name, -1))


def read_shared(session: Session, group: str, topic_id: UUID, records: int) -> None:
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for number in range(MEMBERS):
            member = Member(stack.enter_context(session.connection()), f"member-{number}", group, topic_id)
            member.fetch([])
            selector.register(member.sock, selectors.EVENT_READ, member)
        accepted = 0
        while accepted < records:
            for key, _ in selector.select():
                acquired = key.data.acquired()
                accepted += sum(last - first + 1 for first, last in acquired)
                key.data.fetch(acquired)


def compare(running: Running, scale: float) -> tuple[Figures, Figures]:
    """Return the figures of a classic consumer, and of a share group."""
    session, batches = running.session, max(int(BATCHES * scale), 1)
    records, group = batches * BATCH_RECORDS, f"benchmark-{time.time_ns()}"
    with session.topic() as topic, session.connection() as sock:
        topic_id = begin_at_earliest(sock, group, topic)
        request = produce_request(topic, [(0, batch(BATCH_RECORDS, 100))])
        for number in range(batches):
            try_produce(sock, request, [number * BATCH_RECORDS])
        join(sock, group, topic, topic_id)
        classic = measure(running, lambda: read_classic(session, topic, records), records)
        shared = measure(running, lambda: read_shared(session, group, topic_id, records), records)
    return classic, shared


@click.command()
@click.option("--kafka", "with_kafka", is_flag=True, help="Start Apache Kafka 4.4 and measure it as well.")
@click.option("--scale", default=1.0, help="Shorten or lengthen the measurement.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Measurements of each broker.")
@click.option("--warm-up", default=1, show_default=True, help="Runs of each broker before its measurements.")
@click.option("--directory", type=click.Path(path_type=Path), help="Put the data here.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(with_kafka: bool, scale: float, rounds: int, warm_up: int, directory: Path | None, markdown: bool) -> None:
    """Compare a share group of ten members with one classic consumer."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(own(directory))]
        if with_kafka:
            brokers.append(stack.enter_context(kafka(directory, {}, "kafka-4.4")))
        measured: dict[str, list[tuple[Figures, Figures]]] = {broker.name: [] for broker in brokers}
        for number in range(-warm_up, rounds):
            for broker in brokers if number % 2 else reversed(brokers):
                figures = compare(broker, scale)
                if number >= 0:
                    measured[broker.name].append(figures)
    rows = []
    for name, pairs in measured.items():
        for way, figures in zip(("classic consumer", "share group"), zip(*pairs, strict=True), strict=True):
            per_second = median(figure.per_second for figure in figures)
            per_cpu_second = median(figure.per_cpu_second for figure in figures)
            rows.append([f"{name}: {way}", "records/s", f"{per_second:,.0f}", f"{per_cpu_second:,.0f}", ""])
        ratio = median(shared.per_second / classic.per_second for classic, shared in pairs)
        cpu_ratio = median(shared.per_cpu_second / classic.per_cpu_second for classic, shared in pairs)
        rows.append([f"{name}: ratio", "", f"{ratio:.2f}", f"{cpu_ratio:.2f}", str(WANTED)])
    show(Console(), ["work", "unit", "per second", "per second of processor time", "wanted"], rows, markdown)


if __name__ == "__main__":
    main()
