"""Runtime of the group and the transaction coordinator, without I/O and clock.

A coordinator keeps its state in the partitions of an internal topic. Each partition is a shard, which its leader loads
from the log, serves, and unloads when another broker leads. `pylogbroker.broker.coordinators` drives this.
"""

from pylogbroker.coordinators.event_queue import Call, Deliver, EventQueue, run_all
from pylogbroker.coordinators.log_port import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    AppendCallback,
    LogPort,
    ProducerIdAndEpoch,
    TopicPartition,
)
from pylogbroker.coordinators.record_writer import (
    APPEND_ERRORS,
    RECORDS_INLINE_MAX,
    LazyRecords,
    RecordWriter,
    record,
)
from pylogbroker.coordinators.replay import PartitionReplay, ReplayState
from pylogbroker.coordinators.runtime import CoordinatorContext, CoordinatorRuntime, ShardHandler
from pylogbroker.coordinators.states import IllegalTransition, Reply, check_transition
from pylogbroker.coordinators.timers import Action, Timer, Timers, cancel, no_wakeup

__all__ = [
    "APPEND_ERRORS",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "RECORDS_INLINE_MAX",
    "Action",
    "AppendCallback",
    "Call",
    "CoordinatorContext",
    "CoordinatorRuntime",
    "Deliver",
    "EventQueue",
    "IllegalTransition",
    "LazyRecords",
    "LogPort",
    "PartitionReplay",
    "ProducerIdAndEpoch",
    "RecordWriter",
    "ReplayState",
    "Reply",
    "ShardHandler",
    "Timer",
    "Timers",
    "TopicPartition",
    "cancel",
    "check_transition",
    "no_wakeup",
    "record",
    "run_all",
]
