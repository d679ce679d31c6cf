"""Notifies the controller that logs of this broker went offline: it asks for all replicas' states, and elects others.

    idle --a log goes offline--> writing: /log_dir_event_notification/log_dir_event_<seq>
      ^                            |  ^ without connection, or if another log went offline meanwhile: again
      +------------written---------+--+

The node names the broker alone. The controller sends LeaderAndIsr, and the answers have KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from typing import Final

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.pauses import RetryPauses
from pylogbroker.broker.runtime import Runtime
from pylogbroker.interfaces import CoordinationError, Create, ITree
from pylogbroker.metadata import zk_paths, zk_schema

log = Logger()
_RETRY_SECONDS: Final = 1.0


@attrs.define(eq=False)
class LogDirFailures:
    _broker_id: int
    _tree: ITree
    _runtime: Runtime
    _is_wanted: bool = attrs.field(default=False, init=False)
    _is_writing: bool = attrs.field(default=False, init=False)
    _pauses: RetryPauses = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = RetryPauses(self._runtime.clock)

    def on_partition_offline(self, topic: str, index: int) -> None:
        """Notify the controller soon, of all logs of a directory at once."""
        self._is_wanted = True
        if not self._is_writing:
            self._is_writing = True
            self._runtime.deferred_actions.defer(self._start)

    def stop(self) -> None:
        self._pauses.end()

    def _start(self) -> None:
        run_in_background(log, self._write(), "the controller does not hear of failed log directories")

    async def _write(self) -> None:
        event = Create(zk_paths.LOG_DIR_EVENT_PREFIX, zk_schema.encode_log_dir_event(self._broker_id), sequence=True)
        try:
            while self._is_wanted and not self._pauses.has_ended:
                self._is_wanted = False
                try:
                    await self._tree.commit([event])
                except CoordinationError as error:
                    log.warn("the controller cannot be notified of failed log directories yet: {why}", why=error)
                    self._is_wanted = True
                    await self._pauses.pause(_RETRY_SECONDS)
        finally:
            self._is_writing = False
