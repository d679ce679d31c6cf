"""Groups of Kafka Streams 4.4 with `group.protocol=streams`: tasks, states, instances that leave and die, and tools.

Kafka 4.4 passes the same tests: `--against kafka4`.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread

import attrs
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.admin import create_topic
from tests.peers import available
from tests.peers.java import Program
from tests.peers.tools import tool
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not available(), reason="needs a JDK and Maven"),
]
INSTANCE = Program(Path(__file__).parent / "java" / "GroupedWordCount.java", "streams-4")
WORDS = tuple(f"word {number % 7}" for number in range(300))
PARTITIONS = 3
SETTINGS = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "10000",
    "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}


@attrs.define(eq=False)
class Instance:
    """An instance of the application with two threads, in a process of its own."""

    process: subprocess.Popen[str]
    lines: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: Iterator[str]) -> None:
        self.lines += (line.strip() for line in stream)

    def owners(self) -> str:
        """Return how many partitions of the state's topics each instance has, as this one knows it."""
        assert self.process.stdin is not None
        known = len(self.lines)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        wait_until(lambda: len(self.lines) > known, 60, lambda: self.lines)
        return self.lines[-1]

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


@pytest.fixture
def server(new_broker: Callable[..., Broker]) -> Broker:
    broker = new_broker(SETTINGS)
    broker.start()
    for name in ("words", "counts"):
        create_topic(broker.bootstrap, name, PARTITIONS)
    return broker


@pytest.fixture
def start(server: Broker, tmp_path: Path) -> Iterator[Callable[..., Instance]]:
    instances: list[Instance] = []

    def start_one(guarantee: str) -> Instance:
        number = len(instances) + 1
        directory = tmp_path / f"state-{number}"
        address = f"host{number}:{number}"
        arguments = (server.bootstrap, "wc", guarantee, "words", "counts", str(directory), address)
        instances.append(Instance(INSTANCE.start(*arguments)))
        return instances[-1]

    yield start_one
    for instance in instances:
        instance.process.kill()
        instance.process.wait()


def produce(bootstrap: str, words: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for word in words:
        producer.produce("words", word)
    assert producer.flush(60) == 0


def counts(bootstrap: str) -> dict[str, int]:
    """Return the last count of each word."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    last: dict[str, int] = {}
    for number in range(PARTITIONS):
        partition = TopicPartition("counts", number, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([partition])
        while consumer.position([partition])[0].offset < end:
            message = consumer.poll(1)
            if message is None:
                break
            if message.error() is None:
                last[message.key().decode()] = int(message.value())
    consumer.close()
    return last


def await_counts(bootstrap: str, words: Sequence[str], *instances: Instance) -> None:
    expected = dict(Counter(words))
    wait_until(
        lambda: counts(bootstrap) == expected,
        120,
        lambda: (counts(bootstrap), [instance.lines for instance in instances]),
    )


def described(bootstrap: str, *options: str) -> str:
    command = ("--bootstrap-server", bootstrap, *options)
    return tool("kafka-streams-groups", *command, release="kafka-4.4").stdout


def test_instances_share_the_tasks_and_one_takes_over_from_a_killed_one(
    server: Broker, start: Callable[..., Instance]
) -> None:
    produce(server.bootstrap, WORDS)
    one = start("exactly_once_v2")
    await_counts(server.bootstrap, WORDS, one)
    two = start("exactly_once_v2")
    wait_until(lambda: len(one.owners().split()) == 2, 120, lambda: (one.lines, two.lines))
    produce(server.bootstrap, WORDS)
    await_counts(server.bootstrap, WORDS * 2, one, two)
    one.process.kill()
    produce(server.bootstrap, WORDS)
    await_counts(server.bootstrap, WORDS * 3, two)
    wait_until(lambda: two.owners() == "2=6", 60, lambda: two.lines)
    two.stop()


def test_tools_list_describe_reset_and_delete_a_group(server: Broker, start: Callable[..., Instance]) -> None:
    produce(server.bootstrap, WORDS)
    one = start("at_least_once")
    await_counts(server.bootstrap, WORDS, one)
    bootstrap = server.bootstrap
    assert described(bootstrap, "--list").split() == ["wc"]
    wait_until(lambda: "Stable" in described(bootstrap, "--describe", "--group", "wc", "--state"), 60)
    members = described(bootstrap, "--describe", "--group", "wc", "--members", "--verbose")
    assert members.count("ACTIVE") >= 1
    assert members.count("StreamThread") == 2

    def offsets() -> dict[tuple[str, str], str]:
        rows = map(str.split, described(bootstrap, "--describe", "--group", "wc", "--offsets").splitlines())
        return {(row[1], row[2]): row[-1] for row in rows if row[:1] == ["wc"]}

    topics = ("words", "wc-counts-repartition")
    lags = {(topic, str(number)): "0" for topic in topics for number in range(PARTITIONS)}
    wait_until(lambda: offsets() == lags, 60, offsets)
    one.stop()
    wait_until(lambda: "Empty" in described(bootstrap, "--describe", "--group", "wc", "--state"), 60)
    options = ("--reset-offsets", "--group", "wc", "--input-topic", "words", "--to-earliest", "--execute")
    reset = described(bootstrap, *options)
    assert sorted(row.split()[-1] for row in reset.splitlines() if row.startswith("wc ")) == ["0"] * PARTITIONS
    described(bootstrap, "--delete", "--group", "wc")
    assert described(bootstrap, "--list").split() == []
