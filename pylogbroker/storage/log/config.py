"""Settings of a topic that its log uses, in their own names and units."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

import attrs

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_DAY: Final = 86_400_000


@attrs.frozen(kw_only=True)
class LogConfig:
    """A topic's settings with underscores for dots, and Kafka's defaults."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = _DAY
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _LONG_MAX
    flush_ms: int = _LONG_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = _LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = _LONG_MAX
    message_timestamp_before_max_ms: int = _LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    preallocate: bool = False
    remote_storage_enable: bool = False
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * _DAY
    magic: int = 2
    """Message format to write: 0, 1 or 2; from message.format.version."""
    byte_addressed: bool = False
    longest_segment_ms: int = attrs.field(init=False, eq=False, repr=False)
    """Age at which a segment is rolled; compaction needs sealed segments within max.compaction.lag.ms."""

    @longest_segment_ms.default
    def _longest_segment_ms(self) -> int:
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @classmethod
    def from_settings(cls, settings: Mapping[str, object], magic: int = 2, byte_addressed: bool = False) -> LogConfig:
        """Make a LogConfig from settings by name (`segment.bytes`); ignore others."""
        field_names = {field.name for field in attrs.fields(cls)}
        values = {name.replace(".", "_"): value for name, value in settings.items()}
        values = {name: value for name, value in values.items() if name in field_names}
        return cls(**values | {"magic": magic, "byte_addressed": byte_addressed})  # type: ignore[arg-type]

    def random_jitter_ms(self) -> int:
        """Return how much earlier than `longest_segment_ms` to roll."""
        most = min(self.segment_jitter_ms, self.longest_segment_ms)
        return random.randrange(most) if most else 0

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy and not self.byte_addressed

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy
