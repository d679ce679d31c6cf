"""aiokafka, on an event loop of its own for each call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from tests.clients.adapters.base import TIMEOUT, Abilities, Acks, Codec, Rejected
from tests.clients.model import Rec

T = TypeVar("T")
BIG = 10_000_000
ACKS: dict[Acks, int | str] = {"0": 0, "1": 1, "all": "all"}


class AioKafka:
    name: str = "aiokafka"
    can: ClassVar[Abilities] = Abilities(null_key_and_value=False)

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
        async def run() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                acks=ACKS[acks],
                enable_idempotence=idempotent,
                max_request_size=BIG,
                linger_ms=20,
            )
            async with producer:
                sent = [
                    await producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        headers=list(record.headers) or None,
                        partition=record.partition,
                        timestamp_ms=record.timestamp,
                    )
                    for record in records
                ]
                await asyncio.gather(*sent)

        try:
            in_time(run())
        except KafkaError as error:
            raise Rejected(getattr(error, "errno", -1), repr(error)) from error

    def read(self, bootstrap: str, topic: str, partitions: Sequence[int]) -> list[Rec]:
        async def run() -> list[Rec]:
            async with self.consumer(bootstrap) as reader:
                assigned = [TopicPartition(topic, each) for each in partitions]
                reader.assign(assigned)
                await reader.seek_to_beginning(*assigned)
                ends = await reader.end_offsets(assigned)
                found: list[Rec] = []
                while any([await reader.position(each) < ends[each] for each in assigned]):
                    found.extend(await _some(reader))
                return found

        return in_time(run())

    def read_from(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Rec]:
        async def run() -> list[Rec]:
            async with self.consumer(bootstrap) as reader:
                reader.assign([TopicPartition(topic, partition)])
                reader.seek(TopicPartition(topic, partition), offset)
                found: list[Rec] = []
                while len(found) < count:
                    found.extend(await _some(reader))
                return found[:count]

        return in_time(run())

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        async def run() -> int | None:
            async with self.consumer(bootstrap) as reader:
                assigned = TopicPartition(topic, partition)
                found = (await reader.offsets_for_times({assigned: timestamp}))[assigned]
                return None if found is None else int(found.offset)

        return in_time(run())

    def commit(self, bootstrap: str, group: str, topic: str, partition: int, offset: int, metadata: str) -> None:
        async def run() -> None:
            async with self.consumer(bootstrap, group_id=group) as reader:
                assigned = TopicPartition(topic, partition)
                reader.assign([assigned])
                await reader.commit({assigned: OffsetAndMetadata(offset, metadata)})

        in_time(run())

    def committed(self, bootstrap: str, group: str, topic: str, partition: int) -> tuple[int, str] | None:
        async def run() -> tuple[int, str] | None:
            async with admin(bootstrap) as client:
                assigned = TopicPartition(topic, partition)
                found = (await client.list_consumer_group_offsets(group))[assigned]
                return int(found.offset), str(found.metadata)

        return in_time(run())

    @asynccontextmanager
    async def consumer(self, bootstrap: str, **settings: Any) -> AsyncIterator[AIOKafkaConsumer]:
        reader = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            auto_offset_reset=settings.pop("auto_offset_reset", "earliest"),
            **settings,
        )
        async with reader:
            yield reader


@asynccontextmanager
async def admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        await client.start()
        yield client
    finally:
        await client.close()


def in_time(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; TimeoutError if that takes too long."""
    return asyncio.run(asyncio.wait_for(work, TIMEOUT))


async def _some(reader: AIOKafkaConsumer) -> list[Rec]:
    batches = await reader.getmany(timeout_ms=200)
    return [record_of(message) for batch in batches.values() for message in batch]


def record_of(message: Any) -> Rec:
    return Rec(
        value=message.value,
        key=message.key,
        headers=tuple((name, value) for name, value in message.headers),
        timestamp=message.timestamp,
        partition=message.partition,
        offset=message.offset,
    )
