"""Data directories to be damaged, and what a start on one must come to.

The entries are made by kafka-python and split here, by their length fields alone; what a log serves is compared with
them byte for byte, and decoded by kafka-python.
"""

from __future__ import annotations

import shutil
import struct
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from pylogbroker.storage import Log, LogConfig, LogManager, Notice, Recovered, load_logs
from tests.storage.support import NOW, batch, bytes_on_disk, messages, read_all, records_in

CODECS = (0, 1, 2, 3, 4)
TOPIC_ID = uuid.UUID(int=7)
_COUNT = 21  # entries
_ROLLS = (7, 14)  # a new segment begins with these entries
_CHECKPOINT = 10  # in the last segment but one, from which on a crash makes the log be checked


@attrs.frozen
class LogEntry:
    """Position of an entry in its file and in all files together, and its offsets."""

    file: str
    position: int
    size: int
    begin: int
    first: int
    last: int

    @property
    def end(self) -> int:
        return self.begin + self.size


@attrs.frozen
class Original:
    """A log directory with one log, `events-0`, left as a crash or as a clean stop leaves it."""

    path: Path
    config: LogConfig
    data: bytes  # of all segments
    entries: tuple[LogEntry, ...]

    @property
    def last_file(self) -> str:
        return self.entries[-1].file

    def copy(self, path: Path) -> Path:
        """A copy, in place of what was there."""
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.path, path)
        return path


def log_directory(home: Path) -> Path:
    return home / "events_0"


@attrs.define
class Started:
    """A broker's opened logs, and the lines that the start logged."""

    manager: LogManager
    lines: list[str]

    @property
    def log(self) -> Log:
        return self.manager.logs["events", 0]

    def reported_lines(self, home: Path) -> list[str]:
        """The lines about the log itself."""
        return [line for line in self.lines if str(log_directory(home)) in line]


def start(home: Path, config: LogConfig) -> Started:
    """Open a log directory as a start of the broker does."""
    manager, found = LogManager([str(home)]), list[Notice | Recovered]()
    notices = manager.directories.lock()
    identity = manager.directories.read_identity()
    manager.directories.claim(3, identity.cluster_id or "cluster")
    for deleted in load_logs(manager, lambda topic: config, NOW, found.append):
        deleted.remove()
    return Started(manager, [str(each) for each in (*notices, *found)])


def make(home: Path, magic: int, *, clean: bool) -> Original:
    """Entries of every codec, of idempotent producers and others, in several segments and leader epochs."""
    config = LogConfig(index_interval_bytes=300, magic=magic)
    started = start(home, config)
    manager = started.manager
    log = manager.create("events", 0, config, NOW, topic_id=TOPIC_ID)
    for number in range(_COUNT):
        if number in _ROLLS:
            log.roll(NOW)
        log.append(_sent(number, magic), NOW + number, leader_epoch=number // 5)
        if number == _CHECKPOINT:  # what housekeeping does from time to time
            log.sync(log.segments[-1].base_offset)
            manager.checkpoints.save_recovery_points()
            log.high_watermark = log.log_end_offset
            manager.checkpoints.save_high_watermarks()
    path = log.path
    if clean:
        log.high_watermark = log.log_end_offset
        assert manager.close() == []
    else:
        log.segments[-1].store_indexes()
        manager.directories.unlock()
    return Original(home, config, bytes_on_disk(path), tuple(split(Path(path))))


def _sent(number: int, magic: int) -> bytes:
    values = [b"%03d" % number, b"value " * (number % 4), b"x"]
    codec = CODECS[number % len(CODECS)]
    if magic < 2:
        known = codec <= (3 if magic else 2)  # v0 has an LZ4 of its own, and neither has zstd
        return messages(values, magic, NOW + number, codec=codec if known else 0)
    producer = (7, 0, 3 * (number // 2)) if number % 2 else (-1, -1, -1)
    return batch(values, [NOW + number] * 3, producer, codec)


def split(directory: Path) -> Iterator[LogEntry]:
    """All entries in the files of a log; of each its first and last offset, as kafka-python finds them."""
    begin = 0
    for path in sorted(directory.glob("*.kafka")):
        data, position = path.read_bytes(), 0
        while position < len(data):
            size = 12 + struct.unpack_from(">i", data, position + 8)[0]
            offsets = [offset for offset, _ in records_in(data[position : position + size])]
            yield LogEntry(path.name, position, size, begin, offsets[0], offsets[-1])
            position += size
            begin += size


def check(home: Path, original: Original, kept: int, *, reason: str | None) -> Started:
    """A start on a damaged copy keeps the first `kept` entries; `reason`, if anything was cut, is in its one line."""
    started = start(home, original.config)
    assert started.manager.offline == {}
    log = started.log
    whole = original.data[: original.entries[kept - 1].end] if kept else b""
    assert bytes_on_disk(log.path) == whole
    assert log.log_end_offset == (original.entries[kept - 1].last + 1 if kept else 0)
    _check_reads(log, original, kept, whole)
    reported = started.reported_lines(home)
    if reason is None:
        assert reported == []
    else:
        assert len(reported) == 1
        assert reason in reported[0]
        assert f"ends at {log.log_end_offset}" in reported[0]
    _check_goes_on(log, original, kept)
    started.manager.directories.unlock()
    return started


def _check_reads(log: Log, original: Original, kept: int, whole: bytes) -> None:
    assert read_all(log, log.log_start_offset) == whole  # and decoded, batch by batch
    for entry in original.entries[max(kept - 3, 0) : kept]:
        region = log.read(entry.last, 1, upto=log.log_end_offset)
        assert region is not None
        assert region.read() == original.data[entry.begin : entry.end]


def _check_goes_on(log: Log, original: Original, kept: int) -> None:
    """The log takes appends; an idempotent producer is known as far as its records were kept."""
    end, magic = log.log_end_offset, original.config.magic
    if magic < 2:
        assert log.append(messages([b"next"], magic), NOW).base_offset == end
        return
    of_producer = [number for number in range(kept) if number % 2]
    sequence = 3 * (of_producer[-1] // 2) + 3 if of_producer else 0
    appended = log.append(batch([b"next"], producer=(7, 0, sequence)), NOW, 9)
    assert (appended.base_offset, appended.duplicate) == (end, False)
    if of_producer:
        again = log.append(_sent(of_producer[-1], magic), NOW, 9)
        assert (again.base_offset, again.duplicate) == (original.entries[of_producer[-1]].first, True)


def in_last_file(original: Original, count: int) -> Sequence[LogEntry]:
    """The last `count` entries; they lie in one file."""
    last = [entry for entry in original.entries if entry.file == original.last_file]
    assert len(last) > count
    return last[-count:]
