"""Heartbeats of a mirror: records that say that it runs, as MirrorMaker 2 writes them.

One to the target names source and target. One to the source names them the other way round: MirrorMaker's clients find
the clusters upstream by the copy of that topic, `A.heartbeats` on B.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.internet.interfaces import IReactorTime

from pylogbroker.client import Producer, RecordMetadata
from pylogbroker.mirror_records.formats import HEARTBEATS_TOPIC, MirrorHeartbeat
from pylogbroker.records import Header


@attrs.frozen(eq=False, repr=False)
class Heartbeats:
    """Writes to each of `producers`, which are by the alias of their cluster; the pair (source, target) is given."""

    _clock: IReactorTime
    _source: str
    _target: str
    _producers: Mapping[str, Producer]

    async def beat(self, status: Header) -> None:
        """Write to all clusters, with the figures of the mirror for the target."""
        now = int(self._clock.seconds() * 1000)
        sent: list[Deferred[RecordMetadata]] = []
        for alias, producer in self._producers.items():
            upstream, downstream = (self._source, self._target) if alias == self._target else (self._target, alias)
            heartbeat = MirrorHeartbeat(upstream, downstream, now)
            headers = (status,) if alias == self._target else ()
            key, value = heartbeat.key(), heartbeat.value()
            sent.append(producer.send(HEARTBEATS_TOPIC, value, key, partition=0, timestamp=now, headers=headers))
        try:
            await gatherResults(sent, consumeErrors=True)
        except FirstError as error:
            error.subFailure.raiseException()
