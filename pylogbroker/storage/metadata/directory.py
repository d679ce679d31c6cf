"""The directory of the metadata log's copy: what a start finds in it, and changes of it that a crash may interrupt.

| change              | steps; a start after a crash between two of them                                             |
|---------------------|----------------------------------------------------------------------------------------------|
| append              | bytes at the end: an incomplete batch is cut off                                             |
| cut                 | later segments removed, the last one cut: the controllers name the offset again              |
| snapshot replaces   | `.part` written, synced, renamed: before, it is removed; afterwards, the log does not reach   |
| the log             | the snapshot's end offset, or not by its epoch, and begins there again                       |
| own snapshot        | as above; then the segments before it are removed: until then they are read for nothing      |

All methods block. `run` lets one thread at a time change the directory; a part of a snapshot is written beside it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar
from uuid import UUID

import attrs

from pylogbroker.errors import CorruptRecords, StartupError
from pylogbroker.records import LogEntry, complete_entries, entries
from pylogbroker.storage import names
from pylogbroker.storage.files import FileHandle, opened, read_file, remove, replace_file, sync_file, write_at
from pylogbroker.storage.log.partition_metadata import id_text, write_topic_id
from pylogbroker.storage.metadata.segments import SUFFIX, MetadataSegments

SNAPSHOT_SUFFIX: Final = ".checkpoint"
PART: Final = ".part"
QUORUM_STATE: Final = "quorum-state"
_TOPIC_ID: Final = UUID(int=1)
_SNAPSHOT_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_NOBODY: Final = -1
_READ_BYTES: Final = 1 << 20
Snapshot = TypeVar("Snapshot")


@attrs.frozen(order=True)
class SnapshotPlace:
    """End offset and epoch of a snapshot, which name its file."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SNAPSHOT_SUFFIX}"


NO_SNAPSHOT: Final = SnapshotPlace(0, _NOBODY)


@attrs.frozen
class StoredMetadata(Generic[Snapshot]):
    """Content of the directory at a start: the newest valid snapshot, the batches behind it, the newest epoch.

    `notices` say what was wrong, and is not there any more.
    """

    snapshot: tuple[SnapshotPlace, Snapshot] | None
    batches: Sequence[LogEntry]
    leader_epoch: int
    notices: Sequence[str]


@attrs.frozen(eq=False, repr=False)
class StoredBatches:
    """Files of a snapshot, and of the log behind it: open, with their sizes."""

    _snapshot: Sequence[tuple[FileHandle, int]]
    _log: Sequence[tuple[FileHandle, int]]
    _start_offset: int
    _end_offset: int

    def batches(self) -> Iterator[LogEntry]:
        """Yield the snapshot's batches, then those of the log; raise CorruptRecords. Blocks."""
        for file, size in self._snapshot:
            yield from _read_batches(file, size)
        for file, size in self._log:
            for batch in _read_batches(file, size):
                if self._start_offset <= batch.base_offset < self._end_offset:
                    yield batch


def _read_batches(file: FileHandle, size: int) -> Iterator[LogEntry]:
    position, rest = 0, b""
    while position < size:
        data = file.read(min(_READ_BYTES, size - position), position)
        if not data:
            raise CorruptRecords(f"a file ends at {position}, {size} bytes were written")
        position += len(data)
        whole = rest + data
        complete = complete_entries(whole)
        rest = whole[len(complete) :]
        for batch in entries(complete):
            batch.check()
            yield batch


@attrs.define(eq=False, repr=False)
class MetadataDirectory:
    """`_home` is the directory of `metadata.log.dir`."""

    _home: str
    _cluster_id: str
    _segment_bytes: int
    snapshot: SnapshotPlace = attrs.field(default=NO_SNAPSHOT, init=False)
    """The newest one."""
    log: MetadataSegments = attrs.field(init=False)
    _leader: tuple[int, int] = attrs.field(default=(_NOBODY, _NOBODY), init=False)
    """Id and epoch, as in `quorum-state`."""
    _lock: list[FileHandle] = attrs.field(factory=list, init=False)
    _alone: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self.log = MetadataSegments(self.path, self._segment_bytes)

    @property
    def path(self) -> str:
        return f"{self._home}/{names.METADATA_DIRECTORY}"

    def run(self, jobs: deque[Callable[[], object]]) -> None:
        """Call methods one after the other until there are none; the rest stays there if one raises an error.

        Several threads may run the same jobs: one at a time does.
        """
        with self._alone:
            while jobs:
                jobs.popleft()()

    # start

    def load(self, read_snapshot: Callable[[bytes], Snapshot]) -> StoredMetadata[Snapshot]:
        """Lock the directory, and return what it has; a missing one is made by the first change.

        `read_snapshot` raises CorruptRecords for bytes that are no snapshot. Raise StartupError if another program uses
        the directory, OSError if the disk fails.
        """
        notices: list[str] = []
        if not os.path.exists(self.path):
            return StoredMetadata(None, [], _NOBODY, notices)
        self._acquire()
        self._claim(notices)
        for name in self._names():
            if name.endswith((PART, names.TEMPORARY)):
                remove(f"{self.path}/{name}")
        snapshot = self._newest_snapshot(read_snapshot, notices)
        batches = self._load_log(notices)
        newest_epoch = self.log.epochs.latest if snapshot is None else max(self.log.epochs.latest, snapshot[0].epoch)
        leader_epoch = max(self._stored_epoch(notices), newest_epoch)
        return StoredMetadata(snapshot, batches, leader_epoch, notices)

    def _require(self) -> None:
        """Make and lock a directory that was missing; raise StartupError."""
        if not self._lock:
            os.makedirs(self.path, exist_ok=True)
            self._acquire()
            self._claim([])

    def _acquire(self) -> None:
        handle = FileHandle.open(f"{self.path}/{names.LOCK}", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(handle.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartupError(
                f"{self.path} is in use by another broker: stop it, or choose another metadata.log.dir"
            ) from None
        self._lock.append(handle)

    def _claim(self, notices: list[str]) -> None:
        """Mark the directory as the copy of this cluster; remove the records of another one."""
        path = f"{self.path}/{names.CLUSTER_ID}"
        mark = read_file(path)
        content = f"{self._cluster_id}\n".encode()
        if mark == content:
            return
        if mark is None and any(name.endswith((SUFFIX, SNAPSHOT_SUFFIX)) for name in self._names()):
            raise StartupError(
                f"{self.path} is the metadata log of Apache Kafka, for instance of a controller: choose another "
                "metadata.log.dir"
            )
        if mark:
            text = mark.decode("utf-8", "replace").strip()
            notices.append(f"removed, it has records of cluster {text}, this is cluster {self._cluster_id}")
            self._remove_all()
        write_topic_id(self.path, _TOPIC_ID)
        replace_file(path, content)

    def _remove_all(self) -> None:
        for name in self._names():
            if name not in (names.LOCK, names.CLUSTER_ID):
                remove(f"{self.path}/{name}")

    def _names(self) -> list[str]:
        return sorted(os.listdir(self.path))

    def _snapshots(self) -> list[SnapshotPlace]:
        matches = filter(None, map(_SNAPSHOT_NAME.fullmatch, self._names()))
        return sorted(SnapshotPlace(int(match[1]), int(match[2])) for match in matches)

    def _newest_snapshot(
        self, read_snapshot: Callable[[bytes], Snapshot], notices: list[str]
    ) -> tuple[SnapshotPlace, Snapshot] | None:
        for place in reversed(self._snapshots()):
            path = f"{self.path}/{place.file_name}"
            try:
                snapshot = place, read_snapshot(read_file(path) or b"")
            except CorruptRecords as error:
                notices.append(f"removed {place.file_name}: {error.detail}")
                remove(path)
                continue
            self.snapshot = place
            return snapshot
        return None

    def _load_log(self, notices: list[str]) -> list[LogEntry]:
        """Return the batches behind the snapshot; the log begins there again if it does not go on with it."""
        batches, damage = self.log.load()
        if damage:
            notices.append(damage)
        place = self.snapshot
        later = [batch for batch in batches if batch.base_offset >= place.end_offset]
        start, end = self.log.start_offset, self.log.end_offset
        if start > place.end_offset:
            notices.append(f"removed the log: it begins at offset {start}, and no valid snapshot reaches it")
        elif end >= place.end_offset and self._goes_on(place, later):
            return later
        self.log.restart(place.end_offset)
        return []

    def _goes_on(self, place: SnapshotPlace, later: Sequence[LogEntry]) -> bool:
        """Return whether the log has the snapshot's last record, by its epoch, and its end between two batches."""
        first = later[0].base_offset if later else self.log.end_offset
        has_earlier = self.log.start_offset < place.end_offset
        return first == place.end_offset and (
            not has_earlier or self.log.epochs.epoch_at(place.end_offset - 1) == place.epoch
        )

    def _stored_epoch(self, notices: list[str]) -> int:
        data = read_file(f"{self.path}/{QUORUM_STATE}")
        if data is None:
            return _NOBODY
        try:
            fields = json.loads(data)
            self._leader = int(fields["leaderId"]), int(fields["leaderEpoch"])
        except (ValueError, KeyError, TypeError):
            notices.append(f"ignored {QUORUM_STATE}, which is damaged")
        return self._leader[1]

    # the log

    def append(self, batches: Sequence[LogEntry]) -> None:
        self._require()
        self.log.append(batches)

    def cut(self, offset: int) -> None:
        self.log.cut(offset)

    def clear(self) -> None:
        """Drop all; the log begins at offset 0."""
        self.log.restart(0)
        self._remove_snapshots(self._snapshots())
        self.snapshot = NO_SNAPSHOT

    def follow_leader(self, leader_id: int, epoch: int) -> None:
        """Keep the leader and its epoch, so that the next start follows no earlier one."""
        if (leader_id, epoch) == self._leader:
            return
        self._require()
        state = {
            "leaderId": leader_id,
            "leaderEpoch": epoch,
            "votedId": _NOBODY,
            "votedDirectoryId": id_text(UUID(int=0)),
            "data_version": 1,
        }
        replace_file(f"{self.path}/{QUORUM_STATE}", json.dumps(state, separators=(",", ":")).encode())
        self._leader = leader_id, epoch

    # snapshots

    def write_part(self, place: SnapshotPlace, position: int, data: bytes) -> None:
        """Write bytes of a snapshot that is on its way."""
        self._require()
        flags = os.O_WRONLY | os.O_CREAT | (0 if position else os.O_TRUNC)
        with opened(self._part(place), flags) as fd:
            write_at(fd, [data], position, len(data))

    def _part(self, place: SnapshotPlace) -> str:
        return f"{self.path}/{place.file_name}{PART}"

    def replace_log(self, place: SnapshotPlace) -> None:
        """Let the snapshot whose parts were written take the place of all batches."""
        self._publish(place)
        self.log.restart(place.end_offset)
        self._remove_snapshots(other for other in self._snapshots() if other != place)
        for name in self._names():
            if name.endswith(PART):  # of other downloads
                remove(f"{self.path}/{name}")

    def add_snapshot(self, place: SnapshotPlace) -> None:
        """Let a snapshot whose parts were written take the place of the batches before its end."""
        if self.snapshot.end_offset >= place.end_offset:
            remove(self._part(place))  # a snapshot of the controllers came meanwhile
            return
        self.log.sync()  # what is removed next may be all that the disk has
        self._publish(place)
        self._remove_snapshots(other for other in self._snapshots() if other.end_offset < place.end_offset)
        self.log.roll()  # so that this snapshot or the next one can remove what is there now
        self.log.remove_before(place.end_offset)

    def _publish(self, place: SnapshotPlace) -> None:
        part = self._part(place)
        sync_file(part)
        os.replace(part, part.removesuffix(PART))
        sync_file(self.path)
        self.snapshot = place

    def _remove_snapshots(self, places: Iterable[SnapshotPlace]) -> None:
        for place in tuple(places):
            remove(f"{self.path}/{place.file_name}")

    def sources(self, end_offset: int) -> StoredBatches:
        """Return all batches before an offset, to be read while the log goes on. Any thread."""
        snapshot = []
        with self._alone:
            if self.snapshot != NO_SNAPSHOT:
                handle = FileHandle.open(f"{self.path}/{self.snapshot.file_name}")
                snapshot.append((handle, os.fstat(handle.fd).st_size))
            return StoredBatches(snapshot, self.log.opened(), self.snapshot.end_offset, end_offset)

    # end

    def close(self) -> None:
        """Sync, and release the directory; may be called twice."""
        if not self._lock:
            return
        try:
            self.log.sync()
        finally:
            self.release()

    def release(self) -> None:
        """Release the directory as it is."""
        self.log.close()
        self._lock.clear()
