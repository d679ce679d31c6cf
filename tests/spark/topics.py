"""Topics, made and filled with librdkafka.

topic = topics.make(partitions=2)
topics.fill(topic, [Rec(b"value", key=b"key", partition=1)], compression="lz4")
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import attrs
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from tests.support.waiting import wait_until

LIMIT = 120


@attrs.frozen
class Rec:
    """A record to be produced."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()


class Topics:
    """Topics of one broker."""

    def __init__(self, bootstrap: str, fresh_name: Callable[[], str]) -> None:
        self.bootstrap = bootstrap
        self.fresh_name = fresh_name
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producers: dict[tuple[tuple[str, Any], ...], Producer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._producers.clear()

    def make(self, partitions: int = 1, name: str | None = None, **settings: str) -> str:
        """A new topic; underscores in the settings' names stand for dots."""
        topic = name or self.fresh_name()
        config = {key.replace("_", "."): value for key, value in settings.items()}
        self._done(self._admin.create_topics([NewTopic(topic, partitions, 1, config=config)]))
        self._wait_for(topic, partitions)
        return topic

    def delete(self, topic: str) -> None:
        self._done(self._admin.delete_topics([topic]))
        self._producers.clear()  # they remember what there was

    def widen(self, topic: str, partitions: int) -> None:
        """Let a topic have so many partitions."""
        self._done(self._admin.create_partitions([NewPartitions(topic, partitions)]))
        self._wait_for(topic, partitions)
        self._producers.clear()

    def count(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        return len(self._admin.list_topics(topic, timeout=LIMIT).topics[topic].partitions)

    def id(self, topic: str) -> UUID:
        """Return the id of a topic."""
        [found] = self._admin.describe_topics(TopicCollection([topic])).values()
        bits = found.result(LIMIT).topic_id
        mask = (1 << 64) - 1
        return UUID(int=(bits.get_most_significant_bits() & mask) << 64 | bits.get_least_significant_bits() & mask)

    def remake(self, topic: str) -> None:
        """Delete a topic, and make another one of that name."""
        self.delete(topic)
        self.make_again(topic)

    def make_again(self, topic: str) -> None:
        """Make a topic of the name of a deleted one, which may not be quite gone."""

        def is_made() -> bool:
            try:
                self.make(name=topic)
            except AssertionError:
                return False
            return True

        wait_until(is_made)

    def forget_group(self, group: str) -> None:
        """Let the brokers forget the offsets of a group."""
        self._done(self._admin.delete_consumer_groups([group]))

    def trim(self, topic: str, partition: int, first: int) -> None:
        """Delete the records before an offset."""
        self._done(self._admin.delete_records([TopicPartition(topic, partition, first)]))

    def fill(self, topic: str, records: Iterable[Rec], **settings: Any) -> None:
        """Write records, in their order."""
        producer = self._producer(settings)
        failures: list[KafkaError] = []

        def reported(error: KafkaError | None, _: object) -> None:
            if error is not None:
                failures.append(error)

        for each in records:
            place = {"partition": each.partition, "timestamp": each.timestamp, "headers": list(each.headers)}
            producer.produce(topic, each.value, each.key, on_delivery=reported, **place)
        assert producer.flush(LIMIT) == 0
        assert failures == []

    def transaction(self, topic: str, records: Sequence[Rec], *, commit: bool) -> None:
        """Write records in a transaction; returns when its markers are there."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.fresh_name()})
        producer.init_transactions(LIMIT)
        producer.begin_transaction()
        for each in records:
            producer.produce(topic, each.value, each.key, each.partition)
        producer.flush(LIMIT)
        (producer.commit_transaction if commit else producer.abort_transaction)(LIMIT)
        for partition in {each.partition for each in records}:
            self.wait_for_markers(topic, partition)

    def wait_for_markers(self, topic: str, partition: int = 0) -> None:
        """Wait until no transaction is open: brokers answer before they write the markers."""
        wait_until(lambda: len({self.end(topic, partition, level) for level in IsolationLevel}) == 1, LIMIT)

    def end(self, topic: str, partition: int, level: IsolationLevel) -> int:
        """Return the end offset of a partition.

        Of a broker that was killed, librdkafka may not know a leader for a moment: it is asked again.
        """
        place, deadline = TopicPartition(topic, partition), time.monotonic() + LIMIT
        while True:
            [future] = self._admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=level).values()
            try:
                found: int = future.result(LIMIT).offset
            except KafkaException as error:
                if error.args[0].code() != KafkaError._NOENT or time.monotonic() > deadline:
                    raise
            else:
                return found

    def _wait_for(self, topic: str, partitions: int) -> None:
        """Kafka answers before all brokers know."""
        known = 0
        while known != partitions:
            found = self._admin.list_topics(timeout=LIMIT).topics.get(topic)
            known = len(found.partitions) if found is not None else 0

    def _producer(self, settings: dict[str, Any]) -> Producer:
        key = tuple(sorted(settings.items()))
        if key not in self._producers:
            named = {name.replace("_", "."): value for name, value in settings.items()}
            self._producers[key] = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, **named})
        return self._producers[key]

    def _done(self, futures: dict[str, Any]) -> None:
        for future in futures.values():
            try:
                future.result(LIMIT)
            except KafkaException as error:
                raise AssertionError(str(error)) from error
