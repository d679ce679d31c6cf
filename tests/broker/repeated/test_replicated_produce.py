"""Produce requests with acks=all that repeat: they wait for replicas, and end, as usual ones do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.broker.repeated import produce as repeated
from pylogbroker.broker.replication.leadership import Leadership
from pylogbroker.broker.runtime.timeouts import LOOK_SECONDS
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.replication import FollowerFetch
from pylogbroker.wire import decode_response_header, response_codec
from pylogbroker.wire.frame_splitter import FrameSplitter
from pylogbroker.wire.messages.metadata import MetadataRequest
from pylogbroker.wire.messages.produce import ProduceRequest
from tests.broker.followers import lead
from tests.broker.nodes import NODE_ID, Node
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
from tests.broker.trees import now
from tests.net.fakes import frame
from tests.storage.support import batch
from tests.support.examples import examples

FOLLOWERS = NODE_ID + 1, NODE_ID + 2
ALL = NODE_ID, *FOLLOWERS
TIMEOUT_SECONDS = 1.0
VERSION = 9
_NUMBERS = count()


def begin(node: Node, topic: str = "t") -> None:
    """Let partition 0 have followers in sync, of which one must have what is acknowledged."""
    lead(node, topic, *FOLLOWERS, isr=ALL, min_insync=2)


def follow(node: Node, topic: str = "t", missing: int = 0) -> None:
    """Let both followers have all records but the last ones."""
    partition = node.broker.partitions.led.get((topic, 0))
    if partition is not None and partition.replication is not None:
        offset = max(partition.log.log_end_offset - missing, partition.log.high_watermark)
        for follower in FOLLOWERS:
            partition.replication.follower_fetched(FollowerFetch(follower, partition.leader_epoch, offset))


def set_isr(node: Node, topic: str, isr: tuple[int, ...]) -> None:
    partition = node.broker.partitions.led.get((topic, 0))
    if partition is not None and partition.replication is not None:
        leadership = partition.replication
        leadership.isr_altered(isr, leadership.leader.isr.partition_epoch + 1)  # type: ignore[attr-defined]


def resign(node: Node, topic: str = "t") -> None:
    node.broker.partitions.resign((topic, 0))


def lead_again(node: Node, topic: str = "t") -> None:
    partitions = node.broker.partitions
    if (topic, 0) not in partitions.led:
        partitions.lead((topic, 0), partitions.hosted[topic, 0].log.latest_epoch + 1)
        begin(node, topic)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """The form of requests for partition 0 is known."""
    with opened_pair(tmp_path) as opened:
        opened.each(lambda node: node.create("t", 2))
        opened.each(begin)
        learn(opened)
        yield opened


def learn(pair: Pair, version: int = VERSION) -> None:
    assert pair.receive((produce(batch([b"v"], [START_MS]), -1), version, 0)) == (b"", "")
    after(pair, follow)


def after(pair: Pair, change: Callable[[Node], object]) -> bytes:
    """Let something happen on both nodes; return what both answer then."""
    pair.each(change)
    return pair.receive()[0]


def errors(answers: bytes, version: int = VERSION) -> list[ErrorCode]:
    codes = []
    for data in FrameSplitter(1 << 20).split(answers):
        _, position = decode_response_header(data, ProduceRequest.api_key, version)
        response = response_codec(ProduceRequest.api_key, version).decode(data, position)
        codes += [ErrorCode(answer.error_code) for answer in response.responses[0].partition_responses]  # type: ignore[attr-defined]
    return codes


def singles(number: int) -> list[ProduceRequest]:
    return [produce(batch([value(n)], [START_MS]), -1) for n in range(number)]


@pytest.mark.parametrize("version", MODERN)
def test_all_but_the_first_requests_are_repeated(tmp_path: Path, version: int) -> None:
    with opened_pair(tmp_path) as pair:
        pair.each(lambda node: node.create("t", 1))
        pair.each(begin)
        learn(pair, version)
        assert usual_requests(pair, *singles(5), version=version) == 0
        assert errors(after(pair, follow), version) == [ErrorCode.NONE] * 5
        pair.check(["t"])


@pytest.mark.parametrize("version", MODERN)
def test_errors_name_the_topic_in_every_version(tmp_path: Path, version: int) -> None:
    """Name it by its id from version 13 on: a client without an answer for its batch waits for ever."""
    with opened_pair(tmp_path) as pair:
        pair.each(lambda node: node.create("t", 1))
        pair.each(begin)
        learn(pair, version)
        assert usual_requests(pair, *singles(2), version=version) == 0
        answers = after(pair, resign)
        assert errors(answers, version) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        pair.check(["t"])


def test_requests_behind_waiting_ones_are_repeated(pair: Pair) -> None:
    for _ in range(3):
        assert usual_requests(pair, *singles(3)) == 0
    assert errors(after(pair, follow)) == [ErrorCode.NONE] * 9
    pair.check(["t"])


def test_requests_are_answered_when_the_followers_have_their_records(pair: Pair) -> None:
    for _ in range(3):
        usual_requests(pair, *singles(1))
    for missing in (3, 2, 1, 0):
        answers = after(pair, lambda node, missing=missing: follow(node, missing=missing))  # type: ignore[misc]
        assert len(errors(answers)) == (missing < 3)


def test_a_run_is_answered_with_its_last_batch(pair: Pair) -> None:
    usual_requests(pair, *singles(3))
    pair.each(lambda node: follow(node, missing=1))
    learning, usual = (side.receive(b"")[0] for side in pair.sides)
    assert (len(errors(learning)), len(errors(usual))) == (0, 2)
    pair.each(follow)
    learning, usual = (side.receive(b"")[0] for side in pair.sides)
    assert (len(errors(learning)), len(errors(usual))) == (3, 1)
    pair.check(["t"])


def test_other_requests_between_them_keep_their_place(pair: Pair) -> None:
    first, second, third = ((request, VERSION, number) for number, request in enumerate(singles(3)))
    other = (produce(batch([b"w"], [START_MS]), 1, index=1), VERSION, 8)
    pair.receive(other)
    answers = pair.receive(first, (MetadataRequest([]), 5, 90), second, other, third)
    assert answers == (b"", "")
    pair.each(follow)
    pair.receive()
    pair.check(["t"])


def test_a_leader_without_in_sync_followers_answers_at_once(pair: Pair) -> None:
    pair.each(lambda node: set_topic(node, "t", min_insync_replicas="1"))
    pair.each(lambda node: node.broker.partitions.led["t", 0].set_min_insync_replicas(1, 3))
    after(pair, lambda node: set_isr(node, "t", (NODE_ID,)))
    pair.each(lambda node: node.clock.advance(60))  # nobody waits for followers that are not caught up
    assert usual_requests(pair, *singles(3)) == 0
    pair.check(["t"])
    assert pair.learning.node.broker.partitions.led["t", 0].log.high_watermark == 4


def test_too_few_replicas_before_the_append(pair: Pair) -> None:
    pair.each(lambda node: set_isr(node, "t", (NODE_ID,)))
    assert usual_requests(pair, *singles(2)) == 2
    pair.each(lambda node: set_isr(node, "t", ALL))
    assert usual_requests(pair, *singles(2)) == 1  # which sees that the rejection is over
    pair.check(["t"])


def test_records_that_too_few_replicas_have(pair: Pair) -> None:
    """Today the high watermark stays if the ISR is too small; this is the check behind it."""
    error = KafkaError("too few", ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    usual_requests(pair, *singles(3))
    with patch.object(Leadership, "check_replicated", side_effect=error):
        assert errors(after(pair, follow)) == [error.code] * 3
    usual_requests(pair, *singles(2))
    pair.check(["t"])


def test_the_high_watermark_stays_with_too_few_replicas(pair: Pair) -> None:
    usual_requests(pair, *singles(3))
    pair.each(lambda node: set_isr(node, "t", (NODE_ID,)))
    assert after(pair, follow) == b""
    pair.each(lambda node: node.clock.advance(TIMEOUT_SECONDS))
    assert errors(pair.receive()[0]) == [ErrorCode.REQUEST_TIMED_OUT] * 3
    pair.check(["t"])


def test_each_request_has_its_own_time(pair: Pair) -> None:
    for _ in range(3):
        usual_requests(pair, *singles(2))
        pair.each(lambda node: node.clock.advance(0.25))
    for seconds, late in ((0.125, 0), (0.125, 2), (0.25, 2), (0.125, 0), (0.125, 2)):
        answers = after(pair, lambda node, seconds=seconds: node.clock.advance(seconds))  # type: ignore[misc]
        assert errors(answers) == [ErrorCode.REQUEST_TIMED_OUT] * late
    assert after(pair, follow) == b""
    usual_requests(pair, *singles(1))
    assert errors(after(pair, follow)) == [ErrorCode.NONE]
    pair.check(["t"])


@pytest.mark.parametrize("version", [9, 10])
def test_another_leader(pair: Pair, version: int) -> None:
    pair.connect()
    learn(pair, version)
    assert usual_requests(pair, *singles(3), version=version) == 0
    moved = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
    assert errors(after(pair, resign), version) == moved
    assert usual_requests(pair, *singles(2), version=version) == 2
    pair.each(lead_again)
    usual_requests(pair, *singles(2), version=version)
    pair.each(follow)
    pair.receive()
    pair.check(["t"])


def test_an_idempotent_producer_whose_batches_fail(pair: Pair) -> None:
    requests = [produce(batch([value(n)], [START_MS], (PRODUCER, 0, n)), -1) for n in range(12)]
    usual_requests(pair, *requests[:3])
    assert usual_requests(pair, *requests[3:6]) == 0
    pair.each(lambda node: node.clock.advance(TIMEOUT_SECONDS))
    assert errors(pair.receive()[0]) == [ErrorCode.REQUEST_TIMED_OUT] * 6
    usual_requests(pair, *requests[6:])
    pair.each(follow)
    pair.receive()
    usual_requests(pair, *requests)
    pair.receive()
    pair.check(["t"])


def test_a_deleted_topic(pair: Pair) -> None:
    usual_requests(pair, *singles(3))
    gone = after(pair, lambda node: now(node.broker.controller.delete_topic("t")))
    assert errors(gone) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3


def test_a_lost_connection_waits_on_without_an_answer(pair: Pair) -> None:
    usual_requests(pair, *singles(3))
    pair.connect()
    pair.each(lambda node: node.clock.advance(TIMEOUT_SECONDS))
    pair.check(["t"])
    assert pair.learning.node.broker.partitions.traffic.of("t").append_errors[ErrorCode.REQUEST_TIMED_OUT] == 3


def test_waits_leave_nothing_behind(pair: Pair) -> None:
    idle = [len(side.node.clock.getDelayedCalls()) for side in pair.sides]
    usual_requests(pair, *singles(3))
    after(pair, follow)
    usual_requests(pair, *singles(3))
    after(pair, resign)
    pair.each(lambda node: node.clock.advance(LOOK_SECONDS))
    for side, before in zip(pair.sides, idle, strict=True):
        assert len(side.node.clock.getDelayedCalls()) == before
        assert len(side.node.broker.partitions.hosted["t", 0].purgatory) == 0


def test_many_waiting_requests_take_the_usual_path(pair: Pair) -> None:
    with patch.object(repeated, "WAITING_REQUESTS_MAX", 4):
        assert usual_requests(pair, *singles(5)) == 0
        assert usual_requests(pair, *singles(2)) == 2
    assert errors(after(pair, follow)) == [ErrorCode.NONE] * 7
    pair.check(["t"])


@pytest.fixture(scope="module")
def shared_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with opened_pair(tmp_path_factory.mktemp("pair")) as opened:
        yield opened


_EVENTS: dict[str, Callable[[Node, str], None]] = {
    "followers have everything": follow,
    "followers lack a record": lambda node, topic: follow(node, topic, 1),
    "followers lack two records": lambda node, topic: follow(node, topic, 2),
    "the ISR shrinks": lambda node, topic: set_isr(node, topic, (NODE_ID,)),
    "the ISR grows": lambda node, topic: set_isr(node, topic, ALL),
    "another leader": resign,
    "leader again": lead_again,
    "a part of the timeout": lambda node, topic: node.clock.advance(TIMEOUT_SECONDS / 4),
    "the timeout": lambda node, topic: node.clock.advance(TIMEOUT_SECONDS),
    "compression": lambda node, topic: set_topic(node, topic, compression_type="gzip"),
    "syncs": lambda node, topic: set_topic(node, topic, flush_messages="3"),
    "a new connection": lambda node, topic: None,
}
_STEPS = st.one_of(
    st.lists(SENT, min_size=1, max_size=6), st.lists(SENT, min_size=1, max_size=6), st.sampled_from(tuple(_EVENTS))
)


class Answers:
    """Answers of both sides on one connection. The learning side may answer a run later, never otherwise."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._learning = self._usual = b""

    def receive(self, *requests: tuple[ProduceRequest, int, int]) -> bool:
        """Let both receive requests at once; return whether they have closed the connection."""
        data = b"".join(frame(*request) for request in requests)
        (learning, is_closed), (usual, usual_is_closed) = (side.receive(data) for side in self._pair.sides)
        self._learning += learning
        self._usual += usual
        assert self._usual.startswith(self._learning)
        assert is_closed == usual_is_closed
        return bool(is_closed)

    def check(self) -> None:
        assert self._usual == self._learning


@settings(max_examples=examples(400))
@given(st.sampled_from(MODERN), st.lists(_STEPS, min_size=1, max_size=12))
def test_any_requests_and_events(shared_pair: Pair, version: int, steps: list[list[Sent] | str]) -> None:
    """Each example has a topic and a connection of its own. A run is answered later than its first request alone."""
    pair, topic, next_sequence = shared_pair, f"r{next(_NUMBERS)}", [0, 0]
    answers = Answers(pair)
    pair.each(lambda node: node.create(topic, 2))
    pair.each(lambda node: begin(node, topic))
    pair.connect()
    first = [(produce(batch([b"v"], [START_MS]), -1, topic), version, 0)]
    sent = [step if isinstance(step, str) else requests_of(step, topic, version, next_sequence, -1) for step in steps]
    for step in (first, "followers have everything", *sent, "followers have everything", "the timeout"):
        if step == "a new connection":
            pair.connect()
            answers = Answers(pair)
        elif isinstance(step, str):
            pair.each(lambda node, event=_EVENTS[step]: event(node, topic))  # type: ignore[misc]
            answers.receive()
        else:
            if answers.receive(*step):
                pair.connect()
                answers = Answers(pair)
    answers.check()
    pair.check([topic])
    pair.each(lambda node: now(node.broker.controller.delete_topic(topic)))
