"""aiokafka: asyncio, with an extension in C for the records."""

import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.clients import AT_ONCE, BATCH_BYTES, LINGER_MS, PARTITION_FETCH_BYTES, WAIT_SECONDS_MAX, Work
from benchmarks.clients.tally import Tally
from benchmarks.session import expect


def produce(work: Work) -> float:
    """Send with `send`, which waits while a batch is full, and `flush`."""
    return asyncio.run(_produce(work))


def consume(work: Work) -> float:
    """Read with `getmany`."""
    return asyncio.run(_consume(work))


async def _produce(work: Work) -> float:
    producer = AIOKafkaProducer(
        bootstrap_servers=work.bootstrap,
        enable_idempotence=work.idempotent,
        acks="all",
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_BYTES,
    )
    await producer.start()
    topic, value, send = work.topic, bytes(work.value_bytes), producer.send
    await producer.send_and_wait(topic, value)
    begin = time.perf_counter()
    for _ in range(work.count):
        last = await send(topic, value)
    await asyncio.wait_for(producer.flush(), WAIT_SECONDS_MAX)
    elapsed = time.perf_counter() - begin
    last_offset = (await last).offset
    await producer.stop()
    expect(last_offset, work.count, "aiokafka's last offset")
    return work.count / elapsed


async def _consume(work: Work) -> float:
    consumer = AIOKafkaConsumer(
        work.topic,
        bootstrap_servers=work.bootstrap,
        group_id=work.topic,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
    )
    await consumer.start()
    tally, done = Tally(work), False
    while not done:
        got = await consumer.getmany(timeout_ms=1000, max_records=AT_ONCE)
        done = tally.add([len(record.value) for records in got.values() for record in records])
    await consumer.stop()
    return tally.rate()
