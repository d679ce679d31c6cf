"""Produce requests of several connections that are appended together: answers, logs and counters are as usual."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.repeated import produce as repeated
from pylogbroker.errors import ErrorCode
from pylogbroker.net import joined_reads
from pylogbroker.net.latencies import ReadSampler
from pylogbroker.security.quotas.entities import QuotaEntity
from pylogbroker.security.quotas.keys import QuotaKey
from pylogbroker.wire import decode_response_header, response_codec
from pylogbroker.wire.frame_splitter import FrameSplitter
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.metadata import MetadataRequest
from pylogbroker.wire.messages.produce import ProduceRequest
from tests.broker.nodes import NODE_ID
from tests.broker.repeated.crowds import Connections, Crowd, Sent, opened_crowd
from tests.broker.repeated.pairs import set_topic
from tests.broker.repeated.produces import MODERN, SENT, START_MS, produce, requests_of, value
from tests.broker.repeated.produces import Sent as SentBatch
from tests.broker.repeated.test_replicated_produce import begin, follow, set_isr
from tests.broker.security.quota_clients import ANYBODY, set_quotas
from tests.broker.trees import now
from tests.net.fakes import frame
from tests.storage.support import batch
from tests.support.examples import examples

VERSION = 9
CONNECTIONS = 5
_NUMBERS = count()


def single(number: int, acks: int = 1, index: int = 0, topic: str = "t", version: int = VERSION) -> Sent:
    return produce(batch([value(number)], [START_MS]), acks, topic, index), version, number


def of_producer(producer: int, sequence: int, acks: int = -1) -> Sent:
    return produce(batch([value(sequence)], [START_MS], (producer, 0, sequence)), acks), VERSION, sequence


def damaged(number: int) -> Sent:
    records = bytearray(batch([value(number)], [START_MS]))
    records[-1] ^= 1
    return produce(bytes(records)), VERSION, number


def fetch(offset: int, min_bytes: int, wait_ms: int = 500) -> Sent:
    topic = FetchTopic("t", partitions=[FetchPartition(0, -1, offset, -1, -1, 1 << 20)])
    return FetchRequest(None, -1, max_wait_ms=wait_ms, min_bytes=min_bytes, topics=[topic]), 11, 77


def errors(answers: bytes, version: int = VERSION) -> list[ErrorCode]:
    codes = []
    for data in FrameSplitter(1 << 20).split(answers):
        _, position = decode_response_header(data, ProduceRequest.api_key, version)
        response = response_codec(ProduceRequest.api_key, version).decode(data, position)
        codes += [ErrorCode(answer.error_code) for answer in response.responses[0].partition_responses]  # type: ignore[attr-defined]
    return codes


def contend(crowd: Crowd, *requests: Sent) -> None:
    """Let each connection learn the forms of requests, and notice that others append, too."""
    connections = range(len(crowd.joining.opened))
    for _ in range(2):
        for number in connections:
            crowd.iterate((number, requests or [single(0)]))
    crowd.iterate(*((number, requests or [single(0)]) for number in connections))


def appends_of(crowd: Crowd, *reads: tuple[int, list[Sent]]) -> list[int]:
    """Return how many batches the joining node appended together each time."""
    partitions = crowd.joining.side.node.broker.partitions.led.values()
    append = Partition.append_prepared
    with patch.object(Partition, "append_prepared", autospec=True, side_effect=append) as appended:
        crowd.iterate(*reads)
    return [len(call.args[1].entries) for call in appended.call_args_list if call.args[0] in partitions]


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    with opened_crowd(tmp_path) as opened:
        opened.each(lambda node: node.create("t", 2))
        opened.connect(CONNECTIONS)
        yield opened


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", MODERN)
def test_requests_to_one_partition_are_appended_together(crowd: Crowd, version: int, acks: int) -> None:
    contend(crowd, single(0, acks, version=version))
    reads = [(number, [single(number, acks, version=version)]) for number in range(CONNECTIONS)]
    assert appends_of(crowd, *reads) == [CONNECTIONS]
    crowd.check("t")


def test_requests_to_two_partitions_are_appended_by_partition(crowd: Crowd) -> None:
    for index in (0, 1):
        contend(crowd, single(0, index=index))
    for _ in range(2):
        crowd.iterate(*((number, [single(0, index=number % 2)]) for number in range(CONNECTIONS)))
    reads = [(number, [single(number, index=number % 2)]) for number in range(CONNECTIONS)]
    assert sorted(appends_of(crowd, *reads)) == [2, 3]
    crowd.check("t")


def test_several_requests_of_each_connection_are_appended_together(crowd: Crowd) -> None:
    contend(crowd)
    reads = [(number, [single(n) for n in range(number + 1)]) for number in range(CONNECTIONS)]
    assert appends_of(crowd, *reads) == [1 + 2 + 3 + 4 + 5]
    crowd.check("t")


def test_a_connection_alone_does_not_wait(crowd: Crowd) -> None:
    contend(crowd)
    crowd.iterate((0, [single(1)]))
    crowd.iterate((0, [single(2)]), lambda node: None)
    joined = crowd.joining.side.factory.joined_reads
    with patch.object(type(joined), "add") as add:
        crowd.iterate((0, [single(3)]))
    assert not add.called
    crowd.check("t")


def test_different_partitions_do_not_wait_for_each_other(crowd: Crowd) -> None:
    for _ in range(3):
        crowd.iterate((0, [single(0, index=0)]), (1, [single(0, index=1)]))
    joined = crowd.joining.side.factory.joined_reads
    with patch.object(type(joined), "add") as add:
        crowd.iterate((0, [single(0, index=0)]), (1, [single(0, index=1)]))
    assert not add.called
    crowd.check("t")


def test_other_requests_behind_and_between_keep_their_order(crowd: Crowd) -> None:
    contend(crowd)
    contend(crowd, single(0, index=1))
    metadata = MetadataRequest([]), 5, 90
    crowd.iterate(
        (0, [single(1), metadata, single(2), single(3, index=1), single(4)]),
        (1, [metadata, single(5)]),
        (2, [single(6), single(7, 0), single(8)]),
        (3, [single(9, topic="missing"), single(10)]),
        (4, [single(11), fetch(0, 1)]),
    )
    crowd.check("t")


def test_versions_and_acks_may_differ(crowd: Crowd) -> None:
    forms = [(1, 9), (-1, 9), (1, 7), (-1, 3), (1, MODERN[-1])]
    for _ in range(2):
        for number, (acks, version) in enumerate(forms):
            crowd.iterate((number, [single(0, acks, version=version)]))
    reads = [(number, [single(number, acks, version=version)] * 2) for number, (acks, version) in enumerate(forms)]
    crowd.iterate(*reads)
    assert appends_of(crowd, *reads) == [10]
    crowd.check("t")


def test_a_waiting_fetch_is_answered_once_for_all(crowd: Crowd) -> None:
    for number in range(1, CONNECTIONS):
        crowd.iterate((number, [single(0)]))
        crowd.iterate((number, [single(0)]))
    end = crowd.joining.side.node.broker.partitions.led["t", 0].log.log_end_offset
    size = len(batch([value(1)], [START_MS]))
    assert crowd.iterate((0, [fetch(end, size * (CONNECTIONS - 1))]))[0] == (b"", "")
    answers = crowd.iterate(*((number, [single(1)]) for number in range(1, CONNECTIONS)))
    assert len(answers[0][0]) > size * (CONNECTIONS - 1)
    crowd.check("t")


def test_a_fetch_of_the_iteration_comes_before_the_appends_or_behind_them(crowd: Crowd) -> None:
    contend(crowd)
    end = crowd.joining.side.node.broker.partitions.led["t", 0].log.log_end_offset
    size = len(batch([value(1)], [START_MS]))
    answers = crowd.iterate((1, [single(1)]), (0, [fetch(end, size * 2)]), (2, [single(1)]))
    assert len(answers[0][0]) > size * 2
    crowd.check("t")


def test_an_error_of_one_batch_fails_that_batch(crowd: Crowd) -> None:
    contend(crowd)
    answers = crowd.iterate(
        (0, [single(1)]), (1, [single(2), damaged(3), single(4)]), (2, [single(5)]), (3, [damaged(6)]), (4, [single(7)])
    )
    codes = [errors(sent) for sent, _ in answers]
    assert [code for of_connection in codes for code in of_connection].count(ErrorCode.CORRUPT_MESSAGE) == 2
    assert codes[1][1] == ErrorCode.CORRUPT_MESSAGE
    assert codes[3] == [ErrorCode.CORRUPT_MESSAGE]
    crowd.check("t")


def test_a_failed_write_fails_all_requests(crowd: Crowd) -> None:
    contend(crowd)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    with patch("pylogbroker.storage.log.segment_file.write_at", fail):
        answers = crowd.iterate(*((number, [single(number)] * 2) for number in range(CONNECTIONS)))
    assert [errors(sent) for sent, _ in answers] == [[ErrorCode.KAFKA_STORAGE_ERROR] * 2] * CONNECTIONS
    crowd.check("t")


def test_a_lost_connection_takes_its_requests_along(crowd: Crowd) -> None:
    contend(crowd)
    end = crowd.joining.side.node.broker.partitions.led["t", 0].log.log_end_offset

    def lose(connections: Connections) -> None:
        connections.protocol(1).connectionLost()

    crowd.iterate((0, [single(1)]), (1, [single(2)]), lose, (2, [single(3)]))
    assert crowd.joining.side.node.broker.partitions.led["t", 0].log.log_end_offset == end + 2
    crowd.check("t")


def test_a_connection_that_is_closed_sends_no_answer(crowd: Crowd) -> None:
    contend(crowd)

    def close(connections: Connections) -> None:
        connections.protocol(1).close_because("a test")

    answers = crowd.iterate((0, [single(1)]), (1, [single(2)]), close, (2, [single(3)]))
    assert answers[1] == (b"", "at once")
    crowd.check("t")


def test_requests_come_before_a_frame_that_is_too_large(crowd: Crowd) -> None:
    contend(crowd)

    def violate(connections: Connections) -> None:
        connections.protocol(1).dataReceived(frame(*single(2)) + (1 << 30).to_bytes(4))

    iterate_alone(crowd.joining, (0, [single(1)]), violate, (2, [single(3)]))
    answers = crowd.joining.answers()
    assert [errors(sent) for sent, _ in answers[:3]] == [[ErrorCode.NONE]] * 3
    assert answers[1][1] == "at once"


def test_a_connection_that_reads_again_begins_its_requests_once(crowd: Crowd) -> None:
    contend(crowd)
    crowd.iterate(*[(0, [single(number)]) for number in range(4)], (1, [single(5)]), (0, [single(6)]))
    crowd.check("t")


def test_a_connection_that_waits_again_begins_its_requests_once(crowd: Crowd) -> None:
    contend(crowd)
    joining = crowd.joining
    partition = joining.side.node.broker.partitions.led["t", 0]
    end = partition.log.log_end_offset

    def append(_: Connections) -> None:
        partition.append_now(batch([b"v"], [START_MS]), START_MS)

    iterate_alone(joining, (0, [single(1)]), (0, [single(2)]), append, (0, [single(3)]), (1, [single(4)]))
    assert partition.log.log_end_offset == end + 5
    assert [len(errors(sent)) for sent, _ in joining.answers()[:2]] == [3, 1]


def test_producers_in_order(crowd: Crowd) -> None:
    for sequence in range(2):
        for number in range(CONNECTIONS):
            crowd.iterate((number, [of_producer(number, sequence)]))
    crowd.iterate(*((number, [of_producer(number, 2)]) for number in range(CONNECTIONS)))
    reads = [(number, [of_producer(number, 3), of_producer(number, 4)]) for number in range(CONNECTIONS)]
    assert appends_of(crowd, *reads) == [10]
    answers = crowd.iterate(
        (0, [of_producer(0, 5)]),
        (1, [of_producer(1, 4)]),  # a duplicate
        (2, [of_producer(2, 9)]),  # a gap
        (3, [of_producer(3, 5), of_producer(3, 5), of_producer(3, 6)]),
        (4, [of_producer(0, 6)]),  # a producer with two connections
    )
    assert [errors(sent) for sent, _ in answers] == [
        [ErrorCode.NONE],
        [ErrorCode.NONE],
        [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER],
        [ErrorCode.NONE] * 3,
        [ErrorCode.NONE],
    ]
    crowd.check("t")


@pytest.mark.parametrize("codec", [1, 4])
def test_few_compressed_batches_are_checked_together(crowd: Crowd, codec: int) -> None:
    request = produce(batch([b"abc" * 50], [START_MS], codec=codec)), VERSION, 1
    contend(crowd, request)
    assert appends_of(crowd, *((number, [request]) for number in range(CONNECTIONS))) == [1, 2, 1, 1]
    crowd.check("t")


def test_many_bytes_do_not_wait_for_the_last_read(crowd: Crowd) -> None:
    contend(crowd)
    size = joined_reads.JOINED_BYTES_MAX // 2
    large = produce(batch([b"x" * size], [START_MS])), VERSION, 1
    assert appends_of(crowd, *((number, [large]) for number in range(CONNECTIONS))) == [2, 2, 1]
    crowd.check("t")


def test_many_requests_are_appended_in_parts(crowd: Crowd) -> None:
    contend(crowd)
    with patch.object(repeated, "RUN_REQUESTS_MAX", 4):
        assert appends_of(crowd, *((number, [single(0)] * 3) for number in range(CONNECTIONS))) == [6, 3, 3, 3]
    crowd.check("t")


def test_a_client_with_a_quota_takes_the_usual_path(crowd: Crowd) -> None:
    contend(crowd)
    crowd.each(lambda node: set_quotas(node, ANYBODY, {QuotaKey.PRODUCER_BYTE_RATE: 1e9}))
    assert appends_of(crowd, *((number, [single(number)]) for number in range(CONNECTIONS))) == []
    crowd.each(lambda node: set_quotas(node, ANYBODY, {}))
    crowd.each(lambda node: set_quotas(node, QuotaEntity(None, "others"), {QuotaKey.PRODUCER_BYTE_RATE: 1.0}))
    assert appends_of(crowd, *((number, [single(number)]) for number in range(CONNECTIONS))) == [CONNECTIONS]
    crowd.check("t")


def iterate_alone(connections: Connections, *reads: tuple[int, list[Sent]] | Callable[[Connections], None]) -> None:
    """Let connections of one node read requests in one iteration, and something change between the reads."""
    reads_of_node = connections.side.factory.joined_reads
    reads_of_node.is_open = True
    for read in reads:
        if callable(read):
            read(connections)
        else:
            number, requests = read
            connections.protocol(number).dataReceived(b"".join(frame(*request) for request in requests))
    reads_of_node.close()


def convert(connections: Connections) -> None:
    set_topic(connections.side.node, "t", message_timestamp_type="LogAppendTime")


def delete(connections: Connections) -> None:
    now(connections.side.node.broker.controller.delete_topic("t"))


@pytest.mark.parametrize("change", [convert, delete])
def test_a_change_during_the_iteration_counts(crowd: Crowd, change: Callable[[Connections], None]) -> None:
    contend(crowd)
    reads = [(number, [single(number)]) for number in range(3)]
    iterate_alone(crowd.joining, *reads, change)
    iterate_alone(crowd.single, change, *reads)
    assert crowd.joining.answers() == crowd.single.answers()


def test_a_peer_that_takes_no_answers_is_read_no_more(crowd: Crowd) -> None:
    contend(crowd)
    protocol, transport = crowd.joining.opened[1]
    transport.full = True
    for number in range(300):
        iterate_alone(crowd.joining, *((connection, [single(number)]) for connection in range(CONNECTIONS)))
    assert not transport.reading
    assert protocol.requests_queued > 0
    transport.drain(protocol)
    assert transport.reading
    assert errors(crowd.joining.answers()[1][0]) == [ErrorCode.NONE] * 300


def test_a_defect_of_one_connection_ends_that_one(crowd: Crowd) -> None:
    contend(crowd)
    joining = crowd.joining
    with patch.object(joining.protocol(1), "_account", side_effect=ValueError("a defect")):
        iterate_alone(joining, *((number, [single(number)]) for number in range(3)))
    assert [closed for _, closed in joining.answers()[:3]] == ["", "at once", ""]


def test_a_connection_lost_behind_the_append_gets_no_answer(replicated: Crowd) -> None:
    joining = replicated.joining
    account, lost = joining.protocol(0)._account, joining.protocol(1)

    def lose() -> None:
        account()
        lost.connectionLost()

    end = joining.side.node.broker.partitions.led["t", 0].log.log_end_offset
    with patch.object(joining.protocol(0), "_account", side_effect=lose):
        iterate_alone(joining, *((number, [single(number, -1)]) for number in range(3)))
    assert [joining.protocol(number).answers_waiting for number in range(3)] == [1, 0, 1]
    assert joining.side.node.broker.partitions.led["t", 0].log.log_end_offset == end + 3


def test_too_few_replicas_are_an_error(replicated: Crowd) -> None:
    replicated.each(lambda node: set_isr(node, "t", (NODE_ID,)))
    answers = replicated.iterate(*((number, [single(number, -1)]) for number in range(3)))
    assert [errors(sent) for sent, _ in answers] == [[ErrorCode.NOT_ENOUGH_REPLICAS]] * 3
    replicated.check("t")


def test_a_read_is_chosen_for_measurement_once(crowd: Crowd) -> None:
    contend(crowd)
    with patch.object(ReadSampler, "measure", autospec=True, side_effect=ReadSampler.measure) as measure:
        iterate_alone(
            crowd.joining, *((number, [single(1), single(2, index=1), single(3)]) for number in range(CONNECTIONS))
        )
    assert measure.call_count == CONNECTIONS


def test_each_request_is_measured_once(crowd: Crowd) -> None:
    contend(crowd)
    counts = []
    for side in (crowd.joining, crowd.single):
        routes = [
            route for protocol, _ in side.opened for _, route in protocol._headers.routes if route.name == "Produce"
        ]
        counts.append(sum(sum(route.latency.total.buckets) for route in routes))
    assert counts[0] == counts[1] > 0


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[Crowd]:
    """Three connections that produce to partition 0, whose replicas have all records so far."""
    with opened_crowd(tmp_path) as opened:
        opened.each(lambda node: node.create("t", 2))
        opened.each(begin)
        opened.connect(3)
        for reads in ([0], [1], [2], [0], [1], [2], [0, 1, 2]):
            opened.iterate(*((number, [single(0, -1)]) for number in reads))
            opened.each(follow)
            assert opened.joining.answers() == opened.single.answers()
        yield opened


def test_replicated_requests_are_answered_when_replicas_have_them(replicated: Crowd) -> None:
    reads = [(number, [single(number, -1)] * 2) for number in range(3)]
    assert appends_of(replicated, *reads) == [6]
    assert replicated.iterate(*reads) == [(b"", "")] * 3
    replicated.each(follow)
    answers = replicated.joining.answers()
    assert answers == replicated.single.answers()
    assert [errors(sent) for sent, _ in answers] == [[ErrorCode.NONE] * 4] * 3
    replicated.check("t")


def test_answers_that_are_ready_meanwhile_keep_their_order(replicated: Crowd) -> None:
    joining = replicated.joining
    iterate_alone(joining, *((number, [single(1, -1), single(2, -1)]) for number in range(3)))
    reads = [(number, [single(3, -1)]) for number in range(3)]
    iterate_alone(joining, *reads, lambda connections: follow(connections.side.node))
    assert [errors(sent) for sent, _ in joining.answers()] == [[ErrorCode.NONE] * 2] * 3
    follow(joining.side.node)
    assert [correlation_ids(sent) for sent, _ in joining.answers()] == [[3]] * 3


def correlation_ids(answers: bytes) -> list[int]:
    return [int.from_bytes(data[:4]) for data in FrameSplitter(1 << 20).split(answers)]


_CHANGES: list[dict[str, str]] = [
    {},
    {"compression_type": "gzip"},
    {"message_timestamp_type": "LogAppendTime"},
    {"max_message_bytes": "80"},
    {"segment_bytes": "400"},
    {"flush_messages": "3"},
    {"cleanup_policy": "compact"},
    {"min_insync_replicas": "2"},
]
_READ = st.tuples(st.integers(0, CONNECTIONS - 1), st.lists(SENT, min_size=1, max_size=4))
_STEPS = st.one_of(*[st.lists(_READ, min_size=2, max_size=8)] * 3, st.sampled_from(_CHANGES))


@pytest.fixture(scope="module")
def shared_crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    with opened_crowd(tmp_path_factory.mktemp("crowd")) as opened:
        yield opened


@settings(max_examples=examples(300))
@given(st.sampled_from(MODERN), st.lists(_STEPS, min_size=1, max_size=8))
def test_any_reads_and_changes(
    shared_crowd: Crowd, version: int, steps: list[list[tuple[int, list[SentBatch]]] | dict[str, str]]
) -> None:
    """Each example has a topic and connections of its own; producers use several connections."""
    crowd, topic, next_sequence = shared_crowd, f"t{next(_NUMBERS)}", [0, 0]
    crowd.each(lambda node: node.create(topic, 2))
    crowd.connect(CONNECTIONS)
    contend(crowd, single(0, topic=topic, version=version))
    for step in steps:
        if isinstance(step, dict):
            crowd.each(lambda node, step=step: set_topic(node, topic, **step))  # type: ignore[misc]
            continue
        answers = crowd.iterate(*((number, requests_of(sent, topic, version, next_sequence)) for number, sent in step))
        if any(closed for _, closed in answers):
            crowd.connect(CONNECTIONS)
    crowd.check(topic)
    crowd.each(lambda node: now(node.broker.controller.delete_topic(topic)))
