"""Produce requests that repeat: answers, logs and counters are those of usual requests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.repeated import produce as repeated
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from pylogbroker.security.quotas.entities import QuotaEntity
from pylogbroker.security.quotas.keys import QuotaKey
from pylogbroker.wire.messages.metadata import MetadataRequest
from pylogbroker.wire.messages.produce import ProduceRequest
from tests.broker.repeated.pairs import Pair, opened_pair, set_topic
from tests.broker.repeated.produces import (
    MODERN,
    PRODUCER,
    SENT,
    START_MS,
    Sent,
    produce,
    requests_of,
    usual_requests,
    value,
)
from tests.broker.security.quota_clients import ANYBODY, set_quotas
from tests.broker.trees import now
from tests.net.fakes import frame
from tests.storage.support import batch
from tests.support.examples import examples


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with opened_pair(tmp_path) as opened:
        opened.each(lambda node: node.create("t", 2))
        yield opened


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", MODERN)
def test_all_but_the_first_request_are_repeated(pair: Pair, version: int, acks: int) -> None:
    requests = [produce(batch([value(number)], [START_MS]), acks) for number in range(5)]
    assert usual_requests(pair, *requests[:3], version=version) == 1
    assert usual_requests(pair, *requests[3:], version=version) == 0
    pair.check(["t"])


def test_each_size_of_the_records_is_read(pair: Pair) -> None:
    sizes = [0, 1, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 200, 16_000, 17_000, 70_000]
    requests = [produce(batch([b"x" * size], [START_MS])) for size in sizes]
    assert usual_requests(pair, *requests) == 1
    pair.check(["t"])


def test_versions_that_alternate_are_both_repeated(pair: Pair) -> None:
    requests = [(produce(batch([value(number)], [START_MS])), 7 + number % 2, number) for number in range(8)]
    pair.receive(*requests)
    assert pair.learning.usual == 2  # the first one of each version
    pair.check(["t"])


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("version", [6, 9])
def test_compressed_batches(pair: Pair, version: int, codec: int) -> None:
    requests = [produce(batch([b"abc" * 50, value(number)], [START_MS] * 2, codec=codec)) for number in range(4)]
    first_is_learned = version >= 7 or codec != 4  # zstd is an error before version 7
    assert usual_requests(pair, *requests, version=version) == (1 if first_is_learned else 4)
    pair.check(["t"])


def test_few_compressed_batches_are_checked_without_a_pause(pair: Pair) -> None:
    request = produce(batch([b"abc" * 50], [START_MS], codec=1))
    usual_requests(pair, request)
    prepare_run = Partition.prepare_run
    with patch.object(Partition, "prepare_run", autospec=True, side_effect=prepare_run) as runs:
        assert usual_requests(pair, *[request] * 5) == 0
    assert [len(call.args[1]) for call in runs.call_args_list] == [2, 2, 1]
    pair.check(["t"])


def test_old_versions_reject_zstd_also_when_repeated(pair: Pair) -> None:
    requests = [produce(batch([b"abc" * 50], [START_MS], codec=codec)) for codec in (0, 0, 4, 0)]
    assert usual_requests(pair, *requests, version=6) == 2
    pair.check(["t"])


def test_a_producer_in_order(pair: Pair) -> None:
    requests = [produce(batch([value(n)], [START_MS], (PRODUCER, 0, n)), -1) for n in range(6)]
    assert usual_requests(pair, *requests) == 1
    assert usual_requests(pair, requests[5], requests[4]) == 2  # duplicates
    assert usual_requests(pair, produce(batch([b"v"], [START_MS], (PRODUCER, 0, 9)), -1)) == 1  # a gap
    pair.check(["t"])


def test_requests_that_are_not_learned(pair: Pair) -> None:
    records = batch([b"v"], [START_MS])
    in_transaction = ProduceRequest("tx", 1, 1000, produce(records).topic_data)
    for request in (produce(records, 0), produce(records, topic="missing"), in_transaction):
        assert usual_requests(pair, request, request) == 2
    pair.check(["t"])


@pytest.mark.parametrize("version", [11, 12, 13])
def test_transactional_records_take_the_usual_path(pair: Pair, version: int) -> None:
    """Records behind others of the same connection, and with a transactional id or without one."""
    requests = []
    for transactional_id, is_transactional in ((None, False), (None, True), ("tx", True), ("tx", False)):
        records = batch([b"v"], [START_MS], (PRODUCER, 0, 0) if is_transactional else (-1, -1, -1), 0, is_transactional)
        requests.append(ProduceRequest(transactional_id, 1, 1000, produce(records).topic_data))
    plain, *others = requests
    assert usual_requests(pair, plain, plain, version=version) == 1
    for request in others:
        assert usual_requests(pair, request, version=version) == 1
        usual_requests(pair, plain, plain, version=version)
    pair.check(["t"])


def test_partitions_and_topics_one_after_the_other(pair: Pair) -> None:
    pair.each(lambda node: node.create("another-topic", 1))
    records = batch([b"v"], [START_MS])
    targets = [("t", 0), ("t", 1), ("another-topic", 0)]
    requests = [produce(records, topic=topic, index=index) for topic, index in targets]
    assert usual_requests(pair, *requests, *requests, *reversed(requests)) == 3
    pair.check(["t", "another-topic"])


def test_other_requests_between_them_keep_their_place(pair: Pair) -> None:
    requests = [(produce(batch([value(n)], [START_MS])), 9, n) for n in range(4)]
    pair.receive(*requests[:2], (MetadataRequest([]), 5, 90), *requests[2:], (MetadataRequest([]), 5, 91))
    assert pair.learning.usual == 3


def test_quotas_of_other_clients_change_nothing(pair: Pair) -> None:
    request = produce(batch([b"v"], [START_MS]))
    usual_requests(pair, request)
    pair.each(lambda node: set_quotas(node, QuotaEntity(None, "others"), {QuotaKey.PRODUCER_BYTE_RATE: 1.0}))
    pair.receive((request, 9, 1), (request, 9, 2))
    assert pair.learning.usual == 1
    pair.check(["t"])
    pair.check(["t"])


def test_cut_and_damaged_frames(pair: Pair) -> None:
    records = batch([b"v" * 20], [START_MS])
    usual_requests(pair, produce(records))
    for end in range(len(records)):
        pair.connect()
        usual_requests(pair, produce(records), produce(records[:end]), produce(records))
    for at in range(len(records)):
        damaged = bytearray(records)
        damaged[at] ^= 0x41
        pair.connect()
        usual_requests(pair, produce(records), produce(bytes(damaged)), produce(records))
    pair.check(["t"])


def test_any_other_byte_in_the_frame(pair: Pair) -> None:
    """A changed byte makes another request, whose answer is that of a connection which knows no form."""
    first = frame(produce(batch([b"v" * 20], [START_MS])), 9, 1)
    for at in range(4, len(first)):
        other = bytearray(first)
        other[at] ^= 0x01
        pair.connect()
        learning, usual = (side.receive(first + bytes(other) + first) for side in pair.sides)
        assert learning == usual, at
    pair.check(["t"])


def test_settings_count_from_the_next_request_on(pair: Pair) -> None:
    requests = [produce(batch([value(number) * 10], [START_MS])) for number in range(3)]
    usual_requests(pair, *requests)
    pair.each(lambda node: set_topic(node, "t", message_timestamp_type="LogAppendTime"))
    assert usual_requests(pair, requests[0]) == 1
    pair.each(lambda node: set_topic(node, "t", max_message_bytes="75"))
    assert usual_requests(pair, *requests) == 3
    pair.each(lambda node: set_topic(node, "t", min_insync_replicas="2"))
    assert usual_requests(pair, produce(batch([b"v"], [START_MS]), -1)) == 1
    pair.check(["t"])


def test_unusual_batches_in_a_row_are_tried_less_and_less(pair: Pair) -> None:
    request = produce(batch([b"v"], [START_MS]))
    usual_requests(pair, request, request)
    pair.each(lambda node: set_topic(node, "t", message_timestamp_type="LogAppendTime"))
    with patch.object(
        repeated.RepeatedProduce, "_split", autospec=True, side_effect=repeated.RepeatedProduce._split
    ) as split:
        assert usual_requests(pair, *[request] * 100) == 100
    assert split.call_count == 7  # at the requests 1, 3, 6, 11, 20, 37 and 70
    pair.each(lambda node: set_topic(node, "t"))
    assert usual_requests(pair, *[request] * 100) == 34
    pair.check(["t"])


def test_a_topic_that_is_created_again(pair: Pair) -> None:
    request = produce(batch([b"v"], [START_MS]))
    usual_requests(pair, request, request)
    pair.each(lambda node: now(node.broker.controller.delete_topic("t")))
    assert usual_requests(pair, request) == 1
    pair.each(lambda node: node.create("t", 1))
    pair.connect() if pair.learning.transport.closed else None
    assert usual_requests(pair, *[request] * 5) == 1
    pair.check(["t"])


def test_an_offline_log(pair: Pair) -> None:
    request = produce(batch([b"v"], [START_MS]))
    usual_requests(pair, request, request)
    pair.each(lambda node: node.broker.partitions.led["t", 0].log.take_offline("the disk is gone"))
    assert usual_requests(pair, request, request) == 2


def test_requests_behind_a_waiting_one_are_answered_behind_it(pair: Pair) -> None:
    pair.each(lambda node: setattr(node.threads, "holding", True))
    small = produce(batch([b"v"], [START_MS]))
    usual_requests(pair, small, small)
    pair.each(lambda node: set_topic(node, "t", compression_type="gzip"))
    large = produce(batch([b"x" * 40_000], [START_MS]), index=0)
    assert pair.receive((large, 9, 7), (small, 9, 8), (produce(batch([b"w"], [START_MS]), index=1), 9, 9))[0] == b""
    pair.each(lambda node: node.threads.run_one())
    for _ in range(3):
        pair.each(lambda node: [node.threads.run_one() for _ in tuple(node.threads.held)])
    pair.receive()
    pair.check(["t"])


def test_quotas_are_measured_as_usual(pair: Pair) -> None:
    request = produce(batch([b"v" * 500], [START_MS]))
    usual_requests(pair, request, request)
    pair.each(lambda node: set_quotas(node, ANYBODY, {QuotaKey.PRODUCER_BYTE_RATE: 100.0}))
    pair.receive((request, 9, 1))
    pair.receive((request, 9, 2))
    pair.each(lambda node: set_quotas(node, ANYBODY, {}))
    pair.each(lambda node: node.clock.advance(100))
    pair.receive((request, 9, 3), (request, 9, 4))
    assert pair.learning.usual == 3
    pair.check(["t"])


def test_access_that_is_taken_back(tmp_path: Path) -> None:
    topic = ResourcePattern(AclResourceType.TOPIC, "t", PatternType.LITERAL)
    entry = AccessControlEntry("User:ANONYMOUS", "*", AclOperation.WRITE, AclPermission.ALLOW)
    authorizer = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    request = produce(batch([b"v"], [START_MS]))
    with opened_pair(tmp_path, authorizer) as pair:
        pair.each(lambda node: node.create("t", 1))
        assert usual_requests(pair, request, request) == 2
        pair.each(lambda node: now(node.broker.authorizer.acls.add(topic, frozenset({entry}), "User:admin")))
        assert usual_requests(pair, *[request] * 5) == 2  # the first one asks the rules
        pair.each(lambda node: now(node.broker.authorizer.acls.remove([AclBinding(topic, entry)], "User:admin")))
        assert usual_requests(pair, request, request) == 2
        pair.check(["t"])


_CHANGES = st.sampled_from(
    (
        {},
        {"compression_type": "gzip"},
        {"message_timestamp_type": "LogAppendTime"},
        {"max_message_bytes": "80"},
        {"segment_bytes": "400"},
        {"flush_messages": "3"},
        {"cleanup_policy": "compact"},
        {"min_insync_replicas": "2"},
    )
)
_STEPS = st.one_of(st.lists(SENT, min_size=1, max_size=6), st.lists(SENT, min_size=1, max_size=6), _CHANGES)


@pytest.fixture(scope="module")
def shared_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with opened_pair(tmp_path_factory.mktemp("pair")) as opened:
        yield opened


_NUMBERS = count()


@settings(max_examples=examples(400))
@given(st.sampled_from(MODERN), st.lists(_STEPS, min_size=1, max_size=8))
def test_any_requests_and_changes(shared_pair: Pair, version: int, steps: list[list[Sent] | dict[str, str]]) -> None:
    """Each example has a topic and a connection of its own."""
    pair, topic, next_sequence = shared_pair, f"t{next(_NUMBERS)}", [0, 0]
    pair.each(lambda node: node.create(topic, 2))
    pair.connect()
    for step in steps:
        if isinstance(step, dict):
            pair.each(lambda node, step=step: set_topic(node, topic, **step))  # type: ignore[misc]
            continue
        _, closed = pair.receive(*requests_of(step, topic, version, next_sequence))
        if closed:
            pair.connect()
    pair.check([topic])
    pair.each(lambda node: now(node.broker.controller.delete_topic(topic)))
