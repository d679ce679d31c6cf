"""`python -m benchmarks.share`: one partition, read by ten members of a share group, and by one classic consumer.

    python -m benchmarks.share

Members are raw connections of one process, as in `benchmarks.broker`: no client library is the limit. Each fetches up
to 500 records, and accepts them with its next fetch. The processor time is the broker's.
"""

import selectors
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import click

from benchmarks.brokers import Running, own
from benchmarks.driver import SIZE, call, receive
from benchmarks.errors import BenchmarkError
from benchmarks.requests import batch, fetch_request, fetched, produce_request
from benchmarks.session import Session, try_produce
from pylogbroker.records.log_entry import last_entry
from pylogbroker.wire import Request, request_codec, response_codec
from pylogbroker.wire.headers import decode_response_header
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

MEMBERS = 10
RECORDS_PER_FETCH = 500
BATCH_RECORDS = 150
BATCHES = 10_000
FETCH_BYTES = 1 << 20
WANTED = 0.5
_GROUP_RESOURCE = 32
_ACCEPT = 1
_VERSIONS = {MetadataRequest: 12, IncrementalAlterConfigsRequest: 1, ShareFetchRequest: 2}


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
        setting = AlterableConfig("share.auto.offset.reset", 0, "earliest")
        ask(sock, IncrementalAlterConfigsRequest([AlterConfigsResource(_GROUP_RESOURCE, group, [setting])]))
        [described] = ask(sock, MetadataRequest([MetadataRequestTopic(name=topic)])).topics
        request = produce_request(topic, [(0, batch(BATCH_RECORDS, 100))])
        for number in range(batches):
            try_produce(sock, request, [number * BATCH_RECORDS])
        classic = measure(running, lambda: read_classic(session, topic, records), records)
        shared = measure(running, lambda: read_shared(session, group, described.topic_id, records), records)
    return classic, shared


@click.command()
@click.option("--scale", default=1.0, help="Shorten or lengthen the measurement.")
@click.option("--directory", type=click.Path(path_type=Path), help="Put the data here.")
def main(scale: float, directory: Path | None) -> None:
    """Compare a share group of ten members with one classic consumer."""
    with own(directory) as running:
        classic, shared = compare(running, scale)
    for name, figures in (("classic consumer", classic), ("share group", shared)):
        click.echo(
            f"{name:18} {figures.per_second:12,.0f} records/s"
            f" {figures.per_cpu_second:12,.0f} records per second of processor time"
        )
    click.echo(f"ratio {shared.per_second / classic.per_second:.2f}, wanted {WANTED}")


if __name__ == "__main__":
    main()
