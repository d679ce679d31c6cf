"""Copies of logs in other directories, which take the logs' places when they have all records.

`pylogbroker.broker.partitions.log_moves` fills them. All methods but `adopt` block; any thread may call these.
"""

from __future__ import annotations

import os
import shutil

import attrs

from pylogbroker.storage import names
from pylogbroker.storage.files import opened, remove, sync_file
from pylogbroker.storage.log.loader import Checkpointed, load_log
from pylogbroker.storage.log.log import Log
from pylogbroker.storage.logdirs.log_directory import LogDirectory
from pylogbroker.storage.logdirs.log_manager import LogManager, set_topic_id


@attrs.frozen
class LogCopies:
    _logs: LogManager

    def begin(self, log: Log, home: LogDirectory, now_ms: int) -> Log:
        """Return an empty copy of a log in another directory. Raises OSError."""
        path = f"{home.path}/{names.future_directory(log.topic, log.partition)}"
        shutil.rmtree(path, ignore_errors=True)
        remove(f"{log.path}/{names.MOVED}")
        try:
            os.makedirs(path)
            with opened(f"{path}/{names.MOVED}", os.O_WRONLY | os.O_CREAT):
                pass
            saved = Checkpointed(log_start_offset=log.log_start_offset)
            copy = load_log(log.topic, log.partition, path, log.config, self._logs.pools, saved, now_ms)
            if log.topic_id is not None:
                set_topic_id(copy, log.topic_id)
        except OSError:
            shutil.rmtree(path, ignore_errors=True)
            raise
        copy.cleaner_checkpoint = log.cleaner_checkpoint
        return copy

    def discard(self, copy: Log) -> None:
        copy.take_offline("discarded")
        shutil.rmtree(copy.path, ignore_errors=True)

    def adopt(self, log: Log, copy: Log) -> str:
        """Let a copy with all records take the log's place; return the old directory. Syncs of the log are held."""
        old, home = self._logs.home(log), self._logs.home(copy)
        path, former = f"{home.path}/{names.partition_directory(log.topic, log.partition)}", log.path
        try:
            os.rename(copy.path, path)
        except OSError as error:
            raise self._logs.failure(home, error) from error
        log.adopt(copy, path)
        self._logs.checkpoints.note_deletion()
        old.logs -= 1
        home.logs += 1
        return former

    def finish(self, log: Log, former: str) -> None:
        """Sync the move, let the log's syncs go on, and remove the former directory.

        The former directory goes after the new one is on the disk: a start has one of them at least. Raise
        StorageFailure if the log is offline now, OSError if the former directory is left, for the next start.
        """
        try:
            sync_file(os.path.dirname(log.path))
        except OSError as error:
            raise log.record_failure(error, frozenset()) from error
        finally:
            log.release_syncs()
        home, name = os.path.split(former)
        renamed = f"{home}/{names.deleted_directory(name)}"
        os.rename(former, renamed)
        sync_file(home)
        remove(f"{log.path}/{names.MOVED}")
        self._logs.checkpoints.save_all()
        shutil.rmtree(renamed, ignore_errors=True)
