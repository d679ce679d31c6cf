"""Producers of several clients behind three calls, set so that they come back quickly after a crash of the broker."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from tests.crash.history import Promise
from tests.crash.stamps import Stamp, value_of

_BATCH_BYTES: Final = 12_000  # so that batches fit into small segments
Delivered = Callable[[int | None, str], None]  # the offset that was acknowledged, or why it failed
BATCH_RECORDS: Final = 50
_START_SECONDS_MAX: Final = 120.0
_BYTES_OF_ANY_BATCH: Final = 1_000_000  # more than so many of the largest records
_FOR_EVER_MS: Final = 600_000  # longer than any run is without a broker
#: Longer than a run beside Apache Kafka.  librdkafka has the microseconds in 32 bits: 2,147,484 would be negative.
_TOPIC_KEPT_MS: Final = 2_000_000


class Sender(Protocol):
    """A producer of one client, used by one thread."""

    def send(self, stamp: Stamp, filling: str, delivered: Delivered) -> None:
        """Hand it a record; it says, in any thread, what became of it."""

    def work(self, seconds: float) -> None:
        """Let it work for so long."""

    def close(self, seconds: float) -> None:
        """Wait for what is under way, and end."""


class confluent:  # noqa: N801  (named as the client)
    """librdkafka."""

    def __init__(
        self,
        bootstrap: str,
        promise: Promise,
        acks: str,
        codec: str,
        *,
        topic_kept_ms: int | None = None,
        batch_records: int | None = None,
    ) -> None:
        from confluent_kafka import Producer

        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "compression.type": codec,
            "linger.ms": 2,
            "batch.size": _BATCH_BYTES,
            "message.timeout.ms": _FOR_EVER_MS,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 50,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "topic.metadata.refresh.fast.interval.ms": 20,
            "log_level": 0,
        }
        if promise is Promise.ONCE:
            settings["enable.idempotence"] = True
        elif promise is Promise.AT_MOST_ONCE:
            settings["retries"] = 0
        else:
            settings["max.in.flight"] = 1
        if topic_kept_ms is not None:
            settings["topic.metadata.propagation.max.ms"] = topic_kept_ms
        if batch_records is not None:
            settings |= {"batch.num.messages": batch_records, "batch.size": _BYTES_OF_ANY_BATCH}
        self._producer = Producer(settings)

    def send(self, stamp: Stamp, filling: str, delivered: Delivered) -> None:
        def reported(error: Any, message: Any) -> None:
            delivered(message.offset() if error is None else None, "" if error is None else str(error))

        self._producer.produce(
            stamp.topic, value_of(stamp, filling), str(stamp.sequence), stamp.partition, on_delivery=reported
        )

    def work(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._producer.poll(left)

    def close(self, seconds: float) -> None:
        self._producer.flush(seconds)


def confluent_beside_apache(bootstrap: str, promise: Promise, acks: str, codec: str) -> confluent:
    """Make a producer of librdkafka that keeps a topic of which a broker knows nothing.

    A restarted broker of Apache Kafka serves clients before its controller has sent it the topics.  librdkafka, once it
    has known a topic for 30 seconds, takes it as deleted then: records fail, and `produce` raises.

    No limit in bytes ends a batch: that includes the request's header, which is larger in an older release's version of
    Produce.  An idempotent producer whose batch moves there from a newer one must build the same again, or it ends.
    """
    return confluent(bootstrap, promise, acks, codec, topic_kept_ms=_TOPIC_KEPT_MS, batch_records=BATCH_RECORDS)


class kafka_python:  # noqa: N801
    """kafka-python."""

    def __init__(self, bootstrap: str, promise: Promise, acks: str, codec: str) -> None:
        from kafka import KafkaProducer

        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks=acks if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=promise is Promise.ONCE,
            retries=0 if promise is Promise.AT_MOST_ONCE else 1_000_000_000,
            max_in_flight_requests_per_connection=1 if promise is Promise.AT_LEAST_ONCE else 5,
            linger_ms=2,
            batch_size=_BATCH_BYTES,
            delivery_timeout_ms=_FOR_EVER_MS,
            max_block_ms=_FOR_EVER_MS,
            retry_backoff_ms=10,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=50,
        )

    def send(self, stamp: Stamp, filling: str, delivered: Delivered) -> None:
        future = self._producer.send(
            stamp.topic, value_of(stamp, filling), str(stamp.sequence).encode(), partition=stamp.partition
        )
        future.add_callback(lambda found: delivered(found.offset, ""))
        future.add_errback(lambda error: delivered(None, repr(error)))

    def work(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self, seconds: float) -> None:
        self._producer.flush(seconds)
        self._producer.close(seconds)


class aiokafka:  # noqa: N801
    """aiokafka, in an event loop and a thread of its own."""

    def __init__(self, bootstrap: str, promise: Promise, acks: str, codec: str) -> None:
        from aiokafka import AIOKafkaProducer

        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True).start()

        async def begin() -> Any:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                acks=acks if acks == "all" else int(acks),
                compression_type=None if codec == "none" else codec,
                enable_idempotence=promise is Promise.ONCE,
                request_timeout_ms=_FOR_EVER_MS,
                retry_backoff_ms=20,
                linger_ms=2,
                max_batch_size=_BATCH_BYTES,
            )
            await producer.start()
            return producer

        self._producer = self._run(begin(), _START_SECONDS_MAX)

    def _run(self, question: Any, seconds: float) -> Any:
        return asyncio.run_coroutine_threadsafe(question, self._loop).result(seconds)

    def send(self, stamp: Stamp, filling: str, delivered: Delivered) -> None:
        def reported(future: Any) -> None:
            error = future.exception()
            delivered(future.result().offset if error is None else None, "" if error is None else repr(error))

        async def hand_over() -> None:
            value, key = value_of(stamp, filling), str(stamp.sequence).encode()
            (await self._producer.send(stamp.topic, value, key, stamp.partition)).add_done_callback(reported)

        self._run(hand_over(), _FOR_EVER_MS / 1000)

    def work(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self, seconds: float) -> None:
        self._run(self._producer.flush(), seconds)
        self._run(self._producer.stop(), seconds)
        self._loop.call_soon_threadsafe(self._loop.stop)
