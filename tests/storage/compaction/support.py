"""Logs with keys, and their compaction in the test's own process: by the real cleaner, step by step."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder

from pylogbroker.storage import DeletedFiles, Log, LogConfig
from pylogbroker.storage.compaction.cleaner import clean
from pylogbroker.storage.compaction.jobs import Cleaned
from pylogbroker.storage.compaction.process import _Running
from pylogbroker.storage.compaction.selection import Cleanable, CleanerLimits, examine
from tests.storage.support import NOW

Found = tuple[int, bytes | None, bytes | None]  # offset, key, value
COMPACT = LogConfig(
    cleanup_policy=("compact",), segment_bytes=400, index_interval_bytes=100, min_cleanable_dirty_ratio=0
)


def keyed(
    *pairs: tuple[bytes, bytes | None], timestamp: int = NOW, producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytes:
    """A batch of records with keys, as a producer sends it."""
    builder = DefaultRecordBatchBuilder(2, 0, False, *producer, 1 << 30)
    for number, (key, value) in enumerate(pairs):
        builder.append(number, timestamp, key, value, [])
    return bytes(builder.build())


def put(
    log: Log, *pairs: tuple[bytes, bytes | None], timestamp: int = NOW, leader_epoch: int = 0, **options: Any
) -> None:
    """Append such a batch, and let it be seen."""
    log.append(keyed(*pairs, timestamp=timestamp, **options), timestamp, leader_epoch)
    log.high_watermark = log.log_end_offset


def put_rounds(log: Log, rounds: int, keys: int = 5, **options: Any) -> None:
    """Each key again and again, one record in a batch."""
    for number in range(rounds):
        for key in range(keys):
            put(log, (b"k%d" % key, b"v%d of %d" % (number, key)), timestamp=NOW + log.log_end_offset, **options)


def decoded(data: bytes) -> list[Found]:
    """Records as kafka-python reads them."""
    found: list[Found] = []
    reader = MemoryRecords(data)
    while (part := reader.next_batch()) is not None:
        assert part.validate_crc()
        found += [(record.offset, record.key, record.value) for record in part]
    return found


def read_from(log: Log, offset: int, max_bytes: int = 300) -> list[Found]:
    """Return the records that a consumer gets from `offset` on."""
    found: list[Found] = []
    position = offset
    while (region := log.read(position, max_bytes, upto=log.log_end_offset)) is not None:
        found += [record for record in decoded(region.read()) if record[0] >= offset]
        assert region.next_offset > position
        position = region.next_offset
    assert position == log.log_end_offset
    return found


def latest(found: Iterable[Found]) -> dict[bytes | None, tuple[int, bytes | None]]:
    """The last offset and value of each key."""
    return {key: (offset, value) for offset, key, value in found}


def cleanable(log: Log, now_ms: int = NOW) -> Cleanable:
    """Return the cleanable part of a log; there must be one."""
    found = examine(log, now_ms)
    assert found is not None
    return found


def cleaned(log: Log, now_ms: int = NOW, **changes: Any) -> Cleaned:
    """Run the cleaner on a log; return its `.cleaned` files."""
    log.sync()
    return clean(attrs.evolve(cleanable(log, now_ms).job(now_ms, CleanerLimits()), **changes))


def swap(log: Log, outcome: Cleaned, now_ms: int = NOW) -> list[DeletedFiles]:
    """The exchange of segments, from its promise to its end."""
    found = log.begin_swap(outcome.replacements)
    found.commit()
    gone = log.swap(now_ms)
    found.complete()
    log.end_swap()
    log.cleaner_checkpoint = outcome.first_dirty_offset
    return gone


def compact(log: Log, now_ms: int = NOW, **changes: Any) -> list[DeletedFiles]:
    """Both."""
    return swap(log, cleaned(log, now_ms, **changes), now_ms)


@contextmanager
def each_cleaner(call: Callable[[subprocess.Popen[bytes]], object]) -> Iterator[None]:
    """Call a function with each cleaner's process that is started meanwhile, before its job is sent."""
    start = _Running.start

    def started() -> _Running:
        running = start()
        call(running.process)
        return running

    with patch.object(_Running, "start", started):
        yield


def reads(pid: int, directory: Path) -> bool:
    """Return whether a process has opened a file there."""
    opened = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            opened.append(link.readlink())
    return any(path.is_relative_to(directory) for path in opened)
