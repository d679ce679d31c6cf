"""High watermarks of partitions that only other brokers have, for the lag of groups that are coordinated here.

Each scrape asks the leaders, all at the same time, by ListOffsets. It waits for `WAIT_SECONDS` at most. A leader that
does not answer is not asked again meanwhile, and its partitions keep their last values for `KEPT_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.services import Peers
from pylogbroker.errors import KafkaError
from pylogbroker.long_loops import give_way
from pylogbroker.metadata.image import NO_LEADER, PartitionKey
from pylogbroker.wire import UnsupportedVersion
from pylogbroker.wire.messages.list_offsets import LATEST, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

log = Logger()
WAIT_SECONDS: Final = 2.0
KEPT_SECONDS: Final = 60.0
_PARTITIONS_PER_REQUEST: Final = 500
_OFFSETS_PER_STEP: Final = 100
_CONSUMER: Final = -1


@attrs.define(eq=False, repr=False)
class RemoteEnds:
    _broker: Broker
    _peers: Peers | None
    """None for a broker that is alone: it has all partitions."""
    _ends: dict[PartitionKey, tuple[float, int]] = attrs.field(factory=dict, init=False)
    _asked: set[int] = attrs.field(factory=set, init=False)

    def get(self, key: PartitionKey) -> int | None:
        end = self._ends.get(key)
        return None if end is None else end[1]

    async def refresh(self) -> None:
        """Ask the leaders of all partitions with offsets of groups and without a replica here."""
        if self._peers is None:
            return
        runtime = self._broker.runtime
        by_leader = await runtime.slices.run(self._missing())
        self._forget({key for keys in by_leader.values() for key in keys})
        asking = [
            run_in_background(log, self._ask(self._peers, leader, keys), "lags may be old")
            for leader, keys in by_leader.items()
            if leader not in self._asked
        ]
        answered: Deferred[None] = Deferred()
        DeferredList(asking).addCallback(lambda _: None if answered.called else answered.callback(None))
        try:
            await answered.addTimeout(WAIT_SECONDS, runtime.clock)
        except DeferredTimeout:
            if runtime.may_log("lag of groups"):
                log.warn("brokers {slow} do not say where partitions end: lags may be old", slow=sorted(self._asked))

    async def _missing(self) -> dict[int, list[PartitionKey]]:
        broker, leaders = self._broker, dict[PartitionKey, int]()
        for group in tuple(broker.groups.groups()):
            for number, key in enumerate(tuple(group.offsets.committed)):
                if number % _OFFSETS_PER_STEP == 0:
                    await give_way()
                if key not in broker.partitions.hosted and key not in leaders:
                    leaders[key] = self._leader(key)
        by_leader: dict[int, list[PartitionKey]] = {}
        for key, leader in leaders.items():
            if leader != NO_LEADER:
                by_leader.setdefault(leader, []).append(key)
        return by_leader

    def _leader(self, key: PartitionKey) -> int:
        topic = self._broker.metadata.topics.get(key[0])
        state = None if topic is None else topic.partitions.get(key[1])
        return NO_LEADER if state is None else state.leader

    def _forget(self, keys: set[PartitionKey]) -> None:
        oldest = self._broker.runtime.clock.seconds() - KEPT_SECONDS
        self._ends = {key: end for key, end in self._ends.items() if key in keys and end[0] >= oldest}

    async def _ask(self, peers: Peers, leader: int, keys: Sequence[PartitionKey]) -> None:
        self._asked.add(leader)
        try:
            for start in range(0, len(keys), _PARTITIONS_PER_REQUEST):
                self._learn(await peers.send(leader, _request(keys[start : start + _PARTITIONS_PER_REQUEST])))
        except (KafkaError, UnsupportedVersion) as error:
            if self._broker.runtime.may_log(f"lag of groups, from broker {leader}"):
                log.warn("the lag of groups at broker {leader} is not known: {why}", leader=leader, why=error)
        finally:
            self._asked.remove(leader)

    def _learn(self, response: Any) -> None:
        now = self._broker.runtime.clock.seconds()
        for topic in response.topics:
            for partition in topic.partitions:
                if not partition.error_code and partition.offset >= 0:
                    self._ends[topic.name, partition.partition_index] = now, partition.offset


def _request(keys: Sequence[PartitionKey]) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, index in keys:
        topic = topics.setdefault(name, ListOffsetsTopic(name))
        topic.partitions.append(ListOffsetsPartition(index, timestamp=LATEST))
    return ListOffsetsRequest(_CONSUMER, topics=list(topics.values()))
