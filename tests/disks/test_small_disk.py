"""One of two log directories fills up, fails or goes away: its writers get errors, others continue, nothing is lost."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.admin import create_topic
from tests.disks.disk_layer import DiskLayer
from tests.disks.produce_socket import Sender
from tests.disks.small_disk import SmallDisk
from tests.storage.support import bytes_on_disk, records_in
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

STORAGE_ERROR = 56
CAPACITY_BYTES = 4 << 20
FILLER = 2 << 20
VALUE = b"x" * 30_000
SETTINGS = {
    "log.retention.ms": "-1",  # the records are of 2023
    "log.segment.bytes": "200000",
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "100",
}
# No coordinator is needed: its log may be on the full disk.
WITHOUT_COMMITS = {"enable.auto.commit": False, "check.crcs": True}
TOPIC = "t"
Answers = list[tuple[int, int]]


class TwoDisks:
    """A broker with a directory on the steady disk and one on another; partition `there` of the topic lies there."""

    def __init__(self, directory: Path, other: Path, broker: BrokerProcess) -> None:
        self.steady, self.other, self.broker = directory / "steady", other, broker
        self.there = self.here = -1

    def start(self, **configs: str) -> None:
        self.broker.start()
        create_topic(self.broker.bootstrap, TOPIC, 2, configs)
        self.here = next(number for number in range(2) if (self.steady / f"{TOPIC}_{number}").exists())
        self.there = 1 - self.here

    def sender(self, partition: int) -> Sender:
        return Sender(self.broker.bootstrap, TOPIC, partition)

    def values(self, partition: int) -> list[bytes]:
        """Return all records that a consumer gets from a partition."""
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "g", **WITHOUT_COMMITS})
        start, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), 120)
        consumer.assign([TopicPartition(TOPIC, partition, start)])
        found = [(record.offset(), record.value()) for record in consumer.consume(end - start, 120)]
        consumer.close()
        assert [offset for offset, _ in found] == list(range(start, end))
        return [value for _, value in found]


def settings(directory: Path, other: Path, **more: str) -> dict[str, str]:
    steady = directory / "steady"
    return {"log.dirs": f"{steady},{other}", "metadata.log.dir": str(steady), **SETTINGS, **more}


def numbered(number: int) -> bytes:
    return b"%06d" % number + VALUE


def until_rejected(sender: Sender, first: int = 0) -> list[bytes]:
    """Produce until it fails; what was acknowledged, at offsets from `first` on."""
    sent: list[bytes] = []
    while (answer := sender.produce(numbered(first + len(sent)))) == (0, first + len(sent)):
        sent.append(numbered(first + len(sent)))
        assert len(sent) * len(VALUE) < CAPACITY_BYTES
    assert answer == (STORAGE_ERROR, -1)
    return sent


def on_disk(directory: Path) -> list[bytes]:
    """The values in a partition's files, read by kafka-python."""
    return [value for _, value in records_in(bytes_on_disk(directory))]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "disk", CAPACITY_BYTES) as disk:
        yield disk


@pytest.fixture
def disks(tmp_path: Path, small: SmallDisk) -> Iterator[TwoDisks]:
    broker = BrokerProcess(tmp_path, settings(tmp_path, small.path), prefix=small.prefix)
    yield TwoDisks(tmp_path, small.path, broker)
    broker.kill()


class TestFull:
    """A disk without free space."""

    @pytest.mark.parametrize("flush", [{}, {"flush.messages": "1"}], ids=["cached", "flushed"])
    def test_writers_are_notified_and_the_log_goes_on_when_there_is_space(
        self, disks: TwoDisks, small: SmallDisk, flush: dict[str, str]
    ) -> None:
        filler = small.content / "filler"
        filler.write_bytes(bytes(FILLER))
        disks.start(**flush)
        with disks.sender(disks.there) as there, disks.sender(disks.here) as here:
            kept = until_rejected(there)
            assert len(kept) > 10
            for number in range(5):
                assert there.produce(VALUE) == (STORAGE_ERROR, -1)
                assert here.produce(numbered(number)) == (0, number)
            wait_for_checkpoint(disks, 5)
            assert here.produce(numbered(5)) == (0, 5)
            wait_for_checkpoint(disks, 6)  # so the round before has tried both directories
            assert disks.values(disks.there) == kept
            filler.unlink()
            more = until_rejected(there, len(kept))
            assert len(more) > FILLER // len(VALUE) // 2
            assert here.produce(numbered(6)) == (0, 6)
        everything = kept + more
        assert disks.values(disks.there) == everything
        assert on_disk(small.content / f"{TOPIC}_{disks.there}") == everything
        reported = [line for line in disks.broker.unexpected_errors() if "No space left on device" in line]
        assert 1 <= len(reported) <= 6, reported  # of requests, and of each checkpoint
        assert len(reported) == len(disks.broker.unexpected_errors()), disks.broker.unexpected_errors()

        disks.broker.kill()
        disks.broker.start()
        assert disks.values(disks.there) == everything
        assert disks.values(disks.here) == [numbered(number) for number in range(7)]

    def test_a_client_that_tries_again_loses_and_repeats_nothing(self, disks: TwoDisks, small: SmallDisk) -> None:
        filler = small.content / "filler"
        filler.write_bytes(bytes(FILLER))
        disks.start()
        client = {"bootstrap.servers": disks.broker.bootstrap, "enable.idempotence": True, "linger.ms": 0}
        producer = Producer({**client, "message.timeout.ms": 600_000, "batch.num.messages": 3})
        errors: list[object] = []
        sent = [numbered(number) for number in range(100)]  # 3 MB
        for value in sent:
            producer.produce(TOPIC, value, partition=disks.there, on_delivery=lambda error, _: errors.append(error))
        disks.broker.process.expect("No space left on device")
        wait_until(lambda: producer.poll(0.1) >= 0 and errors)
        assert len(errors) < len(sent)
        filler.unlink()
        assert producer.flush(120) == 0
        assert errors == [None] * len(sent)
        assert disks.values(disks.there) == sent

    def test_a_broker_stops_and_starts_on_a_full_disk(self, disks: TwoDisks, small: SmallDisk) -> None:
        disks.start()
        with disks.sender(disks.there) as there, disks.sender(disks.here) as here:
            kept = until_rejected(there)
            assert here.produce(b"here") == (0, 0)
        fill_up(small.content / "filler")  # not a byte is left for what a stop and a start write
        disks.broker.stop()
        disks.broker.start()
        assert disks.values(disks.there) == kept
        with disks.sender(disks.there) as there, disks.sender(disks.here) as here:
            assert there.produce(VALUE) == (STORAGE_ERROR, -1)
            assert here.produce(b"here") == (0, 1)
            (small.content / "filler").unlink()
            assert there.produce(b"there") == (0, len(kept))
        assert on_disk(small.content / f"{TOPIC}_{disks.there}") == [*kept, b"there"]
        disks.broker.stop()
        disks.broker.start()
        assert disks.values(disks.there) == [*kept, b"there"]


def fill_up(path: Path) -> None:
    """Take all free space."""
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def wait_for_checkpoint(disks: TwoDisks, high_watermark: int) -> None:
    """Wait until the steady disk has a high watermark; each round of checkpoints writes those of all directories."""
    path, line = disks.steady / "replication-offset-checkpoint", f"{TOPIC} {disks.here} {high_watermark}"
    wait_until(lambda: path.exists() and line in path.read_text().splitlines())


class TestGone:
    """A directory that disappears."""

    def test_an_unmounted_disk_goes_offline(self, disks: TwoDisks, small: SmallDisk) -> None:
        disks.start()
        with disks.sender(disks.there) as there, disks.sender(disks.here) as here:
            assert there.produce(b"first") == (0, 0)
            small.vanish()
            disks.broker.process.expect(rf"{TOPIC}-{disks.there}.* offline: ")
            assert there.produce(b"lost") == (STORAGE_ERROR, -1)
            assert [here.produce(b"here"), here.produce(b"here")] == [(0, 0), (0, 1)]
        disks.broker.stop()
        small.come_back()
        disks.broker.start()
        with disks.sender(disks.there) as there:
            assert there.produce(b"second") == (0, 1)
        assert disks.values(disks.there) == [b"first", b"second"]
        assert disks.values(disks.here) == [b"here", b"here"]

    def test_unmounted_nothing_more_is_acknowledged_from_the_disk(self, disks: TwoDisks, small: SmallDisk) -> None:
        disks.start(**{"flush.messages": "1"})
        with disks.sender(disks.there) as there:
            assert there.produce(b"first") == (0, 0)
            small.vanish()
            assert there.produce(b"lost") == (STORAGE_ERROR, -1)

    def test_a_removed_directory_goes_offline(self, tmp_path: Path) -> None:
        other = tmp_path / "other"
        broker = BrokerProcess(tmp_path, settings(tmp_path, other))
        disks = TwoDisks(tmp_path, other, broker)
        try:
            disks.start()
            with disks.sender(disks.there) as there, disks.sender(disks.here) as here:
                assert there.produce(b"first") == (0, 0)
                shutil.rmtree(other)
                broker.process.expect(rf"{TOPIC}-{disks.there}.* offline: ")
                assert there.produce(b"lost") == (STORAGE_ERROR, -1)
                assert here.produce(b"here") == (0, 0)
            broker.stop()
            broker.start()
            assert disks.values(disks.here) == [b"here"]
            with disks.sender(disks.there) as there:
                assert there.produce(b"lost") == (STORAGE_ERROR, -1)
            assert not other.exists()
        finally:
            broker.kill()


class TestErrors:
    """A disk that answers with errors."""

    @pytest.mark.parametrize(("call", "flush"), [("pwritev", {}), ("fdatasync", {"flush.messages": "1"})])
    def test_partitions_of_a_failed_disk_are_offline_until_it_is_repaired(
        self, tmp_path: Path, call: str, flush: dict[str, str]
    ) -> None:
        other, layer = tmp_path / "other", DiskLayer(tmp_path / "layer")
        broker = layer.broker(tmp_path, settings(tmp_path, other))
        disks = TwoDisks(tmp_path, other, broker)
        try:
            disks.start(**flush)
            with disks.sender(disks.there) as there, disks.sender(disks.here) as here:
                kept = [numbered(number) for number in range(10)]
                assert [there.produce(value) for value in kept] == [(0, number) for number in range(10)]
                layer.fail(call, errno.EIO, other)
                for number in range(3):
                    assert there.produce(b"lost") == (STORAGE_ERROR, -1)
                    assert here.produce(b"here") == (0, number)
            broker.process.expect(rf"{TOPIC}-{disks.there}.* offline: .*Input/output error")
            layer.mend()
            broker.kill()
            broker.start()
            found = disks.values(disks.there)
            assert found[: len(kept)] == kept
            assert set(found[len(kept) :]) <= {b"lost"}  # what was written, and not acknowledged, may be there
            assert on_disk(other / f"{TOPIC}_{disks.there}") == found
            with disks.sender(disks.there) as there:
                assert there.produce(b"again") == (0, len(found))
        finally:
            broker.kill()
