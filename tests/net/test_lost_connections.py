"""Connections that close while a request of theirs waits: nothing is answered twice, held, or done for nobody.

A whole broker in the test's process, its connections over transports in memory, its worker threads run by hand.  Each
kind of request is closed at each of its moments: after every number of worker jobs that it takes.
"""

from __future__ import annotations

import errno
import gc
import random
from collections.abc import Callable
from contextlib import ExitStack
from math import inf
from typing import Any
from unittest.mock import patch

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.apis import (
    APIS,
    add_partitions_to_txn,
    alter_client_quotas,
    create_delegation_token,
    find_coordinator,
    init_producer_id,
    join_group,
)
from pylogbroker.broker.fetch.operation import FetchOperation
from pylogbroker.legacy07.server.connection import Legacy07Protocol
from pylogbroker.net.limits import MemoryLimit
from pylogbroker.net.protocol import KafkaProtocol
from pylogbroker.net.response_slots import ResponseSlot
from pylogbroker.records import Codec, Record, build, message_set
from pylogbroker.storage import Origin
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.wire import Request
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pylogbroker.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, QuotaAlteration
from pylogbroker.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from pylogbroker.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pylogbroker.wire.messages.describe_client_quotas import EntityData
from pylogbroker.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from pylogbroker.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from pylogbroker.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pylogbroker.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from pylogbroker.wire.messages.sync_group import SyncGroupRequest
from tests.broker.failing_disks import broken, failing
from tests.broker.member_transactions import MemberTests
from tests.broker.nodes import NodeTests
from tests.legacy07 import message_sets
from tests.net.fakes import FakeFactory, FakeTransport, frame
from tests.storage.support import NOW, batch
from tests.support.examples import examples

LARGE = random.Random(1).randbytes(200_000)
PRINCIPAL = "User:alice"


def fetch(topic: str, version: int, offset: int = 0, wait_ms: int = 0, most: int = 1 << 20, **fields: Any) -> bytes:
    wanted = FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=most)])
    return frame(FetchRequest(topics=[wanted], max_wait_ms=wait_ms, min_bytes=1, **fields), version, 1)


def produce(topic: str, *values: bytes, codec: Codec = Codec.NONE, acks: int = -1) -> bytes:
    records = build([Record(n, NOW, None, value) for n, value in enumerate(values)], codec=codec)
    data = TopicProduceData(topic, [PartitionProduceData(0, records)])
    return frame(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data]), 7, 1)


def of(request: Request, version: int) -> bytes:
    return frame(request, version, 1)


@attrs.frozen
class Kind:
    """A request that waits.  `wakes` appends to its topic after the request was sent; `cold`: nothing is cached.

    `prepare` is called before, and may return the request.
    """

    sent: bytes = b""
    prepare: Callable[[GoneTests], bytes] | None = None
    wakes: bool = False
    cold: bool = False
    simple: bool = False


LIST_OFFSETS = ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=NOW)])])
COMMIT = OffsetCommitRequest(
    "g", topics=[OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(0, committed_offset=1)])]
)
DELETE_RECORDS = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])], 1000)
CREDENTIALS = AlterUserScramCredentialsRequest(
    [], [ScramCredentialUpsertion("alice", 1, 4096, b"a salt", b"a salted password")]
)
DIRECTORIES = DescribeLogDirsRequest(topics=None)
NEW_TOKEN = CreateDelegationTokenRequest(None, None, [], -1)


def join(group: str, member_id: str = "") -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range")]
    return JoinGroupRequest(group, 10_000, 60_000, member_id, protocol_type="consumer", protocols=protocols)


def sync_of_a_follower(tests: GoneTests) -> bytes:
    """The request of a member whose leader has not sent the assignment yet."""
    node = tests.node
    group = f"s{tests.count()}"
    joins = [node.send(join_group.handle, join(group), 3) for _ in range(2)]
    node.clock.pump([3, 3])
    answers = [tests.successResultOf(each) for each in joins]
    [follower] = [each for each in answers if each.member_id != each.leader]
    return of(SyncGroupRequest(group, follower.generation_id, follower.member_id), 2)


def end_of_a_transaction(tests: GoneTests) -> bytes:
    node = tests.node
    begun = node.ask(init_producer_id.handle, InitProducerIdRequest("p", 60_000), 4)
    topics = [AddPartitionsToTxnTopic("t", [0])]
    added = AddPartitionsToTxnRequest([], "p", begun.producer_id, begun.producer_epoch, topics)
    node.ask(add_partitions_to_txn.handle, added, 3)
    return of(EndTxnRequest("p", begun.producer_id, begun.producer_epoch, True), 3)


def new_token(tests: GoneTests) -> bytes:
    """Create a token; return its HMAC."""
    made = tests.node.ask(create_delegation_token.handle, NEW_TOKEN, principal=PRINCIPAL)
    assert made.error_code == 0
    return bytes(made.hmac)


def creation(tests: GoneTests) -> bytes:
    return of(CreateTopicsRequest([CreatableTopic(f"new{tests.count()}", 3, 1)], 1000), 4)


def change_of_quotas(tests: GoneTests) -> bytes:
    quota = OpData("producer_byte_rate", 1e9 + tests.count())
    return of(AlterClientQuotasRequest([QuotaAlteration([EntityData("user", "u")], [quota])]), 1)


def renewal(tests: GoneTests) -> bytes:
    return of(RenewDelegationTokenRequest(new_token(tests), 1000), 2)


def expiry(tests: GoneTests) -> bytes:
    return of(ExpireDelegationTokenRequest(new_token(tests), -1), 2)


KINDS = {
    "a fetch that waits for records": Kind(fetch("t", 12, 2, 500)),
    "a fetch that is woken": Kind(fetch("t", 12, 2, 500), wakes=True),
    "a fetch of committed records": Kind(fetch("t", 12, 2, 500, isolation_level=1), wakes=True),
    "an old client's fetch": Kind(fetch("t", 2)),
    "an old client's fetch that is woken": Kind(fetch("t", 2, 2, 500), wakes=True),
    "a fetch of old records": Kind(fetch("old", 12)),
    "a fetch of 0.7's records": Kind(fetch("ancient", 12)),
    "a fetch from the disk": Kind(fetch("t", 12), cold=True),
    "a fetch from the disk that is woken": Kind(fetch("t", 12, 2, 500), wakes=True, cold=True),
    "an old client's fetch from the disk": Kind(fetch("t", 2), cold=True),
    "a produce that is decompressed": Kind(produce("t", LARGE, codec=Codec.GZIP)),
    "a produce that waits for a sync": Kind(produce("synced", b"v")),
    "a produce without acks that waits for both": Kind(produce("synced", LARGE, codec=Codec.GZIP, acks=0)),
    "a search for a time": Kind(of(LIST_OFFSETS, 7)),
    "a question for the directories": Kind(of(DIRECTORIES, 4)),
    "a join": Kind(of(join("g"), 3)),
    "a commit": Kind(of(COMMIT, 2)),
    "a group's coordinator": Kind(of(FindCoordinatorRequest("g"), 2)),
    "a producer's id": Kind(of(InitProducerIdRequest("p", 60_000), 4)),
    "a sync": Kind(prepare=sync_of_a_follower),
    "the end of a transaction": Kind(prepare=end_of_a_transaction),
    "a creation": Kind(prepare=creation),
    "a change of credentials": Kind(of(CREDENTIALS, 0)),
    "a look at credentials": Kind(of(DescribeUserScramCredentialsRequest(None), 0)),
    "a change of quotas": Kind(prepare=change_of_quotas),
    "a new token": Kind(of(NEW_TOKEN, 3)),
    "a look at tokens": Kind(of(DescribeDelegationTokenRequest(None), 3)),
    "a renewal of a token": Kind(prepare=renewal),
    "the expiry of a token": Kind(prepare=expiry),
    "a deletion of records": Kind(of(DELETE_RECORDS, 1)),
    "0.7's fetch": Kind(message_sets.fetch(b"ancient", 0, 0), cold=True, simple=True),
    "0.7's produce": Kind(message_sets.produce(b"ancient", 0, message_sets.wrapped([LARGE, LARGE])), simple=True),
}


def _alive() -> list[FetchOperation | ResponseSlot | KafkaProtocol]:
    return [each for each in gc.get_objects() if isinstance(each, FetchOperation | ResponseSlot | KafkaProtocol)]


def connected(
    broker: Any, memory: MemoryLimit, kind: type[KafkaProtocol] = KafkaProtocol
) -> tuple[KafkaProtocol, FakeTransport]:
    """Return a connection to a broker, and its transport."""
    factory = FakeFactory(
        APIS,
        broker.runtime.clock,
        broker,
        quotas=broker.quotas,
        memory=memory,
        deferred_actions=broker.runtime.deferred_actions,
    )
    protocol = kind("10.0.0.1")
    protocol.round_seconds = inf  # no pause
    protocol.factory = factory  # type: ignore[assignment]
    transport = FakeTransport()
    protocol.makeConnection(transport)  # type: ignore[arg-type]
    protocol._headers.identify(PRINCIPAL)
    return protocol, transport


class GoneTests(NodeTests):
    """A broker with topics of all kinds, and connections to it."""

    settings = {"delegation.token.secret.key": "the secret key"}
    counted = 0

    def setUp(self) -> None:
        gc.collect()
        self.flushLoggedErrors()  # of what other tests have left
        gc.freeze()  # objects of before are not searched again and again
        super().setUp()
        self.node.create("t")
        self.node.create("old", message_format_version="0.10.0")
        self.node.create("ancient", message_format_version="0.7")
        self.node.create("synced", flush_messages="1")
        for topic in ("t", "old", "ancient"):
            self.append(topic, LARGE)
            self.append(topic, b"v")
        for key_type in range(2):
            self.node.ask(find_coordinator.handle, FindCoordinatorRequest("g", key_type), 2)
        self.memory = MemoryLimit(1 << 30)
        self.enterContext(patch.object(EmbeddedTree, "commit", self.late(EmbeddedTree.commit)))
        self.node.threads.holding = True

    def late(self, commit: Callable[..., Any]) -> Callable[..., Deferred[Any]]:
        """Return the tree's method as a worker job: ZooKeeper answers later, too."""
        return lambda tree, operations: self.node.threads(commit, tree, operations)

    def count(self) -> int:
        """Return another number with each call."""
        self.counted += 1
        return self.counted

    def append(self, topic: str, *values: bytes) -> None:
        partition = self.node.broker.partitions.find(topic, 0)
        partition.append(partition.log.preparation.convert(batch(values), NOW), NOW, origin=Origin.CONVERTED)

    def connect(self, kind: type[KafkaProtocol] = KafkaProtocol) -> tuple[KafkaProtocol, FakeTransport]:
        return connected(self.node.broker, self.memory, kind)

    def run_one(self) -> bool:
        """Let the oldest worker job run, if there is one."""
        if self.node.threads.held:
            self.node.threads.run_one()
            return True
        return False

    def settle(self) -> None:
        """Let everything that still goes on come to its end."""
        for _ in range(100):
            self.node.clock.advance(1)
            while self.run_one():
                pass

    def assert_nothing_is_left(self) -> None:
        gc.collect()
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertEqual(self.memory.total, 0)
        self.assertEqual(len(self.node.broker.fetches.delayed), 0)
        for partition in self.node.broker.partitions.led.values():
            self.assertEqual(len(partition.purgatory), 0)
        self.assertEqual(list(map(type, _alive())), [])


def _check(kind: Kind) -> Callable[[GoneTests], None]:
    def test(self: GoneTests) -> None:
        jobs = 0
        while self.closed_after(jobs, kind):
            jobs += 1

    return test


class MomentTests(GoneTests):
    """One test for each kind of request."""

    def closed_after(self, jobs: int, kind: Kind) -> bool:
        """Close the connection after so many worker jobs; says whether the request took that many."""
        sent = kind.sent
        if kind.prepare is not None:
            self.node.threads.holding = False
            sent = kind.prepare(self)
            self.node.threads.holding = True
        with ExitStack() as stack:
            if kind.cold:
                for name in ("t", "ancient"):
                    path = self.node.broker.partitions.find(name, 0).log.path
                    stack.enter_context(broken("preadv", path, failing(errno.EAGAIN)))
            protocol, transport = self.connect(Legacy07Protocol if kind.simple else KafkaProtocol)
            protocol.dataReceived(sent)
            if kind.wakes:
                self.node.threads.holding = False
                self.append("t", b"v")
                self.node.threads.holding = True
                self.node.clock.advance(0)
            took = [self.run_one() for _ in range(jobs)]
            answered = len(transport.sent)
            protocol.connectionLost()
            del protocol
            self.settle()
        self.assertEqual(len(transport.sent), answered)
        self.assert_nothing_is_left()
        return all(took)


for _name, _kind in KINDS.items():
    setattr(MomentTests, f"test_{_name.replace(' ', '_').replace(chr(39), '')}", _check(_kind))


class RandomTests(GoneTests):
    def test_many_requests_and_random_moments(self) -> None:
        kinds = [kind for kind in KINDS.values() if kind.sent and not kind.cold]
        for seed in range(examples(30)):
            chance = random.Random(seed)
            connections: list[KafkaProtocol] = []
            for _ in range(60):
                match chance.randrange(6):
                    case 0:
                        simple = chance.random() < 0.1
                        connections.append(self.connect(Legacy07Protocol if simple else KafkaProtocol)[0])
                    case 1 | 2 if connections:
                        connection = chance.choice(connections)
                        fitting = [kind for kind in kinds if kind.simple == isinstance(connection, Legacy07Protocol)]
                        connection.dataReceived(chance.choice(fitting).sent)
                    case 3 if connections:
                        connections.pop(chance.randrange(len(connections))).connectionLost()
                    case 4:
                        self.node.clock.advance(chance.choice((0, 0.1, 1)))
                    case _:
                        self.run_one()
            for connection in connections:
                connection.connectionLost()
            connections.clear()
            connection = None  # type: ignore[assignment]
            self.settle()
            self.assert_nothing_is_left()


class QuotaTests(GoneTests):
    """Connections that a quota holds, whose next requests wait."""

    def setUp(self) -> None:
        super().setUp()
        self.node.threads.holding = False
        everybody, rate = [EntityData("user", None)], [OpData("consumer_byte_rate", 100.0)]
        request = AlterClientQuotasRequest([QuotaAlteration(everybody, rate)])
        self.node.ask(alter_client_quotas.handle, request, 1)
        self.node.threads.holding = True

    def test_a_connection_that_is_held(self) -> None:
        for seconds in (0, 0.1, 0.5, 1, 5):
            protocol, transport = self.connect()
            protocol.dataReceived(fetch("t", 12) + fetch("t", 12) + produce("synced", b"v"))
            self.settle_jobs()
            self.assertEqual(len(self.answers(transport)), 1)
            self.node.clock.advance(seconds)
            self.settle_jobs()
            protocol.connectionLost()
            answered = self.answers(transport)
            self.assertLess(len(answered), 3)
            del protocol
            self.settle()
            self.assertEqual(self.answers(transport), answered)
            self.assert_nothing_is_left()

    def settle_jobs(self) -> None:
        while self.run_one():
            pass

    def answers(self, transport: FakeTransport) -> list[bytes]:
        """Return the answers that a client got."""
        sent = b"".join(map(bytes, transport.sent))
        answers = []
        while sent:
            size = 4 + int.from_bytes(sent[:4], "big")
            answers.append(sent[:size])
            sent = sent[size:]
        return answers


class ChangeTests(GoneTests):
    """Changes continue without their connection, and count as memory in use until they are done."""

    def test_a_produce_is_finished(self) -> None:
        log = self.node.broker.partitions.find("t", 0).log
        protocol, _ = self.connect()
        sent = KINDS["a produce that is decompressed"].sent
        protocol.dataReceived(sent)
        self.assertEqual(self.memory.total, len(sent) - 4)
        protocol.connectionLost()
        self.assertEqual(self.memory.total, len(sent) - 4)
        self.assertEqual(log.log_end_offset, 2)
        self.settle()
        self.assertEqual(log.log_end_offset, 3)
        self.assertEqual(self.memory.total, 0)

    def test_a_change_that_waits_for_a_sync_completes(self) -> None:
        log = self.node.broker.partitions.find("synced", 0).log
        protocol, _ = self.connect()
        protocol.dataReceived(produce("synced", b"v"))
        protocol.connectionLost()
        self.assertEqual(log.high_watermark, 0)
        self.settle()
        self.assertEqual(log.high_watermark, 1)


class VerificationTests(MemberTests):
    def test_a_produce_that_a_coordinator_on_another_broker_verifies_is_finished(self) -> None:
        one, two = self.producer()
        one.add(("t", 1))
        broker, memory = self.cluster[2].broker, MemoryLimit(1 << 30)
        log = broker.partitions.find("t", 1).log
        gc.collect()
        before = len(_alive())
        self.cluster.hold(AddPartitionsToTxnRequest.api_key)
        protocol, transport = connected(broker, memory)
        protocol.dataReceived(of(two.request([b"x"], "t", 1), 11))
        self.cluster.run(0.1)
        self.assertGreater(memory.total, 0)
        protocol.connectionLost()
        del protocol
        self.assertEqual(log.log_end_offset, 0)
        self.cluster.release()
        self.cluster.run()
        self.assertEqual((log.log_end_offset, transport.sent), (1, []))
        gc.collect()
        self.assertEqual((self.flushLoggedErrors(), memory.total, len(_alive())), ([], 0, before))


class PreparedTests(GoneTests):
    """Answers that are prepared, or that wait for those before them, count to `queued.max.request.bytes`."""

    def test_converted_answers_count_as_memory_until_they_are_sent(self) -> None:
        protocol, transport = self.connect()
        protocol.dataReceived(fetch("t", 12, 2, 10_000) + fetch("t", 2))
        self.node.clock.advance(0)
        before = self.memory.total
        while self.run_one():
            pass
        self.assertGreater(self.memory.total - before, len(LARGE))
        self.assertEqual(transport.sent, [])
        protocol.connectionLost()
        self.assertEqual(self.memory.total, 0)

    def test_a_job_counts_the_bytes_that_it_reads(self) -> None:
        protocol, _ = self.connect()
        protocol.dataReceived(fetch("t", 2))
        self.run_one()
        self.assertGreater(self.memory.total, len(LARGE))
        protocol.connectionLost()
        self.assertEqual(self.memory.total, 0)

    def test_over_the_bound_the_connection_is_closed(self) -> None:
        self.memory.limit = 3 * len(LARGE)
        protocol, transport = self.connect()
        protocol.dataReceived(fetch("t", 12, 2, 10_000) + fetch("t", 2) * 10)
        while self.run_one():
            pass
        protocol.factory.reactor.advance(0)
        self.assertEqual(transport.closed, "at once")
        self.assertLessEqual(self.memory.total, self.memory.limit)
        protocol.connectionLost()


class StoppedJobTests(GoneTests):
    def test_a_conversion_that_nobody_waits_for_stops(self) -> None:
        """The connection closes while the worker is at its third record."""
        self.append("t", *[b"v"] * 1000)
        protocol, _ = self.connect()
        protocol.dataReceived(fetch("t", 2, 2))
        self.run_one()
        made = 0
        encode = message_set.encode_message

        def counted(*arguments: Any) -> bytes:
            nonlocal made
            made += 1
            if made == 3:
                protocol.connectionLost()
            return encode(*arguments)

        with patch.object(message_set, "encode_message", counted):
            self.run_one()
        self.assertEqual(made, 3)
        self.settle()
