"""Inspect a broker's log directories without the coordination tree. Writes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.metadata.topic_names import TRANSACTIONS_TOPIC
from pylogbroker.records import LogEntry
from pylogbroker.storage import LogDirectory, Pools, names
from pylogbroker.storage.checkpoints import DamagedFile, TopicPartition, read_epochs
from pylogbroker.storage.log import producer_snapshots
from pylogbroker.storage.log.addressing import describe_foreign_data
from pylogbroker.storage.log.partition_metadata import read_topic_id
from pylogbroker.storage.log.segment_file import SegmentFile
from pylogbroker.storage.logdirs.inventory import check_duplicate_partitions, take_inventory
from pylogbroker.transactions.record_schema import decode_value

NO_PRODUCER = -1


@attrs.frozen
class FoundLog:
    """Partition directory, with facts from its records.

    `topic_id` is None without the broker's mark. `producer_id` is the log's largest.
    """

    path: str
    topic_id: UUID | None
    is_kafka07: bool
    is_compacted: bool
    leader_epoch: int
    producer_id: int


def has_logs(directory: str) -> bool:
    """Return whether a log directory, perhaps missing, has a partition with the broker's mark."""
    try:
        partitions = [name for name in os.listdir(directory) if names.parse_partition_directory(name) is not None]
    except OSError:
        return False
    return any(read_topic_id(f"{directory}/{name}") is not None for name in partitions)


def find_logs(directories: list[LogDirectory]) -> dict[TopicPartition, FoundLog]:
    """Inspect every partition directory; raise StartupError if a partition is in two log directories."""
    inventories = [take_inventory(home) for home in directories]
    check_duplicate_partitions(inventories)
    logs = {}
    for inventory in inventories:
        compacted, _ = inventory.home.load_offsets(names.CLEANER_CHECKPOINT)
        for key, path in inventory.logs.items():
            logs[key] = _look(path, key, key in compacted)
    return logs


def _look(path: str, key: TopicPartition, is_compacted: bool) -> FoundLog:
    topic_id = read_topic_id(path)
    is_kafka07 = os.path.exists(f"{path}/{names.MESSAGE_FORMAT}") or describe_foreign_data(path) is not None
    epoch, producer_id = _known_epoch(path), NO_PRODUCER
    if topic_id is not None and not is_kafka07:
        for entry in _entries(path, whole=key[0] == TRANSACTIONS_TOPIC):
            epoch = max(epoch, entry.leader_epoch)
            producer_id = max(producer_id, entry.producer_id)
            if key[0] == TRANSACTIONS_TOPIC:
                producer_id = max(producer_id, *_registered_producers(entry))
        producer_id = max(producer_id, *_snapshot_producers(path))
    return FoundLog(path, topic_id, is_kafka07, is_compacted, max(epoch, 0), producer_id)


def _known_epoch(path: str) -> int:
    with suppress(DamagedFile):
        epochs = read_epochs(f"{path}/{names.LEADER_EPOCHS}")
        return epochs[-1][0] if epochs else -1
    return -1


def _entries(path: str, *, whole: bool) -> Iterator[LogEntry]:
    """Yield all batches, or only headers, up to the first damaged one, where recovery will truncate."""
    files = sorted(filter(None, map(names.parse_file, os.listdir(path))))
    for base in (base for base, suffix in files if suffix == names.RECORDS):
        size = os.path.getsize(names.file_of(path, base, names.RECORDS))
        file = SegmentFile(path, base, Pools.of())
        try:
            for header, entry in file.entry_headers(0, size):
                yield file.read_entry(header) if whole else entry
        except CorruptRecords:
            return
        finally:
            file.close()


def _registered_producers(entry: LogEntry) -> Iterator[int]:
    yield NO_PRODUCER
    with suppress(CorruptRecords):
        yield from (decode_value(record.value).producer_id for record in entry.records() if record.value)


def _snapshot_producers(path: str) -> Iterator[int]:
    yield NO_PRODUCER
    for offset in names.snapshots_in(path):
        with suppress(DamagedFile):
            states = producer_snapshots.read(names.file_of(path, offset, names.SNAPSHOT))
            yield from (state.producer_id for state in states)
