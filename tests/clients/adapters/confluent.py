"""confluent-kafka, that is librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.clients.adapters.base import TIMEOUT, Abilities, Acks, Codec, Rejected
from tests.clients.model import Header, Rec

BIG = 10_000_000


class Confluent:
    name: str = "confluent"
    can: ClassVar[Abilities] = Abilities()

    def write(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Rec],
        *,
        codec: Codec = "none",
        acks: Acks = "all",
        idempotent: bool = False,
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "message.max.bytes": BIG,
                "linger.ms": 20,
                "message.timeout.ms": int(TIMEOUT * 1000),
            }
        )
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        for record in records:
            producer.produce(topic, on_delivery=delivered, **_arguments(record))
        if producer.flush(TIMEOUT):
            raise TimeoutError("not everything was delivered")
        if errors:
            raise Rejected(errors[0].code(), errors[0].str())

    def read(self, bootstrap: str, topic: str, partitions: Sequence[int]) -> list[Rec]:
        with consumer(bootstrap, **{"enable.partition.eof": True}) as reader:
            reader.list_topics(topic, TIMEOUT)
            reader.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
            found, unfinished = [], set(partitions)
            for message in messages(reader):
                error = message.error()
                if error is None:
                    found.append(record_of(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
                    if not unfinished:
                        return found
                else:
                    raise Rejected(error.code(), error.str())
        raise TimeoutError(f"{len(found)} records, then nothing")

    def read_from(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Rec]:
        with consumer(bootstrap) as reader:
            reader.list_topics(topic, TIMEOUT)
            reader.assign([TopicPartition(topic, partition, offset)])
            found = []
            for message in messages(reader):
                if (error := message.error()) is not None:
                    raise Rejected(error.code(), error.str())
                found.append(record_of(message))
                if len(found) == count:
                    return found
        raise TimeoutError(f"{len(found)} records, then nothing")

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        with consumer(bootstrap) as reader:
            (found,) = reader.offsets_for_times([TopicPartition(topic, partition, timestamp)], TIMEOUT)
            return int(found.offset) if found.offset >= 0 else None

    def commit(self, bootstrap: str, group: str, topic: str, partition: int, offset: int, metadata: str) -> None:
        with consumer(bootstrap, **{"group.id": group}) as reader:
            wanted = TopicPartition(topic, partition, offset, metadata)
            reader.commit(offsets=[wanted], asynchronous=False)

    def committed(self, bootstrap: str, group: str, topic: str, partition: int) -> tuple[int, str] | None:
        with consumer(bootstrap, **{"group.id": group}) as reader:
            (found,) = reader.committed([TopicPartition(topic, partition)], TIMEOUT)
            return None if found.offset < 0 else (int(found.offset), str(found.metadata or ""))


@contextmanager
def consumer(bootstrap: str, **settings: Any) -> Iterator[Consumer]:
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads without a group",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.error.backoff.ms": 10,
            "fetch.wait.max.ms": 50,
            **settings,
        }
    )
    try:
        yield reader
    finally:
        reader.close()


def messages(reader: Consumer, timeout: float = TIMEOUT) -> Iterator[Message]:
    """Return the messages of poll, until none came for so long."""
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        message = reader.poll(left)
        if message is not None:
            deadline = time.monotonic() + timeout
            yield message


def record_of(message: Message) -> Rec:
    key, value = message.key(), message.value()
    return Rec(
        value=value if value is None or isinstance(value, bytes) else value.encode(),
        key=key if key is None or isinstance(key, bytes) else key.encode(),
        headers=tuple((name, content) for name, content in cast(list[Header], message.headers() or [])),
        timestamp=message.timestamp()[1],
        partition=message.partition() or 0,
        offset=message.offset() or 0,
    )


def _arguments(record: Rec) -> dict[str, Any]:
    arguments: dict[str, Any] = {"value": record.value, "key": record.key, "partition": record.partition}
    if record.timestamp is not None:
        arguments["timestamp"] = record.timestamp
    if record.headers:
        arguments["headers"] = list(record.headers)
    return arguments
