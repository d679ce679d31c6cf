"""Logs on disk: segments, indexes, recovery, retention, producer states, and the directories that hold them.

>>> import tempfile
>>> from pylogbroker.records import Record, build
>>> directory = tempfile.TemporaryDirectory()
>>> manager = LogManager([directory.name])
>>> notices = manager.lock() + manager.load(lambda topic: LogConfig(), 0, print)
>>> log = manager.create("events", 0, LogConfig(), now_ms=0)
>>> log.append(build([Record(0, 1500, b"key", b"value")]), now_ms=1500).base_offset
0
>>> log.high_watermark = log.log_end_offset
>>> len(log.read(0, 1 << 20, upto=log.high_watermark))
76
>>> manager.close()
[]

Seen from above, each knows only what is below:

    manager      all logs of a broker, in one or several directories
      log_directories  which directories, and logs, are online
      survey       what lies in the directories at start
      ownership    which of that is the broker's to write to
      directory    lock, identity, checkpoints, clean-shutdown marker
      loading      from files to a log; recovery after a crash
    log          append, read, roll, sync, expire
      reading      which region of which file a fetch returns
      timestamps   finding a record by its time
      log_segments how segments begin, end, fail and go
      compaction   the last record of each key stays: what is due, the cleaner's process, the exchange of segments
      syncing      what must be on disk before a log is safe up to an offset
      producers    who wrote what, for idempotent producers
      aborted      which transactions were aborted, for readers of committed records
      epochs       which leader epoch began where
      retention    what is believed of a delete policy's answer
    segment      one file of entries, indexes by offset and by time, and of aborted transactions
      scan         walking along headers
    files        handles, regions, writes that are whole or not at all

Everything runs on the reactor's thread, but for what is said to block: that belongs into workers.
"""

from pylogbroker.storage.files import DeletedFiles, FileHandle, FileRegion, NotCached, Pools
from pylogbroker.storage.log.config import LogConfig
from pylogbroker.storage.log.guarded_policy import GuardedPolicy
from pylogbroker.storage.log.loader import Recovered
from pylogbroker.storage.log.log import Appended, Log
from pylogbroker.storage.log.producer_states import Origin, ProducerState, ProducerStates
from pylogbroker.storage.log.segment import Segment
from pylogbroker.storage.log.timestamp_lookup import TimestampedOffset
from pylogbroker.storage.logdirs.inventory import DeletedDirectory
from pylogbroker.storage.logdirs.log_directory import Identity, LogDirectory, Notice
from pylogbroker.storage.logdirs.log_manager import LogManager
from pylogbroker.storage.logdirs.ownership import NO_TOPIC, ForeignDirectory, Topics

__all__ = [
    "NO_TOPIC",
    "Appended",
    "DeletedDirectory",
    "DeletedFiles",
    "FileHandle",
    "FileRegion",
    "ForeignDirectory",
    "GuardedPolicy",
    "Identity",
    "Log",
    "LogConfig",
    "LogDirectory",
    "LogManager",
    "NotCached",
    "Notice",
    "Origin",
    "Pools",
    "ProducerState",
    "ProducerStates",
    "Recovered",
    "Segment",
    "TimestampedOffset",
    "Topics",
]
