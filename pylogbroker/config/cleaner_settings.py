"""The broker's settings for compaction."""

from __future__ import annotations

import sys

from pylogbroker.config.setting import Setting, cluster_wide, fixed
from pylogbroker.config.topic_settings import RATIO
from pylogbroker.config.value_kinds import BOOLEAN, LONG, LONG_MAX, ConfigType, ValueKind, at_least

_POSITIVE = ValueKind(ConfigType.DOUBLE, low=1, wanted="a number from 1")
_SHARE = ValueKind(ConfigType.DOUBLE, low=0.01, high=1)

CLEANER_SETTINGS: tuple[Setting, ...] = (
    fixed("log.cleaner.enable", BOOLEAN, True, "medium", "Whether topics with cleanup.policy=compact are compacted."),
    cluster_wide(
        "log.cleaner.threads",
        at_least(0),
        1,
        "medium",
        "Number of logs compacted at the same time, each by its own process.",
    ),
    cluster_wide(
        "log.cleaner.io.max.bytes.per.second",
        _POSITIVE,
        sys.float_info.max,
        "medium",
        "Maximum bytes per second that all compactions read and write together.",
    ),
    cluster_wide(
        "log.cleaner.dedupe.buffer.size",
        at_least(1 << 20, LONG),
        134_217_728,
        "medium",
        "Memory for the keys of all compactions together.",
    ),
    cluster_wide(
        "log.cleaner.io.buffer.load.factor",
        _SHARE,
        0.9,
        "medium",
        "Share of the memory for keys that is used. The fuller it is, the more often keys collide.",
    ),
    cluster_wide(
        "log.cleaner.backoff.ms",
        at_least(0, LONG),
        15_000,
        "medium",
        "Time to the next search for logs to compact, after one without a result.",
    ),
    cluster_wide(
        "log.cleaner.delete.retention.ms",
        at_least(0, LONG),
        86_400_000,
        "medium",
        "Time for which a compacted topic keeps tombstones.",
    ),
    cluster_wide(
        "log.cleaner.min.cleanable.ratio",
        RATIO,
        0.5,
        "medium",
        "Share of a compacted log that must be new before it is compacted again.",
    ),
    cluster_wide(
        "log.cleaner.min.compaction.lag.ms",
        at_least(0, LONG),
        0,
        "medium",
        "Minimum time before a record of a compacted topic is compacted.",
    ),
    cluster_wide(
        "log.cleaner.max.compaction.lag.ms",
        at_least(1, LONG),
        LONG_MAX,
        "medium",
        "Maximum time before a record of a compacted topic is compacted.",
    ),
)
