"""kafka-python: sockets and threads in plain Python."""

import time

from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]

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


def produce(work: Work) -> float:
    """Send with `send` and `flush`."""
    producer = KafkaProducer(
        bootstrap_servers=work.bootstrap,
        enable_idempotence=work.idempotent,
        max_in_flight_requests_per_connection=IN_FLIGHT_MAX,
        acks="all",
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
    )
    topic, value, send = work.topic, bytes(work.value_bytes), producer.send
    send(topic, value).get(WAIT_SECONDS_MAX)
    begin = time.perf_counter()
    for _ in range(work.count):
        last = send(topic, value)
    producer.flush(WAIT_SECONDS_MAX)
    elapsed = time.perf_counter() - begin
    last_offset = last.get(WAIT_SECONDS_MAX).offset
    producer.close()
    expect(last_offset, work.count, "kafka-python's last offset")
    return work.count / elapsed


def consume(work: Work) -> float:
    """Read with `poll`."""
    consumer = KafkaConsumer(
        work.topic,
        bootstrap_servers=work.bootstrap,
        group_id=work.topic,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
    )
    tally, done = Tally(work), False
    while not done:
        polled = consumer.poll(1000, max_records=AT_ONCE)
        done = tally.add([len(record.value) for records in polled.values() for record in records])
    consumer.close()
    return tally.rate()
