"""The broker's settings for archived topics, whose old segments are in a remote storage (KIP-405)."""

from __future__ import annotations

from pylogbroker.config.setting import cluster_wide, fixed, rows_of
from pylogbroker.config.value_kinds import BOOLEAN, LONG, LONG_MAX, TEXT, at_least
from pylogbroker.config.values import Values

ENABLED = "remote.log.storage.system.enable"
STORAGE = "remote.log.storage"


class ArchiveRows(Values):
    __slots__ = ()

    remote_log_storage_system_enable = fixed(
        ENABLED,
        BOOLEAN,
        False,
        "medium",
        "Whether topics may have `remote.storage.enable`: then sealed segments are copied to a remote storage, and the "
        "local disk needs to keep only the newest ones.",
    )
    remote_log_storage = fixed(
        STORAGE,
        TEXT,
        "",
        "medium",
        "Remote storage, and its place after a colon: `directory:/mnt/archive`, or "
        "`s3://bucket/prefix?region=eu-central-1`. Plugins may add others. All brokers of a cluster need the same.",
    )
    remote_log_manager_task_interval_ms = fixed(
        "remote.log.manager.task.interval.ms",
        at_least(1, LONG),
        30_000,
        "low",
        "Time between two searches for segments to copy to the remote storage, or to delete there.",
    )
    remote_log_manager_task_retry_backoff_ms = fixed(
        "remote.log.manager.task.retry.backoff.ms",
        at_least(1, LONG),
        500,
        "low",
        "Time after which a copy or deletion is tried again when the remote storage has failed; it doubles each time.",
        internal=True,
    )
    remote_log_manager_task_retry_backoff_max_ms = fixed(
        "remote.log.manager.task.retry.backoff.max.ms",
        at_least(1, LONG),
        30_000,
        "low",
        "Longest time between two such tries.",
        internal=True,
    )
    remote_log_manager_copier_thread_pool_size = cluster_wide(
        "remote.log.manager.copier.thread.pool.size",
        at_least(1),
        10,
        "medium",
        "Partitions whose segments are copied to the remote storage, or deleted there, at the same time.",
    )
    remote_log_manager_copy_max_bytes_per_second = cluster_wide(
        "remote.log.manager.copy.max.bytes.per.second",
        at_least(1, LONG),
        LONG_MAX,
        "medium",
        "Bytes per second that are copied to the remote storage, in all partitions together.",
    )
    remote_log_manager_copy_quota_window_num = fixed(
        "remote.log.manager.copy.quota.window.num",
        at_least(1),
        11,
        "medium",
        "Number of windows over which the rate of copies is measured.",
    )
    remote_log_manager_copy_quota_window_size_seconds = fixed(
        "remote.log.manager.copy.quota.window.size.seconds", at_least(1), 1, "medium", "Length of such a window."
    )
    remote_log_manager_fetch_max_bytes_per_second = cluster_wide(
        "remote.log.manager.fetch.max.bytes.per.second",
        at_least(1, LONG),
        LONG_MAX,
        "medium",
        "Bytes per second that are read from the remote storage, in all partitions together. Beyond that, reads begin "
        "later, and fetches of old records are answered without any after `remote.fetch.max.wait.ms`.",
    )
    remote_log_manager_fetch_quota_window_num = fixed(
        "remote.log.manager.fetch.quota.window.num",
        at_least(1),
        11,
        "medium",
        "Number of windows over which the rate of reads is measured.",
    )
    remote_log_manager_fetch_quota_window_size_seconds = fixed(
        "remote.log.manager.fetch.quota.window.size.seconds", at_least(1), 1, "medium", "Length of such a window."
    )
    follower_fetch_last_tiered_offset_enable = cluster_wide(
        "follower.fetch.last.tiered.offset.enable",
        BOOLEAN,
        False,
        "medium",
        "Whether a new replica of an archived partition begins behind the last archived record, instead of at the "
        "leader's local start: it is in sync sooner, and has fewer records on its disk.",
    )
    remote_log_reader_threads = cluster_wide(
        "remote.log.reader.threads",
        at_least(1),
        10,
        "medium",
        "Threads that read from the remote storage.",
    )
    remote_log_reader_max_pending_tasks = fixed(
        "remote.log.reader.max.pending.tasks",
        at_least(1),
        100,
        "medium",
        "Reads that wait for such a thread. Beyond that, fetches of old records are answered without any.",
    )
    remote_fetch_max_wait_ms = cluster_wide(
        "remote.fetch.max.wait.ms",
        at_least(1),
        500,
        "medium",
        "Time that a fetch waits for the remote storage. Then it is answered without records, and the next one waits "
        "on.",
    )
    remote_list_offsets_request_timeout_ms = cluster_wide(
        "remote.list.offsets.request.timeout.ms",
        at_least(1, LONG),
        30_000,
        "medium",
        "Time for which a search of an offset waits for the remote storage, unless the request names one. Then it "
        "fails with REQUEST_TIMED_OUT.",
    )
    remote_log_cache_bytes = fixed(
        "remote.log.cache.bytes",
        at_least(16 << 20, LONG),
        64 << 20,
        "medium",
        "Memory for records and indexes that were read from the remote storage, in all partitions together.",
    )


ARCHIVE_SETTINGS = rows_of(ArchiveRows)
