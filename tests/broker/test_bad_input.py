"""Producers that claim what is not so: the error that Kafka gives, nothing appended, nothing left behind.

`--against kafka` checks the table against Kafka's answers. They differ from ours where Kafka would store records
that not all of its clients can read, and where it fails on what it rejects.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)

from pylogbroker.errors import ErrorCode
from tests.clients.admin import create_topic, eventually
from tests.clients.stored_batches import ask, settled
from tests.support.bad_batches import batch, batches, bombs, good
from tests.support.broker_process import BrokerProcess
from tests.support.brokers import Broker

NONE, INVALID, CORRUPT = ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE
UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR
NOT_ALLOWED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
OUT_OF_ORDER, OLD_EPOCH = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH
LATEST = -1

CODECS = ("gzip", "snappy", "lz4", "zstd")
COMPRESSED = ("gzip", "lz4")

#: what Kafka 3.9.2 answers; whatever is not here is INVALID_RECORD
KAFKA: dict[str, ErrorCode] = {
    **dict.fromkeys(
        [
            "a cut off second batch",
            "a few bytes behind the batch",
            "gzip: noise behind",
            "gzip: zeros behind",
            "lz4: noise behind",
            "lz4: zeros behind",
            "lz4: itself twice",
            "snappy: without Java's frames",
            "append time",
            "a delete horizon",
            "attributes that do not exist",
            "a producer without an epoch",
            "an epoch without a producer",
            "a sequence number without a producer",
            "a producer below -1",
            "a max timestamp before its records",
            "no max timestamp",
            "a max timestamp after its records",
            "no first timestamp",
            "a first timestamp below -1",
            "gzip: one record of half a GiB",
            "zstd: one record of half a GiB",
            *(
                f"{codec}: {what}"
                for codec in COMPRESSED
                for what in (
                    "the first record is longer than the batch",
                    "the last record is longer than the batch",
                    "a record is shorter than its fields",
                )
            ),
            *(
                codec + what
                for codec in ("", *(f"{codec}: " for codec in COMPRESSED))
                for what in (
                    "attributes in a record",
                    "a header value of length -2",
                    "a header key that is not UTF-8",
                    "a null key of length -2",
                    "a null value of length -2",
                    "a time before the first",
                    "a time of more than 64 bits",
                )
            ),
        ],
        NONE,
    ),
    **dict.fromkeys(
        [
            "seventeen zeros behind the batch",
            "a wrong crc",
            "a length too short by one",
            "a length below the smallest",
            "a length of zero",
            "a negative length",
            "magic 3",
            "magic -1",
        ],
        CORRUPT,
    ),
    **dict.fromkeys(
        [
            *(f"{codec}: {what}" for codec in CODECS for what in ("cut off", "one byte alone", "uncompressed records")),
            *(f"{codec}: nothing" for codec in ("gzip", "snappy", "lz4")),
            *(f"{codec}: {what}" for codec in ("snappy", "zstd") for what in ("noise", "zeros")),
            *(f"{codec}: {what} behind" for codec in ("snappy", "zstd") for what in ("noise", "zeros")),
            "gzip: really zstd",
            "zstd: really gzip",
            "lz4: really snappy",
            "snappy: really lz4",
            "an unknown codec, 5",
            "an unknown codec, 7",
            "a length of more than 32 bits",
            "a length that never ends",
        ],
        UNKNOWN,
    ),
    "transactional without a producer": NOT_ALLOWED,
    "control and transactional": NOT_ALLOWED,
}
OFFSETS = (
    "offsets that stand still",
    "offsets that go back",
    "offsets with a gap",
    "offsets that begin at 1",
    "offsets below 0",
    "an offset delta of more than 32 bits",
)
KAFKA |= dict.fromkeys(OFFSETS, NONE)
KAFKA |= {f"{codec}: {what}": UNKNOWN for codec in COMPRESSED for what in OFFSETS}

#: what we answer where that is something else
OURS: dict[str, ErrorCode] = {
    # Kafka stores these. Python's clients can't decompress the first three; the others can't be read, or not as sent.
    "gzip: noise behind": UNKNOWN,
    "lz4: noise behind": UNKNOWN,
    "lz4: zeros behind": UNKNOWN,
    "lz4: itself twice": INVALID,
    **{name: INVALID for name, code in KAFKA.items() if "longer than the batch" in name and code is NONE},
    **{f"{codec}: a record is shorter than its fields": INVALID for codec in COMPRESSED},
    **{name: INVALID for name in KAFKA if "64 bits" in name},
    **{f"{codec}: one record of half a GiB": INVALID for codec in ("gzip", "zstd")},
    # These it stores in uncompressed batches, and stumbles over in others.
    **{name: INVALID for name in KAFKA if name.endswith(OFFSETS)},
    # These are errors of its own.
    "a length of more than 32 bits": INVALID,
    "a length that never ends": INVALID,
    "an unknown codec, 5": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    "an unknown codec, 7": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    "zstd: nothing": UNKNOWN,
    "snappy: itself twice": UNKNOWN,
}
BATCHES = batches()
BOMBS = bombs()


@attrs.frozen
class Wire:
    """A topic of one partition, asked as no client would."""

    bootstrap: str
    topic: str

    def produce(self, records: bytes, acks: int = -1) -> Any:
        data = ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=records)
        topics = [ProduceRequest.TopicProduceData(name=self.topic, partition_data=[data])]
        request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=30_000, topic_data=topics)
        return settled(lambda: ask(self.bootstrap, request, ProduceResponse, 9).responses[0].partition_responses[0])

    def error(self, records: bytes) -> ErrorCode:
        return ErrorCode(self.produce(records).error_code)

    def end(self) -> int:
        """The log end offset."""
        one = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        topics = [ListOffsetsRequest.ListOffsetsTopic(name=self.topic, partitions=[one])]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
        answer = settled(lambda: ask(self.bootstrap, request, ListOffsetsResponse, 5).topics[0].partitions[0])
        return int(answer.offset)

    def producers(self) -> list[tuple[int, int, int]]:
        """The producers that the log remembers: id, epoch, last sequence number."""
        topics = [DescribeProducersRequest.TopicRequest(name=self.topic, partition_indexes=[0])]
        request = DescribeProducersRequest(topics=topics)
        answer = ask(self.bootstrap, request, DescribeProducersResponse, 0).topics[0].partitions[0]
        return [(each.producer_id, each.producer_epoch, each.last_sequence) for each in answer.active_producers]

    def producer_id(self) -> int:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

        def answer() -> Any:
            return ask(self.bootstrap, request, InitProducerIdResponse, 1)

        eventually(lambda: answer().error_code, 0)  # Kafka needs some time for its first ones
        return int(answer().producer_id)


@pytest.fixture
def wire(broker: Broker, fresh_name: Callable[[], str]) -> Wire:
    found = Wire(broker.bootstrap, fresh_name())
    create_topic(broker.bootstrap, found.topic)
    return found


@pytest.fixture(scope="module")
def shared(broker: Broker) -> Wire:
    """One topic for all bad batches: rejected ones leave no trace there."""
    found = Wire(broker.bootstrap, f"bad-input-{time.time_ns()}")
    create_topic(broker.bootstrap, found.topic)
    return found


def expected_of(name: str, against: str) -> ErrorCode:
    ours = {} if against else OURS
    return ours.get(name, KAFKA.get(name, INVALID))


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_that_contradicts_itself(shared: Wire, against: str, name: str) -> None:
    before = shared.end(), shared.producers()
    error = shared.error(BATCHES[name])
    assert error is expected_of(name, against)
    if error:
        assert (shared.end(), shared.producers()) == before
    else:
        assert shared.end() > before[0]


def test_expected_answers_name_existing_cases() -> None:
    assert (KAFKA.keys() | OURS.keys()) <= BATCHES.keys() | BOMBS.keys()


@pytest.mark.parametrize("name", BOMBS)
def test_a_batch_that_inflates(wire: Wire, broker: Broker, against: str, name: str) -> None:
    """No batch takes more memory than is allowed, and the memory is released."""
    before = _memory(broker, "VmRSS")
    assert wire.error(BOMBS[name]) is expected_of(name, against)
    if not against:
        assert wire.end() == 0
        assert _memory(broker, "VmHWM") - before < 300 << 20
        assert _memory(broker, "VmRSS") - before < 32 << 20


def test_rejected_batches_leave_nothing_behind(wire: Wire, broker: Broker) -> None:
    if not isinstance(broker, BrokerProcess):
        pytest.skip("only our own process is looked into")
    rejected = [data for name, data in BATCHES.items() if expected_of(name, "")]
    for data in rejected:
        wire.error(data)
    files, memory = _files(broker), _memory(broker, "VmRSS")
    for _ in range(5):
        for data in rejected:
            wire.error(data)
    assert (wire.end(), wire.producers()) == (0, [])
    eventually(lambda: _files(broker) <= files, True)  # the broker's own jobs open some for a moment
    assert _memory(broker, "VmRSS") - memory < 8 << 20


class TestSequencesAndEpochs:
    """Sequence numbers and epochs. The batches are of three records."""

    def send(self, wire: Wire, *producer: int, count: int = 3) -> tuple[ErrorCode, int]:
        answer = wire.produce(batch(good(count), count, producer=(producer[0], producer[1], producer[2])))
        return ErrorCode(answer.error_code), answer.base_offset

    def test_sequence_numbers(self, wire: Wire) -> None:
        me = wire.producer_id()
        assert self.send(wire, me, 0, 0) == (NONE, 0)
        assert self.send(wire, me, 0, 3) == (NONE, 3)
        assert self.send(wire, me, 0, 7)[0] is OUT_OF_ORDER
        assert self.send(wire, me, 0, 5)[0] is OUT_OF_ORDER
        assert self.send(wire, me, 0, 3, count=2)[0] is OUT_OF_ORDER
        assert self.send(wire, me, 0, (1 << 31) - 1)[0] is OUT_OF_ORDER
        assert self.send(wire, me, 0, 3) == (NONE, 3)
        assert self.send(wire, me, 0, 0) == (NONE, 0)
        assert wire.end() == 6
        assert wire.producers() == [(me, 0, 5)]

    def test_epochs(self, wire: Wire) -> None:
        me = wire.producer_id()
        assert self.send(wire, me, 3, 0) == (NONE, 0)
        assert self.send(wire, me, 2, 3)[0] is OLD_EPOCH
        assert self.send(wire, me, 2, 0)[0] is OLD_EPOCH
        assert self.send(wire, me, 4, 3)[0] is OUT_OF_ORDER
        assert (wire.end(), wire.producers()) == (3, [(me, 3, 2)])
        assert self.send(wire, me, 4, 0) == (NONE, 3)
        assert self.send(wire, me, 3, 3)[0] is OLD_EPOCH
        assert wire.producers() == [(me, 4, 2)]

    def test_a_bad_batch_takes_no_sequence_number(self, wire: Wire) -> None:
        me = wire.producer_id()
        assert self.send(wire, me, 0, 0) == (NONE, 0)
        assert wire.error(batch(good(2), 3, producer=(me, 0, 3))) is INVALID
        assert wire.error(batch(b"", 3, codec=1, packed=b"noise", producer=(me, 0, 3))) is UNKNOWN
        assert wire.producers() == [(me, 0, 2)]
        assert self.send(wire, me, 0, 3) == (NONE, 3)


def _memory(broker: Broker, field: str) -> int:
    """Return the memory of our broker's process, in bytes."""
    if not isinstance(broker, BrokerProcess):
        return 0
    lines = Path(f"/proc/{broker.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def _files(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.process.pid}/fd"))
