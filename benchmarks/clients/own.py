"""This project's client, on Twisted's reactor."""

import time

from twisted.internet import reactor
from twisted.internet.task import deferLater

from benchmarks.clients import (
    AT_ONCE,
    BATCH_BYTES,
    IN_FLIGHT_MAX,
    LINGER_MS,
    PARTITION_FETCH_BYTES,
    WAIT_SECONDS_MAX,
    Work,
)
from benchmarks.clients.tally import Tally
from benchmarks.session import expect
from pylogbroker.client import ConsumerConnector, Producer
from tests.support.reactor_run import run


def produce(work: Work) -> float:
    """Send with `send`, giving way to the reactor now and then, and `flush`."""
    return run(lambda: _produce(work), WAIT_SECONDS_MAX)


def consume(work: Work) -> float:
    """Read with `get_many`."""
    return run(lambda: _consume(work), WAIT_SECONDS_MAX)


async def _produce(work: Work) -> float:
    producer = Producer(
        work.bootstrap,
        enable_idempotence=work.idempotent,
        max_in_flight_requests_per_connection=IN_FLIGHT_MAX,
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
    )
    topic, value, send = work.topic, bytes(work.value_bytes), producer.send
    await send(topic, value)
    begin = time.perf_counter()
    for number in range(work.count):
        last = send(topic, value)
        if number % AT_ONCE == 0:
            await producer.room()
            await deferLater(reactor, 0)
    await producer.flush()
    elapsed = time.perf_counter() - begin
    last_offset = (await last).offset
    await producer.close()
    expect(last_offset, work.count, "pylogbroker's last offset")
    return work.count / elapsed


async def _consume(work: Work) -> float:
    connector = ConsumerConnector(
        work.bootstrap,
        group=work.topic,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
    )
    streams = await connector.create_message_streams({work.topic: 1})
    (stream,) = streams[work.topic]
    tally, done = Tally(work), False
    while not done:
        done = tally.add([len(message.value) for message in await stream.get_many(AT_ONCE)])
    await connector.shutdown()
    return tally.rate()
