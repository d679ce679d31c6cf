"""The header Idempotency-Key: a request that is sent again writes nothing twice.

A key is a producer id of its own, computed from the principal, the topic and the key. The batches of a request have
sequence numbers from 0 on, so the log itself recognises a batch that it has, and answers with its offsets. This holds
on every broker, and after a restart, as long as the log remembers the producer: `producer.id.expiration.ms` after its
records. Nothing is remembered here.

Ids that controllers allocate begin at 0, and never get to those of keys, which have bit 62.

A log remembers the last five batches of a producer. So a request with a key has no more for one partition.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import attrs

from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.web.router import BadRequest

HEADER: Final = "idempotency-key"
BATCHES_MAX: Final = 5
"""Batches of a request for one partition."""
PRODUCERS_MAX: Final = 100_000
"""Producers that a log remembers, of all kinds, above which it takes no further key."""
EPOCH: Final = 0

_KEY_CHARACTERS_MAX: Final = 255
_BIT: Final = 1 << 62
_SEPARATOR: Final = "\0"


class KeyTaken(KafkaError):
    """Another request with the same key had other records."""


@attrs.define(eq=False, repr=False)
class KeyedProducer:
    """Producer of one request with a key."""

    producer_id: int
    partition_seed: int
    """Chooses the partition of records without a key, the same whenever the request is sent."""
    _sequences: dict[int, int] = attrs.field(factory=dict, init=False)
    _batches: dict[int, int] = attrs.field(factory=dict, init=False)

    def sequence(self, services: Services, topic: str, index: int, records: int) -> int:
        """Return the sequence number of the next batch of a partition; raise KafkaError for one too many."""
        batches = self._batches.get(index, 0)
        if batches == BATCHES_MAX:
            raise KafkaError(
                f"a request with Idempotency-Key has at most {BATCHES_MAX} batches of max.message.bytes for a "
                "partition: send the rest with another key",
                ErrorCode.INVALID_REQUEST,
            )
        partition = services.partitions.led.get((topic, index))
        if partition is not None and not batches:
            producers = partition.log.producers
            if len(producers) >= PRODUCERS_MAX and producers.get(self.producer_id) is None:
                raise KafkaError(
                    f"{topic}-{index} remembers {len(producers):,} producers, and takes no further Idempotency-Key "
                    "before some expire (producer.id.expiration.ms): try later, or send the records without a key",
                    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                )
        self._batches[index] = batches + 1
        sequence = self._sequences.get(index, 0)
        self._sequences[index] = sequence + records
        return sequence


def keyed_producer(principal: str, topic: str, key: str) -> KeyedProducer:
    """Return the producer of a key; raise BadRequest for one that is empty or too long."""
    if not key or len(key) > _KEY_CHARACTERS_MAX:
        raise BadRequest(f"Idempotency-Key must have 1 to {_KEY_CHARACTERS_MAX} characters, such as those of a UUID")
    digest = sha256(_SEPARATOR.join((principal, topic, key)).encode(errors="surrogatepass")).digest()
    return KeyedProducer(_BIT | int.from_bytes(digest[:8], "big") & (_BIT - 1), int.from_bytes(digest[8:12], "big"))
