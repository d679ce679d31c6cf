"""Producer ids, unique in the cluster, allocated by the controller in blocks. A stop loses the rest of one."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from pylogbroker.broker.services import Controller
from pylogbroker.errors import ErrorCode, KafkaError

log = Logger()


@attrs.define
class ProducerIds:
    _controller: Controller
    _is_due: Callable[[str], bool] = lambda about: True  # limits log lines
    _next: int = attrs.field(default=0, init=False)
    _end: int = attrs.field(default=0, init=False)
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    async def take(self) -> int:
        """Return a new id, or raise an error that makes clients try again while the controller is unavailable."""
        await self._lock.acquire()
        try:
            if self._next == self._end:
                block = await self._controller.allocate_producer_ids()
                self._next, self._end = block.first, block.last + 1
            self._next += 1
            return self._next - 1
        except KafkaError as error:
            if self._is_due("producer ids"):
                log.warn("no producer ids could be taken: {why}", why=error)
            raise KafkaError(str(error), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from error
        finally:
            self._lock.release()
