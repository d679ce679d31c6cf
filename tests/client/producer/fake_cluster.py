"""A cluster that does what the test says, for producers on a clock; `conftest` has the fixtures."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs
from kafka.record.memory_records import MemoryRecords
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.errors import ConnectionLost
from pylogbroker.client.producer import Producer
from pylogbroker.errors import ErrorCode
from pylogbroker.wire import Request, Response
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from pylogbroker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from pylogbroker.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pylogbroker.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


@attrs.define(eq=False)
class Call:
    """A request of another kind than produce, and who waits for its answer."""

    request: Any
    waiting: Deferred[Any] = attrs.Factory(Deferred)


class FakeCluster(Cluster):
    """One topic `t` with two partitions, led by broker 1, which answers produce requests when the test lets it.

    Other requests are answered at once: with the next of the `codes` for their kind, or well. Those of a kind that is
    `held` are answered by `answer`.
    """

    trouble = ""

    def __init__(self, *_: Any) -> None:
        self.requests: list[tuple[ProduceRequest, Deferred[Any]]] = []
        self.asked: list[Request] = []
        self.codes: dict[type[Request], deque[ErrorCode]] = {}
        self.held: set[type[Request]] = set()
        self.calls: list[Call] = []
        self.partitions = 2
        self.epoch = -1
        self.closed = 0
        self.timeouts: list[float] = []
        self.versions: list[tuple[type[Request], int | None]] = []
        self.levels: dict[str, int] | None = {}

    def send(self, node_id: int, request: Request, **options: Any) -> Deferred[Any]:
        self.versions.append((type(request), options.get("version")))
        if isinstance(request, ProduceRequest):
            if not request.acks:
                return succeed(None)
            self.timeouts.append(options["timeout"])
            waiting: Deferred[Any] = Deferred()
            self.requests.append((request, waiting))
            return waiting
        self.asked.append(request)
        call = Call(request)
        self.calls.append(call)
        if type(request) not in self.held:
            self.answer(type(request))
        return call.waiting

    def answer(self, kind: type[Request]) -> None:
        """Answer the oldest request of a kind."""
        call = next(call for call in self.calls if type(call.request) is kind)
        self.calls.remove(call)
        codes = self.codes.get(kind)
        call.waiting.callback(self._response(call.request, codes.popleft() if codes else ErrorCode.NONE))

    def fail(self, kind: type[Request], *codes: ErrorCode) -> None:
        """Set the error codes for the next requests of a kind."""
        self.codes.setdefault(kind, deque()).extend(codes)

    def count(self, kind: type[Request]) -> int:
        """Return the number of requests of a kind."""
        return sum(type(request) is kind for request in self.asked)

    def _response(self, request: Any, code: ErrorCode) -> Response:
        match request:
            case InitProducerIdRequest():
                self.epoch += code is ErrorCode.NONE
                return InitProducerIdResponse(error_code=code, producer_id=9, producer_epoch=self.epoch)
            case AddPartitionsToTxnRequest():
                return AddPartitionsToTxnResponse(
                    results_by_topic_v3_and_below=[
                        AddPartitionsToTxnTopicResult(
                            topic.name, [AddPartitionsToTxnPartitionResult(each, code) for each in topic.partitions]
                        )
                        for topic in request.v3_and_below_topics
                    ]
                )
            case TxnOffsetCommitRequest():
                return TxnOffsetCommitResponse(
                    topics=[
                        TxnOffsetCommitResponseTopic(
                            topic.name,
                            [TxnOffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions],
                        )
                        for topic in request.topics
                    ]
                )
            case EndTxnRequest():
                return self._ended(self.versions[-1][1], code)
            case AddOffsetsToTxnRequest():
                return AddOffsetsToTxnResponse(error_code=code)
        raise LookupError(request)

    def _ended(self, version: int | None, code: ErrorCode) -> EndTxnResponse:
        if version is None or code:
            return EndTxnResponse(error_code=code)
        self.epoch += 1
        return EndTxnResponse(producer_id=9, producer_epoch=self.epoch)

    async def find_version(self, node_id: int, kind: type[Request]) -> int:
        """Return the last version that is for clients: the broker is new."""
        return kind.versions.last

    def send_anywhere(self, request: Request, **_: Any) -> Deferred[Any]:
        return succeed(InitProducerIdResponse(producer_id=9, producer_epoch=0))

    async def coordinator(self, key: str, kind: Any) -> int:
        return 5

    def feature_level_at(self, key: str, kind: Any, feature: str) -> int | None:
        return None if self.levels is None else self.levels.get(feature, 0)

    def forget_coordinator(self, key: str, kind: Any) -> None:
        """Do nothing."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        return 1

    def partitions_of(self, topic: str) -> int | None:
        return self.partitions

    async def find_topic(self, topic: str) -> Any:
        return None

    def refresh(self) -> Deferred[None]:
        return succeed(None)

    def leader_is_stale(self, topic: str, partition: int) -> None:
        """Do nothing."""

    def watch(self, callback: Callable[[], object]) -> Callable[[], None]:
        return lambda: None

    async def close(self) -> None:
        self.closed += 1

    def acknowledge(self, base_offset: int = 0, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answer the oldest produce request."""
        request, answer = self.requests.pop(0)
        responses = [
            TopicProduceResponse(
                topic.name,
                [PartitionProduceResponse(each.index, code, base_offset) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ]
        answer.callback(ProduceResponse(responses))

    def lose(self) -> None:
        """The connection is lost before the oldest produce request is answered."""
        self.requests.pop(0)[1].errback(ConnectionLost("lost"))


Make = Callable[..., tuple[Producer, FakeCluster]]


def failure(sent: Deferred[Any]) -> BaseException:
    """Return the error of a failed record."""
    found: list[Any] = []
    sent.addErrback(found.append)
    [result] = found
    error = result.value
    assert isinstance(error, BaseException)
    return error


def result_of(done: Deferred[Any]) -> Any:
    """Return the result of a fired Deferred; raise its error if it has failed."""
    found: list[Any] = []
    done.addBoth(found.append)
    [result] = found
    if hasattr(result, "raiseException"):
        result.raiseException()
    return result


def run_due(clock: Clock, seconds: float = 0) -> None:
    """Run the due calls of the reactor, and those that they cause."""
    clock.advance(seconds)
    for _ in range(5):
        clock.advance(0)


def sent_values(request: ProduceRequest) -> list[bytes | None]:
    """The values of a produce request, as kafka-python reads them."""
    return [
        record.value
        for topic in request.topic_data
        for each in topic.partition_data
        for batch in MemoryRecords(bytes(each.records or b""))
        for record in batch
    ]
