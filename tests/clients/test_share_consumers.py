"""Share groups with Kafka's own share consumers: each record goes to one member until it is done.

Kafka 4.4 passes the same tests: `--against kafka4`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.clients.admin import create_topic
from tests.peers import available
from tests.peers.java import Program
from tests.peers.tools import tool
from tests.support.brokers import Broker

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not available(), reason="needs a JDK and Maven"),
]
MEMBER = Program(Path(__file__).parent / "java" / "ShareMember.java")
SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "15000",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@attrs.define
class ShareConsumer:
    """A share consumer in a process of its own."""

    process: subprocess.Popen[str]

    def ask(self, command: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def poll(self, seconds: int = 60) -> list[tuple[int, int, str]]:
        """Return offset, delivery count and value of the records of one poll."""
        answer = self.ask(f"poll {seconds}")
        assert not answer.startswith("error"), answer
        if answer == "none":
            return []
        rows = [row.split(":", 3) for row in answer.split(" ")]
        return [(int(offset), int(count), value) for _, offset, count, value in rows]

    def acknowledge(self, kind: str, *offsets: int) -> None:
        assert self.ask(" ".join(["ack", kind, *map(str, offsets)])) == "ok"

    def commit(self) -> str:
        return self.ask("commit")

    def close(self) -> None:
        assert self.ask("close") == "closed"
        self.process.wait(30)


@pytest.fixture
def server(new_broker: Callable[..., Broker]) -> Broker:
    broker = new_broker(SETTINGS)
    broker.start()
    return broker


@pytest.fixture
def consumers(server: Broker) -> Iterator[Callable[..., ShareConsumer]]:
    started: list[ShareConsumer] = []

    def start(topic: str = "t", group: str = "g", *settings: str) -> ShareConsumer:
        process = MEMBER.start(server.bootstrap, topic, group, *settings)
        started.append(ShareConsumer(process))
        return started[-1]

    yield start
    for consumer in started:
        consumer.process.kill()
        consumer.process.communicate()


def run(server: Broker, name: str, *arguments: str, input: str | None = None) -> str:
    done = tool(name, "--bootstrap-server", server.bootstrap, *arguments, input=input, release="kafka-4.4")
    return done.stdout + done.stderr


def set_group(server: Broker, group: str = "g", **settings: str) -> None:
    texts = ",".join(f"{name.replace('_', '.')}={value}" for name, value in settings.items())
    options = ("--entity-type", "groups", "--entity-name", group, "--alter", "--add-config", texts)
    assert "Completed updating config for group" in run(server, "kafka-configs", *options)


def produce(server: Broker, *values: str, topic: str = "t") -> None:
    run(server, "kafka-console-producer", "--topic", topic, input="".join(f"{value}\n" for value in values))


def test_acknowledgements_decide_what_is_delivered_again(server: Broker, consumers: Any) -> None:
    create_topic(server.bootstrap, "t")
    set_group(server, share_auto_offset_reset="earliest")
    produce(server, "a", "b", "c", "d")
    consumer = consumers()
    assert consumer.poll() == [(0, 1, "a"), (1, 1, "b"), (2, 1, "c"), (3, 1, "d")]
    consumer.acknowledge("ACCEPT", 0)
    consumer.acknowledge("RELEASE", 1)
    consumer.acknowledge("REJECT", 2)
    consumer.acknowledge("RELEASE", 3)
    assert consumer.commit() == "ok"
    assert consumer.poll() == [(1, 2, "b"), (3, 2, "d")]
    consumer.acknowledge("ACCEPT")
    assert consumer.commit() == "ok"
    produce(server, "e")
    assert consumer.poll() == [(4, 1, "e")]
    consumer.close()  # what is not acknowledged is released
    other = consumers()
    assert other.poll() == [(4, 2, "e")]
    other.acknowledge("ACCEPT")
    other.close()


def test_expired_and_renewed_locks(server: Broker, consumers: Any) -> None:
    create_topic(server.bootstrap, "t")
    set_group(server, share_auto_offset_reset="earliest", share_record_lock_duration_ms="3000")
    produce(server, "a", "b")
    first = consumers()
    assert first.poll() == [(0, 1, "a"), (1, 1, "b")]
    second = consumers()
    again = second.poll()
    assert [(offset, count >= 2, value) for offset, count, value in again] == [(0, True, "a"), (1, True, "b")]
    first.acknowledge("ACCEPT", 0)
    assert first.commit() == "0:InvalidRecordStateException"
    second.acknowledge("RENEW", 0)
    second.acknowledge("ACCEPT", 1)
    assert second.commit() == "ok"
    assert second.poll() == again[:1]  # the consumer's own, whose lock was renewed
    second.acknowledge("ACCEPT", 0)
    assert second.commit() == "ok"


def test_group_goes_on_after_kills(server: Broker, consumers: Any) -> None:
    create_topic(server.bootstrap, "t")
    set_group(server, share_auto_offset_reset="earliest")
    produce(server, "a", "b", "c", "d")
    consumer = consumers()
    assert [value for _, _, value in consumer.poll()] == ["a", "b", "c", "d"]
    consumer.acknowledge("ACCEPT", 0)
    consumer.acknowledge("RELEASE", 1)
    consumer.acknowledge("REJECT", 2)
    consumer.acknowledge("ACCEPT", 3)
    assert consumer.commit() == "ok"
    consumer.process.kill()
    server.kill()
    server.start()
    other = consumers()
    assert other.poll() == [(1, 2, "b")]
    other.acknowledge("ACCEPT")
    assert other.commit() == "ok"
    produce(server, "e")
    assert other.poll() == [(4, 1, "e")]


def test_members_share_what_the_console_reads(server: Broker) -> None:
    create_topic(server.bootstrap, "t", 2)
    set_group(server, share_auto_offset_reset="earliest")
    produce(server, *map(str, range(200)))
    options = ("--topic", "t", "--group", "g", "--max-messages", "200", "--timeout-ms", "60000")
    values = run(server, "kafka-console-share-consumer", *options).splitlines()
    assert sorted(int(value) for value in values if value.isdigit()) == list(range(200))
    described = run(server, "kafka-share-groups", "--describe", "--group", "g", "--offsets").splitlines()
    rows = [line.split() for line in described if line.startswith("g ")]
    assert {row[4] for row in rows} <= {"0", "-"}, described  # Kafka knows no lag before the first acknowledgement


def dead_letters(server: Broker, count: int) -> list[tuple[dict[str, str], str]]:
    """Return the headers and the value of dead letters."""
    options = ("--topic", "dlq.t", "--from-beginning", "--max-messages", str(count), "--timeout-ms", "60000")
    formatting = ("print.headers=true", "headers.separator=|", "key.separator=;")
    properties = [part for text in formatting for part in ("--formatter-property", text)]
    lines = run(server, "kafka-console-consumer", *options, *properties).splitlines()[:count]
    rows = [line.rsplit(";", 1) if ";" in line else line.rsplit("\t", 1) for line in lines]
    return [(dict(header.split(":", 1) for header in headers.split("|")), value) for headers, value in rows]


@pytest.mark.parametrize("copies", ["true", "false"])
def test_dead_letters_say_where_they_are_from(server: Broker, consumers: Any, copies: str) -> None:
    create_topic(server.bootstrap, "t")
    create_topic(server.bootstrap, "dlq.t", configs={"errors.deadletterqueue.group.enable": "true"})
    set_group(
        server,
        share_auto_offset_reset="earliest",
        share_delivery_count_limit="2",
        errors_deadletterqueue_topic_name="dlq.t",
        errors_deadletterqueue_copy_record_enable=copies,
    )
    produce(server, "a", "b")
    consumer = consumers()
    assert consumer.poll() == [(0, 1, "a"), (1, 1, "b")]
    consumer.acknowledge("REJECT", 0)
    consumer.acknowledge("RELEASE", 1)
    assert consumer.commit() == "ok"
    assert consumer.poll() == [(1, 2, "b")]
    consumer.acknowledge("RELEASE", 1)
    assert consumer.commit() == "ok"
    assert consumer.poll(3) == []
    origin = {"__dlq.errors.topic": "t", "__dlq.errors.partition": "0", "__dlq.errors.group": "g"}
    rejected = {"__dlq.errors.offset": "0", "__dlq.errors.delivery.count": "1"}
    exhausted = {"__dlq.errors.offset": "1", "__dlq.errors.delivery.count": "2"}
    whys = ("Offset rejected by client.", "Offset delivery count exceeded the threshold.")
    expected = [
        ({**origin, **own, "__dlq.errors.message": why}, value if copies == "true" else "null")
        for own, why, value in zip((rejected, exhausted), whys, "ab", strict=True)
    ]
    assert dead_letters(server, 2) == expected
