"""Copy a broker's files, also while it runs.

The order of copying keeps the copy consistent: each item is at least as new as those before.

    checkpoints             an old recovery point costs time; one too new would hide damage
    __transaction_state     a transaction decided in the copy is completed after a restore
    __consumer_offsets      offsets are never beyond the logs: groups may reread records, but miss none
    all other logs
    the coordination tree   no producer id is allocated twice

A partition is copied up to its active segment. Segments swapped or deleted meanwhile are copied again or dropped: a
compacted segment never mixes with those it replaces. A copy has no clean-shutdown mark: its first start verifies
everything after the recovery points.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress

import attrs

from pylogbroker.config import BrokerConfig
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pylogbroker.offline.stopped_broker import OfflineError
from pylogbroker.storage import names
from pylogbroker.storage.files import sync_file
from pylogbroker.tap import preflight
from pylogbroker.tap.brokers.data import BROKER_DIRECTORIES, brokers_below
from pylogbroker.tree import tree_file

_CHECKPOINTS = (
    names.META,
    names.RECOVERY_POINTS,
    names.LOG_STARTS,
    names.HIGH_WATERMARKS,
    names.CLEANER_CHECKPOINT,
)
_PASSING = (names.CLEANED, names.DELETED, names.TEMPORARY, names.SWAP_COMMIT)
_FIRST = (TRANSACTIONS_TOPIC, OFFSETS_TOPIC)
_ATTEMPTS = 100
_PAUSE_SECONDS = 0.05
_UNFINISHED = ".unfinished"
_METADATA = "metadata"
_BLOCK_BYTES = 1 << 20
ReportLine = Callable[[str], object]
Advance = Callable[[int], object]


@attrs.frozen
class _Partition:
    path: str
    target: str
    topic: str


def bytes_to_copy(config: BrokerConfig) -> int:
    """Return the present size of all segments."""
    return sum(_size(partition.path) for partition in _partitions(_homes(config, "")))


def back_up(config: BrokerConfig, target: str, report: ReportLine, advance: Advance = lambda _: None) -> None:
    """Copy all data of a broker, or of those of `--brokers N`, to a new directory, which appears when complete.

    `advance` gets the bytes of each partition's segments, once they are copied.
    """
    if os.path.lexists(target):
        raise OfflineError(f"{target} exists: name a new directory")
    homes = _homes(config, f"{target}{_UNFINISHED}")
    metadata = os.path.abspath(config.metadata_dir)
    if not os.path.exists(f"{metadata}/{tree_file.FILE_NAME}"):
        raise OfflineError(f"there is no {metadata}/{tree_file.FILE_NAME}: {_why_no_tree(config)}")
    shutil.rmtree(f"{target}{_UNFINISHED}", ignore_errors=True)
    for home, copy in homes.items():
        os.makedirs(copy)
        for name in _CHECKPOINTS:
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{home}/{name}", f"{copy}/{name}")
    copied = 0
    for partition in _partitions(homes):
        copied += _copy_partition(partition)
        advance(_size(partition.target))
    place = homes.get(metadata, f"{target}{_UNFINISHED}/{_METADATA}")
    os.makedirs(place, exist_ok=True)
    tree_file.copy_tree(metadata, place)
    for directory, _, files in os.walk(f"{target}{_UNFINISHED}"):
        for name in (*files, ""):
            sync_file(f"{directory}/{name}")
    os.rename(f"{target}{_UNFINISHED}", target)
    sync_file(os.path.dirname(os.path.abspath(target)))
    for home, copy in homes.items():
        report(f"copied {home} to {copy.replace(_UNFINISHED, '', 1)}")
    report(f"{copied} partition(s), and the coordination tree")


def _why_no_tree(config: BrokerConfig) -> str:
    if config.in_kraft or any(preflight.is_of_kraft(home) for home in config.log_dirs):
        return (
            "a member of a cluster of KRaft controllers has its topics there, and a copy of its files alone would be "
            "no backup. Its replicas protect the records: docs/operating.md"
        )
    if any(os.path.exists(f"{home}/{names.META}") for home in config.log_dirs):
        return (
            "a broker with zookeeper.connect has its topics in ZooKeeper, and a copy of its files alone would be no "
            "backup. Its replicas protect the records: docs/operating.md. Without ZooKeeper, see pylogbroker "
            "coordination rebuild"
        )
    return "check that this is a broker's directory"


def _homes(config: BrokerConfig, target: str) -> dict[str, str]:
    """Return the copy of each directory with partitions; those of `--brokers N` lie below the log directories."""
    homes = [os.path.abspath(path) for path in config.log_dirs]
    copies = [target]
    if len(homes) > 1:
        copies = [f"{target}/{number}-{os.path.basename(home)}" for number, home in enumerate(homes)]
    places: dict[str, str] = {}
    for home, copy in zip(homes, copies, strict=True):
        below = [f"{BROKER_DIRECTORIES}/{broker}" for broker in sorted(brokers_below(home))]
        places |= {home: copy, **{f"{home}/{path}": f"{copy}/{path}" for path in below}}
    return places


def _partitions(homes: dict[str, str]) -> list[_Partition]:
    partitions = []
    for home, copy in homes.items():
        for name in os.listdir(home):
            key = names.parse_partition_directory(name)
            if key is not None and os.path.exists(f"{home}/{name}/{names.PARTITION_METADATA}"):
                partitions.append(_Partition(f"{home}/{name}", f"{copy}/{name}", key[0]))
    return sorted(
        partitions, key=lambda partition: _FIRST.index(partition.topic) if partition.topic in _FIRST else len(_FIRST)
    )


def _size(path: str) -> int:
    size = 0
    with suppress(FileNotFoundError):  # the partition was deleted meanwhile
        for name in os.listdir(path):
            if name.endswith(names.RECORDS):
                with suppress(FileNotFoundError):
                    size += os.path.getsize(f"{path}/{name}")
    return size


def _copy_partition(partition: _Partition) -> bool:
    """Return False if the partition was deleted meanwhile."""
    os.mkdir(partition.target)
    copied: dict[int, int] = {}  # inodes by base offset
    newest = -1
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            present = _segments(partition.path)
            if newest not in present:
                newest = max(present, default=-1)
            segments = {base: inode for base, inode in present.items() if base <= newest}
            if segments == copied and not os.path.exists(f"{partition.path}/{names.SWAP_COMMIT}"):
                _copy_others(partition)
                return True
            for base in [base for base in copied if segments.get(base) != copied[base]]:
                _drop_segment(partition, base)
                del copied[base]
            for base in segments.keys() - copied.keys():
                copied[base] = _copy_segment(partition, base)
            continue
        if not os.path.exists(partition.path):
            shutil.rmtree(partition.target)
            return False
        time.sleep(_PAUSE_SECONDS)
    raise OfflineError(f"{partition.path} changes too fast to be copied: stop the broker")


def _segments(path: str) -> dict[int, int]:
    files = ((names.parse_file(entry.name), entry) for entry in os.scandir(path))
    return {parsed[0]: entry.inode() for parsed, entry in files if parsed is not None and parsed[1] == names.RECORDS}


def _copy_segment(partition: _Partition, base: int) -> int:
    """Copy a segment's files; return the record file's inode. Missing indexes can be rebuilt."""
    for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX):
        with suppress(FileNotFoundError):
            _copy(names.file_of(partition.path, base, suffix), names.file_of(partition.target, base, suffix))
    return _copy(
        names.file_of(partition.path, base, names.RECORDS), names.file_of(partition.target, base, names.RECORDS)
    )


def _drop_segment(partition: _Partition, base: int) -> None:
    for suffix in names.SEGMENT_FILES:
        with suppress(FileNotFoundError):
            os.unlink(names.file_of(partition.target, base, suffix))


def _copy_others(partition: _Partition) -> None:
    for name in os.listdir(partition.path):
        parsed = names.parse_file(name)
        if not name.endswith(_PASSING) and (parsed is None or parsed[1] == names.SNAPSHOT):
            with suppress(FileNotFoundError):
                _copy(f"{partition.path}/{name}", f"{partition.target}/{name}")


def _copy(source: str, target: str) -> int:
    """Copy a file's present size; return its inode."""
    with open(source, "rb") as file, open(target, "wb") as copy:
        status = os.fstat(file.fileno())
        left = status.st_size
        while left and (block := file.read(min(left, _BLOCK_BYTES))):
            copy.write(block)
            left -= len(block)
        copy.flush()
        os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
    return status.st_ino
