"""Fetch requests that repeat: answers and counters are those of usual requests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylogbroker.broker.apis import APIS
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from pylogbroker.security.quotas.entities import QuotaEntity
from pylogbroker.security.quotas.keys import QuotaKey
from pylogbroker.storage import Origin
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.broker.nodes import Node
from tests.broker.repeated.pairs import Pair, opened_pair, set_topic
from tests.broker.security.quota_clients import ANYBODY, set_quotas
from tests.broker.test_fetch import emptied
from tests.broker.trees import now
from tests.net.fakes import frame
from tests.storage.support import batch
from tests.support.examples import examples

START_MS = 1_700_000_000_000
[VERSIONS] = (api.versions for api in APIS if api.name == "Fetch")
_FIRST_WITH_IDS = 13
_NUMBERS = count()
_RARELY = (*(False,) * 15, True)


@attrs.frozen
class Asked:
    """A fetch of one partition, or of two."""

    offset: int = 0
    partition_bytes: int = 1 << 20
    bytes: int = 1 << 20
    min_bytes: int = 1
    wait_ms: int = 0
    committed: bool = False
    in_session: bool = False
    of_follower: bool = False
    two: bool = False
    leader_epoch: int = -1
    fetched_epoch: int = -1
    rack: str = ""

    def request(self, node: Node, topic: str, version: int) -> FetchRequest:
        topic_id = node.broker.metadata.topics[topic].id
        partitions = [
            FetchPartition(
                index,
                self.leader_epoch,
                self.offset,
                self.fetched_epoch if version >= 12 else -1,
                -1,
                self.partition_bytes,
            )
            for index in range(1 + self.two)
        ]
        replica = 99 if self.of_follower else -1
        named = {"topic_id": topic_id} if version >= _FIRST_WITH_IDS else {"topic": topic}
        return FetchRequest(
            None,
            replica if version < 15 else -1,
            ReplicaState(replica if version >= 15 else -1, -1),
            self.wait_ms,
            self.min_bytes,
            self.bytes,
            int(self.committed),
            0,
            0 if self.in_session else -1,
            [FetchTopic(**named, partitions=partitions)],
            [],
            self.rack,
        )


def fill(node: Node, topic: str, *batches: bytes) -> None:
    partition = node.broker.partitions.find(topic, 0)
    for records in batches:
        partition.append(records, START_MS)


def fetch(pair: Pair, version: int, *asked: Asked, topic: str = "t") -> int:
    """Let both sides receive requests at once; return how many the learning one handled as usual.

    Session ids are random, so answers in sessions are not compared.
    """
    before, answers = pair.learning.usual, []
    for side in pair.sides:
        requests = [(one.request(side.node, topic, version), version, number) for number, one in enumerate(asked)]
        answers.append(side.receive(b"".join(frame(*request) for request in requests)))
    if not any(one.in_session for one in asked):
        ids = [side.node.broker.metadata.topics[topic].id.bytes for side in pair.sides]
        assert answers[0] == (answers[1][0].replace(ids[1], ids[0]), answers[1][1])
    return pair.learning.usual - before


def answered(pair: Pair) -> bytes:
    """Return what both sides have answered meanwhile."""
    return pair.receive()[0]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with opened_pair(tmp_path) as opened:
        opened.each(lambda node: node.create("t", 2))
        opened.each(lambda node: fill(node, "t", *(batch([b"%d" % n * 50] * 2, [START_MS] * 2) for n in range(20))))
        yield opened


@pytest.mark.parametrize("version", range(VERSIONS.first, VERSIONS.last + 1))
def test_fetches_at_other_offsets_are_repeated_from_version_5_on(pair: Pair, version: int) -> None:
    asked = [Asked(offset, 500, wait_ms=100) for offset in (0, 0, 2, 7, 30, 38)]
    assert fetch(pair, version, *asked) == (1 if version >= 5 else len(asked))
    pair.check(["t"])


def test_sizes_of_records(pair: Pair) -> None:
    for size in (1, 50, 100, 5000, 16_000, 70_000):
        pair.each(lambda node, size=size: fill(node, "t", batch([b"x" * size], [START_MS])))  # type: ignore[misc]
    assert fetch(pair, 11, *[Asked(offset, 1) for offset in range(40, 46)]) == 1
    assert fetch(pair, 12, *[Asked(offset, 1) for offset in range(40, 46)]) == 1
    assert fetch(pair, 16, *[Asked(offset) for offset in range(40, 46)]) == 1
    pair.check(["t"])


def test_other_fetches_are_not_learned(pair: Pair) -> None:
    for asked in (
        Asked(committed=True),
        Asked(in_session=True),
        Asked(of_follower=True),
        Asked(99),
        Asked(fetched_epoch=0),
    ):
        assert fetch(pair, 15, asked, asked) == 2, asked
        pair.connect()


END = 40
VALUE = batch([b"new"], [START_MS])


def appended(pair: Pair, *batches: bytes) -> None:
    pair.each(lambda node: fill(node, "t", *(batches or (VALUE,))))


def waits(pair: Pair, *asked: Asked, version: int = 11) -> None:
    """Let a connection learn a form, and then wait with it."""
    [one] = asked or (Asked(END, wait_ms=500),)
    fetch(pair, version, attrs.evolve(one, offset=30, min_bytes=min(one.min_bytes, 1)))
    assert fetch(pair, version, attrs.evolve(one, offset=30, min_bytes=min(one.min_bytes, 1))) == 0
    if one.min_bytes > 1:
        fetch(pair, version, attrs.evolve(one, offset=0))
    assert fetch(pair, version, one) == 0
    assert answered(pair) == b""
    assert len(pair.learning.node.broker.fetches.delayed) == 1


def nothing_is_left(pair: Pair) -> None:
    for side in pair.sides:
        broker = side.node.broker
        assert not broker.fetches.delayed
        assert not any(len(partition.purgatory) for partition in broker.partitions.hosted.values())
        functions = {getattr(call.func, "__name__", "") for call in side.node.clock.getDelayedCalls()}
        assert "_time_out" not in functions
    expired = [side.node.broker.fetches.expired for side in pair.sides]
    assert expired[0] == expired[1]
    pair.check(["t"])


@pytest.mark.parametrize("version", [5, 11, 12])
def test_a_wait_at_the_end_of_the_log_is_answered_by_the_next_append(pair: Pair, version: int) -> None:
    waits(pair, version=version)
    appended(pair)
    assert b"new" in answered(pair)
    assert fetch(pair, version, Asked(END + 1, wait_ms=500)) == 0
    appended(pair, VALUE, VALUE)
    assert answered(pair).count(b"new") == 2
    nothing_is_left(pair)


def test_an_answer_that_had_to_wait_is_learned_from(pair: Pair) -> None:
    assert fetch(pair, 11, Asked(END, wait_ms=500)) == 1
    appended(pair)
    assert answered(pair)
    assert fetch(pair, 11, Asked(END + 1, wait_ms=500), Asked(END + 1, wait_ms=500)) == 1  # only one can wait
    appended(pair)
    assert answered(pair).count(b"new") == 2
    nothing_is_left(pair)


def test_a_wait_for_more_bytes(pair: Pair) -> None:
    waits(pair, Asked(END, min_bytes=200, wait_ms=500))
    appended(pair)
    appended(pair)
    assert answered(pair) == b""
    appended(pair)
    assert answered(pair).count(b"new") == 3
    nothing_is_left(pair)


def test_the_end_of_the_time(pair: Pair) -> None:
    waits(pair, Asked(END, min_bytes=200, wait_ms=500))
    appended(pair)
    pair.each(lambda node: node.clock.advance(0.499))
    assert answered(pair) == b""
    pair.each(lambda node: node.clock.advance(0.001))
    assert b"new" in answered(pair)
    nothing_is_left(pair)
    assert pair.learning.node.broker.fetches.expired["consumer"] == 1


def test_a_lost_connection(pair: Pair) -> None:
    waits(pair)
    pair.connect()
    nothing_is_left(pair)


def test_a_broker_that_stops(pair: Pair) -> None:
    waits(pair)
    pair.each(lambda node: node.broker.fetches.expire_all())
    assert answered(pair)
    nothing_is_left(pair)


def test_a_partition_that_is_deleted_meanwhile(pair: Pair) -> None:
    waits(pair)
    pair.each(lambda node: now(node.broker.controller.delete_topic("t")))
    assert answered(pair)
    assert not pair.learning.node.broker.fetches.delayed


def test_another_leader_epoch_meanwhile(pair: Pair) -> None:
    waits(pair, Asked(END, wait_ms=500, leader_epoch=0))
    pair.each(lambda node: setattr(node.broker.partitions.led["t", 0], "leader_epoch", 1))
    appended(pair)
    assert b"new" not in answered(pair)
    nothing_is_left(pair)


def test_a_quota_that_is_set_meanwhile(pair: Pair) -> None:
    waits(pair)
    pair.each(lambda node: set_quotas(node, ANYBODY, {QuotaKey.CONSUMER_BYTE_RATE: 1.0}))
    appended(pair)
    assert answered(pair)
    pair.check(["t"])


def test_emptied_batches_are_passed_over_as_usual(pair: Pair) -> None:
    small = Asked(30, 61)
    assert fetch(pair, 11, small, small) == 1
    for offset in (END, END + 1):
        pair.each(lambda node, offset=offset: append_emptied(node, offset))  # type: ignore[misc]
    appended(pair)
    assert fetch(pair, 11, attrs.evolve(small, offset=END), attrs.evolve(small, offset=END + 1)) == 2
    pair.check(["t"])


def append_emptied(node: Node, offset: int) -> None:
    partition = node.broker.partitions.led["t", 0]
    partition.append(emptied(offset), START_MS, Origin.REPLICATION)


def test_offsets_outside_of_the_log_and_too_few_bytes_take_the_usual_path(pair: Pair) -> None:
    assert fetch(pair, 11, Asked(0), Asked(END + 1), Asked(-1)) == 3
    assert fetch(pair, 11, Asked(0, min_bytes=1000, wait_ms=5), Asked(36, min_bytes=1000, wait_ms=5)) == 2
    pair.each(lambda node: node.clock.advance(1))
    answered(pair)
    nothing_is_left(pair)


def test_a_new_leader_epoch(pair: Pair) -> None:
    fenced = Asked(0, leader_epoch=0)
    assert fetch(pair, 11, fenced, fenced) == 1
    pair.each(lambda node: setattr(node.broker.partitions.led["t", 0], "leader_epoch", 1))
    assert fetch(pair, 11, fenced, fenced) == 2
    pair.check(["t"])


class Followed:
    """A replica that follows a leader, and has all that consumers ask for."""

    def check_read(self, offset: int) -> None:
        pass


def test_a_follower_does_not_learn(pair: Pair) -> None:
    pair.each(lambda node: setattr(node.broker.partitions.led["t", 0], "followed", Followed()))
    assert fetch(pair, 11, Asked(), Asked()) == 2
    pair.check(["t"])


def test_a_topic_that_is_created_again(pair: Pair) -> None:
    assert fetch(pair, 11, Asked(), Asked()) == 1
    pair.each(lambda node: now(node.broker.controller.delete_topic("t")))
    pair.each(lambda node: node.create("t", 1))
    pair.each(lambda node: fill(node, "t", batch([b"new"], [START_MS])))
    assert fetch(pair, 11, Asked(), Asked()) == 1
    pair.check(["t"])


def test_a_topic_whose_codec_the_version_does_not_know(pair: Pair) -> None:
    assert fetch(pair, 9, Asked(), Asked()) == 1
    pair.each(lambda node: set_topic(node, "t", compression_type="zstd"))
    assert fetch(pair, 9, Asked(), Asked()) == 2
    pair.check(["t"])


def test_deleted_records(pair: Pair) -> None:
    assert fetch(pair, 11, Asked(), Asked()) == 1
    pair.each(lambda node: node.broker.partitions.led["t", 0].delete_records_before(10))
    assert fetch(pair, 11, Asked(), Asked(10), Asked(9)) == 2
    pair.check(["t"])


def test_an_offline_log(pair: Pair) -> None:
    assert fetch(pair, 11, Asked(), Asked()) == 1
    pair.each(lambda node: node.broker.partitions.led["t", 0].log.take_offline("the disk is gone"))
    fetch(pair, 11, Asked(), Asked(40))
    pair.check(["t"])


def test_any_other_byte_in_the_frame(pair: Pair) -> None:
    """A changed byte makes another request, whose answer is that of a connection which knows no form."""
    first = frame(Asked().request(pair.learning.node, "t", 12), 12, 1)
    for at in range(4, len(first)):
        other = bytearray(first)
        other[at] ^= 0x01
        pair.connect()
        learning, usual = (side.receive(first + bytes(other) + first) for side in pair.sides)
        assert learning == usual, at
    for end in range(5, len(first)):
        cut = (end - 4).to_bytes(4) + first[4:end]
        pair.connect()
        learning, usual = (side.receive(first + cut) for side in pair.sides)
        assert learning == usual, end
    pair.check(["t"])


def test_quotas_are_measured_as_usual(pair: Pair) -> None:
    assert fetch(pair, 11, Asked(), Asked()) == 1
    pair.each(lambda node: set_quotas(node, ANYBODY, {QuotaKey.CONSUMER_BYTE_RATE: 100.0}))
    assert fetch(pair, 11, Asked()) == 1
    pair.check(["t"])


def test_quotas_of_other_clients_change_nothing(pair: Pair) -> None:
    waits = Asked(40, wait_ms=500)
    assert fetch(pair, 11, Asked(), Asked()) == 1
    pair.each(lambda node: set_quotas(node, QuotaEntity(None, "others"), {QuotaKey.CONSUMER_BYTE_RATE: 1.0}))
    assert fetch(pair, 11, Asked()) == 0
    assert fetch(pair, 11, waits) == 1
    pair.each(lambda node: node.clock.advance(0.5))
    assert answered(pair)
    assert fetch(pair, 11, waits) == 0
    pair.each(lambda node: fill(node, "t", batch([b"v"], [START_MS])))
    assert answered(pair)
    pair.check(["t"])


def test_access_that_is_taken_back(tmp_path: Path) -> None:
    topic = ResourcePattern(AclResourceType.TOPIC, "t")
    entry = AccessControlEntry("User:ANONYMOUS", "*", AclOperation.READ, AclPermission.ALLOW)
    authorizer = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with opened_pair(tmp_path, authorizer) as pair:
        pair.each(lambda node: node.create("t", 1))
        pair.each(lambda node: fill(node, "t", batch([b"v"], [START_MS])))
        assert fetch(pair, 11, Asked(), Asked()) == 2
        pair.each(lambda node: now(node.broker.authorizer.acls.add(topic, frozenset({entry}), "User:admin")))
        assert fetch(pair, 11, Asked(), Asked(), Asked()) == 1
        assert fetch(pair, 11, Asked(1, wait_ms=500)) == 1
        appended(pair)
        assert answered(pair)
        assert fetch(pair, 11, Asked(2, wait_ms=500)) == 0
        pair.each(lambda node: now(node.broker.authorizer.acls.remove([AclBinding(topic, entry)], "User:admin")))
        appended(pair)
        assert b"new" not in answered(pair)
        assert fetch(pair, 11, Asked(), Asked()) == 2
        pair.check(["t"])


_ASKED = st.builds(
    Asked,
    st.integers(-1, 24),
    st.sampled_from((-1, 0, 1, 100, 300, *(1 << 20,) * 4)),
    st.sampled_from((-1, 0, 1, 100, *(1 << 20,) * 4)),
    st.sampled_from((0, 1, 1, 1, 1, 200)),
    st.sampled_from((0, 0, 5, 25, 25)),
    st.sampled_from(_RARELY),
    st.just(value=False),
    st.sampled_from(_RARELY),
    st.sampled_from(_RARELY),
    st.sampled_from((*(-1,) * 10, 0, 1)),
    st.sampled_from((*(-1,) * 15, 0, 1)),
    st.sampled_from(("", "", "", "r1")),
)
_BATCH = st.builds(
    batch,
    st.lists(st.sampled_from((b"v", b"value" * 10)), min_size=1, max_size=3),
    st.just((START_MS,) * 3),
    codec=st.sampled_from((0, 0, 1)),
)
_STEPS = st.one_of(st.lists(_ASKED, min_size=1, max_size=5), st.lists(_ASKED, min_size=1, max_size=5), _BATCH)


@pytest.fixture(scope="module")
def shared_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with opened_pair(tmp_path_factory.mktemp("pair")) as opened:
        yield opened


@settings(max_examples=examples(400))
@given(
    st.integers(VERSIONS.first, VERSIONS.last),
    st.sampled_from(({}, {}, {"segment_bytes": "300"}, {"index_interval_bytes": "0"})),
    st.lists(_BATCH, max_size=8),
    st.lists(_STEPS, min_size=1, max_size=8),
)
def test_any_requests_and_appends(
    shared_pair: Pair, version: int, setting: dict[str, str], batches: list[bytes], steps: list[list[Asked] | bytes]
) -> None:
    """Each example has a topic and a connection of its own."""
    pair, topic = shared_pair, f"t{next(_NUMBERS)}"
    pair.each(lambda node: node.create(topic, 2, **setting))
    pair.each(lambda node: fill(node, topic, *batches))
    pair.connect()
    for step in steps:
        if isinstance(step, bytes):
            pair.each(lambda node, step=step: fill(node, topic, step))  # type: ignore[misc]
            fetch(pair, version, topic=topic)
        else:
            fetch(pair, version, *step, topic=topic)
        pair.each(lambda node: node.clock.advance(0.01))
    pair.each(lambda node: node.clock.advance(0.1))
    fetch(pair, version, topic=topic)
    pair.check([topic])
    pair.each(lambda node: now(node.broker.controller.delete_topic(topic)))
