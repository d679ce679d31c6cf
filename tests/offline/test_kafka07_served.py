"""Imported data of Kafka 0.7 is served to clients of that time, and to those of today, under its old positions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.legacy07.conftest import SimpleBroker
from tests.legacy07.message_sets import message, read_set
from tests.offline.commands import fail, succeed
from tests.offline.kafka07 import content, messages, values, write_partition
from tests.peers import node, node_available

START = 5_000  # retention has taken what lay before
PLAIN = [message(b"plain %d" % number) for number in range(120)]
SCRIPT = Path(__file__).with_name("node") / "read.js"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleBroker]:
    """A broker on imported data; data of Kafka 0.7 that was not imported lies beside it."""
    directory = tmp_path_factory.mktemp("imported")
    write_partition(directory / "old" / "mixed-0", messages("mixed", 0, 100), start=START)
    write_partition(directory / "old" / "plain_0", PLAIN, digits=11)
    broker = SimpleBroker(directory)
    succeed("migrate", "kafka07", directory / "old", "--data-dir", broker.data_dir)
    write_partition(broker.data_dir / "my_topic_0", PLAIN, digits=11)
    broker.start()
    try:
        yield broker
        assert broker.unexpected_errors() == []
    finally:
        broker.kill()


def read(broker: SimpleBroker, topic: str, offset: int | None, count: int) -> list[tuple[int, bytes]]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=120_000)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    if offset is None:
        consumer.seek_to_beginning(partition)
    else:
        consumer.seek(partition, offset)
    found = [(each.offset, each.value) for _, each in zip(range(count), consumer, strict=False)]
    consumer.close()
    return found


def test_kafka_python_reads_all_of_it(served: SimpleBroker) -> None:
    wanted = values("mixed", 0, 100)
    found = read(served, "mixed", None, len(wanted))
    assert [value for _, value in found] == wanted
    assert found[0][0] == START


def test_an_offset_of_that_time_leads_to_its_message(served: SimpleBroker) -> None:
    position, payload = read_set(b"".join(PLAIN))[77]
    assert read(served, "plain", position, 1) == [(position, payload)]


@pytest.mark.skipif(not node_available(), reason="needs Node and npm")
@pytest.mark.parametrize("client", ["prozess", "franz"])
def test_clients_of_that_time_read_from_their_offsets(served: SimpleBroker, client: str) -> None:
    places = read_set(b"".join(PLAIN))
    host, port = served.address
    output = node.run(SCRIPT, client, host, str(port), "plain", "43", str(places[77][0]))
    assert [each.encode() for each in json.loads(output)] == [payload for _, payload in places[77:]]


def test_a_partition_that_was_not_imported_is_left_alone_and_named(served: SimpleBroker) -> None:
    path = served.data_dir / "my_topic_0"
    [line] = [line for line in served.process.lines if "my_topic_0" in line]
    assert "left alone, not served" in line
    assert "pylogbroker migrate kafka07" in line
    assert [name for name in content(path) if not name.startswith("0000")] == []
    assert b"".join(data for data, _ in content(path).values()) == b"".join(PLAIN)


def test_a_broker_that_runs_is_left_alone(served: SimpleBroker, tmp_path: Path) -> None:
    write_partition(tmp_path / "more-0", PLAIN)
    assert "is in use by another broker" in fail("migrate", "kafka07", tmp_path, "--data-dir", served.data_dir)
