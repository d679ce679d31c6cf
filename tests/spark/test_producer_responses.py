"""The producer's handling of a leader's responses; the leader is a list of error codes."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records.columnar.encode import encode
from pylogbroker.records.log_entry import entries
from pylogbroker.records.model import Codec
from pylogbroker.rpc.errors import ConnectionLost
from pylogbroker.rpc.settings import Address
from pylogbroker.spark.writing.encoder import Encoded
from pylogbroker.spark.writing.producer import IdempotentProducer
from pylogbroker.spark.writing.producer_ids import WriterIdentity
from pylogbroker.wire import Request
from pylogbroker.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.spark.rows import options

KEY = ("events", 0)
NONE, ORDER, LATER = ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.NOT_ENOUGH_REPLICAS


class Leader:
    """A connection and the cluster of which it is the only one. Each request is answered with the next code."""

    def __init__(self, *codes: ErrorCode | None) -> None:
        self.settings = options("nowhere:1", retry_backoff_ms=0, max_request_size=1).settings
        self.codes = deque(codes)  # None: the connection is lost
        self.sequences: list[int] = []
        self.pending = 0
        self.address = Address("nowhere", 1)
        self.is_open = True
        self.has_received = False
        self._readable, writer = socket.socketpair()
        writer.send(b"x")
        self._writer = writer

    def close(self) -> None:
        self._readable.close()
        self._writer.close()

    def leader_id(self, topic: str, partition: int) -> int:
        return 1

    def connect(self, leader: int) -> Leader:
        return self

    def forget(self, topic: str) -> None:
        """Keep everything: there is one leader."""

    def version_of(self, kind: type[Request]) -> int:
        return 11

    def fileno(self) -> int:
        return self._readable.fileno()

    @property
    def in_flight(self) -> int:
        return self.pending

    def send(self, request: ProduceRequest, *, version: int, answered: bool) -> None:
        [entry] = entries(request.topic_data[0].partition_data[0].records)  # type: ignore[arg-type]
        self.sequences.append(entry.base_sequence)
        self.pending += 1

    def receive(self, timeout: float | None = None) -> ProduceResponse:
        self.pending -= 1
        code = self.codes.popleft()
        if code is None:
            raise ConnectionLost("lost")
        return ProduceResponse([TopicProduceResponse("events", [PartitionProduceResponse(0, code)])])


@pytest.fixture
def leaders() -> Iterator[list[Leader]]:
    made: list[Leader] = []
    yield made
    for each in made:
        each.close()


def sent(leaders: list[Leader], batches: int, *codes: ErrorCode | None) -> list[int]:
    """Send the batches, of one record each; return the sequence numbers in the order in which they were sent."""
    leader = Leader(*codes)
    leaders.append(leader)
    cluster: Any = leader
    producer = IdempotentProducer(cluster, WriterIdentity(7, 0))
    producer.send({KEY: [_encoded() for _ in range(batches)]})
    producer.flush()
    assert not leader.codes
    return leader.sequences


def _encoded() -> Encoded:
    batch = encode(None, [b"v"], [0], None, codec=Codec.NONE)
    return Encoded(batch[61:], 1, 0, Codec.NONE)


def test_a_rejected_batch_follows_the_one_that_it_misses(leaders: list[Leader]) -> None:
    assert sent(leaders, 4, NONE, LATER, ORDER, ORDER, NONE, NONE, NONE) == [0, 1, 2, 3, 1, 2, 3]


def test_a_batch_that_misses_nothing_is_an_error(leaders: list[Leader]) -> None:
    with pytest.raises(KafkaError, match="events/0") as caught:
        sent(leaders, 3, NONE, ORDER, ORDER)
    assert caught.value.code is ORDER


def test_a_later_batch_confirms_one_with_a_lost_response(leaders: list[Leader]) -> None:
    assert sent(leaders, 3, NONE, None, NONE) == [0, 1, 2]


def test_without_any_batch_at_the_leader_one_is_in_flight(leaders: list[Leader]) -> None:
    assert sent(leaders, 2, LATER, LATER, NONE, NONE) == [0, 0, 0, 1]
