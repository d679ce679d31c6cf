"""Producer settings as values, in seconds."""

from __future__ import annotations

from functools import partial

import attrs

from pylogbroker.client.producer.accumulator import BufferLimits
from pylogbroker.client.producer_guarantees import acks_of, in_flight_max, is_idempotent
from pylogbroker.config import Values
from pylogbroker.records import Codec
from pylogbroker.rpc.backoff import Backoff


@attrs.frozen
class ProducerOptions:
    """Times in seconds, sizes in bytes."""

    limits: BufferLimits = attrs.Factory(BufferLimits)
    acks: int = -1
    idempotent: bool = True
    transactional_id: str | None = None
    transaction_timeout: float = 60.0
    in_flight_max: int = 5
    codec: Codec = Codec.NONE
    level: int | None = None
    compressed_topics: frozenset[str] = frozenset()  # empty: all
    max_request_size: int = 1_048_576
    retries: int = 2**31 - 1
    request_timeout: float = 30.0
    enqueue_timeout: float | None = 60.0  # 0: no wait; None: no limit
    block_timeout: float = 60.0
    backoff: Backoff = attrs.Factory(partial(Backoff, 0.1, 1.0))
    sync: bool = False

    def codec_of(self, topic: str) -> Codec:
        return self.codec if not self.compressed_topics or topic in self.compressed_topics else Codec.NONE


def options_of(settings: Values) -> ProducerOptions:
    """Raise ConfigError for contradictory settings."""
    level = settings["compression.level"]
    sync = settings.text("producer.type") == "sync"
    return ProducerOptions(
        limits=_limits(settings, sync),
        acks=acks_of(settings),
        idempotent=is_idempotent(settings),
        transactional_id=settings.optional_text("transactional.id"),
        transaction_timeout=_seconds(settings, "transaction.timeout.ms"),
        in_flight_max=in_flight_max(settings),
        codec=Codec[settings.text("compression.type").upper()],
        level=level if isinstance(level, int) else None,
        compressed_topics=frozenset(settings.texts("compressed.topics")),
        max_request_size=settings.integer("max.request.size"),
        retries=settings.integer("retries"),
        request_timeout=_seconds(settings, "request.timeout.ms"),
        enqueue_timeout=_enqueue_timeout(settings),
        block_timeout=_seconds(settings, "max.block.ms"),
        backoff=Backoff.of(settings),
        sync=sync,
    )


def _limits(settings: Values, sync: bool) -> BufferLimits:
    return BufferLimits(
        batch_bytes=settings.integer("batch.size"),
        batch_records=1 if sync else settings.integer("batch.num.messages"),
        linger=0.0 if sync else _seconds(settings, "linger.ms"),
        delivery_timeout=_seconds(settings, "delivery.timeout.ms"),
        memory=settings.integer("buffer.memory"),
        records=settings.integer("queue.size"),
    )


def _enqueue_timeout(settings: Values) -> float | None:
    if settings["queue.enqueue.timeout.ms"] is None:
        return _seconds(settings, "max.block.ms")
    timeout = settings.integer("queue.enqueue.timeout.ms")
    return None if timeout < 0 else timeout / 1000


def _seconds(settings: Values, name: str) -> float:
    return settings.integer(name) / 1000
