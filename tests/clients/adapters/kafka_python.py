"""kafka-python, as it chooses versions itself, or held to the protocol of an older release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.clients.adapters.base import TIMEOUT, Abilities, Acks, Codec, Rejected
from tests.clients.model import Rec
from tests.support.waiting import wait_until

BIG = 10_000_000
ACKS: dict[Acks, int | str] = {"0": 0, "1": 1, "all": "all"}


class KafkaPython:
    name: str = "kafka-python"
    can: ClassVar[Abilities] = Abilities(null_key_and_value=False, null_headers=False)

    def __init__(self, api_version: tuple[int, ...] | None = None) -> None:
        self._api_version = api_version

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
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=ACKS[acks],
            enable_idempotence=idempotent,
            max_request_size=BIG,
            linger_ms=20,
            request_timeout_ms=int(TIMEOUT * 1000),
            delivery_timeout_ms=int(TIMEOUT * 1000) + 100,
            api_version=self._api_version,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            producer.flush(timeout=TIMEOUT)
            for each in sent:
                each.get(timeout=TIMEOUT)
        except KafkaError as error:
            raise Rejected(getattr(error, "errno", None) or -1, repr(error)) from error
        finally:
            producer.close()

    def read(self, bootstrap: str, topic: str, partitions: Sequence[int]) -> list[Rec]:
        with self.consumer(bootstrap) as reader:
            assigned = [TopicPartition(topic, each) for each in partitions]
            reader.assign(assigned)
            reader.seek_to_beginning(*assigned)
            ends = reader.end_offsets(assigned)
            return _poll(reader, lambda _: all(reader.position(each) >= ends[each] for each in assigned))

    def read_from(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Rec]:
        with self.consumer(bootstrap) as reader:
            assigned = TopicPartition(topic, partition)
            reader.assign([assigned])
            reader.seek(assigned, offset)
            return _poll(reader, lambda found: len(found) >= count)[:count]

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        with self.consumer(bootstrap) as reader:
            assigned = TopicPartition(topic, partition)
            found = reader.offsets_for_times({assigned: timestamp})[assigned]
            return None if found is None else int(found.offset)

    def commit(self, bootstrap: str, group: str, topic: str, partition: int, offset: int, metadata: str) -> None:
        with self.consumer(bootstrap, group_id=group) as reader:
            assigned = TopicPartition(topic, partition)
            reader.assign([assigned])
            reader.commit({assigned: OffsetAndMetadata(offset, metadata, -1)}, timeout_ms=TIMEOUT * 1000)

    def committed(self, bootstrap: str, group: str, topic: str, partition: int) -> tuple[int, str] | None:
        with self.consumer(bootstrap, group_id=group) as reader:
            found = reader.committed(TopicPartition(topic, partition), metadata=True, timeout_ms=TIMEOUT * 1000)
            return None if found is None else (int(found.offset), str(found.metadata))

    @contextmanager
    def consumer(self, bootstrap: str, **settings: Any) -> Iterator[KafkaConsumer]:
        reader = KafkaConsumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            auto_offset_reset=settings.pop("auto_offset_reset", "earliest"),
            api_version=self._api_version,
            **settings,
        )
        try:
            yield reader
        finally:
            reader.close()


def _poll(reader: KafkaConsumer, finished: Any) -> list[Rec]:
    found: list[Rec] = []

    def poll() -> None:
        for batch in reader.poll(timeout_ms=200).values():
            found.extend(record_of(message) for message in batch)

    wait_until(lambda: finished(found), TIMEOUT, lambda: f"{len(found)} records, then nothing", meanwhile=poll)
    return found


def record_of(message: Any) -> Rec:
    return Rec(
        value=message.value,
        key=message.key,
        headers=tuple((name, value) for name, value in message.headers),
        timestamp=message.timestamp,
        partition=message.partition,
        offset=message.offset,
    )
