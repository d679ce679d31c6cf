"""Transactions v2 request by request, beside Kafka 4.4's answers.

Two answers differ on purpose, and are in no step here. A marker that is repeated is appended again, since only then
does its coordinator hear that the replicas have it. A producer may go on after an abort by timeout.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from pylogbroker.broker.apis import APIS
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Record, build
from pylogbroker.wire import Request
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.describe_transactions import DescribeTransactionsRequest
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.nodes import opened_node
from tests.broker.security.answers import asking
from tests.peers.kafka import KafkaBroker
from tests.support.oracle_answers import OracleAnswers
from tests.support.waiting import wait_until

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
TRY_AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
MOMENT = 1_700_000_000_000
Ask = Callable[[Request, int], Any]


@attrs.define
class Producer:
    """A transactional producer that returns the names of the errors it gets, and tries again if it should."""

    ask: Ask
    name: str
    pair: tuple[int, int] = (-1, -1)

    def error(self, request: Request, version: int, code_of: Callable[[Any], int]) -> tuple[str, Any]:
        answers: list[Any] = []

        def is_answered() -> bool:
            answers.append(self.ask(request, version))
            return code_of(answers[-1]) not in TRY_AGAIN

        wait_until(is_answered)
        return ErrorCode(code_of(answers[-1])).name, answers[-1]

    def init(self) -> str:
        name, answer = self.error(InitProducerIdRequest(self.name, 60_000), 5, lambda answer: answer.error_code)
        self.pair = answer.producer_id, answer.producer_epoch
        return name

    def produce(self, index: int = 0, sequence: int = 0, version: int = 12) -> str:
        producer = {"producer_id": self.pair[0], "producer_epoch": self.pair[1], "base_sequence": sequence}
        batch = build([Record(0, MOMENT, None, b"x")], transactional=True, **producer)
        topics = [TopicProduceData("t", [PartitionProduceData(index, batch)])]
        request = ProduceRequest(self.name, -1, 30_000, topics)
        return self.error(request, version, lambda answer: answer.responses[0].partition_responses[0].error_code)[0]

    def add(self, index: int = 0) -> str:
        request = AddPartitionsToTxnRequest([], self.name, *self.pair, [AddPartitionsToTxnTopic("t", [index])])
        results = "results_by_topic_v3_and_below"
        return self.error(
            request, 3, lambda answer: getattr(answer, results)[0].results_by_partition[0].partition_error_code
        )[0]

    def commit_offset(self, version: int = 5) -> str:
        topics = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 1)])]
        request = TxnOffsetCommitRequest(self.name, "g", *self.pair, topics=topics)
        return self.error(request, version, lambda answer: answer.topics[0].partitions[0].error_code)[0]

    def end(self, committed: bool = True, version: int = 5) -> tuple[str, int]:
        """End a transaction, and take the next pair; return the error, and by how much the epoch grew.

        Partitions take late records into the ended transaction until they have its marker.
        """
        request = EndTxnRequest(self.name, *self.pair, committed)
        error, answer = self.error(request, version, lambda answer: answer.error_code)
        self.wait_for_markers()
        if error != "NONE" or version < 5:
            return error, 0
        assert answer.producer_id == self.pair[0]
        before, self.pair = self.pair, (answer.producer_id, answer.producer_epoch)
        return error, answer.producer_epoch - before[1]

    def mark(self, epoch: int, transaction_version: int, index: int = 0) -> str:
        """Write a marker whose epoch is above the producer's by so much."""
        topics = [WritableTxnMarkerTopic("t", [index])]
        marker = WritableTxnMarker(self.pair[0], self.pair[1] + epoch, False, topics, 0, transaction_version)
        return self.error(
            WriteTxnMarkersRequest([marker]), 2, lambda answer: answer.markers[0].topics[0].partitions[0].error_code
        )[0]

    def wait_for_markers(self) -> None:
        wait_until(lambda: not self.state()[0].startswith("Prepare"))

    def state(self) -> tuple[str, int, list[str]]:
        [state] = self.ask(DescribeTransactionsRequest([self.name]), 0).transaction_states
        epoch = state.producer_epoch - self.pair[1]
        return state.transaction_state, epoch, sorted(topic.topic for topic in state.topics)


def answers(ask: Ask) -> dict[str, Any]:
    ask(CreateTopicsRequest([CreatableTopic("t", 2, 1)], 30_000), 7)
    for kind, key in ((0, "g"), (1, "p")):
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        wait_until(lambda request=request: not ask(request, 4).coordinators[0].error_code)
    made: dict[str, Producer] = {}

    def producer(name: str) -> Producer:
        made[name] = Producer(ask, name)
        made[name].init()
        return made[name]

    return {
        "a life": life(producer("a")),
        "retries": retries(producer("b")),
        "late requests": late(producer("c")),
        "older requests": older(producer("d")),
        "another producer": fenced(producer("e"), Producer(ask, "e")),
        "strange producers": strange(producer("f")),
        "markers": markers(producer("g"), producer("h"), producer("i")),
    }


def life(one: Producer) -> list[Any]:
    began = [one.produce(0), one.produce(1), one.produce(0, 1), one.commit_offset(), one.state()]
    ended = [one.end(True), one.produce(0), one.end(False), one.end(False), one.end(False), one.end(True)]
    return began + ended + [one.commit_offset(), one.end(True), one.produce(1), one.state()]


def retries(one: Producer) -> list[Any]:
    results: list[Any] = []
    for committed in (True, False):
        results.append(one.produce())
        before = attrs.evolve(one)
        results += [one.end(committed), attrs.evolve(before).end(committed)]
        results += [attrs.evolve(before).end(committed), one.state()]
        if committed:
            results.append(attrs.evolve(before).end(False))
    return results


def late(one: Producer) -> list[Any]:
    results: list[Any] = [one.produce()]
    before = attrs.evolve(one)
    results.append(one.end())
    for _ in range(2):
        results += [before.produce(0, 1), before.produce(1), before.commit_offset(), before.add(1)]
        results += [one.produce(0), before.produce(0, 1), before.produce(1), before.add(1), before.commit_offset()]
        results += [attrs.evolve(before).end(), attrs.evolve(before).end(False), one.state(), one.end()]
    return results


def older(one: Producer) -> list[Any]:
    results: list[Any] = [one.produce(version=11), one.produce(version=10), one.commit_offset(4), one.commit_offset(3)]
    results += [one.produce(), one.end(version=4), one.produce(0, 1), one.end(False, 4), one.state()]
    results += [one.add(), one.produce(0, 2, 11), one.end(), one.produce(), one.end(version=4)]
    return results


def fenced(one: Producer, other: Producer) -> list[Any]:
    results: list[Any] = [one.produce(), other.init()]
    results += [one.produce(0, 1), one.produce(1), one.commit_offset(), attrs.evolve(one).end(), one.end(False)]
    return [*results, other.produce(), other.end(), one.end(False)]


def strange(one: Producer) -> list[Any]:
    results: list[Any] = [one.produce(1, 3)]
    foreign = attrs.evolve(one, pair=(one.pair[0] + 1_000_000, 0))
    newer = attrs.evolve(one, pair=(one.pair[0], one.pair[1] + 5))
    nobody = attrs.evolve(one, name="nobody")
    for each in (foreign, newer, nobody):
        results += [each.produce(), each.commit_offset(), each.end(), each.end(False)]
    return results


def markers(*producers: Producer) -> list[Any]:
    results: list[Any] = []
    for one, version in zip(producers, (0, 1, 2), strict=True):
        results += [one.produce(), one.end()]
        results += [one.produce(), one.mark(-1, version), one.mark(0, version), one.mark(1, version)]
    return results


def of_kafka(directory: Path) -> dict[str, Any]:
    with KafkaBroker(directory, SETTINGS, kafka_release="kafka-4.4") as kafka, asking(kafka.port) as ask:
        return answers(lambda request, version: ask("127.0.0.1", request, version))


def test_kafka_4_answers_alike(oracle: OracleAnswers, tmp_path: Path) -> None:
    parts = (Producer, answers, life, retries, late, older, fenced, strange, markers)
    question = "".join(map(inspect.getsource, parts))
    kafkas = oracle.answer("transactions-v2", question, lambda: of_kafka(tmp_path / "kafka"))
    apis = {api.key: api for api in APIS}
    with opened_node((str(tmp_path),), SETTINGS) as node:
        ours = answers(lambda request, version: node.ask(apis[request.api_key].handle, request, version))
    assert plain(ours) == plain(kafkas)


def plain(values: Any) -> Any:
    """Return values as JSON keeps them."""
    if isinstance(values, dict):
        return {name: plain(value) for name, value in values.items()}
    return [plain(value) for value in values] if isinstance(values, (list, tuple)) else values
