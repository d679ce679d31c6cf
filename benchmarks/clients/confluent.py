"""confluent-kafka: librdkafka, in C."""

import time

from confluent_kafka import Consumer, Producer

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
    """Send with `produce`; its queue is full now and then, and emptied by `poll`."""
    producer = Producer(
        {
            "bootstrap.servers": work.bootstrap,
            "enable.idempotence": work.idempotent,
            "max.in.flight.requests.per.connection": IN_FLIGHT_MAX,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
        }
    )
    topic, value, send = work.topic, bytes(work.value_bytes), producer.produce
    send(topic, value)
    producer.flush(WAIT_SECONDS_MAX)
    begin = time.perf_counter()
    for _ in range(work.count):
        try:
            send(topic, value)
        except BufferError:
            producer.poll(0.1)
            send(topic, value)
    left = producer.flush(WAIT_SECONDS_MAX)
    elapsed = time.perf_counter() - begin
    expect(left, 0, "confluent-kafka's records that are not acknowledged")
    return work.count / elapsed


def consume(work: Work) -> float:
    """Read with `consume`."""
    consumer = Consumer(
        {
            "bootstrap.servers": work.bootstrap,
            "group.id": work.topic,
            "auto.offset.reset": "earliest",
            "max.partition.fetch.bytes": PARTITION_FETCH_BYTES,
            "fetch.queue.backoff.ms": 1,  # it would stop for a second whenever its queue is full
        }
    )
    consumer.subscribe([work.topic])
    tally, done = Tally(work), False
    while not done:
        done = tally.add([len(message.value()) for message in consumer.consume(AT_ONCE, 1)])
    consumer.close()
    return tally.rate()
