"""The broker's settings for compaction; those with `min`, `max` or `retention` are the defaults of a topic's own."""

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
        "log.cleaner.threads", at_least(0), 1, "medium", "How many logs are compacted at once, each by its own process."
    ),
    cluster_wide(
        "log.cleaner.io.max.bytes.per.second",
        _POSITIVE,
        sys.float_info.max,
        "medium",
        "How many bytes per second compaction reads and writes at most, all of its processes together.",
    ),
    cluster_wide(
        "log.cleaner.dedupe.buffer.size",
        at_least(1 << 20, LONG),
        134_217_728,
        "medium",
        "How much memory the keys of the logs that are being compacted may take, of all processes together.",
    ),
    cluster_wide(
        "log.cleaner.io.buffer.load.factor",
        _SHARE,
        0.9,
        "medium",
        "Which share of the memory for keys is used; the fuller it is, the more often keys collide.",
    ),
    cluster_wide(
        "log.cleaner.backoff.ms",
        at_least(0, LONG),
        15_000,
        "medium",
        "How long it takes until it is looked again for logs to compact, when there were none.",
    ),
    cluster_wide(
        "log.cleaner.delete.retention.ms",
        at_least(0, LONG),
        86_400_000,
        "medium",
        "How long a compacted topic keeps the mark of a deleted key.",
    ),
    cluster_wide(
        "log.cleaner.min.cleanable.ratio",
        RATIO,
        0.5,
        "medium",
        "Which share of a compacted log must be new before it is compacted again.",
    ),
    cluster_wide(
        "log.cleaner.min.compaction.lag.ms",
        at_least(0, LONG),
        0,
        "medium",
        "The shortest time that a record of a compacted topic stays untouched.",
    ),
    cluster_wide(
        "log.cleaner.max.compaction.lag.ms",
        at_least(1, LONG),
        LONG_MAX,
        "medium",
        "The longest time that a record of a compacted topic may wait for compaction.",
    ),
)
