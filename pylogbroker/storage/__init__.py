"""Logs on disk: segments, indexes, recovery, retention, producer states, and log directories.

>>> import tempfile
>>> from pylogbroker.records import Record, build
>>> directory = tempfile.TemporaryDirectory()
>>> manager = LogManager([directory.name])
>>> notices = manager.directories.lock() + manager.load(lambda topic: LogConfig(), 0, print)
>>> log = manager.create("events", 0, LogConfig(), now_ms=0)
>>> log.append(build([Record(0, 1500, b"key", b"value")]), now_ms=1500).base_offset
0
>>> log.high_watermark = log.log_end_offset
>>> len(log.read(0, 1 << 20, upto=log.high_watermark))
76
>>> manager.close()
[]

Each module knows only those below it:

    logdirs            log directories, and all logs in them
      log_manager        opens, creates and deletes logs; writes checkpoints
      log_directories    locks and identifies the directories
      inventory          partition directories found at start
      ownership          decides which of these the broker may open
      log_directory      one directory: lock, identity, checkpoints, clean-shutdown marker
    compaction         keeps the last record of each key; the cleaner is a process of its own
    log                the log of one partition
      loader             opens a log
      recovery           checks a log after a crash, and truncates it
      log                append, read, roll, sync, expire, truncate, swap
      log_reader         finds the region of a file that a fetch returns
      append_rules       prepares records
      segment_swap       replaces segments by compacted ones
      segment            record file with offset, time and transaction index
      segment_file       descriptor, writes, batches by position
      addressing, header_scan   find batches without reading their records
      producer_states    last batches and open transactions of producers
      leader_epochs      start offsets of leader epochs
    checkpoints, names, files   checkpoint files; names; handles, regions and atomic writes

"Batch" means a record batch of v2, or a message (set entry) of an older format: a `LogEntry`.

Everything runs on the reactor's thread, except what is documented to block. That runs in workers.
"""

from pylogbroker.storage.files import DeletedFiles, FileHandle, FileRegion, NotCached, Pools
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.guarded_policy import GuardedPolicy
from pylogbroker.storage.log.loader import Recovered
from pylogbroker.storage.log.log import Appended, Log
from pylogbroker.storage.log.producer_states import Origin, ProducerStateEntry, ProducerStates
from pylogbroker.storage.log.segment import Segment
from pylogbroker.storage.log.timestamp_lookup import TimestampedOffset
from pylogbroker.storage.logdirs.inventory import DeletedDirectory
from pylogbroker.storage.logdirs.log_directories import LogDirectories
from pylogbroker.storage.logdirs.log_directory import DirectoryIdentity, LogDirectory, Notice
from pylogbroker.storage.logdirs.log_manager import LogManager
from pylogbroker.storage.logdirs.ownership import NO_TOPIC, ForeignDirectory, TopicIds

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
]
