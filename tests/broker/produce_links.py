"""Leader of a topic whose other replica is in the test's hands, and connections in memory to it."""

from __future__ import annotations

from collections import deque
from typing import Any

from pylogbroker.broker.apis import produce
from pylogbroker.broker.replication.leadership import Leadership
from pylogbroker.broker.requests.api import Api
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import PartitionState, TopicImage
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.replication import FollowerFetch
from pylogbroker.wire import decode_response_header, response_codec
from pylogbroker.wire.frame_splitter import FrameSplitter
from pylogbroker.wire.messages.fetch import EpochEndOffset, PartitionData
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.nodes import NODE_ID
from tests.broker.replicas import OTHER, TOPIC_ID, ReplicaTests
from tests.broker.trees import now
from tests.net.fakes import FakeFactory, connect, frame
from tests.storage.support import bytes_on_disk, records_in

PARTITIONS = 2
PRODUCER_ID = 4000
_VERSION = 8
_TIMEOUT_MS = 1000


class Link:
    """A connection whose peer gets answers one by one."""

    def __init__(self, leader: ReplicaTests) -> None:
        factory = FakeFactory((Api.of(ProduceRequest, produce.handle),), services=leader.node.broker)
        self._protocol, self._transport = connect(factory)
        self._splitter = FrameSplitter(1 << 20)
        self._sent: deque[bytes] = deque()
        self._answers: deque[Any] = deque()

    def send(self, correlation_id: int, batches: dict[int, bytes], acks: int = -1) -> None:
        data = [PartitionProduceData(index, batch) for index, batch in batches.items()]
        request = ProduceRequest(None, acks, _TIMEOUT_MS, [TopicProduceData("t", data)])
        self._sent.append(frame(request, _VERSION, correlation_id))

    def deliver(self) -> None:
        """Let the broker receive the next request."""
        if self._sent:
            self._protocol.dataReceived(self._sent.popleft())

    def answer(self) -> tuple[int, dict[int, ErrorCode]] | None:
        """Return correlation id and codes of the next answer, if the broker has sent one."""
        sent, self._transport.sent = self._transport.sent, []
        for data in self._splitter.split(b"".join(map(bytes, sent))):
            correlation_id, position = decode_response_header(data, ProduceRequest.api_key, _VERSION)
            response: Any = response_codec(ProduceRequest.api_key, _VERSION).decode(data, position)
            [topic] = response.responses
            codes = {each.index: ErrorCode(each.error_code) for each in topic.partition_responses}
            self._answers.append((correlation_id, codes))
        return self._answers.popleft() if self._answers else None

    def lose(self) -> None:
        self._protocol.connectionLost()


class LeaderTests(ReplicaTests):
    """The broker of the test leads all partitions, or OTHER does, which has what it has fetched."""

    __test__ = False
    partition_count = PARTITIONS

    def runTest(self) -> None:
        """Let the class be used without a test of its own."""

    def setUp(self) -> None:
        super().setUp()
        self.order(NODE_ID)
        self.epochs = [0] * PARTITIONS
        self.versions = [0] * PARTITIONS
        self.fetched = [0] * PARTITIONS
        self.isr: list[tuple[int, ...]] = [(NODE_ID, OTHER)] * PARTITIONS
        self.leads = [True] * PARTITIONS
        for index in range(PARTITIONS):
            self.partitions.hosted["t", index].set_min_insync_replicas(2, 2)

    def _apply(self, index: int) -> None:
        self.versions[index] += 1
        leader = NODE_ID if self.leads[index] else OTHER
        state = PartitionState(leader, (NODE_ID, OTHER), self.isr[index], self.epochs[index], self.versions[index])
        topic = TopicImage("t", TOPIC_ID, PersistentMap({index: state}))
        assert now(self.replicas.apply(topic, {index}, {})) == {}

    def shrink(self, index: int) -> None:
        """Take OTHER out of the ISR."""
        if self.leads[index] and len(self.isr[index]) == 2:
            self.isr[index] = (NODE_ID,)
            self._alter(index)

    def expand(self, index: int) -> None:
        """Let OTHER fetch everything, and take it into the ISR."""
        if self.leads[index] and len(self.isr[index]) == 1:
            self.replicate(index)
            self.isr[index] = (NODE_ID, OTHER)
            self._alter(index)

    def _alter(self, index: int) -> None:
        self.versions[index] += 1
        leadership: Any = self.partitions.hosted["t", index].replication
        assert isinstance(leadership, Leadership)
        leadership.isr_altered(self.isr[index], self.versions[index])

    def replicate(self, index: int) -> None:
        """Let OTHER fetch what there is."""
        if self.leads[index]:
            partition = self.partitions.led["t", index]
            self.fetched[index] = partition.log.log_end_offset
            assert partition.replication is not None
            fetch = FollowerFetch(OTHER, partition.leader_epoch, self.fetched[index], log_start_offset=0)
            partition.replication.follower_fetched(fetch)

    def leave(self, index: int) -> None:
        """Let OTHER lead: what it has not fetched is cut off here."""
        if self.leads[index] and len(self.isr[index]) == 2:
            self.leads[index] = False
            self.epochs[index] += 1
            epoch = self.partitions.led["t", index].leader_epoch
            self._apply(index)
            following: Any = self.partitions.hosted["t", index].followed
            end = EpochEndOffset(epoch, self.fetched[index])
            following.fetched(following.next_request(), PartitionData(index, 0, 0, diverging_epoch=end))

    def come_back(self, index: int) -> None:
        """Let the broker of the test lead again."""
        if not self.leads[index]:
            self.leads[index] = True
            self.epochs[index] += 1
            self._apply(index)

    def expire(self) -> None:
        """Let requests time out."""
        self.node.clock.advance(_TIMEOUT_MS / 1000)

    def stored(self, index: int) -> list[bytes]:
        path = self.partitions.hosted["t", index].log.path
        return [value for _, value in records_in(bytes_on_disk(path))]
