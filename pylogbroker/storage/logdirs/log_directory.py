"""One log directory: who uses it, whose it is, how it was left, and its checkpoints.

`.lock` is held (flock) as long as the broker runs, so that two brokers never share a directory.  `meta.properties`
tells broker and cluster id, and the directory's own id (KIP-858).  `.kafka_cleanshutdown` is there only between a clean
stop and the next start.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Final

import attrs
import javaproperties

from pylogbroker.errors import StartupError
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile, TopicPartition, read_offsets, write_offsets
from pylogbroker.storage.files import PATH_ERRNOS, read_file, remove, replace_file, sync_file

_CLEAN: Final = b'{"version":0,"brokerEpoch":-1}'
_META_VERSION: Final = "0"


@attrs.frozen
class Notice:
    """Something about a directory or file that whoever runs the broker should know."""

    path: str
    text: str
    is_transient: bool = False  # the disk is full, or the like: another try may succeed

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


@attrs.frozen
class Identity:
    """Whose data a directory holds, and which one it is; None where it does not say."""

    broker_id: int | None = None
    cluster_id: str | None = None
    directory_id: str | None = None

    def agree(self, other: Identity, path: str) -> Identity:
        """Whose data this and what `path` says are of; StartupError if they contradict each other."""
        broker, cluster = self.broker_id, self.cluster_id
        if None not in (broker, other.broker_id) and broker != other.broker_id:
            raise StartupError(f"{path} holds the data of broker {other.broker_id}, this is broker {broker}")
        if None not in (cluster, other.cluster_id) and cluster != other.cluster_id:
            raise StartupError(f"{path} holds data of cluster {other.cluster_id}, this is cluster {cluster}")
        return Identity(other.broker_id if broker is None else broker, cluster or other.cluster_id)


@attrs.define(eq=False)
class LogDirectory:
    """A log directory.  `failure` says why it is offline, if it is.  All methods block on the disk."""

    path: str
    failure: str = ""
    id: str | None = None  # which one it is; None until that is known
    logs: int = 0  # how many are open in it
    _lock: int = -1
    _place: os.stat_result | None = None  # what the path led to when it was locked
    _saved: dict[str, dict[TopicPartition, int]] = attrs.field(factory=dict)

    def lock(self) -> None:
        """Make the directory, if there is none, and hold it.  StartupError if somebody else does; OSError."""
        os.makedirs(self.path, exist_ok=True)
        fd = os.open(f"{self.path}/{names.LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise StartupError(f"the log directory {self.path} is in use by another broker") from None
        self._lock, self._place = fd, os.stat(self.path)

    def unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def identity(self) -> Identity:
        """What meta.properties says; StartupError if that makes no sense.

        Only whole lines count: of a file that was torn, or lost, what is missing is written again.
        """
        path = f"{self.path}/{names.META}"
        data = read_file(path)
        if data is None:
            return Identity()
        try:
            found = javaproperties.loads(data[: data.rfind(b"\n") + 1].decode("latin-1"))
            broker_id = found.get("broker.id")
            number = None if broker_id is None else int(broker_id)
            identity = Identity(number, found.get("cluster.id"), found.get("directory.id"))
        except ValueError as error:
            raise StartupError(f"{path}: {error}") from None
        if found.get("version", _META_VERSION) != _META_VERSION:
            raise StartupError(f"{path}: version {found['version']} is not {_META_VERSION}")
        return identity

    def write_identity(self, identity: Identity) -> None:
        """Write meta.properties."""
        fields = {
            "version": _META_VERSION,
            "broker.id": str(identity.broker_id),
            "cluster.id": str(identity.cluster_id),
            "directory.id": str(identity.directory_id),
        }
        text = javaproperties.dumps(fields, timestamp=False)
        replace_file(f"{self.path}/{names.META}", text.encode("latin-1"))

    def take_clean_marker(self) -> bool:
        """Whether the last stop was clean; the marker is gone then, so that it speaks for one start only."""
        path = f"{self.path}/{names.CLEAN_SHUTDOWN}"
        data = read_file(path)
        if data is not None:
            remove(path)
            sync_file(self.path)
        return data == _CLEAN

    def leave_clean_marker(self) -> None:
        replace_file(f"{self.path}/{names.CLEAN_SHUTDOWN}", _CLEAN)

    def load_offsets(self, name: str) -> tuple[dict[TopicPartition, int], Notice | None]:
        """A checkpoint; without it, or if it is damaged, nothing, and what to say about that."""
        path = f"{self.path}/{name}"
        try:
            offsets = read_offsets(path)
        except DamagedFile as damaged:
            return {}, Notice(path, f"ignored, {damaged.detail.removeprefix(path + ': ')}")
        if offsets is None:
            return {}, None
        self._saved[name] = offsets
        return offsets, None

    def has_offset_of(self, log: TopicPartition) -> bool:
        """Whether a checkpoint tells of a log; from memory."""
        return any(log in offsets for offsets in tuple(self._saved.values()))

    def saved_offsets(self, name: str, logs: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets that a checkpoint in memory has of some logs."""
        saved = self._saved.get(name, {})
        return {log: saved[log] for log in logs if log in saved}

    def save_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace a checkpoint, unless it says the same already."""
        if self._saved.get(name) != offsets:
            write_offsets(f"{self.path}/{name}", offsets)
            self._saved[name] = dict(offsets)

    def is_there(self) -> bool:
        """Whether the path still leads to the directory that is held: it may be removed, moved, or unmounted.

        Files that are open would not show it: they are written to, and nobody would find them again.
        """
        try:
            return self._place is None or os.path.samestat(self._place, os.stat(self.path))
        except OSError:
            return False

    def fails_with(self, code: int | None) -> bool:
        """Whether an error, met at some path in here and not a passing one, takes the whole directory."""
        return code not in PATH_ERRNOS or not self.is_there() or not os.access(self.path, os.R_OK | os.W_OK | os.X_OK)

    def space(self) -> tuple[int, int]:
        """Bytes of the file system: all, and those that are free."""
        usage = shutil.disk_usage(self.path)
        return usage.total, usage.free
