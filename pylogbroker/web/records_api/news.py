"""News of partitions: records that have come, of a topic that somebody reads to its end."""

from __future__ import annotations

from typing import Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.web.records_api.fetching import committed_log
from pylogbroker.web.records_api.positions import Positions

REMOTE_SECONDS: Final = 1.0
"""Between looks at partitions that other brokers lead."""
PASSING: Final = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION)
"""Errors after which a reader only waits: a leader moves."""


async def sleep(services: Services, seconds: float) -> None:
    """Wait on the broker's clock."""
    waiting: Deferred[None] = Deferred()
    services.runtime.clock.callLater(seconds, lambda: None if waiting.called else waiting.callback(None))
    await waiting


@attrs.define(eq=False, repr=False)
class News:
    """Wait for new records of a topic: a DelayedOperation of the partitions that this broker leads."""

    _services: Services
    _topic: str
    _waiting: Deferred[None] = attrs.field(factory=Deferred, init=False)

    async def wait(self, positions: Positions, seconds: float) -> None:
        """Return when a partition rises above its position, is lost, or after some seconds.

        Partitions that other brokers lead have no news: it is time to look at them again after a second.
        """
        watched: list[Partition] = []
        timer: IDelayedCall | None = None
        try:
            for index, offset in positions.items():
                log = committed_log(self._services, self._topic, index)
                if log.partition is None:
                    seconds = min(seconds, REMOTE_SECONDS)
                    continue
                log.partition.purgatory.add(self, Mark.HIGH_WATERMARK, log.partition.log.high_watermark + 1)
                watched.append(log.partition)
                if log.partition.log.last_stable_offset > offset:
                    return
            timer = self._services.runtime.clock.callLater(seconds, self._end)
            await self._waiting
        except KafkaError as error:
            if error.code not in PASSING:
                raise
            await sleep(self._services, min(seconds, REMOTE_SECONDS))
        finally:
            for partition in watched:
                partition.purgatory.remove(self, Mark.HIGH_WATERMARK)
            if timer is not None and timer.active():
                timer.cancel()

    def try_complete(self, size: int) -> bool:
        """End the wait, but not within the append that has the news."""
        self._services.runtime.clock.callLater(0, self._end)
        return True

    def fail(self, error: KafkaError) -> None:
        self._services.runtime.clock.callLater(0, self._end)

    def _end(self) -> None:
        if not self._waiting.called:
            self._waiting.callback(None)
