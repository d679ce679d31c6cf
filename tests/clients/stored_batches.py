"""Batches of the log, fetched by a request of the tests' own and decoded by kafka-python.

A client that should compress and silently does not (librdkafka, if it does not find the versions it looks for)
is found out here, and not by reading records back.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import attrs
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.record import MemoryRecords

VERSION = 11
NOT_LEADER_OR_FOLLOWER = 6
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_BYTES = 50_000_000
SECONDS_MAX = 120


@attrs.frozen
class Batch:
    magic: int
    codec: str
    base_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    log_append_time: bool


def batches(bootstrap: str, topic: str, partition: int = 0) -> list[Batch]:
    """Every batch of a partition whose records are of format v2."""
    records = MemoryRecords(fetch(bootstrap, topic, partition))
    found = []
    while (batch := records.next_batch()) is not None:
        attributes = int(batch.attributes)
        found.append(
            Batch(
                magic=batch.magic,
                codec=CODECS[attributes & 7],
                base_offset=batch.base_offset,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                log_append_time=bool(attributes & 8),
            )
        )
    return found


def fetch(bootstrap: str, topic: str, partition: int = 0, offset: int = 0) -> bytes:
    """The raw bytes of the log from an offset on."""

    def once() -> Any:
        response = ask(bootstrap, _request(topic, partition, offset), FetchResponse, VERSION)
        return response.responses[0].partitions[0]

    found = settled(once)
    if found.error_code:
        raise AssertionError(f"Fetch was answered with error {found.error_code}")
    return bytes(found.records or b"")


def settled(question: Callable[[], Any]) -> Any:
    """An answer about a partition, asked again while it says that the partition's leader has yet to learn of it."""
    deadline = time.monotonic() + SECONDS_MAX
    while (answer := question()).error_code == NOT_LEADER_OR_FOLLOWER and time.monotonic() < deadline:
        continue
    return answer


def ask(bootstrap: str, request: Any, response: Any, version: int) -> Any:
    """Send one of kafka-python's requests on a connection of its own; the decoded response."""
    host, _, port = bootstrap.rpartition(":")
    request.with_header(correlation_id=1, client_id="tests")
    with socket.create_connection((host, int(port)), timeout=SECONDS_MAX) as connection:
        connection.sendall(request.encode(version=version, header=True, framed=True))
        (size,) = struct.unpack(">i", _receive(connection, 4))
        return response.decode(_receive(connection, size), version=version, header=True)


def _request(topic: str, partition: int, offset: int) -> Any:
    one = FetchRequest.FetchTopic.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=MAX_BYTES, log_start_offset=-1
    )
    topics = [FetchRequest.FetchTopic(topic=topic, partitions=[one])]
    return FetchRequest(
        replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=MAX_BYTES, session_id=0, session_epoch=-1, topics=topics
    )


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += more
    return bytes(data)
