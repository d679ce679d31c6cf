"""Logs on disk: segments, indexes, recovery, retention, producer states, and log directories.

>>> import tempfile
>>> from pylogbroker.records import Record, build
>>> directory = tempfile.TemporaryDirectory()
>>> manager = LogManager([directory.name])
>>> notices = manager.directories.lock() + load_logs(manager, lambda topic: LogConfig(), 0, print)
>>> log = manager.create("events", 0, LogConfig(), now_ms=0)
>>> log.append(build([Record(0, 1500, b"key", b"value")]), now_ms=1500).base_offset
0
>>> log.high_watermark = log.log_end_offset
>>> len(log.read(0, 1 << 20, upto=log.high_watermark))
76
>>> manager.close()
[]

Modules know only later ones:

    remote       segments in a remote storage, see there
    logdirs      start, log_copies, log_manager, offset_checkpoints, log_directories, inventory, ownership,
                 log_directory
    compaction   selection, process, jobs
    log          loader, retention, recovery, log, log_reader, append_rules, segment_swap, segment, segment_file,
                 addressing, header_scan, producer_states, leader_epochs
    checkpoints, names, files

"Batch" means a `LogEntry`: a record batch of v2, or a message (set entry) of an older format.

Workers run functions that are documented to block; the reactor's thread runs all others.
"""

from pylogbroker.storage.files import DeletedFiles, FileHandle, FileRegion, NotCached, Pools
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.guarded_policy import GuardedPolicy
from pylogbroker.storage.log.loader import Recovered
from pylogbroker.storage.log.log import Appended, Log
from pylogbroker.storage.log.newest_lookup import NewestSearch
from pylogbroker.storage.log.producer_states import Origin, ProducerStateEntry, ProducerStates
from pylogbroker.storage.log.segment import Segment
from pylogbroker.storage.log.timestamp_lookup import TimestampedOffset
from pylogbroker.storage.logdirs.inventory import DeletedDirectory
from pylogbroker.storage.logdirs.log_directories import LogDirectories
from pylogbroker.storage.logdirs.log_directory import DirectoryIdentity, LogDirectory, Notice
from pylogbroker.storage.logdirs.log_manager import LogManager
from pylogbroker.storage.logdirs.ownership import NO_TOPIC, ForeignDirectory, TopicIds
from pylogbroker.storage.logdirs.start import load_logs

__all__ = [
    "NO_TOPIC",
    "Appended",
    "DeletedDirectory",
    "DeletedFiles",
    "DirectoryIdentity",
    "FileHandle",
    "FileRegion",
    "ForeignDirectory",
    "GuardedPolicy",
    "Log",
    "LogConfig",
    "LogDirectories",
    "LogDirectory",
    "LogManager",
    "NewestSearch",
    "NotCached",
    "Notice",
    "Origin",
    "Pools",
    "ProducerStateEntry",
    "ProducerStates",
    "Recovered",
    "Segment",
    "TimestampedOffset",
    "TopicIds",
    "load_logs",
]
