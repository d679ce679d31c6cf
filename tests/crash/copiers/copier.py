"""The copier with librdkafka: `python -m tests.crash.copiers.copier <orders>`."""

from __future__ import annotations

import random
import sys
import threading
import time
import zlib
from collections.abc import Callable
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.crash.copiers import FENCED_STATUS, Orders

T = TypeVar("T")
_NO_GENERATION: Final = b"\xff\xff\xff\xff"  # in librdkafka's form of a member's metadata, behind its 7 bytes of name
_UNWILLING: Final = 0.05  # of all transactions are aborted for no reason
_SECONDS: Final = 5.0  # for a question
_QUICK: Final = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


class Fenced(Exception):
    """This producer can do no more."""


class Unwilling(Exception):
    """The copier drops what it has done, as one does whose transformation fails."""


class Copier:
    """One member of the group, with one transactional producer."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._failed: list[KafkaError] = []
        self._assigned: set[int] = set()
        self._taken: list[Message] = []
        self._producer = Producer(self._producer_settings())
        if orders.transactions:
            self._persistently(lambda: self._producer.init_transactions(_SECONDS))
        say("started")
        self._consumer = Consumer(self._consumer_settings())
        self._consumer.subscribe([orders.source], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _producer_settings(self) -> dict[str, object]:
        settings = {
            "bootstrap.servers": self._orders.bootstrap,
            "linger.ms": 2,
            "error_cb": lambda error: None,
            **_QUICK,
        }
        if not self._orders.transactions:
            return {**settings, "enable.idempotence": True, "message.timeout.ms": 300_000}
        return {**settings, "transactional.id": self._orders.name, "transaction.timeout.ms": 8000}

    def _consumer_settings(self) -> dict[str, object]:
        static = {"group.instance.id": self._orders.name} if self._orders.static else {}
        return {
            "bootstrap.servers": self._orders.bootstrap,
            "group.id": self._orders.group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 300,
            "fetch.wait.max.ms": 50,
            "max.partition.fetch.bytes": 4000,
            "fetch.error.backoff.ms": 20,
            "error_cb": lambda error: None,
            **static,
            **_QUICK,
        }

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._taken.clear()
        self._assigned = {each.partition for each in partitions}
        say("assigned", ",".join(map(str, sorted(self._assigned))))

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._taken.clear()
        self._assigned.clear()

    def copy_some(self) -> None:
        """One transaction, if there is something to copy."""
        self._take()
        if not self._taken:
            return
        try:
            self._copy(list(self._taken))
            say("committed", len(self._taken))
        except Unwilling:
            self._go_back("will")
        except KafkaException as error:
            if error.args[0].fatal():
                raise Fenced(error) from error
            self._go_back(error.args[0].name())

    def _take(self) -> None:
        """Poll for records of partitions that are still assigned after the poll."""
        self._taken.clear()
        deadline = time.monotonic() + 0.2
        while len(self._taken) < self._orders.most and time.monotonic() < deadline:
            message = self._consumer.poll(0 if self._taken else 0.1)
            if message is None and self._taken:
                return
            if message is not None and message.error() is None and message.partition() in self._assigned:
                self._taken.append(message)

    def _copy(self, messages: list[Message]) -> None:
        member = self._consumer.consumer_group_metadata()
        if bytes(member)[7:11] == _NO_GENERATION:  # with that, whatever offset would be taken as an outsider's
            raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
        offsets = {message.partition(): message.offset() + 1 for message in messages}
        wanted = [TopicPartition(self._orders.source, *each) for each in offsets.items()]
        if self._orders.transactions:
            self._in_transaction(messages, lambda: self._producer.send_offsets_to_transaction(wanted, member, _SECONDS))
        else:
            self._send(messages)
            self._pause()
            self._consumer.commit(offsets=wanted, asynchronous=False)

    def _in_transaction(self, messages: list[Message], send_offsets: Callable[[], None]) -> None:
        self._producer.begin_transaction()
        say("begun")
        self._send(messages)
        self._pause()
        self._persistently(send_offsets)
        say("offsets")
        self._pause()
        if random.random() < _UNWILLING:
            raise Unwilling
        say("committing")
        self._persistently(lambda: self._producer.commit_transaction(_SECONDS))

    def _send(self, messages: list[Message]) -> None:
        self._pause()
        for message in messages:
            partition = message.partition() % self._orders.partitions
            value = copy_of(message.value(), self._orders.name)
            self._producer.produce(self._orders.target, value, message.key(), partition, on_delivery=self._delivered)
        while self._producer.flush(_SECONDS) and not self._failed:
            continue
        if self._failed:
            failed, self._failed = self._failed, []
            raise KafkaException(failed[0])
        say("sent")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(error)

    def _go_back(self, why: str) -> None:
        """Abort the transaction, and go back to the committed offsets."""
        if self._orders.transactions:
            self._persistently(lambda: self._producer.abort_transaction(_SECONDS))
        self._failed.clear()
        say("aborted", why)
        if partitions := self._consumer.assignment():
            for each in self._persistently(lambda: self._consumer.committed(partitions, _SECONDS)):
                self._consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))

    def _persistently(self, call: Callable[[], T]) -> T:
        """Again, while the error is one that passes."""
        while True:
            try:
                return call()
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].code() != KafkaError._TIMED_OUT:
                    raise

    def _pause(self) -> None:
        if self._orders.pause_ms:
            time.sleep(random.expovariate(1000 / self._orders.pause_ms))

    def close(self) -> None:
        """Leave."""
        self._consumer.close()
        say("closed")


def copy_of(value: bytes, name: str) -> bytes:
    """Return the copy of a value."""
    return b"%s %08x %s" % (name.encode(), zlib.crc32(value), value)


def say(*words: object) -> None:
    """Write a line to the parent process."""
    print(*words, flush=True)


def main() -> int:
    """Copy until the standard input says something, or is closed."""
    asked_to_end = threading.Event()

    def wait_to_be_asked() -> None:
        sys.stdin.readline()
        asked_to_end.set()

    threading.Thread(target=wait_to_be_asked, daemon=True).start()
    try:
        copier = Copier(Orders.of(sys.argv[1:]))
        while not asked_to_end.is_set():
            copier.copy_some()
        copier.close()
    except (Fenced, KafkaException) as error:
        say("fenced", error)
        return FENCED_STATUS
    return 0


if __name__ == "__main__":
    sys.exit(main())
