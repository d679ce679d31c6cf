"""Validation rules of a topic for appended records."""

from __future__ import annotations

import attrs

from pylogbroker.records.batch import TRANSACTIONAL
from pylogbroker.records.compression import DECOMPRESSED_BYTES_MAX
from pylogbroker.records.model import Codec, TimestampType

_INLINE_BYTES_MAX = 256 * 1024
"""Decompressed bytes that can be validated well below a millisecond."""

NO_BOUND = (1 << 63) - 1
"""No bound, in milliseconds."""


@attrs.frozen
class AppendRules:
    """Settings of a topic that concern its records.

    codec                     None keeps the producer's (`compression.type=producer`)
    level                     for recompression only
    from_client               False for batches that the broker writes, such as control batches
    is_validated              True if the broker, or `convert`, has validated the batch
    decompressed_bytes_max    bytes that a compressed entry may expand to
    inline_bytes_max          the same without `convert`
    fast_attributes           attributes of batches that need neither decoding nor changes; derived
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
    is_validated: bool = False
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    inline_bytes_max: int = _INLINE_BYTES_MAX
    fast_attributes: frozenset[int] = attrs.field(init=False, eq=False, repr=False)

    @fast_attributes.default
    def _fast_attributes(self) -> frozenset[int]:
        if self.magic != 2 or self.timestamp_type or self.decodes_records:
            return frozenset()
        codecs = Codec if self.codec is None else (self.codec,)
        return frozenset(codec | flag for codec in codecs for flag in (0, TRANSACTIONAL))

    @property
    def after_conversion(self) -> AppendRules:
        return attrs.evolve(
            self,
            codec=None,
            timestamp_before_max_ms=NO_BOUND,
            timestamp_after_max_ms=NO_BOUND,
            keys_required=False,
            is_validated=True,
        )

    @property
    def decodes_records(self) -> bool:
        """True if headers do not show that records are valid."""
        return self.keys_required or self.timestamp_before_max_ms < NO_BOUND
