"""Producer settings as values, in seconds."""

from __future__ import annotations

from functools import partial
from typing import Final

import attrs

from pylogbroker.client.producer.accumulator import BufferLimits
from pylogbroker.client.retries import Backoff
from pylogbroker.config import Values
from pylogbroker.errors import ConfigError
from pylogbroker.records import Codec

_IN_FLIGHT_MAX: Final = 5  # batches that a broker remembers per producer and partition
_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}


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
    acks = _ACKS[settings.text("acks")]
    idempotent = _idempotent(settings, acks)
    level = settings["compression.level"]
    sync = settings.text("producer.type") == "sync"
    return ProducerOptions(
        limits=_limits(settings, sync),
        acks=acks,
        idempotent=idempotent,
        transactional_id=settings.optional_text("transactional.id"),
        transaction_timeout=_seconds(settings, "transaction.timeout.ms"),
        in_flight_max=_in_flight_max(settings, idempotent),
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


def _idempotent(settings: Values, acks: int) -> bool:
    asked, transactional = settings["enable.idempotence"], settings["transactional.id"]
    if asked is None and transactional is None:
        return acks == -1
    if transactional is not None and asked is False:
        raise ConfigError("enable.idempotence: false is not accepted; transactions (transactional.id) need it")
    if (asked or transactional is not None) and acks != -1:
        why = "enable.idempotence" if asked else "transactional.id"
        raise ConfigError(f"acks: {settings.text('acks')!r} is not accepted; {why} needs all")
    return asked is not False


def _in_flight_max(settings: Values, idempotent: bool) -> int:
    """Return 1 by default without idempotence, which alone orders concurrent requests."""
    name = "max.in.flight.requests.per.connection"
    if settings[name] is None:
        return _IN_FLIGHT_MAX if idempotent else 1
    asked = settings.integer(name)
    if idempotent and asked > _IN_FLIGHT_MAX:
        raise ConfigError(f"{name}: {asked} is not accepted; enable.idempotence allows at most {_IN_FLIGHT_MAX}")
    return asked


def _enqueue_timeout(settings: Values) -> float | None:
    if settings["queue.enqueue.timeout.ms"] is None:
        return _seconds(settings, "max.block.ms")
    timeout = settings.integer("queue.enqueue.timeout.ms")
    return None if timeout < 0 else timeout / 1000


def _seconds(settings: Values, name: str) -> float:
    return settings.integer(name) / 1000
