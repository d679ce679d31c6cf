"""Producers keep working beside a broker that serves clients before it knows a topic."""

from __future__ import annotations

from typing import Final

from pylogbroker.errors import ErrorCode
from pylogbroker.records.batch import HEADER_V2
from pylogbroker.testing import Broker
from pylogbroker.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from pylogbroker.wire.messages.produce import ProduceRequest
from tests.crash.history import Promise
from tests.crash.stamps import Stamp
from tests.crash.workloads.senders import BATCH_RECORDS, Sender, confluent_beside_apache
from tests.support.waiting import wait_until

WAIT_SECONDS_MAX: Final = 60.0
TOPIC: Final = "orders"
RECORD_BYTES: Final = 1000
UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
#: Answer of a broker of Apache Kafka before its controller has sent it the metadata.
EMPTY: Final = MetadataResponse(topics=[MetadataResponseTopic(UNKNOWN, TOPIC)])


def test_a_topic_stays_that_a_broker_does_not_know_yet() -> None:
    with Broker() as broker:
        broker.create_topic(TOPIC)
        sender = confluent_beside_apache(broker.bootstrap, Promise.ONCE, "all", "none")
        assert deliver(sender, 0) == (0, "")
        broker.faults.add("Produce", error=UNKNOWN)
        with broker.faults.add("Metadata", answer=EMPTY, topic=TOPIC, must_fire=True):
            assert deliver(sender, 1) == (1, "")
        assert deliver(sender, 2) == (2, "")
        sender.close(WAIT_SECONDS_MAX)


def test_batches_are_limited_by_records_alone() -> None:
    """Their bytes depend on the version of Produce."""
    with Broker() as broker:
        broker.create_topic(TOPIC)
        sender = confluent_beside_apache(broker.bootstrap, Promise.ONCE, "all", "none")
        produced = broker.faults.watch("Produce")
        with broker.faults.add("InitProducerId", hold=True):  # all records are there first
            for sequence in range(2 * BATCH_RECORDS):
                sender.send(Stamp("test", TOPIC, 0, sequence), "x" * RECORD_BYTES, lambda offset, failure: None)
        sender.close(WAIT_SECONDS_MAX)
        assert [records_in(seen.request) for seen in produced.seen] == [BATCH_RECORDS, BATCH_RECORDS]


def records_in(request: ProduceRequest) -> int:
    """Return the number of records in the only batch, which its header ends with."""
    [topic] = request.topic_data
    [partition] = topic.partition_data
    count: int = HEADER_V2.unpack_from(partition.records or b"")[-1]
    return count


def deliver(sender: Sender, sequence: int) -> tuple[int | None, str]:
    """Send a record; return its offset, and why it failed."""
    found: list[tuple[int | None, str]] = []

    def has_ended() -> bool:
        sender.work(0.01)
        return bool(found)

    sender.send(Stamp("test", TOPIC, 0, sequence), "", lambda offset, failure: found.append((offset, failure)))
    wait_until(has_ended, WAIT_SECONDS_MAX)
    return found[0]
