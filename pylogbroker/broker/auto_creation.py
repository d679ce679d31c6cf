"""Creates the topics that Metadata requests name and that do not exist (`auto.create.topics.enable`).

As in Kafka, the request is answered with UNKNOWN_TOPIC_OR_PARTITION, the topic is created in the background, and the
client finds it when it asks again.  So a client that deletes a topic and looks whether it is gone sees that it is.

Topics are created one after the other.  `WAITING_MAX` bounds how many wait; a request for more starts nothing, and
the client's next attempt tries again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
from twisted.internet.defer import ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from pylogbroker.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pylogbroker.broker.catalog import Catalog
    from pylogbroker.broker.request_limits import PartitionAllowance

WAITING_MAX = 1000
log = Logger()


@attrs.define(eq=False)
class AutoCreation:
    """The queue of topics to create; `_is_due` limits how often a line is logged."""

    _catalog: Catalog
    _clock: IReactorTime
    _is_due: Callable[[str], bool]
    _waiting: deque[str] = attrs.field(factory=deque, init=False)
    _names: set[str] = attrs.field(factory=set, init=False)  # those in `_waiting` and the one being created
    _stopped: bool = attrs.field(default=False, init=False)

    def request(self, name: str, allowance: PartitionAllowance) -> None:
        """Create the topic in the background; KafkaError at once if it could not be created.

        The topic's partitions are taken from the `allowance` of the Metadata request that names it.
        """
        if name in self._names or self._stopped:
            return
        if len(self._names) >= WAITING_MAX:
            if self._is_due("too many topics wait for their creation"):
                log.warn(
                    "{count} topics already wait for their automatic creation: {topic} and others are created when "
                    "clients ask for them again",
                    count=len(self._names),
                    topic=name,
                )
            return
        self._catalog.plan_topic(name, allowance=allowance)
        self._waiting.append(name)
        self._names.add(name)
        if len(self._names) == 1:
            self._clock.callLater(0, self._start)

    def stop(self) -> None:
        """Forget the topics that wait; the creation under way ends as it would."""
        self._stopped = True
        self._names.difference_update(self._waiting)
        self._waiting.clear()

    def _start(self) -> None:
        ensureDeferred(self._create_all()).addErrback(lambda failure: log.failure("automatic creation failed", failure))

    async def _create_all(self) -> None:
        while self._waiting:
            name = self._waiting.popleft()
            try:
                await self._catalog.create(name)
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS and self._is_due("automatic creation of topics"):
                    log.warn("topic {topic} could not be created automatically: {why}", topic=name, why=error)
            finally:
                self._names.discard(name)
