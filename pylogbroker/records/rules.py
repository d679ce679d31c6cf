"""What a topic asks of the records that are appended to it."""

from __future__ import annotations

import attrs

from pylogbroker.records.batch import TRANSACTIONAL
from pylogbroker.records.compression import MAX_DECOMPRESSED
from pylogbroker.records.model import Codec, TimestampType

MAX_AT_ONCE = 256 * 1024
"""A size of decompressed records that takes well below a millisecond to look into."""

NO_BOUND = (1 << 63) - 1
"""The value of a bound, in milliseconds, that bounds nothing."""


@attrs.frozen
class AppendRules:
    """A topic's settings, as far as they concern records.

    `codec` None keeps whatever the producer chose (`compression.type=producer`); `level` is for recompression only.
    `from_client` is false for what the broker itself writes, which may be control batches; `are_checked` says that it,
    or `convert`, has looked into the batch.  `max_decompressed` bounds what a compressed entry may hold, `max_at_once`
    what it may hold to be looked into without `convert`.
    `fast_attributes`, derived from the others, are the batch attributes that need no look at records and no change.
    """

    magic: int = 2
    codec: Codec | None = None
    level: int | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = NO_BOUND
    timestamp_after_max_ms: int = NO_BOUND
    max_bytes: int = 1048588
    keys_required: bool = False
    from_client: bool = True
    are_checked: bool = False
    max_decompressed: int = MAX_DECOMPRESSED
    max_at_once: int = MAX_AT_ONCE
    fast_attributes: frozenset[int] = attrs.field(init=False, eq=False, repr=False)

    @fast_attributes.default
    def _fast_attributes(self) -> frozenset[int]:
        if self.magic != 2 or self.timestamp_type or self.looks_at_records:
            return frozenset()
        codecs = Codec if self.codec is None else (self.codec,)
        return frozenset(codec | flag for codec in codecs for flag in (0, TRANSACTIONAL))

    @property
    def after_conversion(self) -> AppendRules:
        """What is left to ask of records that `convert` has made ready."""
        return attrs.evolve(
            self,
            codec=None,
            timestamp_before_max_ms=NO_BOUND,
            timestamp_after_max_ms=NO_BOUND,
            keys_required=False,
            are_checked=True,
        )

    @property
    def looks_at_records(self) -> bool:
        """Whether no header can say that a batch is all right."""
        return self.keys_required or self.timestamp_before_max_ms < NO_BOUND
