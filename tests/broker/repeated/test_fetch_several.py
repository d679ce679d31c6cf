"""Fetch requests for several partitions that repeat: answers and counters are those of usual requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.broker.repeated.frames import PARTITIONS_MAX
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.nodes import Node
from tests.broker.repeated.pairs import Pair, opened_pair, set_topic
from tests.broker.repeated.test_fetch import START_MS, VERSIONS
from tests.broker.trees import now
from tests.net.fakes import frame
from tests.storage.support import batch
from tests.support.examples import examples

_FIRST_WITH_IDS = 13
_NUMBERS = count()
TOPICS = ("t", "other")


@attrs.frozen
class Part:
    """Partition of a request."""

    topic: int = 0
    index: int = 0
    offset: int = 0
    bytes: int = 1 << 20
    leader_epoch: int = -1
    fetched_epoch: int = -1


@attrs.frozen
class Asked:
    parts: tuple[Part, ...]
    bytes: int = 1 << 20
    min_bytes: int = 1
    wait_ms: int = 0
    committed: bool = False
    in_session: bool = False

    def request(self, node: Node, topics: Sequence[str], version: int) -> FetchRequest:
        asked: list[FetchTopic] = []
        last = -1
        for part in self.parts:
            name = topics[part.topic]
            if part.topic != last:
                named = {"topic": name}
                if version >= _FIRST_WITH_IDS:
                    named = {"topic_id": node.broker.metadata.topics[name].id}
                asked.append(FetchTopic(**named))
                last = part.topic
            fetched_epoch = part.fetched_epoch if version >= 12 else -1
            asked[-1].partitions.append(
                FetchPartition(part.index, part.leader_epoch, part.offset, fetched_epoch, -1, part.bytes)
            )
        request = FetchRequest(max_wait_ms=self.wait_ms, min_bytes=self.min_bytes, max_bytes=self.bytes, topics=asked)
        request.isolation_level = int(self.committed)
        if self.in_session:
            request.session_epoch = 0
        return request


def fill(node: Node, topic: str, index: int, *batches: bytes) -> None:
    partition = node.broker.partitions.find(topic, index)
    for records in batches:
        partition.append(records, START_MS)


def fetch(pair: Pair, version: int, *asked: Asked, topics: Sequence[str] = TOPICS) -> int:
    """Let both sides receive requests at once; return how many the learning one handled as usual."""
    before, answers = pair.learning.usual, []
    for side in pair.sides:
        requests = [(one.request(side.node, topics, version), version, number) for number, one in enumerate(asked)]
        answers.append(side.receive(b"".join(frame(*request) for request in requests)))
    if not any(one.in_session for one in asked):  # session ids are random
        usual, closed = answers[1]
        for topic in topics:
            learning_id, usual_id = (side.node.broker.metadata.topics[topic].id.bytes for side in pair.sides)
            usual = usual.replace(usual_id, learning_id)
        assert answers[0] == (usual, closed)
    return pair.learning.usual - before


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with opened_pair(tmp_path) as opened:
        opened.each(lambda node: node.create("t", 3))
        opened.each(lambda node: node.create("other", 1))
        for topic, index in (("t", 0), ("t", 1), ("other", 0)):
            batches = [batch([b"%d" % n * 50] * 2, [START_MS] * 2) for n in range(10)]
            opened.each(lambda node, at=(topic, index), batches=batches: fill(node, *at, *batches))  # type: ignore[misc]
        yield opened


BOTH = (Part(), Part(index=1))


@pytest.mark.parametrize("version", range(VERSIONS.first, VERSIONS.last + 1))
def test_other_partitions_and_offsets_have_the_same_form_from_version_5_on(pair: Pair, version: int) -> None:
    asked = [
        Asked(BOTH, wait_ms=100),
        Asked((Part(offset=7), Part(index=1, offset=2), Part(index=2)), wait_ms=100),
        Asked((Part(index=2), Part(index=1, offset=20), Part(1, offset=4)), wait_ms=100),
        Asked((Part(bytes=1), Part(index=1, bytes=500)), wait_ms=100),
        Asked((Part(), Part(1), Part(index=1)), wait_ms=100),
    ]
    assert fetch(pair, version, *asked) == (1 if version >= 5 else len(asked))
    pair.check(TOPICS)


def test_the_bytes_of_the_request_are_shared_in_its_order(pair: Pair) -> None:
    asked = [Asked(BOTH, bytes=limit) for limit in (1, 200, 400, 401, 2000, 4000)]
    for one in asked:
        assert fetch(pair, 12, one, one, one) == 1
    pair.check(TOPICS)


def test_large_records_are_sent_from_their_file(pair: Pair) -> None:
    for size in (5000, 16_000, 70_000):
        for index in (0, 1):
            pair.each(lambda node, at=index, size=size: fill(node, "t", at, batch([b"x" * size], [START_MS])))  # type: ignore[misc]
    parts = [(Part(offset=offset), Part(index=1, offset=offset)) for offset in (20, 21, 22)]
    for version in (11, 12, 16):
        assert fetch(pair, version, *[Asked(some) for some in parts]) == 1
        pair.connect()
    pair.check(TOPICS)


def test_unusual_requests(pair: Pair) -> None:
    unusual = [
        Asked((Part(), Part())),
        Asked((Part(), Part(index=9))),
        Asked((Part(), Part(index=1, offset=21))),
        Asked((Part(), Part(index=1, offset=-1))),
        Asked((Part(), Part(index=1, leader_epoch=5))),
        Asked((Part(), Part(index=1, fetched_epoch=0))),
        Asked((Part(offset=20), Part(index=1, offset=20)), wait_ms=1),
        Asked(BOTH, min_bytes=100_000, wait_ms=1),
    ]
    for one in unusual:
        fetch(pair, 16, Asked(BOTH))
        assert fetch(pair, 16, one) == 1, one
        pair.each(lambda node: node.clock.advance(1))
        assert fetch(pair, 16, Asked(BOTH)) == 0
        pair.connect()


def test_requests_that_are_not_learned(pair: Pair) -> None:
    for asked in (Asked(BOTH, committed=True), Asked(BOTH, in_session=True)):
        assert fetch(pair, 15, asked, asked) == 2, asked
        pair.connect()


def test_a_long_rest_of_the_request_is_not_remembered(pair: Pair) -> None:
    for version, part in ((12, BOTH), (12, BOTH[:1])):
        for side in pair.sides:
            for _ in range(2):
                request = Asked(part).request(side.node, TOPICS, version)
                request.rack_id = "r" * 2000
                side.receive(frame(request, version, 1))
        assert not len(pair.learning.protocol._headers.repeated), part


def test_the_form_keeps_no_partitions(pair: Pair) -> None:
    fetch(pair, 12, Asked(BOTH))
    [(_, form)] = pair.learning.protocol._headers.repeated._by_start.values()
    assert form._request.topics == []  # type: ignore[attr-defined]


def test_many_partitions_are_read_in_steps(pair: Pair) -> None:
    pair.each(lambda node: node.create("many", PARTITIONS_MAX + 1))
    for number, usual in ((PARTITIONS_MAX, 0), (PARTITIONS_MAX + 1, 1)):
        asked = Asked(tuple(Part(index=index) for index in range(number)))
        fetch(pair, 12, asked, topics=("many",))
        assert fetch(pair, 12, asked, topics=("many",)) == usual
    pair.check(["many"])


@pytest.mark.parametrize("version", [11, 12, 13])
def test_any_other_byte_in_the_frame(pair: Pair, version: int) -> None:
    """A changed byte makes another request, whose answer is that of a connection which knows no form."""
    asked = Asked((Part(), Part(1)))
    frames = [frame(asked.request(side.node, TOPICS, version), version, 1) for side in pair.sides]
    ids = [[side.node.broker.metadata.topics[topic].id.bytes for topic in TOPICS] for side in pair.sides]
    for at in range(4, len(frames[0])):
        for change in (0x01, 0x80, 0x02):
            answers = []
            for side, first in zip(pair.sides, frames, strict=True):
                other = bytearray(first)
                other[at] ^= change
                side.protocol.connectionLost()
                side.connect()
                sent, closed = side.receive(first + bytes(other) + first)
                for number, topic_id in enumerate(ids[pair.sides.index(side)]):
                    changed = bytearray(topic_id)
                    sent = sent.replace(topic_id, b"%16d" % number)
                    for place in range(16):
                        changed[place] ^= change
                        sent = sent.replace(bytes(changed), b"%15d!" % number)
                        changed[place] ^= change
                answers.append((sent, closed))
            assert answers[0] == answers[1], at
    pair.check(TOPICS)


@pytest.mark.parametrize("version", [11, 12])
def test_cut_frames(pair: Pair, version: int) -> None:
    first = frame(Asked((Part(), Part(1))).request(pair.learning.node, TOPICS, version), version, 1)
    for end in range(40, len(first)):
        cut = (end - 4).to_bytes(4) + first[4:end]
        pair.connect()
        learning, usual = (side.receive(first + cut) for side in pair.sides)
        assert learning == usual, end
    pair.check(TOPICS)


def test_access_that_is_taken_back(tmp_path: Path) -> None:
    patterns = [ResourcePattern(AclResourceType.TOPIC, topic) for topic in TOPICS]
    entry = AccessControlEntry("User:ANONYMOUS", "*", AclOperation.READ, AclPermission.ALLOW)
    authorizer = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    asked = Asked((Part(), Part(1)))
    with opened_pair(tmp_path, authorizer) as pair:
        for topic, pattern in zip(TOPICS, patterns, strict=True):
            pair.each(lambda node, topic=topic: node.create(topic, 1))  # type: ignore[misc]
            pair.each(lambda node, topic=topic: fill(node, topic, 0, batch([b"v"], [START_MS])))  # type: ignore[misc]
            pair.each(lambda node, at=pattern: now(node.broker.authorizer.acls.add(at, frozenset({entry}), "User:a")))  # type: ignore[misc]
        assert fetch(pair, 11, asked, asked, asked) == 1
        pair.each(lambda node: now(node.broker.authorizer.acls.remove([AclBinding(patterns[1], entry)], "User:a")))
        assert fetch(pair, 11, asked) == 1
        pair.check(TOPICS)


def test_a_topic_whose_codec_the_version_does_not_know(pair: Pair) -> None:
    assert fetch(pair, 9, Asked(BOTH), Asked(BOTH)) == 1
    pair.each(lambda node: set_topic(node, "t", compression_type="zstd"))
    assert fetch(pair, 9, Asked(BOTH)) == 1
    pair.check(TOPICS)


_PART = st.builds(
    Part,
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from((-1, *range(12), *range(12))),
    st.sampled_from((-1, 0, 1, 100, 300, *(1 << 20,) * 8)),
    st.sampled_from((*(-1,) * 20, 0, 1)),
    st.sampled_from((*(-1,) * 30, 0, 1)),
)
_ASKED = st.builds(
    Asked,
    st.one_of(
        st.lists(_PART, min_size=1, max_size=4, unique_by=lambda part: (part.topic, part.index)).map(
            lambda parts: tuple(sorted(parts, key=lambda part: part.topic))
        ),
        st.lists(_PART, max_size=4).map(tuple),
    ),
    st.sampled_from((-1, 0, 1, 100, *(1 << 20,) * 4)),
    st.sampled_from((0, 1, 1, 1, 1, 200)),
    st.sampled_from((0, 0, 5, 25)),
    st.sampled_from((*(False,) * 15, True)),
    st.just(value=False),  # session ids are random, and an answer may come later
)
_BATCH = st.builds(
    batch,
    st.lists(st.sampled_from((b"v", b"value" * 10)), min_size=1, max_size=3),
    st.just((START_MS,) * 3),
    codec=st.sampled_from((0, 0, 1)),
)
_APPEND = st.tuples(st.integers(0, 3), _BATCH)
_STEPS = st.one_of(*[st.lists(_ASKED, min_size=1, max_size=5)] * 2, _APPEND)


@pytest.fixture(scope="module")
def shared_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with opened_pair(tmp_path_factory.mktemp("pair")) as opened:
        yield opened


@settings(max_examples=examples(300))
@given(
    st.integers(VERSIONS.first, VERSIONS.last),
    st.sampled_from(({}, {}, {"segment_bytes": "300"})),
    st.lists(_APPEND, max_size=10),
    st.lists(_STEPS, min_size=1, max_size=6),
)
def test_any_requests_and_appends(
    shared_pair: Pair,
    version: int,
    setting: dict[str, str],
    appends: list[tuple[int, bytes]],
    steps: list[list[Asked] | tuple[int, bytes]],
) -> None:
    """Each example has two topics and a connection of its own."""
    pair, number = shared_pair, next(_NUMBERS)
    topics = [f"a{number}", f"b{number}"]
    for topic in topics:
        pair.each(lambda node, topic=topic: node.create(topic, 2, **setting))  # type: ignore[misc]
    pair.connect()
    for step in [*appends, *steps]:
        if isinstance(step, tuple):
            target, records = step
            topic, index = topics[target % 2], target // 2
            pair.each(lambda node, at=(topic, index), records=records: fill(node, *at, records))  # type: ignore[misc]
            fetch(pair, version, topics=topics)
        else:
            fetch(pair, version, *step, topics=topics)
        pair.each(lambda node: node.clock.advance(0.01))
    pair.each(lambda node: node.clock.advance(0.1))
    fetch(pair, version, topics=topics)
    pair.check(topics)
    for topic in topics:
        pair.each(lambda node, topic=topic: now(node.broker.controller.delete_topic(topic)))  # type: ignore[misc]
