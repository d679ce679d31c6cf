"""A transaction coordinator of Apache Kafka, asked over the wire in requests that are written here byte by byte."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pylogbroker.errors import ErrorCode
from tests.support.waiting import wait_until

Pair = tuple[int, int]
TopicPartition = tuple[str, int]

_NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
_CODES = {code.value: code for code in ErrorCode}


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def compact(value: str) -> bytes:
    assert len(value.encode()) < 126
    return bytes([len(value.encode()) + 1]) + value.encode()


class KafkaCoordinator:
    """One connection. Answers that put a producer off are waited out, as clients do."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=120)

    def close(self) -> None:
        self._socket.close()

    def create(self, topic: str) -> None:
        """Let the topic be created with the broker's defaults."""
        body = struct.pack(">i", 1) + text(topic)
        self._until(lambda: self._topic_error(self._ask(3, 1, body)), ErrorCode.LEADER_NOT_AVAILABLE)

    @staticmethod
    def _topic_error(answer: bytes) -> int:
        (brokers,) = struct.unpack_from(">i", answer)
        position = 4
        for _ in range(brokers):
            (host,) = struct.unpack_from(">h", answer, position + 4)
            position += 4 + 2 + host + 4
            (rack,) = struct.unpack_from(">h", answer, position)
            position += 2 + max(rack, 0)
        error: int = struct.unpack_from(">h", answer, position + 4 + 4)[0]  # behind the controller and the count
        return error

    def find(self, transactional_id: str) -> None:
        """Let Kafka create `__transaction_state` and wait until it has."""
        body = text(transactional_id) + b"\1"
        self._until(lambda: int(struct.unpack_from(">ih", self._ask(10, 1, body))[1]))

    def init(self, name: str, pair: Pair, timeout_ms: int) -> tuple[ErrorCode, Pair]:
        body = compact(name) + struct.pack(">iqh", timeout_ms, *pair) + b"\0"
        error, given = self._until_given(lambda: struct.unpack_from(">hqh", self._ask_flexible(22, 4, body), 4))
        return error, (given[0], given[1])

    def add(self, name: str, pair: Pair, partitions: Collection[TopicPartition]) -> ErrorCode:
        body = text(name) + struct.pack(">qhi", *pair, len(partitions))
        for topic, index in partitions:
            body += text(topic) + struct.pack(">ii", 1, index)
        (topic, *_) = [topic for topic, _ in partitions]
        position = 4 + 4 + len(text(topic)) + 4 + 4
        return self._until_given(lambda: struct.unpack_from(">h", self._ask(24, 2, body), position))[0]

    def verify(self, name: str, pair: Pair, partition: TopicPartition) -> ErrorCode:
        topic, index = partition
        body = b"\2" + compact(name) + struct.pack(">qh", *pair) + b"\1"
        body += b"\2" + compact(topic) + b"\2" + struct.pack(">i", index) + b"\0\0\0"
        position = 4 + 2 + 1 + len(compact(name)) + 1 + len(compact(topic)) + 1 + 4
        return self._until_given(lambda: struct.unpack_from(">h", self._ask_flexible(24, 4, body), position))[0]

    def end(self, name: str, pair: Pair, committed: bool) -> ErrorCode:
        body = text(name) + struct.pack(">qh?", *pair, committed)
        return self._until_given(lambda: struct.unpack_from(">h", self._ask(26, 2, body), 4))[0]

    def _until_given(self, ask: Callable[[], Sequence[Any]]) -> tuple[ErrorCode, Sequence[Any]]:
        """The first answer that is more than a delay: its error, and what comes behind that."""
        answers: list[Sequence[Any]] = []

        def once() -> int:
            answers.append(ask())
            return int(answers[-1][0])

        return self._until(once), answers[-1][1:]

    @staticmethod
    def _until(ask: Callable[[], int], *also: ErrorCode) -> ErrorCode:
        """Ask again until the answer is none of those that only put off."""
        errors: list[int] = []

        def is_given() -> bool:
            errors.append(ask())
            return errors[-1] not in (*_NOT_YET, *also)

        wait_until(is_given, what=lambda: errors[-1])
        return _CODES[errors[-1]]

    def _ask(self, key: int, version: int, body: bytes) -> bytes:
        return self._exchange(struct.pack(">hhi", key, version, 7) + text("me") + body)

    def _ask_flexible(self, key: int, version: int, body: bytes) -> bytes:
        answer = self._exchange(struct.pack(">hhi", key, version, 7) + text("me") + b"\0" + body)
        assert answer[0] == 0  # no tags in the header
        return answer[1:]

    def _exchange(self, request: bytes) -> bytes:
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        size, correlation = struct.unpack(">ii", self._read(8))
        assert correlation == 7
        return self._read(size - 4)

    def _read(self, size: int) -> bytes:
        parts = b""
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            assert part, "Kafka has closed the connection"
            parts += part
        return parts
