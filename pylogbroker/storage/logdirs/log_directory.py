"""One log directory: lock, identity, clean-shutdown marker and checkpoints.

`.lock` is held (flock) while the broker runs. `meta.properties` has broker id, cluster id, and the directory's own id
(KIP-858); its version is 1 for a member of a cluster of KRaft controllers, else 0. `.kafka_cleanshutdown` exists only
between a clean stop and the next start; such a member's has its last broker epoch.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from tempfile import TemporaryFile
from typing import Final

import attrs

from pylogbroker.config import properties
from pylogbroker.errors import StartupError
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile, TopicPartition, read_offsets, write_offsets
from pylogbroker.storage.files import PATH_ERRNOS, TRANSIENT_ERRNOS, read_file, remove, replace_file, sync_file

NO_BROKER_EPOCH: Final = -1
OF_KRAFT: Final = "1"
_META_VERSION: Final = "0"
_NUMBERS: Final = {_META_VERSION: "broker.id", OF_KRAFT: "node.id"}
"""Names of the broker's number, by version."""


@attrs.frozen
class Notice:
    path: str
    text: str
    is_transient: bool = False  # a retry may succeed, for instance on a full disk

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


@attrs.frozen
class DirectoryIdentity:
    """Ids in meta.properties; None for missing ones."""

    broker_id: int | None = None
    cluster_id: str | None = None
    directory_id: str | None = None
    version: str = _META_VERSION

    def merge(self, other: DirectoryIdentity, path: str) -> DirectoryIdentity:
        """Merge with the identity at `path`; raise StartupError if they differ."""
        broker, cluster = self.broker_id, self.cluster_id
        if None not in (broker, other.broker_id) and broker != other.broker_id:
            raise StartupError(f"{path} holds the data of broker {other.broker_id}, this is broker {broker}")
        if None not in (cluster, other.cluster_id) and cluster != other.cluster_id:
            raise StartupError(
                f"{path} holds data of cluster {other.cluster_id}, this is cluster {cluster}: check log.dirs, and "
                "zookeeper.connect with its path"
            )
        return DirectoryIdentity(other.broker_id if broker is None else broker, cluster or other.cluster_id)


@attrs.frozen
class _Lock:
    fd: int
    directory: os.stat_result


@attrs.define(eq=False, repr=False)
class LogDirectory:
    """`failure` is empty while the directory is online. All methods block."""

    path: str
    failure: str = ""
    id: str | None = None
    logs: int = 0  # open ones
    last_broker_epoch: int = NO_BROKER_EPOCH
    """Of the clean shutdown before this start."""
    _lock: _Lock | None = None
    _saved: dict[str, dict[TopicPartition, int]] = attrs.field(factory=dict)

    def lock(self) -> None:
        """Lock the directory; create a missing one. Raise OSError, or StartupError if another broker holds it."""
        os.makedirs(self.path, exist_ok=True)
        fd = os.open(f"{self.path}/{names.LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise StartupError(
                f"the log directory {self.path} is in use by another broker: stop it, or choose another directory"
            ) from None
        self._lock = _Lock(fd, os.stat(self.path))

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock.fd)
            self._lock = None

    # Identity

    def read_identity(self) -> DirectoryIdentity:
        """Read meta.properties; raise StartupError if it is invalid.

        Only complete lines count; `claim` writes ids again that a torn file lacks.
        """
        path = f"{self.path}/{names.META}"
        data = read_file(path)
        if data is None:
            return DirectoryIdentity()
        try:
            meta = properties.loads(data[: data.rfind(b"\n") + 1].decode("latin-1"))
            version = meta.get("version", _META_VERSION)
            broker_id = meta.get(_NUMBERS.get(version, ""))
            number = None if broker_id is None else int(broker_id)
            identity = DirectoryIdentity(number, meta.get("cluster.id"), meta.get("directory.id"), version)
        except ValueError as error:
            raise StartupError(f"{path}: {error}") from None
        if version not in _NUMBERS:
            raise StartupError(f"{path}: version {version} is not known")
        return identity

    def write_identity(self, identity: DirectoryIdentity) -> None:
        fields = {
            "version": identity.version,
            _NUMBERS[identity.version]: str(identity.broker_id),
            "cluster.id": str(identity.cluster_id),
            "directory.id": str(identity.directory_id),
        }
        text = properties.dumps(fields)
        replace_file(f"{self.path}/{names.META}", text.encode("latin-1"))

    # Clean shutdown

    def take_clean_marker(self) -> bool:
        """Remove the marker, which is valid for one start, and note its broker epoch; return whether there was one."""
        path = f"{self.path}/{names.CLEAN_SHUTDOWN}"
        data = read_file(path)
        if data is not None:
            remove(path)
            sync_file(self.path)
        epoch = _epoch_in(data)
        self.last_broker_epoch = NO_BROKER_EPOCH if epoch is None else epoch
        return epoch is not None

    def leave_clean_marker(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        replace_file(f"{self.path}/{names.CLEAN_SHUTDOWN}", b'{"version":0,"brokerEpoch":%d}' % broker_epoch)

    # Checkpoints

    def load_offsets(self, name: str) -> tuple[dict[TopicPartition, int], Notice | None]:
        """Return a checkpoint's offsets; if it is damaged, none and a notice."""
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
        return any(log in offsets for offsets in tuple(self._saved.values()))

    def saved_offsets(self, name: str, logs: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        saved = self._saved.get(name, {})
        return {log: saved[log] for log in logs if log in saved}

    def save_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self._saved.get(name) != offsets:
            write_offsets(f"{self.path}/{name}", offsets)
            self._saved[name] = dict(offsets)

    # Failures

    def is_present(self) -> bool:
        """Return whether the path still leads to the locked directory: otherwise writes to open files would be lost."""
        try:
            return self._lock is None or os.path.samestat(self._lock.directory, os.stat(self.path))
        except OSError:
            return False

    def is_lost_to(self, error: OSError) -> bool:
        """Return whether an error at a path takes the whole directory offline."""
        return error.errno not in TRANSIENT_ERRNOS and self.is_lost_to_errno(error.errno)

    def is_lost_to_errno(self, code: int | None) -> bool:
        """Like `is_lost_to`, for errors that are not transient."""
        return code not in PATH_ERRNOS or not self.is_present() or not os.access(self.path, os.R_OK | os.W_OK | os.X_OK)

    def reason(self, error: OSError) -> str:
        return f"{error.filename or self.path}: {error.strerror or error}"

    def probe(self, size: int) -> None:
        """Write a temporary file of so many bytes; raise OSError if that is not possible."""
        with TemporaryFile(dir=self.path, buffering=0) as file:
            if file.write(bytes(size)) < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def space(self) -> tuple[int, int]:
        usage = shutil.disk_usage(self.path)
        return usage.total, usage.free


def _epoch_in(marker: bytes | None) -> int | None:
    """Return the broker epoch in a marker of a clean shutdown; None without a valid one."""
    try:
        fields = json.loads(marker or b"")
        return int(fields["brokerEpoch"]) if fields["version"] == 0 else None
    except (ValueError, KeyError, TypeError):
        return None
