"""The log directories of a broker: locked, identified, and marked as its own.

Each has an id (`directory.id` of meta.properties). The coordination tree has the id at each path of `log.dirs`, so that
an unmounted directory does not pass for a new, empty one:

| remembered | found           | decision                                                                   |
|------------|-----------------|----------------------------------------------------------------------------|
| X          | X               | use it                                                                     |
| X          | Y, known        | use it: directories changed places                                         |
| nothing    | any, or none    | use it: a new path                                                         |
| X          | none, or Y, new | take it offline: X is probably not mounted, and this is its mount point    |

A path outside of `log.dirs` is forgotten.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations

import attrs

from pylogbroker.errors import StartupError
from pylogbroker.storage.files import TRANSIENT_ERRNOS
from pylogbroker.storage.log.partition_metadata import id_text
from pylogbroker.storage.logdirs.log_directory import OF_KRAFT, DirectoryIdentity, LogDirectory, Notice


class LogDirectories:
    """Log directories, also offline ones. All methods but `fail` and `check_ids` block.

    A start calls `read_identity`, `check_ids`, `lock`, `claim` and `expected_ids`, in this order. Nothing is written
    before all are locked.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._directories = tuple(LogDirectory(os.path.abspath(path)) for path in paths)

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._directories)

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self if not directory.failure]

    def at(self, path: str) -> LogDirectory:
        return next(directory for directory in self if directory.path == path)

    def fail(self, path: str, reason: str) -> None:
        directory = self.at(path)
        directory.failure = directory.failure or reason
        directory.logs = 0

    @contextmanager
    def failing(self, directory: LogDirectory) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.fail(directory.path, directory.reason(error))

    def read_identity(self) -> DirectoryIdentity:
        """Return the identity of the data; raise StartupError if directories differ. Changes nothing."""
        identity = DirectoryIdentity()
        for directory in self.online:
            with self.failing(directory):
                present = directory.read_identity()
                identity = identity.merge(present, directory.path)
                directory.id = present.directory_id
        return identity

    def check_ids(self, remembered: Mapping[str, str], certain: str) -> None:
        """Take unexpected directories offline, unchanged.

        `remembered` has the ids by path. The directory at `certain`, if any, is known to be right.
        """
        ids = {directory.path: directory.id for directory in self.online}
        if ids.get(certain, "") is None and remembered.get(certain) not in ids.values():
            ids[certain] = remembered.get(certain)
        for directory in self.online:
            directory.id = ids[directory.path]
        for path, expected in unexpected_directories(ids, remembered).items():
            if path != certain:
                self.fail(path, _unexpected(path, expected))

    def lock(self) -> list[Notice]:
        """Lock the online directories; return notices about unusable ones.

        Raise StartupError if another broker holds one, if one is named twice, or none can be used.
        """
        if len({os.path.realpath(directory.path) for directory in self}) < len(self._directories):
            raise StartupError("a log directory is named twice in log.dirs")
        try:
            for directory in self.online:
                with self.failing(directory):
                    directory.lock()
        except StartupError:
            self.unlock()
            raise
        self._require_one()
        return [Notice(directory.path, directory.failure) for directory in self if directory.failure]

    def unlock(self) -> None:
        """Release all directories as they are, if `LogManager.close` does not."""
        for directory in self:
            directory.unlock()

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Write the ids; raise StartupError if a directory is another broker's."""
        owner = DirectoryIdentity(broker_id, cluster_id)
        for directory in self.online:
            with self.failing(directory):
                present = directory.read_identity()
                owner.merge(present, directory.path)
                directory.id = _complete_identity(directory, present, owner)
        _check_copies(self.online)
        self._require_one()

    def require_formatted(self, broker_id: int) -> str:
        """Return the cluster's id, which is in all directories of a member of a cluster of KRaft controllers.

        Raise StartupError for one that is not formatted, or is another broker's. Call it after `lock`.
        """
        cluster_id = ""
        for directory in self.online:
            with self.failing(directory):
                present = directory.read_identity()
                complete = None not in (present.broker_id, present.cluster_id, present.directory_id)
                if present.version != OF_KRAFT or not complete:
                    raise StartupError(
                        f"{directory.path} is not formatted for a cluster of KRaft controllers: run `pylogbroker "
                        "storage format --cluster-id ID --config FILE`, with the id of the controllers' cluster"
                    )
                if present.broker_id != broker_id:
                    raise StartupError(
                        f"{directory.path} is formatted for node.id {present.broker_id}, this is {broker_id}"
                    )
                if cluster_id not in ("", present.cluster_id):
                    raise StartupError(f"{directory.path} is of cluster {present.cluster_id}, another of {cluster_id}")
                cluster_id, directory.id = str(present.cluster_id), present.directory_id
        _check_copies(self.online)
        self._require_one()
        return cluster_id

    def expected_ids(self, remembered: Mapping[str, str]) -> dict[str, str]:
        """Return the ids by path for the next start's `check_ids`; call it after `claim`."""
        ids = {directory.path: None if directory.failure else directory.id for directory in self}
        return expected_ids(ids, remembered)

    def _require_one(self) -> None:
        if not self.online:
            failures = "; ".join(directory.failure for directory in self)
            raise StartupError(f"no log directory can be used: {failures}")


def unexpected_directories(ids: Mapping[str, str | None], remembered: Mapping[str, str]) -> dict[str, str]:
    """Return expected ids by path where another directory is."""
    expected = set(remembered.values())
    return {path: remembered[path] for path, own in ids.items() if path in remembered and own not in expected}


def expected_ids(ids: Mapping[str, str | None], remembered: Mapping[str, str]) -> dict[str, str]:
    """Return the ids by path to expect at the next start; `ids` has None for offline directories.

    A missing id stays expected: at its path or, if another directory is there now, at a path without directory.
    """
    present = {path: own for path, own in ids.items() if own is not None}
    missing = {path: own for path, own in remembered.items() if path in ids and own not in present.values()}
    kept = {path: own for path, own in missing.items() if path not in present}
    moved = [own for path, own in missing.items() if path in present]
    free = [path for path in ids if path not in present and path not in kept]
    return {**present, **kept, **dict(zip(free, moved, strict=False))}


def _complete_identity(directory: LogDirectory, present: DirectoryIdentity, owner: DirectoryIdentity) -> str | None:
    """Return the directory's id; None if the disk is too full to write it."""
    own = present.directory_id or directory.id or id_text(uuid.uuid4())
    complete = attrs.evolve(owner, directory_id=own)
    if present == complete:
        return own
    try:
        directory.write_identity(complete)
    except OSError as error:
        if error.errno not in TRANSIENT_ERRNOS or present != owner:
            raise
        return None  # from a release without ids
    return own


def _unexpected(path: str, expected: str) -> str:
    return (
        f"{path} is not the directory that was there before (directory.id {expected}): is it mounted? "
        "To abandon its data, remove it from log.dirs for one start"
    )


def _check_copies(directories: Iterable[LogDirectory]) -> None:
    for one, other in combinations(directories, 2):
        if one.id is not None and one.id == other.id:
            raise StartupError(
                f"{one.path} and {other.path} have the same directory.id, {one.id}: leave the copy out of log.dirs"
            )
