"""A client that sends single requests by hand, over a blocking socket."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from pylogbroker.records import Record, build
from pylogbroker.wire import decode_response_header, request_codec, response_codec
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

_VERSIONS = {0: 11, 1: 12, 2: 8, 3: 12, 10: 4, 12: 4, 18: 0, 19: 5}
TIMEOUT = 120


class RawClient:
    """A connection; methods return decoded responses, and raise ConnectionError if it ends."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), TIMEOUT)
        self._correlation_id = 0
        self._sent: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, request: Any, version: int | None = None) -> None:
        """Send a request."""
        version = _VERSIONS[request.api_key] if version is None else version
        self._correlation_id += 1
        self._sent[self._correlation_id] = request.api_key, version
        chunks = request_codec(request.api_key, version).frame(self._correlation_id, "raw", request)
        self._socket.sendall(b"".join(map(bytes, chunks)))

    def receive(self) -> Any:
        """Receive the next response."""
        (size,) = struct.unpack(">i", self._read(4, "between frames"))
        frame = self._read(size, "within a frame")
        (correlation_id,) = struct.unpack_from(">i", frame)
        key, version = self._sent.pop(correlation_id)
        _, position = decode_response_header(frame, key, version)
        if key == 18 and frame[position : position + 2] == b"\0\x23":  # UNSUPPORTED_VERSION, in version 0
            version = 0
        return response_codec(key, version).decode(frame, position)

    def ask(self, request: Any, version: int | None = None) -> Any:
        """Send a request and receive its response."""
        self.send(request, version)
        return self.receive()

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic unless it exists."""
        answer = self.ask(CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 60_000))
        assert answer.topics[0].error_code in (0, 36)

    def send_produce(self, *topics: str, acks: int = -1) -> None:
        """Send a record to partition 0 of each topic."""
        batch = build([Record(0, int(time.time() * 1000), None, b"value")])  # retention deletes older ones
        data = [TopicProduceData(topic, [PartitionProduceData(0, batch)]) for topic in topics]
        self.send(ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=data))

    def receive_produced(self) -> Any:
        """Receive the answer of the first partition."""
        return self.receive().responses[0].partition_responses[0]

    def produce(self, topic: str, acks: int = -1) -> Any:
        """Produce a record."""
        self.send_produce(topic, acks=acks)
        return self.receive_produced()

    def produce_to(self, *topics: str) -> dict[str, Any]:
        """Produce a record to each topic; the answers by topic."""
        self.send_produce(*topics)
        return {topic.name: topic.partition_responses[0] for topic in self.receive().responses}

    def end_offset(self, topic: str) -> int:
        """Offset of the next record."""
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=-1)])])
        return int(self.ask(request).topics[0].partitions[0].offset)

    def fetch(self, topic: str | None, offset: int = 0, wait_ms: int = 0, session: tuple[int, int] = (0, -1)) -> Any:
        """Fetch from partition 0; `session` is an id and an epoch."""
        partitions = [FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)]
        topics = [] if topic is None else [FetchTopic(topic, partitions=partitions)]
        request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=topics)
        request.session_id, request.session_epoch = session
        return self.ask(request)

    def heartbeat(self, group: str) -> Any:
        """Send a heartbeat of an unknown member."""
        return self.ask(HeartbeatRequest(group, 1, "m"))

    def _read(self, size: int, place: str) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError(f"closed {place if data or place == 'between frames' else 'within a frame'}")
            data += part
        return data
