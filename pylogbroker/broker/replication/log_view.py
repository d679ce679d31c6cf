"""A log as the state machines of replicas read it."""

from __future__ import annotations

import attrs

from pylogbroker.broker.partitions.high_watermark import SyncedOffset
from pylogbroker.storage import Log


@attrs.frozen(eq=False, repr=False)
class ReplicaLogView:
    """Implements `pylogbroker.replication.ReplicaLog`."""

    log: Log
    _synced: SyncedOffset = attrs.field(
        init=False, default=attrs.Factory(lambda self: SyncedOffset(self.log), takes_self=True)
    )

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def synced_offset(self) -> int:
        return self._synced.offset

    @property
    def latest_epoch(self) -> int:
        return self.log.latest_epoch

    @property
    def has_only_archive(self) -> bool:
        return self.log.is_archived and self.log.local_start_offset == self.log.log_end_offset

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.log.end_offset_for_epoch(epoch)
