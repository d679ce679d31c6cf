"""Producers that write in transactions, and readers of committed records, of every client behind the same few calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
from kafka.structs import OffsetAndMetadata

from tests.clients.adapters.aiokafka import AioKafka
from tests.clients.adapters.base import TIMEOUT, Rejected
from tests.clients.adapters.confluent import Confluent, consumer, messages
from tests.clients.adapters.java import Java
from tests.clients.adapters.kafka_python import KafkaPython

T = TypeVar("T")
INVALID_PRODUCER_EPOCH, PRODUCER_FENCED = 47, 90
#: Timeouts of transactions that are to end by them.
SHORT_TIMEOUTS_MS = (1500, 6000, 24_000)
FENCED = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, -144})
"""What those are told whose transactional id another producer has; the last is librdkafka's own word for it."""


class Transactor(Protocol):
    """A producer with a transactional id, initialized. Rejected if the broker's answer was an error."""

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Returns when the broker has the record."""

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class ConfluentTransactor:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "delivery.timeout.ms": min(timeout_ms, 120_000),
                "linger.ms": 0,
                "reconnect.backoff.max.ms": 200,
                "error_cb": lambda error: None,  # else a fatal one is raised from within other callbacks
                "metadata.recovery.strategy": "none",  # with the other, what is under way in a restart may hang
            }
        )
        self._call(lambda: self._producer.init_transactions(TIMEOUT))

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        errors: list[confluent_kafka.KafkaError | None] = []

        def send() -> None:
            self._producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
            self._producer.flush(TIMEOUT)

        self._call(send)
        if errors != [None]:
            raise Rejected(errors[0].code() if errors and errors[0] else -1, repr(errors))

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        with consumer(self._bootstrap, **{"group.id": group}) as member:
            metadata = member.consumer_group_metadata()
            offsets = [confluent_kafka.TopicPartition(topic, partition, offset)]
            self._call(lambda: self._producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT))

    def commit(self) -> None:
        self._call(lambda: self._producer.commit_transaction(TIMEOUT))

    def abort(self) -> None:
        self._call(lambda: self._producer.abort_transaction(TIMEOUT))

    def close(self) -> None:
        with suppress(confluent_kafka.KafkaException):  # it was fenced
            self._producer.purge()
            self._producer.flush(1)

    def _call(self, call: Callable[[], None]) -> None:
        try:
            call()
        except confluent_kafka.KafkaException as error:
            raise Rejected(error.args[0].code(), str(error)) from error
        except SystemError as error:  # a callback ran while the client was raising a fatal error
            if not isinstance(error.__cause__, confluent_kafka.KafkaException):
                raise
            raise Rejected(error.__cause__.args[0].code(), str(error.__cause__)) from error


class KafkaPythonTransactor:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._call(self._producer.init_transactions)

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._call(lambda: self._producer.send(topic, value, partition=partition).get(TIMEOUT))

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        offsets = {kafka.TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self._call(lambda: self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._call(self._producer.commit_transaction)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=1)

    def _call(self, call: Callable[[], object]) -> None:
        try:
            call()
        except kafka.errors.KafkaError as error:
            raise Rejected(getattr(error, "errno", None) or -1, repr(error)) from error


class AioKafkaTransactor:
    """On an event loop of its own, which runs while a call is made."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._producer = self._run(self._started(bootstrap, transactional_id, timeout_ms))

    @staticmethod
    async def _started(bootstrap: str, transactional_id: str, timeout_ms: int) -> aiokafka.AIOKafkaProducer:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        await producer.start()
        return producer

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        offsets = {aiokafka.TopicPartition(topic, partition): offset}
        self._run(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, TIMEOUT))
        except aiokafka.errors.ProducerFenced as error:
            raise Rejected(PRODUCER_FENCED, repr(error)) from error
        except aiokafka.errors.KafkaError as error:
            raise Rejected(getattr(error, "errno", None) or -1, repr(error)) from error


class JavaTransactor:
    def __init__(self, java: Java, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._java = java
        ((self._number,),) = java.call("transactional", bootstrap, transactional_id, timeout_ms)

    def begin(self) -> None:
        self._java.call("begin", self._number)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._java.call("send", self._number, topic, partition, value.decode())

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._java.call("send-offset", self._number, group, topic, partition, offset)

    def commit(self) -> None:
        self._java.call("commit-transaction", self._number)

    def abort(self) -> None:
        self._java.call("abort-transaction", self._number)

    def close(self) -> None:
        self._java.call("close-transactional", self._number)


@contextmanager
def transactor(client: Any, bootstrap: str, transactional_id: str, timeout_ms: int = 600_000) -> Iterator[Transactor]:
    """A transactional producer of a client of the matrix."""
    made: Transactor
    match client:
        case Confluent():
            made = ConfluentTransactor(bootstrap, transactional_id, timeout_ms)
        case KafkaPython():
            made = KafkaPythonTransactor(bootstrap, transactional_id, timeout_ms)
        case AioKafka():
            made = AioKafkaTransactor(bootstrap, transactional_id, timeout_ms)
        case _:
            made = JavaTransactor(client, bootstrap, transactional_id, timeout_ms)
    try:
        yield made
    finally:
        made.close()


def begun_in_time(make: Callable[[int], Transactor], topic: str, value: bytes) -> Transactor:
    """Make a producer with a short timeout of transactions, which has written a record in one.

    If the timeout ends before the record is written, try a longer one.
    """
    for timeout_ms in SHORT_TIMEOUTS_MS:
        producer = make(timeout_ms)
        try:
            producer.begin()
            producer.send(topic, value)
            return producer
        except (Rejected, TimeoutError):
            continue
    raise TimeoutError(f"no record within {SHORT_TIMEOUTS_MS[-1]} ms")


def committed(client: Any, bootstrap: str, topic: str, partition: int = 0) -> list[bytes | None]:
    """The values that a reader of committed records sees, up to where it cannot see further."""
    match client:
        case Confluent():
            return _confluent(bootstrap, topic, partition)
        case KafkaPython():
            return _kafka_python(client, bootstrap, topic, partition)
        case AioKafka():
            return asyncio.run(asyncio.wait_for(_aiokafka(client, bootstrap, topic, partition), TIMEOUT))
        case _:
            return [row[0].encode() for row in client.call("read-committed", bootstrap, topic, partition)]


def _confluent(bootstrap: str, topic: str, partition: int) -> list[bytes | None]:
    level = {"isolation.level": "read_committed", "enable.partition.eof": True}
    found: list[bytes | None] = []
    with consumer(bootstrap, **level) as reader:
        reader.list_topics(topic, TIMEOUT)
        reader.assign([confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)])
        for message in messages(reader):
            if message.error() is not None:
                return found
            found.append(message.value())
    raise TimeoutError(f"{len(found)} records, then nothing")


def _kafka_python(client: KafkaPython, bootstrap: str, topic: str, partition: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    with client.consumer(bootstrap, isolation_level="read_committed") as reader:
        assigned = kafka.TopicPartition(topic, partition)
        reader.assign([assigned])
        reader.seek_to_beginning(assigned)
        end = reader.end_offsets([assigned])[assigned]
        while reader.position(assigned) < end:
            for batch in reader.poll(timeout_ms=200).values():
                found.extend(message.value for message in batch)
    return found


async def _aiokafka(client: AioKafka, bootstrap: str, topic: str, partition: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with client.consumer(bootstrap, isolation_level="read_committed") as reader:
        assigned = aiokafka.TopicPartition(topic, partition)
        reader.assign([assigned])
        await reader.seek_to_beginning(assigned)
        end = (await reader.end_offsets([assigned]))[assigned]
        while await reader.position(assigned) < end:
            for batch in (await reader.getmany(timeout_ms=200)).values():
                found.extend(message.value for message in batch)
    return found
