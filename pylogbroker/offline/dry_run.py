"""Dry runs: work on a copy of a stopped broker's metadata and committed offsets. Writes nothing to the broker's files.

All other logs are not copied: their ranges of offsets are read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import attrs

from pylogbroker.config import BrokerConfig, ConfigSource
from pylogbroker.errors import CorruptRecords
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC
from pylogbroker.offline.stopped_broker import StoppedBroker, check_stopped, stopped_broker
from pylogbroker.storage import LogDirectory, Pools, names
from pylogbroker.storage.checkpoints import TopicPartition
from pylogbroker.storage.log.segment_file import SegmentFile
from pylogbroker.storage.logdirs.inventory import take_inventory
from pylogbroker.tree import tree_file


@attrs.frozen
class OffsetRange:
    log_start_offset: int
    log_end_offset: int


@attrs.frozen
class DryRun:
    """A broker that is thrown away, and the ranges of the real broker's logs."""

    broker: StoppedBroker
    ranges: dict[TopicPartition, OffsetRange]


@contextmanager
def dry_run(config: BrokerConfig) -> Iterator[DryRun]:
    """Copy a broker's metadata and committed offsets; raise StartupError if it runs."""
    check_stopped(config)
    with TemporaryDirectory(prefix="pylogbroker-dry-run-") as place:
        homes = {os.path.abspath(path): f"{place}/{number}" for number, path in enumerate(config.log_dirs)}
        metadata = os.path.abspath(config.metadata_dir)
        metadata_copy = homes.get(metadata, f"{place}/metadata")
        for copy in {*homes.values(), metadata_copy}:
            os.makedirs(copy)
        if os.path.exists(f"{metadata}/{tree_file.FILE_NAME}"):
            tree_file.copy_tree(metadata, metadata_copy)
        ranges: dict[TopicPartition, OffsetRange] = {}
        for home, copy in homes.items():
            if os.path.isdir(home):
                ranges |= _copy_directory(home, copy)
        copied = {"log.dirs": ",".join(homes.values()), "metadata.log.dir": metadata_copy}
        settings = {**config.explicit(ConfigSource.STATIC_BROKER_CONFIG), **copied}
        with stopped_broker(BrokerConfig(settings)) as broker:
            yield DryRun(broker, ranges)


def _copy_directory(home: str, copy: str) -> dict[TopicPartition, OffsetRange]:
    """Copy what is not a log, and the logs of committed offsets; return the ranges of the other logs."""
    if os.path.exists(f"{home}/{names.META}"):
        shutil.copyfile(f"{home}/{names.META}", f"{copy}/{names.META}")
    directory = LogDirectory(home)
    starts, _ = directory.load_offsets(names.LOG_STARTS)
    ranges = {}
    for key, path in take_inventory(directory).logs.items():
        if key[0] == OFFSETS_TOPIC:
            shutil.copytree(path, f"{copy}/{os.path.basename(path)}")
        else:
            ranges[key] = _range(path, starts.get(key, 0))
    return ranges


def _range(path: str, start: int) -> OffsetRange:
    """Return the offsets of a log, up to the first damaged batch: a start truncates it there."""
    files = sorted(filter(None, map(names.parse_file, os.listdir(path))))
    bases = [base for base, suffix in files if suffix == names.RECORDS]
    if not bases:
        return OffsetRange(start, start)
    if os.path.exists(f"{path}/{names.MESSAGE_FORMAT}"):  # offsets are positions of bytes
        end = bases[-1] + os.path.getsize(names.file_of(path, bases[-1], names.RECORDS))
    else:
        end = _end_of_segment(path, bases[-1])
    return OffsetRange(max(start, bases[0]), end)


def _end_of_segment(path: str, base: int) -> int:
    end, size = base, os.path.getsize(names.file_of(path, base, names.RECORDS))
    file = SegmentFile(path, base, Pools.of())
    try:
        for _, entry in file.entry_headers(0, size):
            end = entry.next_offset
    except CorruptRecords:
        pass
    finally:
        file.close()
    return end
