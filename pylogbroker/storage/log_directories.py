"""The log directories of a broker: held and marked as its own, and which of their logs are online.

A directory whose disk fails goes offline, and its logs with it; the others go on.  So does the rest of a directory
where something is wrong with the files of one log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pylogbroker.errors import StartupError
from pylogbroker.storage.checkpoints import TopicPartition
from pylogbroker.storage.directory import Identity, LogDirectory, Notice
from pylogbroker.storage.files import PASSING
from pylogbroker.storage.log import Log


class LogDirectories:
    """Where the logs are.  All methods but `isolate` and `fail_directory` block on the disk."""

    def __init__(self, directories: Iterable[str]) -> None:
        self.directories = tuple(LogDirectory(os.path.abspath(path)) for path in directories)
        self.logs: dict[TopicPartition, Log] = {}
        self.offline: dict[TopicPartition, str] = {}  # logs that failed, or whose directories did, and why

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that work."""
        return [directory for directory in self.directories if not directory.failure]

    # Start

    def lock(self) -> list[Notice]:
        """Hold all directories; tells of those that can't be used.

        StartupError if another broker holds one, if one is named twice, or if none can be used.
        """
        if len({os.path.realpath(directory.path) for directory in self.directories}) < len(self.directories):
            raise StartupError("a log directory is named twice in log.dirs")
        try:
            for directory in self.directories:
                with self._failing(directory):
                    directory.lock()
        except StartupError:
            self._unlock()
            raise
        self._need_one()
        return [Notice(directory.path, directory.failure) for directory in self.directories if directory.failure]

    @contextmanager
    def _failing(self, directory: LogDirectory) -> Iterator[None]:
        """An error of the disk within a `with` block takes the directory offline."""
        try:
            yield
        except OSError as error:
            self.fail_directory(directory.path, reason_of(directory, error))

    def _need_one(self) -> None:
        if not self.online:
            failures = "; ".join(directory.failure for directory in self.directories)
            raise StartupError(f"no log directory can be used: {failures}")

    def _unlock(self) -> None:
        for directory in self.directories:
            directory.unlock()

    def identities(self) -> Identity:
        """Whose data the directories hold; StartupError if they disagree."""
        found = Identity()
        for directory in self.online:
            with self._failing(directory):
                found = found.agree(directory.identity(), directory.path)
        return found

    def identify(self, broker_id: int, cluster_id: str) -> None:
        """Mark the directories as this broker's; StartupError if one is another's."""
        wanted = Identity(broker_id, cluster_id)
        for directory in self.online:
            with self._failing(directory):
                present = directory.identity()
                wanted.agree(present, directory.path)
                if present != wanted:
                    directory.write_identity(wanted)
        self._need_one()

    # Failure

    def isolate(self, log: Log) -> list[TopicPartition]:
        """After a StorageFailure: if it was not just a full disk, take the log offline, or the whole directory.

        Says which logs went offline.
        """
        key = log.topic, log.partition
        if not log.broken or self.logs.get(key) is not log:
            return []
        home = self._home(log)
        if home.fails_with(log.fault):
            return self.fail_directory(home.path, log.broken)
        self.logs.pop(key).take_offline(log.broken)
        self.offline[key] = log.broken
        home.logs -= 1
        return [key]

    def fail_directory(self, path: str, reason: str) -> list[TopicPartition]:
        """Take a directory and its logs offline; says which logs these are."""
        for directory in self.directories:
            if directory.path == path:
                directory.failure = directory.failure or reason
                directory.logs = 0
        gone = [key for key, log in self.logs.items() if os.path.dirname(log.path) == path]
        for key in gone:
            self.logs.pop(key).take_offline(reason)
            self.offline[key] = reason
        return gone

    def _home(self, log: Log) -> LogDirectory:
        path = os.path.dirname(log.path)
        return next(directory for directory in self.directories if directory.path == path)


def reason_of(directory: LogDirectory, error: OSError) -> str:
    return f"{error.filename or directory.path}: {error.strerror or error}"


def is_fatal(home: LogDirectory, error: OSError) -> bool:
    """Whether an error takes the whole directory."""
    return error.errno not in PASSING and home.fails_with(error.errno)
