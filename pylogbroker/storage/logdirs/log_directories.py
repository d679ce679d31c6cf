"""The log directories of a broker: held and marked as its own, and which of their logs are online.

A directory whose disk fails goes offline, and its logs with it; the others go on.  So does the rest of a directory
where something is wrong with the files of one log.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations

import attrs

from pylogbroker.errors import StartupError
from pylogbroker.storage.checkpoints import TopicPartition
from pylogbroker.storage.files import TRANSIENT_ERRNOS
from pylogbroker.storage.log.log import Log
from pylogbroker.storage.log.partition_metadata import id_text
from pylogbroker.storage.logdirs.directory_ids import expected_directory_ids, unexpected_directories
from pylogbroker.storage.logdirs.log_directory import Identity, LogDirectory, Notice


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
        """Hold all directories that are not offline yet; tells of those that can't be used.

        StartupError if another broker holds one, if one is named twice, or if none can be used.
        """
        if len({os.path.realpath(directory.path) for directory in self.directories}) < len(self.directories):
            raise StartupError("a log directory is named twice in log.dirs")
        try:
            for directory in self.online:
                with self._failing(directory):
                    directory.lock()
        except StartupError:
            self.unlock()
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

    def unlock(self) -> None:
        """Release all directories as they are; for a broker whose logs were opened, `close` does it."""
        for directory in self.directories:
            directory.unlock()

    def read_identity(self) -> Identity:
        """Whose data the directories hold; StartupError if they disagree.  Nothing is made or held for it."""
        found = Identity()
        for directory in self.online:
            with self._failing(directory):
                present = directory.identity()
                found = found.agree(present, directory.path)
                directory.id = present.directory_id
        return found

    def check_directory_ids(self, remembered: Mapping[str, str], certain: str) -> None:
        """After `identities`: take offline, untouched, what is not the directory that was at its path before.

        `remembered` has the ids by the paths; the directory at `certain`, if it is one of these, is known to be right.
        """
        found = {directory.path: directory.id for directory in self.online}
        if found.get(certain, "") is None and remembered.get(certain) not in found.values():
            found[certain] = remembered.get(certain)
        for directory in self.online:
            directory.id = found[directory.path]
        for path, wanted in unexpected_directories(found, remembered).items():
            if path != certain:
                self.fail_directory(path, _not_there(path, wanted))

    def identify(self, broker_id: int, cluster_id: str) -> None:
        """Mark the directories as this broker's, and with ids; StartupError if one is another's."""
        owner = Identity(broker_id, cluster_id)
        for directory in self.online:
            with self._failing(directory):
                present = directory.identity()
                owner.agree(present, directory.path)
                directory.id = self._mark(directory, present, owner)
        _refuse_copies(self.online)
        self._need_one()

    def _mark(self, directory: LogDirectory, present: Identity, owner: Identity) -> str | None:
        """Write what is missing of a directory's identity; its id, None if there is no room for that now."""
        own = present.directory_id or directory.id or id_text(uuid.uuid4())
        wanted = attrs.evolve(owner, directory_id=own)
        if present == wanted:
            return own
        try:
            directory.write_identity(wanted)
        except OSError as error:
            if error.errno not in TRANSIENT_ERRNOS or present != owner:
                raise
            return None  # written by a release without ids: the next start gives it one
        return own

    def expected_directory_ids(self, remembered: Mapping[str, str]) -> dict[str, str]:
        """After `identify`: which directory lies where, as `recognize` wants to be told at the next start."""
        found = {directory.path: None if directory.failure else directory.id for directory in self.directories}
        return expected_directory_ids(found, remembered)

    # Failure

    def isolate(self, log: Log) -> list[TopicPartition]:
        """After a StorageFailure: if it was not just a full disk, take the log offline, or the whole directory.

        Says which logs went offline.
        """
        key = log.topic, log.partition
        if not log.offline_reason or self.logs.get(key) is not log:
            return []
        home = self._home(log)
        if home.fails_with(log.failure_errno):
            return self.fail_directory(home.path, log.offline_reason)
        self.logs.pop(key).take_offline(log.offline_reason)
        self.offline[key] = log.offline_reason
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


def _not_there(path: str, wanted: str) -> str:
    return (
        f"{path} is not the directory that was there before (directory.id {wanted}): is it mounted? "
        "To give up what was in it, take it out of log.dirs for one start"
    )


def _refuse_copies(directories: Iterable[LogDirectory]) -> None:
    for one, other in combinations(directories, 2):
        if one.id is not None and one.id == other.id:
            raise StartupError(
                f"{one.path} and {other.path} have the same directory.id, {one.id}: leave the copy out of log.dirs"
            )


def reason_of(directory: LogDirectory, error: OSError) -> str:
    return f"{error.filename or directory.path}: {error.strerror or error}"


def is_fatal(home: LogDirectory, error: OSError) -> bool:
    """Whether an error takes the whole directory."""
    return error.errno not in TRANSIENT_ERRNOS and home.fails_with(error.errno)
