"""The broker's settings for compaction."""

from __future__ import annotations

import sys

from pylogbroker.config.setting import cluster_wide, fixed, rows_of
from pylogbroker.config.topic_settings import RATIO
from pylogbroker.config.value_kinds import BOOLEAN, LONG, LONG_MAX, ConfigType, TypedKind, at_least
from pylogbroker.config.values import Values

_POSITIVE = TypedKind[float](ConfigType.DOUBLE, low=1, words="a number from 1")
_SHARE = TypedKind[float](ConfigType.DOUBLE, low=0.01, high=1)


class CleanerRows(Values):
    __slots__ = ()

    log_cleaner_enable = fixed(
        "log.cleaner.enable", BOOLEAN, True, "medium", "Whether topics with cleanup.policy=compact are compacted."
    )
    log_cleaner_threads = cluster_wide(
        "log.cleaner.threads",
        at_least(0),
        1,
        "medium",
        "Number of logs compacted at the same time, each by its own process.",
    )
    log_cleaner_io_max_bytes_per_second = cluster_wide(
        "log.cleaner.io.max.bytes.per.second",
        _POSITIVE,
        sys.float_info.max,
        "medium",
        "Maximum bytes per second that all compactions read and write together.",
    )
    log_cleaner_dedupe_buffer_size = cluster_wide(
        "log.cleaner.dedupe.buffer.size",
        at_least(1 << 20, LONG),
        134_217_728,
        "medium",
        "Memory for the keys of all compactions together.",
    )
    log_cleaner_io_buffer_load_factor = cluster_wide(
        "log.cleaner.io.buffer.load.factor",
        _SHARE,
        0.9,
        "medium",
        "Share of the memory for keys that is used. The fuller it is, the more often keys collide.",
    )
    log_cleaner_backoff_ms = cluster_wide(
        "log.cleaner.backoff.ms",
        at_least(0, LONG),
        15_000,
        "medium",
        "Time to the next search for logs to compact, after one without a result.",
    )
    log_cleaner_delete_retention_ms = cluster_wide(
        "log.cleaner.delete.retention.ms",
        at_least(0, LONG),
        86_400_000,
        "medium",
        "Time for which a compacted topic keeps tombstones.",
    )
    log_cleaner_min_cleanable_ratio = cluster_wide(
        "log.cleaner.min.cleanable.ratio",
        RATIO,
        0.5,
        "medium",
        "Share of a compacted log that must be new before it is compacted again.",
    )
    log_cleaner_min_compaction_lag_ms = cluster_wide(
        "log.cleaner.min.compaction.lag.ms",
        at_least(0, LONG),
        0,
        "medium",
        "Minimum time before a record of a compacted topic is compacted.",
    )
    log_cleaner_max_compaction_lag_ms = cluster_wide(
        "log.cleaner.max.compaction.lag.ms",
        at_least(1, LONG),
        LONG_MAX,
        "medium",
        "Maximum time before a record of a compacted topic is compacted.",
    )


CLEANER_SETTINGS = rows_of(CleanerRows)
