"""Produce requests on plain sockets, one for each, so that every answer is seen by itself, with its code."""

from __future__ import annotations

import socket
import time
from typing import Self

from pylogbroker.wire import Response, decode_response_header, request_codec, response_codec
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.storage.support import batch

VERSION = 9
#: Much more than an answer takes, on a machine that may stand still meanwhile.
SECONDS_MAX = 120


class Sender:
    """A producer on a connection of its own."""

    def __init__(self, bootstrap: str, topic: str, partition: int = 0) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=SECONDS_MAX)
        self._topic, self._partition = topic, partition

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()

    def send(self, value: bytes, acks: int = -1) -> int:
        """Send a batch of one record of now, which retention leaves alone, made by kafka-python; its size."""
        records = batch([value], timestamps=[time.time_ns() // 1_000_000])
        wanted = [TopicProduceData(self._topic, [PartitionProduceData(self._partition, records)])]
        codec = request_codec(ProduceRequest.api_key, VERSION)
        self._socket.sendall(b"".join(codec.frame(1, "test", ProduceRequest(None, acks, 1000 * SECONDS_MAX, wanted))))
        return len(records)

    def answer(self) -> tuple[int, int]:
        """The error code and the base offset of the oldest batch without one."""
        size = int.from_bytes(self._take(4), "big")
        body = memoryview(self._take(size))
        _, position = decode_response_header(body, ProduceRequest.api_key, VERSION)
        response: Response = response_codec(ProduceRequest.api_key, VERSION).decode(body, position)
        [topic] = response.responses  # type: ignore[attr-defined]
        [partition] = topic.partition_responses
        return int(partition.error_code), partition.base_offset

    def produce(self, value: bytes) -> tuple[int, int]:
        """Send, and wait for the answer."""
        self.send(value)
        return self.answer()

    def is_answered(self, seconds: float) -> bool:
        """True if something comes within that time."""
        self._socket.settimeout(seconds)
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except TimeoutError:
            return False
        finally:
            self._socket.settimeout(SECONDS_MAX)

    def _take(self, size: int) -> bytes:
        taken = b""
        while len(taken) < size:
            part = self._socket.recv(size - len(taken))
            assert part, "the broker closed the connection"
            taken += part
        return taken
