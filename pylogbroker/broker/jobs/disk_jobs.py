"""Disk work of background jobs, in worker threads: checkpoints, and the removal of segments' files.

A failure takes the log directory offline, unless it is transient, as a full disk is.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.storage import DeletedFiles, Log, LogManager, Notice

log = Logger()


@attrs.define(eq=False, repr=False)
class DiskJobs:
    _runtime: Runtime
    _logs: LogManager
    _partitions: Partitions
    _stopped: bool = attrs.field(default=False, init=False)
    _unlinks: dict[int, IDelayedCall] = attrs.field(factory=dict, init=False)  # by the identity of their files

    def stop(self) -> None:
        """Cancel removals; the next start removes the files."""
        self._stopped = True
        for timer in self._unlinks.values():
            timer.cancel()
        self._unlinks.clear()

    def unlink_later(self, partition_log: Log, gone: list[DeletedFiles]) -> None:
        """Remove segments' files after `file.delete.delay.ms`, when reads of them have ended."""
        if not self._stopped:
            delay = partition_log.config.file_delete_delay_ms / 1000
            self._unlinks[id(gone)] = self._runtime.clock.callLater(delay, self._unlink, gone)

    def _unlink(self, gone: list[DeletedFiles]) -> None:
        del self._unlinks[id(gone)]

        def unlink() -> None:
            for files in gone:
                files.unlink()

        self._run(unlink, "unlinking segments")

    def checkpoint_log_offsets(self) -> None:
        self._run(self._logs.checkpoints.save_recovery_points, "writing recovery points")
        self._run(self._logs.checkpoints.save_log_starts, "writing log start offsets")

    def checkpoint_high_watermarks(self) -> None:
        self._run(self._logs.checkpoints.save_high_watermarks, "writing high watermarks")

    def checkpoint_cleaner_offsets(self) -> None:
        self._run(self._logs.checkpoints.save_cleaned, "writing the offsets of the log cleaner")

    def _run(self, job: Callable[[], list[Notice] | None], what: str) -> None:
        self._runtime.in_thread(job).addCallbacks(
            self._directories_failed,
            lambda failure: log.error("{what} failed: {why}", what=what, why=failure.value),
        )

    def _directories_failed(self, notices: list[Notice] | None) -> None:
        for notice in notices or ():
            if not notice.is_transient or self._runtime.may_log(str(notice)):
                log.error("{notice}", notice=notice)
            if not notice.is_transient:
                self._partitions.directory_failed(notice.path, notice.text)
