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
from pylogbroker.broker.metadata.tree_errors import is_coordination_error
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.interfaces import Create, ITree
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.errors import Closed
from pylogbroker.rpc.retries import Pauses, retrying

log = Logger()
_BACKOFF: Final = Backoff.fixed(1.0)


@attrs.define(eq=False, repr=False)
class LogDirFailures:
    _broker_id: int
    _tree: ITree
    _runtime: Runtime
    _is_wanted: bool = attrs.field(default=False, init=False)
    _is_writing: bool = attrs.field(default=False, init=False)
    _pauses: Pauses = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = Pauses(self._runtime.clock)

    def on_partition_offline(self, topic: str, index: int) -> None:
        """Notify the controller soon, of all logs of a directory at once."""
        self._is_wanted = True
        if not self._is_writing:
            self._is_writing = True
            self._runtime.deferred_actions.defer(self._start)

    def stop(self) -> None:
        self._pauses.close()

    def _start(self) -> None:
        run_in_background(log, self._write(), "the controller does not hear of failed log directories")

    async def _write(self) -> None:
        try:
            while self._is_wanted and not self._pauses.is_closed:
                await retrying(
                    self._notify, self._pauses, _BACKOFF, retriable=is_coordination_error, failed=_log_failure
                )
        except Closed:
            return
        finally:
            self._is_writing = False

    async def _notify(self) -> None:
        self._is_wanted = False
        event = Create(zk_paths.LOG_DIR_EVENT_PREFIX, zk_schema.encode_log_dir_event(self._broker_id), sequence=True)
        await self._tree.commit([event])


def _log_failure(error: Exception) -> None:
    log.warn("the controller cannot be notified of failed log directories yet: {why}", why=error)
