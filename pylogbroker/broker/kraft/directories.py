"""Reports to the controllers which log directory has each replica of this broker (AssignReplicasToDirs, KIP-858).

The controllers know it of a broker with one directory. Of one with several they learn it here, so that the failure of
a directory takes its replicas alone offline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

import attrs
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.kraft.quorum import Quorum
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import KafkaError
from pylogbroker.kraft.fold import MetadataFold
from pylogbroker.metadata.delta import Delta, PartitionsChanged, TopicCreated
from pylogbroker.metadata.image import ClusterImage
from pylogbroker.rpc.errors import ClientError, code_of
from pylogbroker.wire import WireError
from pylogbroker.wire.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedDirectoryTopic,
    AssignedPartition,
    AssignReplicasToDirsRequest,
)

log = Logger()
_PURPOSE: Final = "requests"
_PARTITIONS_MAX: Final = 2_000
_DELAY_SECONDS: Final = 0.5
Held = Callable[[], Iterable[tuple[UUID, int, UUID]]]
"""Returns topic id, partition and directory of each replica here."""


@attrs.define(eq=False, repr=False)
class DirectoryReports:
    _broker_id: int
    _broker_epoch: Callable[[], int]
    _quorum: Quorum
    _runtime: Runtime
    _fold: Callable[[], MetadataFold]
    _held: Held
    _has_several: bool
    """This broker has several log directories: else the controllers need no report."""
    _timers: list[IDelayedCall] = attrs.field(factory=list, init=False)
    """One until the next check."""
    _is_closed: bool = attrs.field(default=False, init=False)

    def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        if self._has_several and any(isinstance(change, TopicCreated | PartitionsChanged) for change in delta):
            self.check()

    def check(self) -> None:
        """Report replicas of which the controllers know another directory, or none; soon, once for many changes."""
        if not self._timers and not self._is_closed:
            self._timers.append(self._runtime.clock.callLater(_DELAY_SECONDS, self._begin))

    def close(self) -> None:
        self._is_closed = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _begin(self) -> None:
        self._timers.clear()
        run_in_background(log, self._check(), "log directories are not reported")

    async def _check(self) -> None:
        if self._broker_epoch() < 0:
            return
        present = self._runtime.slices.over(list(self._held()))
        wrong = [place async for place in present if self._fold().directories.get(place[:2]) != place[2]]
        if wrong:
            await self._send(wrong[:_PARTITIONS_MAX])

    async def _send(self, wrong: Iterable[tuple[UUID, int, UUID]]) -> None:
        directories: dict[UUID, dict[UUID, list[AssignedPartition]]] = {}
        for topic_id, number, directory in wrong:
            directories.setdefault(directory, {}).setdefault(topic_id, []).append(AssignedPartition(number))
        assigned = [
            AssignedDirectory(directory, [AssignedDirectoryTopic(*topic) for topic in topics.items()])
            for directory, topics in directories.items()
        ]
        request = AssignReplicasToDirsRequest(self._broker_id, self._broker_epoch(), assigned)
        try:
            answer = await self._quorum.send(_PURPOSE, request)
        except (ClientError, KafkaError, WireError) as error:
            log.warn("log directories cannot be reported to the controllers now: {why}", why=error)
        else:
            if answer.error_code:
                log.warn("the controllers reject log directories: {code}", code=code_of(answer.error_code).name)
