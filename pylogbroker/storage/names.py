"""The names of directories and files of a log directory.

```
<log directory>/
    .lock  meta.properties  .kafka_cleanshutdown
    recovery-point-offset-checkpoint  log-start-offset-checkpoint  replication-offset-checkpoint
    cleaner-offset-checkpoint
    <topic>_<partition>/
        leader-epoch-checkpoint
        aborted-transaction-checkpoint      how many aborted transactions the segments have
        partition.metadata                  the topic's id
        message-format                      "0.7", if the messages are of that format
        <base offset, 20 digits>.kafka      the entries
        <base offset, 20 digits>.index      offset -> position
        <base offset, 20 digits>.timeindex  timestamp -> offset
        <base offset, 20 digits>.txnindex   aborted transactions
        <offset, 20 digits>.snapshot        producers as of that offset
        ....cleaned                         a compacted segment's file, until it takes its place
        cleaned-segments                    which segments compacted ones are just taking the place of
        ....deleted                         a removed segment's file, until a worker unlinks it
    <topic>_<partition>-import/             a partition that is being imported, with a file `imported`
    <topic>_<partition>.<random>-delete/    a deleted partition, until a worker removes it
    <topic>_<partition>.<random>-stray/     a log of an earlier topic of that name, or segments that recovery took out,
                                            for a person to look at
```
"""

from __future__ import annotations

import os
import uuid
from typing import Final

LOCK: Final = ".lock"
META: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
ABORTED_TRANSACTIONS: Final = "aborted-transaction-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
MESSAGE_FORMAT: Final = "message-format"
SWAP_COMMIT: Final = "cleaned-segments"

RECORDS: Final = ".kafka"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_FILES: Final = (RECORDS, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT)
CLEANED: Final = ".cleaned"
DELETED: Final = ".deleted"
TEMPORARY: Final = ".tmp"
IMPORTED: Final = "imported"
DELETED_DIRECTORY: Final = "-delete"
IMPORT_DIRECTORY: Final = "-import"
_STRAY_DIRECTORY: Final = "-stray"

_NAME_MAX: Final = 255


def partition_directory(topic: str, partition: int) -> str:
    return f"{topic}_{partition}"


def parse_partition_directory(name: str) -> tuple[str, int] | None:
    """Topic and partition; None if the name is not a partition's."""
    topic, _, partition = name.rpartition("_")
    if not topic or not partition.isdecimal() or not partition.isascii() or is_deleted_directory(name):
        return None
    return topic, int(partition)


def deleted_directory(name: str) -> str:
    """A name, new each time, under which a deleted partition waits for its removal."""
    return _renamed(name, DELETED_DIRECTORY)


def stray_directory(name: str) -> str:
    """A name, new each time, under which a log that belongs to no topic is kept, or a part of one that was dropped."""
    return _renamed(name, _STRAY_DIRECTORY)


def _renamed(name: str, ending: str) -> str:
    suffix = f".{uuid.uuid4().hex}{ending}"
    return name[: _NAME_MAX - len(suffix)] + suffix


def is_deleted_directory(name: str) -> bool:
    return name.endswith(DELETED_DIRECTORY)


def file_of(directory: str, offset: int, suffix: str) -> str:
    return f"{directory}/{offset:020d}{suffix}"


def parse_file(name: str) -> tuple[int, str] | None:
    """Offset and suffix; None if the name is not one of a segment's or snapshot's files."""
    digits, suffix = name[:20], name[20:]
    if len(digits) != 20 or not digits.isdecimal() or not digits.isascii():
        return None
    return int(digits), suffix


def snapshots_in(directory: str) -> list[int]:
    """The offsets of a partition's producer snapshots."""
    parsed = map(parse_file, os.listdir(directory))
    return [found[0] for found in parsed if found is not None and found[1] == SNAPSHOT]
