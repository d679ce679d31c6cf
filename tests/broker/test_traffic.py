"""Counts of what comes into topics and goes out."""

from __future__ import annotations

from pylogbroker.broker.apis import fetch, produce
from pylogbroker.broker.partitions.traffic import TopicTraffic
from pylogbroker.errors import ErrorCode, RejectionReason
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.records import Codec, Record, build
from pylogbroker.storage import Origin
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.nodes import START, NodeTests
from tests.broker.trees import now

BATCH = bytes(build([Record(n, int(START * 1000), None, b"value") for n in range(3)]))


def records_of(count: int, *, size: int = 5, magic: int = 2, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(n, int(START * 1000), None, b"v" * size) for n in range(count)]
    return bytes(build(records, magic=magic, codec=codec))


class TrafficTests(NodeTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)

    def traffic(self, topic: str = "t") -> TopicTraffic:
        return self.node.broker.partitions.traffic.of(topic)

    def produce(self, partition: int, records: bytes = BATCH, topic: str = "t", version: int = 11) -> None:
        data = TopicProduceData(topic, [PartitionProduceData(partition, records)])
        self.node.ask(produce.handle, ProduceRequest(None, 1, 1000, [data]), version)

    def fetch(self, offset: int, topic: str = "t", version: int = 11) -> None:
        partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
        wanted = FetchTopic(topic, partitions=[partition])
        self.node.ask(fetch.handle, FetchRequest(max_wait_ms=0, min_bytes=0, topics=[wanted]), version)

    def test_appends_and_fetches_are_counted(self) -> None:
        self.produce(0)
        self.produce(1)
        self.fetch(0)
        self.fetch(3)
        traffic = self.traffic()
        assert (traffic.appends, traffic.messages_in, traffic.bytes_in) == (2, 6, 2 * len(BATCH))
        assert (traffic.fetches, traffic.bytes_out, traffic.replication_bytes_out) == (2, len(BATCH), 0)
        assert not traffic.append_errors + traffic.fetch_errors

    def test_errors_by_topic(self) -> None:
        self.produce(0, BATCH[:-1] + b"?")
        self.node.create("small", 1, max_message_bytes="10")
        self.produce(0, topic="small")
        self.fetch(99)
        self.produce(0, topic="unknown")
        self.fetch(0, topic="unknown")
        assert self.traffic().append_errors == {ErrorCode.CORRUPT_MESSAGE: 1}
        assert self.traffic().fetch_errors == {ErrorCode.OFFSET_OUT_OF_RANGE: 1}
        small = self.traffic("small")
        assert (small.append_errors, small.rejected_bytes) == ({ErrorCode.MESSAGE_TOO_LARGE: 1}, len(BATCH))
        others = self.node.broker.partitions.traffic.of_others
        assert others.append_errors == others.fetch_errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1}
        assert self.traffic().messages_in == small.messages_in == 0

    def test_rejected_records_by_reason(self) -> None:
        self.node.create("compacted", 1, cleanup_policy="compact")
        self.produce(0, topic="compacted")
        self.produce(0, (5).to_bytes(8, "big") + BATCH[8:])
        self.produce(0, bytes(build([Record(0, int(START * 1000), None, b"value")], magic=1)))
        self.produce(0, BATCH[:-1] + b"?")
        assert self.traffic("compacted").rejections == {RejectionReason.NO_KEY: 3}
        assert self.traffic().rejections == {RejectionReason.OFFSET_OR_SEQUENCE: 1, RejectionReason.MAGIC: 1}

    def test_records_of_producers_that_are_converted(self) -> None:
        self.node.create("zipped", 1, compression_type="gzip")
        self.produce(0)
        costs = self.node.broker.partitions.traffic.conversion_costs.produce
        assert (self.traffic().produce_conversions, costs.sizes.sum, costs.times_ns.sum) == (0, 0, 0)
        self.produce(0, records_of(3, magic=1), version=2)
        self.produce(0, topic="zipped")
        self.produce(0, records_of(5, size=10_000), topic="zipped")  # in a worker thread, once
        self.produce(0, records_of(2, codec=Codec.GZIP), topic="zipped")
        assert self.traffic().produce_conversions == 3
        assert self.traffic("zipped").produce_conversions == 3 + 5
        assert sum(costs.times_ns.buckets) == sum(costs.sizes.buckets) == 3
        assert costs.times_ns.sum > 0
        stored = [self.node.broker.partitions.find(topic, 0).traffic.bytes_in for topic in ("t", "zipped")]
        assert 0 < costs.sizes.sum < sum(stored)

    def test_formats_of_the_topic_are_not_conversions(self) -> None:
        self.node.create("old", 1, message_format_version="0.10.0")
        self.produce(0, records_of(3, magic=1), topic="old", version=2)
        self.produce(0, records_of(3, magic=1, codec=Codec.GZIP), topic="old", version=2)
        assert self.traffic("old").produce_conversions == 0
        self.produce(0, topic="old")
        assert self.traffic("old").produce_conversions == 3

    def test_records_of_the_broker_are_not_conversions(self) -> None:
        self.node.create("zipped", 1, compression_type="gzip")
        now_ms = self.node.broker.runtime.now_ms()
        self.node.broker.partitions.find("zipped", 0).append(BATCH, now_ms, Origin.COORDINATOR)
        assert self.traffic("zipped").produce_conversions == 0

    def test_records_that_are_converted_for_consumers(self) -> None:
        self.node.create("old", 1, message_format_version="0.10.0")
        self.produce(0)
        self.produce(0, records_of(4, magic=1), topic="old", version=2)
        self.produce(0, records_of(2, magic=1, codec=Codec.GZIP), topic="old", version=2)
        self.fetch(0)
        self.fetch(0, "old", version=4)
        costs = self.node.broker.partitions.traffic.conversion_costs.fetch
        assert (self.traffic().fetch_conversions, self.traffic("old").fetch_conversions, costs.sizes.sum) == (0, 0, 0)
        self.fetch(1, version=3)
        assert self.traffic().fetch_conversions == 2
        for _ in range(2):  # the second finds converted pieces
            self.fetch(0, "old", version=12)
        assert self.traffic("old").fetch_conversions == 6
        assert sum(costs.times_ns.buckets) == sum(costs.sizes.buckets) == 2
        assert costs.times_ns.sum > 0
        sent = [self.traffic(topic).bytes_out for topic in ("t", "old")]
        assert 0 < costs.sizes.sum < sum(sent)

    def test_fetches_that_wait_for_their_whole_time(self) -> None:
        partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic("t", partitions=[partition])])
        waiting = self.node.send(fetch.handle, request, 11)
        self.node.clock.advance(0.4)
        expired = self.node.broker.fetches.expired
        assert not expired
        self.node.clock.advance(0.2)
        assert expired == {"consumer": 1}
        self.successResultOf(waiting)

    def test_a_deleted_topic_stays_in_the_totals(self) -> None:
        self.produce(0, records_of(2))
        self.produce(0, records_of(1, magic=1), version=2)
        now(self.node.broker.controller.delete_topic("t"))
        traffic = self.node.broker.partitions.traffic
        assert "t" not in traffic.topics
        assert traffic.of_others.messages_in == 3
        assert traffic.of_others.produce_conversions == 1
        now(self.node.broker.controller.create_topic(NewTopic("t", 1, 1)))
        assert self.traffic().messages_in == 0
        assert self.traffic().partitions == 1

    def test_partitions_that_go_offline_leave(self) -> None:
        self.produce(0)
        partitions = self.node.broker.partitions
        partitions.directory_failed(self.node.directories[0], "a broken disk")
        assert partitions.traffic.topics == {}
        assert partitions.traffic.of_others.messages_in == 3
