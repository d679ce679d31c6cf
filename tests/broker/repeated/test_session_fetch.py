"""Fetch requests of sessions that repeat: answers, replicas, sessions and counters are those of usual requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.broker.fetch import operation
from pylogbroker.broker.fetch.follower_session import PASS_MS, FollowerSession
from pylogbroker.broker.fetch.sessions import FetchSessions
from pylogbroker.broker.repeated import session_fetch
from pylogbroker.broker.requests.offered_versions import offered_versions
from pylogbroker.broker.runtime.timeouts import LOOK_SECONDS
from pylogbroker.errors import ErrorCode
from pylogbroker.replication import FollowerFetch
from pylogbroker.security.quotas.keys import QuotaKey
from pylogbroker.wire import decode_response_header, response_codec
from pylogbroker.wire.frame_splitter import FrameSplitter
from pylogbroker.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from tests.broker.followers import lead
from tests.broker.nodes import NODE_ID, Node
from tests.broker.repeated.pairs import Pair, Side, opened_pair
from tests.broker.security.quota_clients import ANYBODY, set_quotas
from tests.broker.trees import now
from tests.net.fakes import frame
from tests.storage.support import batch
from tests.support.examples import examples

START_MS = 1_700_000_000_000
FOLLOWERS = NODE_ID + 1, NODE_ID + 2
ALL = NODE_ID, *FOLLOWERS
WAIT_MS = 500
LOOK_MS = LOOK_SECONDS * 1000
TOPICS = "a", "b", "c"
VERSIONS = range(7, offered_versions(FetchRequest.api_key).last + 1)
NEWEST = offered_versions(FetchRequest.api_key).last
_FIRST_WITH_IDS, _FIRST_WITH_EPOCHS, _FIRST_WITH_STATE = 13, 12, 15
_NUMBERS = count()


def append(node: Node, topic: str, size: int = 5) -> None:
    partition = node.broker.partitions.led.get((topic, 0))
    if partition is not None:
        partition.append(batch([b"x" * size], [START_MS]), START_MS)


def confirm(node: Node, topic: str) -> None:
    """Let the other follower have all records."""
    partition = node.broker.partitions.led.get((topic, 0))
    if partition is not None and partition.replication is not None:
        offset = partition.log.log_end_offset
        partition.replication.follower_fetched(FollowerFetch(FOLLOWERS[1], partition.leader_epoch, offset))


@attrs.define
class Session:
    """One session with both sides; `is_follower` fetches as a replica, else as a consumer."""

    pair: Pair
    version: int = NEWEST
    is_follower: bool = True
    topics: tuple[str, ...] = TOPICS
    wait_ms: int = WAIT_MS
    min_bytes: int = 1
    id: int = 0
    epoch: int = 0
    _number: Iterator[int] = attrs.field(factory=count)

    def request(
        self, node: Node, offsets: Mapping[str, int], forgotten: tuple[str, ...], **fields: Any
    ) -> FetchRequest:
        replica = FOLLOWERS[0] if self.is_follower else -1
        has_state = self.version >= _FIRST_WITH_STATE
        topics = [
            FetchTopic(
                **self._name(node, topic),
                partitions=[
                    FetchPartition(
                        0,
                        fields.get("leader_epoch", self._epoch_of(node, topic) if self.version >= 9 else -1),
                        offset,
                        fields.get("fetched_epoch", -1),
                        0,
                        fields.get("partition_bytes", 1 << 20),
                    )
                ],
            )
            for topic, offset in offsets.items()
        ]
        return FetchRequest(
            None,
            -1 if has_state else replica,
            ReplicaState(replica) if has_state else ReplicaState(),
            self.wait_ms,
            self.min_bytes,
            fields.get("bytes", 1 << 20),
            0,
            self.id,
            fields.get("epoch", self.epoch),
            topics,
            [ForgottenTopic(**self._name(node, topic), partitions=[0]) for topic in forgotten],
        )

    def _name(self, node: Node, topic: str) -> dict[str, Any]:
        by_id = self.version >= _FIRST_WITH_IDS
        return {"topic_id": node.broker.metadata.topics[topic].id} if by_id else {"topic": topic}

    def _epoch_of(self, node: Node, topic: str) -> int:
        partition = node.broker.partitions.led.get((topic, 0))
        return -1 if partition is None else partition.leader_epoch

    def begin(self, **offsets: int) -> None:
        """Begin a session with these partitions, or all, and let the connection learn its form."""
        wait_ms, self.wait_ms = self.wait_ms, 0
        self.id = self.epoch = 0
        self.send(offsets or dict.fromkeys(self.topics, 0))
        self.id, self.epoch = self.session_ids()[0], 1
        self.wait_ms = wait_ms
        self.send({})
        self.pass_time(self.wait_ms)

    def session_ids(self) -> list[int]:
        return [next(reversed(side.node.broker.fetches.sessions._sessions)) for side in self.pair.sides]

    def send(self, offsets: Mapping[str, int] = {}, forgotten: tuple[str, ...] = (), **fields: Any) -> bytes:
        """Let both sides receive a request; return what both answer at once."""
        number = next(self._number)
        answers = []
        for side in self.pair.sides:
            request = self.request(side.node, offsets, forgotten, **fields)
            answers.append(self._as_first(side, side.receive(frame(request, self.version, number))[0]))
        self.epoch += 1
        assert answers[0] == answers[1]
        return answers[0]

    def usual(self, offsets: Mapping[str, int] = {}, forgotten: tuple[str, ...] = (), **fields: Any) -> int:
        """Send a request; return how many the learning side handled as usual."""
        before = self.pair.learning.usual
        self.send(offsets, forgotten, **fields)
        return self.pair.learning.usual - before

    def answered(self) -> bytes:
        """Return what both sides have answered meanwhile."""
        first, second = (self._as_first(side, side.receive(b"")[0]) for side in self.pair.sides)
        assert first == second
        return first

    def after(self, change: Callable[[Node], object]) -> bytes:
        self.pair.each(change)
        return self.answered()

    def pass_time(self, ms: float) -> bytes:
        return self.after(lambda node: node.clock.advance(ms / 1000))

    def _as_first(self, side: Side, data: bytes) -> bytes:
        """Replace the ids of topics, which are random, by those of the first side."""
        first = self.pair.learning.node.broker.metadata.topics
        for topic, image in side.node.broker.metadata.topics.items():
            if topic in first:
                data = data.replace(image.id.bytes, first[topic].id.bytes)
        return data

    def records_in(self, data: bytes) -> dict[tuple[int, ErrorCode], int]:
        """Return the number of answers with some bytes of records, or an error."""
        found: dict[tuple[int, ErrorCode], int] = {}
        for one in FrameSplitter(1 << 24).split(data):
            _, position = decode_response_header(one, FetchRequest.api_key, self.version)
            response: Any = response_codec(FetchRequest.api_key, self.version).decode(one, position)
            assert isinstance(response, FetchResponse)
            for topic in response.responses:
                for answer in topic.partitions:
                    key = len(bytes(answer.records or b"")) and 1, ErrorCode(answer.error_code)
                    found[key] = found.get(key, 0) + 1
        return found

    def check(self) -> None:
        """Compare what requests leave behind on both sides."""
        self.pair.check(self.topics)
        learning, usual = (self._state(side.node) for side in self.pair.sides)
        assert learning == usual

    def _state(self, node: Node) -> Any:
        broker = node.broker
        replicas = {}
        for topic in self.topics:
            partition = broker.partitions.led.get((topic, 0))
            replication: Any = None if partition is None else partition.replication
            if replication is not None:
                leader = replication.leader
                progress = {id_: attrs.astuple(each) for id_, each in leader._followers.items()}
                replicas[topic] = progress, leader.high_watermark, leader.isr.committed, replication._proposals.made
        names = {image.id: topic for topic, image in broker.metadata.topics.items()}
        sessions = [
            (
                session.epoch,
                session.last_used_ms,
                [
                    (names.get(key[0], key[0]), attrs.astuple(each.partition), each.sent_high_watermark)
                    for key, each in session.partitions.items()
                ],
                _news(session, names) if isinstance(session, FollowerSession) else None,
            )
            for session in broker.fetches.sessions._sessions.values()
        ]
        waits = len(broker.fetches.delayed), broker.fetches.expired
        waiting = {
            key: len(found.purgatory) for key, found in broker.partitions.hosted.items() if key[0] in self.topics
        }
        return replicas, sessions, waits, waiting


def _news(session: FollowerSession, names: Mapping[Any, str]) -> Any:
    due = [names.get(topic, topic) for topic, _ in session._due]
    watched = sorted(str(names.get(topic, topic)) for topic, _ in session._watches)
    return due, watched, session.has_unread_news, session.waiting is None


@contextmanager
def opened_sides(path: Path) -> Iterator[Pair]:
    ids: dict[int, Iterator[int]] = {}

    def new_id(sessions: FetchSessions) -> int:
        return next(ids.setdefault(id(sessions), count(1000)))

    with opened_pair(path) as pair, patch.object(FetchSessions, "_new_id", new_id):
        yield pair


def create(pair: Pair, *topics: str) -> None:
    for topic in topics:
        pair.each(lambda node, topic=topic: node.create(topic))  # type: ignore[misc]
        pair.each(lambda node, topic=topic: lead(node, topic, *FOLLOWERS, isr=ALL, min_insync=2))  # type: ignore[misc]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with opened_sides(tmp_path) as opened:
        create(opened, *TOPICS)
        yield opened


@pytest.mark.parametrize("is_follower", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_requests_of_a_session_are_repeated(pair: Pair, version: int, is_follower: bool) -> None:
    session = Session(pair, version, is_follower)
    session.begin()
    for offset in range(1, 4):
        assert session.usual() == 0
        pair.each(lambda node: append(node, "a"))
        if not is_follower:
            follow(pair, "a")
        assert session.records_in(session.answered()) == {(1, ErrorCode.NONE): 1}
        assert session.usual({"a": offset}) == 0
        assert session.pass_time(WAIT_MS) != b""
    session.check()


def follow(pair: Pair, *topics: str) -> None:
    """Let both followers have all records."""
    for topic in topics:
        pair.each(lambda node, topic=topic: _follow(node, topic))  # type: ignore[misc]


def _follow(node: Node, topic: str) -> None:
    partition = node.broker.partitions.led[topic, 0]
    assert partition.replication is not None
    for follower in FOLLOWERS:
        end = partition.log.log_end_offset
        partition.replication.follower_fetched(FollowerFetch(follower, partition.leader_epoch, end))


@pytest.fixture
def session(pair: Pair) -> Session:
    begun = Session(pair)
    begun.begin()
    return begun


def test_several_partitions_with_news(session: Session) -> None:
    assert session.usual() == 0
    session.pair.each(lambda node: [append(node, topic) for topic in ("b", "a", "b")])
    assert session.records_in(session.answered()) == {(1, ErrorCode.NONE): 2}
    assert session.usual({"a": 1, "b": 2}) == 0
    session.pair.each(lambda node: append(node, "c"))
    assert session.records_in(session.answered()) == {(1, ErrorCode.NONE): 1}
    session.check()


def test_records_that_are_there_are_answered_at_once(session: Session) -> None:
    session.pair.each(lambda node: [append(node, "a", size) for size in (1, 5000, 20_000, 100_000)])
    for offset in range(4):
        assert session.records_in(session.send({"a": offset}, partition_bytes=1)) == {(1, ErrorCode.NONE): 1}
    assert session.pair.learning.usual == 2
    session.check()


def test_limits_of_the_whole_answer(session: Session) -> None:
    session.pair.each(lambda node: [append(node, topic, 3000) for topic in TOPICS for _ in range(2)])
    for _ in range(3):
        assert session.records_in(session.send(bytes=4000)) != {}
    session.check()


def test_a_follower_that_has_the_records_moves_the_high_watermark(session: Session) -> None:
    session.send()
    session.pair.each(lambda node: append(node, "a"))
    session.answered()
    session.pair.each(lambda node: confirm(node, "a"))
    assert session.usual({"a": 1}) == 0
    assert [side.node.broker.partitions.led["a", 0].log.high_watermark for side in session.pair.sides] == [1, 1]
    session.check()


def test_a_wait_for_more_bytes(pair: Pair) -> None:
    session = Session(pair, min_bytes=200)
    session.begin()
    assert session.usual() == 0
    for _ in range(2):
        pair.each(lambda node: append(node, "a"))
        assert session.answered() == b""
    pair.each(lambda node: append(node, "b"))
    assert session.records_in(session.answered()) == {(1, ErrorCode.NONE): 2}
    session.check()


def test_a_wait_whose_first_bytes_are_there(pair: Pair) -> None:
    session = Session(pair, min_bytes=100)
    session.begin()
    pair.each(lambda node: append(node, "a"))
    assert session.usual() == 0
    pair.each(lambda node: append(node, "b"))
    assert session.records_in(session.answered()) == {(1, ErrorCode.NONE): 2}
    session.check()


def test_the_end_of_the_time(session: Session) -> None:
    for _ in range(2):
        assert session.usual() == 0
        assert session.pass_time(WAIT_MS - 1) == b""
        assert session.pass_time(1) != b""
    assert session.pair.learning.node.broker.fetches.expired["follower"] == 3
    session.check()


def test_a_lost_connection(session: Session) -> None:
    session.send()
    session.pair.connect()
    session.pass_time(WAIT_MS)
    session.check()
    assert not session.pair.learning.node.broker.fetches.delayed
    assert session.pair.learning.node.broker.fetches.expired["follower"] == 1


def test_a_lost_connection_leaves_no_timer_for_long(session: Session) -> None:
    session.pair.connect()
    session.pass_time(WAIT_MS)
    session.pass_time(LOOK_MS)
    idle = [len(side.node.clock.getDelayedCalls()) for side in session.pair.sides]
    session.begin()
    session.send()
    session.pair.connect()
    session.pass_time(LOOK_MS)
    assert [len(side.node.clock.getDelayedCalls()) for side in session.pair.sides] == idle


def test_a_broker_that_stops(session: Session) -> None:
    session.send()
    session.pair.each(lambda node: node.broker.fetches.expire_all())
    assert session.answered() != b""
    session.check()


@pytest.mark.parametrize("is_follower", [True, False])
def test_another_leader(pair: Pair, is_follower: bool) -> None:
    session = Session(pair, is_follower=is_follower)
    session.begin()
    session.send()
    pair.each(lambda node: node.broker.partitions.resign(("a", 0)))
    gone = {(0, ErrorCode.NOT_LEADER_OR_FOLLOWER): 1}
    assert session.records_in(session.answered()) == gone
    assert session.records_in(session.send()) == gone
    session.check()


def test_errors_have_the_usual_answers(session: Session) -> None:
    for fields, code in (
        ({"leader_epoch": 5}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"fetched_epoch": 5}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ):
        assert session.records_in(session.send({"a": 0}, **fields)) == {(0, code): 1}
    assert session.records_in(session.send({"a": 9})) == {(0, ErrorCode.OFFSET_OUT_OF_RANGE): 1}
    assert session.pair.learning.usual == 2
    session.check()


def test_another_session_epoch_takes_the_usual_path(session: Session) -> None:
    assert session.usual(epoch=session.epoch + 1) == 1
    session.epoch -= 1
    assert session.usual() == 0
    session.check()


def test_forgotten_and_new_partitions_take_the_usual_path(session: Session) -> None:
    assert session.usual(forgotten=("a",)) == 1
    session.pass_time(WAIT_MS)
    assert session.usual({"a": 0}) == 1
    session.pass_time(WAIT_MS)
    assert session.usual({"a": 0}) == 0
    session.check()


def test_a_session_that_has_ended_takes_the_usual_path(session: Session) -> None:
    sessions = [side.node.broker.fetches.sessions for side in session.pair.sides]
    for each in sessions:
        each.end(each._sessions[session.id])
    assert session.usual() == 1
    session.begin()
    assert session.usual() == 0
    session.check()


def test_all_partitions_are_read_from_time_to_time(session: Session) -> None:
    session.pass_time(PASS_MS)
    session.pair.each(lambda node: node.broker.partitions.led["b", 0].delete_records_before(0))
    assert session.usual() == 0
    session.pass_time(WAIT_MS)
    session.check()


def test_many_partitions_are_left_to_an_operation(session: Session) -> None:
    with patch.object(operation, "PARTITIONS_INLINE_MAX", 1), patch.object(session_fetch, "PARTITIONS_INLINE_MAX", 1):
        assert session.usual() == 0
        session.pair.each(lambda node: [append(node, topic) for topic in TOPICS])
        session.pair.each(lambda node: node.clock.advance(0.01))
        assert session.records_in(session.answered()) == {(1, ErrorCode.NONE): 3}
        session.pair.each(lambda node: [append(node, topic) for topic in TOPICS])
        session.send({"a": 1})
        assert session.records_in(session.answered()) == {}
    session.check()


def test_records_that_are_not_in_the_page_cache_are_left_to_an_operation(session: Session) -> None:
    session.pair.each(lambda node: append(node, "a"))
    with patch("pylogbroker.broker.fetch.reader.read_if_cached", return_value=None):
        answer = session.send({"a": 0})
        assert session.records_in(answer + session.answered()) == {(1, ErrorCode.NONE): 1}
        assert session.usual({"a": 1}) == 0
        session.pair.each(lambda node: append(node, "a"))
        assert session.records_in(session.answered()) == {(1, ErrorCode.NONE): 1}
    session.check()


def test_a_quota_of_consumers_that_is_set_meanwhile(pair: Pair) -> None:
    session = Session(pair, is_follower=False)
    session.begin()
    assert session.usual() == 0
    pair.each(lambda node: set_quotas(node, ANYBODY, {QuotaKey.CONSUMER_BYTE_RATE: 1.0}))
    pair.each(lambda node: append(node, "a"))
    follow(pair, "a")
    session.answered()
    assert session.usual() == 1
    session.check()


def test_a_topic_that_is_deleted_meanwhile(session: Session) -> None:
    session.send()
    ids = [side.node.broker.metadata.topics["a"].id.bytes for side in session.pair.sides]
    session.pair.each(lambda node: now(node.broker.controller.delete_topic("a")))
    learning, usual = (side.receive(b"")[0] for side in session.pair.sides)
    assert learning == usual.replace(ids[1], ids[0]) != b""
    assert not session.pair.learning.node.broker.fetches.delayed


def test_committed_reads_and_nearest_replicas_are_not_learned(pair: Pair) -> None:
    session = Session(pair)
    pair.each(lambda node: object.__setattr__(node.broker.fetches, "selects_by_rack", True))
    session.begin()
    assert session.usual() == 1
    session.check()


@pytest.fixture(scope="module")
def shared_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with opened_sides(tmp_path_factory.mktemp("pair")) as opened:
        yield opened


def _resign(node: Node, topic: str) -> None:
    if (topic, 0) in node.broker.partitions.led:
        node.broker.partitions.resign((topic, 0))


def _lead_again(node: Node, topic: str) -> None:
    partitions = node.broker.partitions
    if (topic, 0) not in partitions.led:
        partitions.lead((topic, 0), partitions.hosted[topic, 0].log.latest_epoch + 1)
        lead(node, topic, *FOLLOWERS, isr=ALL, min_insync=2)


def _set_isr(node: Node, topic: str, isr: tuple[int, ...]) -> None:
    partition = node.broker.partitions.led.get((topic, 0))
    if partition is not None and partition.replication is not None:
        leadership: Any = partition.replication
        leadership.isr_altered(isr, leadership.leader.isr.partition_epoch + 1)


def _delete_records(node: Node, topic: str) -> None:
    partition = node.broker.partitions.led.get((topic, 0))
    if partition is not None:
        partition.delete_records_before(partition.log.high_watermark)


_EVENTS: dict[str, Callable[[Node, str], object]] = {
    "a record": append,
    "another record": append,
    "a large record": lambda node, topic: append(node, topic, 5000),
    "a record that is sent from its file": lambda node, topic: append(node, topic, 70_000),
    "the other follower has all": confirm,
    "the ISR shrinks": lambda node, topic: _set_isr(node, topic, (NODE_ID, FOLLOWERS[1])),
    "the ISR grows": lambda node, topic: _set_isr(node, topic, ALL),
    "another leader": _resign,
    "leader again": _lead_again,
    "records are deleted": _delete_records,
    "a part of the time": lambda node, topic: node.clock.advance(WAIT_MS / 4000),
    "the time": lambda node, topic: node.clock.advance(WAIT_MS / 1000),
    "a pass": lambda node, topic: node.clock.advance(PASS_MS / 1000),
}


@attrs.frozen
class Fetch:
    """Request of a session; `offsets` count back from the log end."""

    offsets: Mapping[int, int]
    forgotten: frozenset[int] = frozenset()
    fields: Mapping[str, int] = attrs.field(factory=dict)


_FETCHES = st.builds(
    Fetch,
    st.dictionaries(st.sampled_from(range(3)), st.sampled_from((0, 0, 0, 0, 1, 2, -1)), max_size=3),
    st.sampled_from((*(frozenset[int](),) * 9, frozenset({0}))),
    st.sampled_from(
        (*({},) * 9, {"leader_epoch": 0}, {"fetched_epoch": 0}, {"partition_bytes": 100}, {"bytes": 200}, {"epoch": 77})
    ),
)
_STEPS = st.one_of(_FETCHES, _FETCHES, st.tuples(st.sampled_from(tuple(_EVENTS)), st.sampled_from(range(3))))


@settings(max_examples=examples(300))
@given(
    st.sampled_from((7, 9, 11, 12, 13, 15, NEWEST)),
    st.booleans(),
    st.sampled_from((1, 1, 1, 200)),
    st.lists(_STEPS, min_size=3, max_size=25),
)
def test_any_requests_and_events(
    shared_pair: Pair,
    version: int,
    is_follower: bool,
    min_bytes: int,
    steps: list[Fetch | tuple[str, int]],
) -> None:
    """Each example has topics and a connection of its own."""
    pair, number = shared_pair, next(_NUMBERS)
    topics = tuple(f"{topic}{number}" for topic in TOPICS)
    create(pair, *topics)
    pair.connect()
    session = Session(pair, version, is_follower, topics, min_bytes=min_bytes)
    session.begin()
    session.check()
    for step in steps:
        if isinstance(step, Fetch):
            _fetch(session, step)
        else:
            name, topic = step
            session.after(lambda node, name=name, topic=topic: _EVENTS[name](node, topics[topic]))  # type: ignore[misc]
        session.check()
    session.pass_time(WAIT_MS)
    session.check()


def _fetch(session: Session, step: Fetch) -> None:
    """Send the request; a rejected one does not count."""
    hosted = session.pair.learning.node.broker.partitions.hosted
    offsets = {
        session.topics[number]: hosted[session.topics[number], 0].log.log_end_offset - back
        for number, back in step.offsets.items()
    }
    fields = dict(step.fields)
    if session.version < 9:
        fields.pop("leader_epoch", None)
    if session.version < _FIRST_WITH_EPOCHS:
        fields.pop("fetched_epoch", None)
    if any(side.protocol.answers_waiting for side in session.pair.sides):
        session.pass_time(WAIT_MS)
    session.send(offsets, tuple(session.topics[number] for number in step.forgotten), **fields)
    if "epoch" in fields:
        session.epoch -= 1
