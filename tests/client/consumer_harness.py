"""Harness of the consumers' tests: topics, records that others write, and readers that collect."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from twisted.internet.defer import Deferred, ensureDeferred

from pylogbroker.client import ConsumerConnector, Stream

QUIET = {"log_level": 0}
#: A machine that stands still for some seconds ends no session.
SESSION_MS = 10_000


def create(bootstrap: str, topic: str, partitions: int = 1, **settings: str) -> None:
    """A topic, by librdkafka."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        future.result(timeout=60)


def delete(bootstrap: str, topic: str) -> None:
    """No such topic any more."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for future in admin.delete_topics([topic]).values():
        future.result(timeout=60)


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    """More partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for future in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        future.result(timeout=60)


def write(bootstrap: str, topic: str, values: Iterable[str], partitions: int = 1, **settings: Any) -> None:
    """Records with these values, dealt out to the partitions, by librdkafka."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, **QUIET, **settings})
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % partitions)
    assert producer.flush(120) == 0


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    """Return the group's committed offsets, read with librdkafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUIET})
    try:
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        return [each.offset for each in consumer.committed(asked, timeout=60)]
    finally:
        consumer.close()


class Collector:
    """Reads streams for as long as they give anything, one message or many at a time."""

    def __init__(self, *streams: Stream, many: int = 0) -> None:
        self.messages: list[Any] = []
        self.done: list[Deferred[None]] = [
            ensureDeferred(self._read_many(stream, many) if many else self._read(stream)) for stream in streams
        ]

    @property
    def values(self) -> list[str]:
        return [message.value.decode() for message in self.messages]

    async def _read(self, stream: Stream) -> None:
        async for message in stream:
            self.messages.append(message)

    async def _read_many(self, stream: Stream, count: int) -> None:
        while messages := await stream.get_many(count):
            self.messages += messages


class Confluent:
    """A librdkafka consumer, polled by a thread of its own."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], **settings: Any) -> None:
        self.values: list[str] = []
        self.assignment: set[tuple[str, int]] = set()
        has_epochs = settings.get("group.protocol") == "consumer"
        quick = {} if has_epochs else {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 200}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                **quick,
                **QUIET,
                **settings,
            }
        )
        self._consumer.subscribe(list(topics))
        self._stopping = False
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the group."""
        self._stopping = True
        self._thread.join()

    def _poll(self) -> None:
        while not self._stopping:
            message = self._consumer.poll(0.05)
            self.assignment = {(each.topic, each.partition) for each in self._consumer.assignment()}
            if message is not None and message.error() is None:
                self.values.append(message.value().decode())
        self._consumer.close()


def connector(bootstrap: str, group: str, **settings: Any) -> ConsumerConnector:
    """A connector that reads from the beginning and is quick to notice what happens."""
    quick = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100, "session_timeout_ms": SESSION_MS}
    return ConsumerConnector(bootstrap, group=group, **{**quick, **settings})
