"""Names of the directories and files in a log directory; `docs/formats.md` describes their contents.

```
<log directory>/
    .lock  meta.properties  .kafka_cleanshutdown
    recovery-point-offset-checkpoint  log-start-offset-checkpoint  replication-offset-checkpoint
    cleaner-offset-checkpoint
    <topic>_<partition>/
        leader-epoch-checkpoint
        aborted-transaction-checkpoint      number of aborted transactions of each segment
        partition.metadata                  topic id
        moved                               empty: a log of the same name in another directory is what was moved here
        message-format                      "0.7", only for byte-addressed logs
        <base offset, 20 digits>.kafka      record batches, or messages
        <base offset, 20 digits>.index      offset -> position
        <base offset, 20 digits>.timeindex  timestamp -> offset
        <base offset, 20 digits>.txnindex   aborted transactions
        <offset, 20 digits>.snapshot        producer states as of that offset
        ....cleaned                         file of a compacted segment, before the swap
        cleaned-segments                    commit record of a segment swap
        ....deleted                         file of a removed segment, until a worker unlinks it
    __cluster_metadata-0/                   copy of KRaft's metadata log: see `storage.metadata`
        cluster-id                          id of the cluster whose metadata it is
    <topic>_<partition>-import/             partition being imported, with a file `imported`
    <topic>_<partition>.<random>-delete/    deleted partition, until a worker removes it
    <topic>_<partition>-future/             copy of a log that is being moved here, until it takes the log's place
    <topic>_<partition>.<random>-stray/     kept, not served: log of an earlier topic of that name, or segments that
                                            recovery cut off, or replica that was moved to other brokers
```

Names that would be longer than 255 bytes are shortened. With `-import` and `-future`, a digest of the topic's name
takes the place of its end.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from sys import intern
from typing import Final

from pylogbroker.java.text import is_digits

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
METADATA_DIRECTORY: Final = "__cluster_metadata-0"
CLUSTER_ID: Final = "cluster-id"
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
MOVED: Final = "moved"
_DELETED_DIRECTORY: Final = "-delete"
_IMPORT_DIRECTORY: Final = "-import"
_FUTURE_DIRECTORY: Final = "-future"
_STRAY_DIRECTORY: Final = "-stray"

_NAME_MAX: Final = 255
_DIGEST_LENGTH: Final = 32
_SHORTENED: Final = "~"  # no topic has it in its name


def partition_directory(topic: str, partition: int) -> str:
    return f"{topic}_{partition}"


def parse_partition_directory(name: str) -> tuple[str, int] | None:
    topic, _, partition = name.rpartition("_")
    if not topic or not is_digits(partition) or is_deleted_directory(name):
        return None
    return intern(topic), int(partition)  # as in `read_offsets`: many have the same topic


def future_directory(topic: str, partition: int) -> str:
    return _ending(topic, partition, _FUTURE_DIRECTORY)


def is_future_directory(name: str) -> bool:
    stem = name.removesuffix(_FUTURE_DIRECTORY)
    return stem != name and parse_partition_directory(stem) is not None


def import_directory(topic: str, partition: int) -> str:
    return _ending(topic, partition, _IMPORT_DIRECTORY)


def _ending(topic: str, partition: int, ending: str) -> str:
    """Return the same name each time; the digest keeps topics apart whose names begin alike."""
    name = partition_directory(topic, partition) + ending
    if len(name) <= _NAME_MAX:
        return name
    suffix = f"{_SHORTENED}{hashlib.sha256(topic.encode()).hexdigest()[:_DIGEST_LENGTH]}_{partition}{ending}"
    return topic[: _NAME_MAX - len(suffix)] + suffix


def deleted_directory(name: str) -> str:
    return _renamed(name, _DELETED_DIRECTORY)


def stray_directory(name: str) -> str:
    return _renamed(name, _STRAY_DIRECTORY)


def _renamed(name: str, ending: str) -> str:
    suffix = f".{uuid.uuid4().hex}{ending}"
    return name[: _NAME_MAX - len(suffix)] + suffix


def is_deleted_directory(name: str) -> bool:
    return name.endswith(_DELETED_DIRECTORY)


def is_stray_directory(name: str) -> bool:
    return name.endswith(_STRAY_DIRECTORY)


def file_of(directory: str, offset: int, suffix: str) -> str:
    return f"{directory}/{offset:020d}{suffix}"


def parse_file(name: str) -> tuple[int, str] | None:
    """Return offset and suffix of a segment's or snapshot's file; None for other names."""
    digits, suffix = name[:20], name[20:]
    if len(digits) != 20 or not is_digits(digits):
        return None
    return int(digits), suffix


def snapshots_in(directory: str) -> list[int]:
    parsed = map(parse_file, os.listdir(directory))
    return [parts[0] for parts in parsed if parts is not None and parts[1] == SNAPSHOT]
