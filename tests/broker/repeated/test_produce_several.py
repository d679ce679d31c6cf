"""Produce requests for several partitions that repeat: answers, logs and counters are those of usual requests."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.repeated import produce_several
from pylogbroker.broker.repeated.frames import PARTITIONS_MAX
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from pylogbroker.storage.log.segment import Segment
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.repeated.pairs import Pair, opened_pair, set_topic
from tests.broker.repeated.test_produce import MODERN, PRODUCER, START_MS, usual_requests, value
from tests.broker.trees import now
from tests.net.fakes import frame
from tests.storage.support import batch
from tests.support.examples import examples

_NUMBERS = count()
Part = tuple[str, int, bytes]


def produce(*parts: Part, acks: int = 1, timeout_ms: int = 1000) -> ProduceRequest:
    """Return a request with records for each topic and partition; neighbours of one topic share an entry."""
    topics: list[TopicProduceData] = []
    for topic, index, records in parts:
        if not topics or topics[-1].name != topic:
            topics.append(TopicProduceData(topic, []))
        topics[-1].partition_data.append(PartitionProduceData(index, records))
    return ProduceRequest(None, acks, timeout_ms, topics)


def records(number: int = 0, codec: int = 0) -> bytes:
    return batch([b"abc" * 50 if codec else value(number)], [START_MS], codec=codec)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with opened_pair(tmp_path) as opened:
        opened.each(lambda node: node.create("t", 4))
        opened.each(lambda node: node.create("other", 1))
        yield opened


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", MODERN)
def test_other_partitions_have_the_same_form(pair: Pair, version: int, acks: int) -> None:
    requests = [
        produce(("t", 0, records(1)), ("t", 1, records(2)), acks=acks),
        produce(("t", 3, records(3)), ("t", 0, records(4)), ("t", 2, records(5)), acks=acks),
        produce(("other", 0, records(6)), ("t", 2, records(7)), acks=acks),
        produce(("t", 1, records(8)), ("other", 0, records(9)), ("t", 2, records(10)), acks=acks),
        produce(acks=acks),
    ]
    assert usual_requests(pair, *requests, version=version) == 1
    assert usual_requests(pair, *requests, version=version) == 0
    assert usual_requests(pair, produce(*[("t", 0, records())] * 2, acks=-acks), version=version) == 1
    pair.check(["t", "other"])


def test_requests_with_one_unusual_partition_take_the_usual_path(pair: Pair) -> None:
    usual_requests(pair, produce(("t", 0, records()), ("t", 1, records())))
    damaged = bytearray(records())
    damaged[50] ^= 1
    for parts in (
        [("t", 0, records()), ("t", 0, records())],
        [("t", 0, records()), ("t", 1, bytes(damaged))],
        [("t", 0, records()), ("missing", 0, records())],
        [("t", 0, records()), ("t", 9, records())],
        [("t", 0, records()), ("t", 1, b"")],
        [("t", 0, records()), ("t", 1, batch([b"v"], [START_MS], (PRODUCER, 0, 5)))],
        [("t", 0, records()), ("t", 1, batch([b"v"], [START_MS], (PRODUCER, 0, 0), transactional=True))],
        [("t", 0, records()), ("__consumer_offsets", 0, records())],
    ):
        pair.connect()
        usual_requests(pair, produce(("t", 0, records()), ("t", 1, records())))
        assert usual_requests(pair, produce(*parts)) == 1, parts
    pair.check(["t"])


def test_requests_that_are_not_learned(pair: Pair) -> None:
    parts = ("t", 0, records()), ("t", 1, records())
    in_transaction = ProduceRequest("tx", 1, 1000, produce(*parts).topic_data)
    for request in (in_transaction, produce(*parts, acks=0)):
        assert usual_requests(pair, request, request) == 2
    pair.check(["t"])


def test_a_large_request_is_appended_in_steps(pair: Pair) -> None:
    large = batch([b"x" * 200_000], [START_MS])
    requests = [produce(*[("t", index, large) for index in range(number)]) for number in (2, 3)]
    assert usual_requests(pair, requests[0], requests[0]) == 1
    pair.connect()
    pair.learning.usual = 0
    for side in pair.sides:
        side.protocol.dataReceived(frame(requests[0], 9, 1))
        side.node.clock.pump([0] * 50)
        side.transport.sent.clear()
        side.protocol.dataReceived(frame(requests[1], 9, 2))
        side.node.clock.pump([0] * 50)
    assert pair.learning.usual == 2
    pair.check(["t"])


def test_few_compressed_batches_are_checked_at_once(pair: Pair) -> None:
    pair.each(lambda node: node.create("many", 9))
    for codec in (1, 2, 3, 4):
        parts = [("many", index, records(index, codec)) for index in range(9)]
        pair.connect()
        assert usual_requests(pair, produce(*parts[:7]), produce(*parts[:7]), produce(*parts[:9])) == 2
    pair.check(["many"])


def test_limits_count_before_batches_are_prepared(pair: Pair) -> None:
    """Else a request with many small batches, or compressed ones, would hold the reactor for long."""
    usual_requests(pair, produce(("t", 0, records()), ("t", 1, records())))
    prepare_run = Partition.prepare_run
    for part, limit in ((("t", 0, records()), PARTITIONS_MAX), (("t", 0, records(0, 1)), 7)):
        with patch.object(Partition, "prepare_run", autospec=True, side_effect=prepare_run) as prepared:
            pair.learning.receive(frame(produce(*[part] * (PARTITIONS_MAX + 1)), 9, 1))
        assert prepared.call_count == limit
        pair.learning.connect()
        usual_requests(pair, produce(("t", 2, records()), ("t", 3, records())))


def test_old_versions_reject_zstd_also_when_repeated(pair: Pair) -> None:
    requests = [produce(("t", 0, records()), ("t", 1, records(0, codec))) for codec in (1, 1, 4, 1)]
    assert usual_requests(pair, *requests[:3], version=6) == 2
    pair.check(["t"])


@pytest.mark.parametrize("version", [6, 9])
def test_any_other_byte_in_the_frame(pair: Pair, version: int) -> None:
    """A changed byte makes another request, whose answer is that of a connection which knows no form."""
    first = frame(produce(("t", 0, records()), ("other", 0, records(2))), version, 1)
    for at in range(4, len(first)):
        for byte in (first[at] ^ 0x01, first[at] ^ 0x80, 0, 0xFF):
            other = bytearray(first)
            other[at] = byte
            pair.connect()
            learning, usual = (side.receive(first + bytes(other) + first) for side in pair.sides)
            assert learning == usual, at
    pair.check(["t", "other"])


@pytest.mark.parametrize("version", [6, 9])
def test_cut_frames(pair: Pair, version: int) -> None:
    first = frame(produce(("t", 0, records()), ("other", 0, records(2))), version, 1)
    for end in range(40, len(first)):
        cut = (end - 4).to_bytes(4) + first[4:end]
        pair.connect()
        learning, usual = (side.receive(first + cut) for side in pair.sides)
        assert learning == usual, end
    pair.check(["t", "other"])


def test_a_disk_that_fails_while_the_request_is_written(pair: Pair) -> None:
    request = produce(("t", 0, records()), ("other", 0, records()), ("t", 1, records()), ("t", 2, records()))
    usual_requests(pair, request, request)
    append = Segment.append

    def fail(segment: Segment, *args: Any) -> None:
        if segment.path.split("/")[-2] in ("t_1", "other_0"):
            raise OSError(errno.EIO, "the disk is gone")
        append(segment, *args)

    with patch.object(Segment, "append", fail):
        answers = [side.receive(frame(request, 9, 7))[0] for side in pair.sides]
    learning, usual = (answer.replace(b"learning", b"ordinary") for answer in answers)  # the path of the log
    assert usual.count(b"the disk is gone") == 1
    assert usual.count(b"in a directory that failed") == 2
    assert learning == usual
    assert usual_requests(pair, request) == 1
    pair.check(["t"])


def test_unusual_requests_in_a_row_are_tried_less_and_less(pair: Pair) -> None:
    request = produce(("t", 0, records()), ("t", 1, records()))
    usual_requests(pair, request)
    pair.each(lambda node: set_topic(node, "t", message_timestamp_type="LogAppendTime"))
    prepare = produce_several.ProduceToSeveral._prepare
    with patch.object(produce_several.ProduceToSeveral, "_prepare", autospec=True, side_effect=prepare) as tries:
        assert usual_requests(pair, *[request] * 100) == 100
    assert tries.call_count == 7  # at the requests 1, 3, 6, 11, 20, 37 and 70
    pair.check(["t"])


def test_access_that_is_taken_back(tmp_path: Path) -> None:
    patterns = [ResourcePattern(AclResourceType.TOPIC, topic, PatternType.LITERAL) for topic in ("t", "other")]
    entry = AccessControlEntry("User:ANONYMOUS", "*", AclOperation.WRITE, AclPermission.ALLOW)
    authorizer = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    request = produce(("t", 0, records()), ("other", 0, records()))
    with opened_pair(tmp_path, authorizer) as pair:
        for topic, pattern in zip(("t", "other"), patterns, strict=True):
            pair.each(lambda node, topic=topic: node.create(topic, 1))  # type: ignore[misc]
            pair.each(lambda node, at=pattern: now(node.broker.authorizer.acls.add(at, frozenset({entry}), "User:a")))  # type: ignore[misc]
        assert usual_requests(pair, *[request] * 5) == 1
        pair.each(lambda node: now(node.broker.authorizer.acls.remove([AclBinding(patterns[1], entry)], "User:a")))
        assert usual_requests(pair, request) == 1
        pair.check(["t", "other"])


@attrs.frozen
class Sent:
    """Records of a request for one partition; `late_by` is relative to what its producer has sent, or None."""

    target: int
    values: int
    late_by: int | None
    codec: int
    damage: int


_SENT = st.builds(
    Sent,
    st.integers(0, 3),
    st.integers(1, 3),
    st.sampled_from((*(None,) * 8, *(0,) * 8, 1, -1)),
    st.sampled_from((*(0,) * 8, 1)),
    st.sampled_from((*(-1,) * 40, 8, 17, 22, 50, 64)),
)
_REQUEST = st.tuples(
    st.sampled_from((1, 1, 1, 1, -1, -1, 0)),
    st.lists(_SENT, min_size=1, max_size=4, unique_by=lambda sent: sent.target)
    | st.lists(_SENT, min_size=0, max_size=4),
)
_CHANGES = st.sampled_from(
    (
        {},
        {"compression_type": "gzip"},
        {"message_timestamp_type": "LogAppendTime"},
        {"max_message_bytes": "80"},
        {"segment_bytes": "400"},
        {"flush_messages": "3"},
        {"min_insync_replicas": "2"},
    )
)
_STEPS = st.one_of(*[st.lists(_REQUEST, min_size=1, max_size=4)] * 3, _CHANGES)


def request_of(sent: Sequence[Sent], acks: int, topics: Sequence[str], next_sequence: list[int]) -> ProduceRequest:
    parts: list[Part] = []
    for number, one in enumerate(sent):
        producer = (-1, -1, -1)
        if one.late_by is not None:
            producer = (PRODUCER, 0, max(next_sequence[one.target] - one.late_by, 0))
            next_sequence[one.target] = producer[2] + one.values
        values = [value(number + n) for n in range(one.values)]
        encoded = bytearray(batch(values, [START_MS] * one.values, producer, one.codec))
        if one.damage >= 0:
            encoded[one.damage % len(encoded)] ^= 0x10
        parts.append((topics[one.target % 2], one.target // 2, bytes(encoded)))
    return produce(*parts, acks=acks)


@pytest.fixture(scope="module")
def shared_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with opened_pair(tmp_path_factory.mktemp("pair")) as opened:
        yield opened


@settings(max_examples=examples(300))
@given(st.sampled_from(MODERN), st.lists(_STEPS, min_size=1, max_size=8))
def test_any_requests_and_changes(
    shared_pair: Pair, version: int, steps: list[list[tuple[int, list[Sent]]] | dict[str, str]]
) -> None:
    """Each example has two topics and a connection of its own."""
    pair, number, next_sequence = shared_pair, next(_NUMBERS), [0] * 4
    topics = [f"a{number}", f"b{number}"]
    for topic in topics:
        pair.each(lambda node, topic=topic: node.create(topic, 2))  # type: ignore[misc]
    pair.connect()
    for step in steps:
        if isinstance(step, dict):
            pair.each(lambda node, step=step: set_topic(node, topics[0], **step))  # type: ignore[misc]
            continue
        requests = [
            (request_of(sent, acks, topics, next_sequence), version, at) for at, (acks, sent) in enumerate(step)
        ]
        _, closed = pair.receive(*requests)
        if closed:
            pair.connect()
    pair.check(topics)
    for topic in topics:
        pair.each(lambda node, topic=topic: now(node.broker.controller.delete_topic(topic)))  # type: ignore[misc]
