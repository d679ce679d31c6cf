"""Logs of replicas that belong to other brokers by now: StopReplica was for an earlier registration of this broker.

The controller does not repeat that order. So some time after each registration, and after each election of a
controller, logs that are neither led nor followed are compared with the topics in the tree.

    topic in the tree                        what happens to the log
    ---------------------------------------  -----------------------------------------------------------
    assigns the partition to this broker     nothing: an order will come
    assigns it to others alone               renamed to `-stray`, named in the log and counted in metrics
    has another id, or not that partition    the same
    missing                                  named and counted: a tree without topics may be a mistake

Reads are not older than the registration, which the same session wrote. A later assignment comes with an order, which
gives the replica a role. So does Kafka 3.9 with its metadata in KRaft; with ZooKeeper it leaves such logs unnamed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.replication.replicas import Replicas
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.coordinators import TopicPartition
from pylogbroker.formatting import listed
from pylogbroker.interfaces import CoordinationError, ITree
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.image import is_another_topic
from pylogbroker.metadata.zk_schema import TopicNode

log = Logger()
_ORDERS_SECONDS: Final = 10.0
"""Time for the orders of a new registration or controller."""
_TOPICS_PER_READ: Final = 100
_UNREADABLE: Final = object()

_RunAlone = Callable[[Callable[[], Coroutine[Any, Any, None]]], Coroutine[Any, Any, None]]


@attrs.define(eq=False, repr=False)
class StrayReplicas:
    """`run_alone` runs work while no order is carried out."""

    _broker_id: int
    _runtime: Runtime
    _tree: ITree
    _partitions: Partitions
    _replicas: Replicas
    _run_alone: _RunAlone
    without_topic: int = attrs.field(default=0, init=False)
    """Number of logs without a topic, by the last check."""
    _timer: IDelayedCall | None = attrs.field(default=None, init=False)

    def check_later(self) -> None:
        """Check once the orders have had time to come."""
        self.stop()
        self._timer = self._runtime.clock.callLater(_ORDERS_SECONDS, self._begin)

    def stop(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _begin(self) -> None:
        run_in_background(log, self._run_alone(self._check), "logs of replicas on other brokers were not looked for")

    async def _check(self) -> None:
        slices = self._runtime.slices
        idle = [key async for key in slices.over(self._partitions.logged()) if not self._replicas.has_role(key)]
        try:
            topics = await self._read(sorted({topic for topic, _ in idle}))
        except CoordinationError as error:  # a new registration follows, and with it another check
            log.info("logs of replicas on other brokers are looked for later: {why}", why=error)
            return
        missing = [key for key in idle if topics.get(key[0], _UNREADABLE) is None]
        self.without_topic = len(missing)
        if missing:
            log.warn(
                "{logs} kept, not served: their topics are not in the coordination tree",
                logs=listed([f"{topic}-{index}" for topic, index in missing]),
            )
        stray = [key for key in idle if (topic := topics.get(key[0])) is not None and not self._is_assigned(key, topic)]
        if stray:
            await self._replicas.quarantine(stray)

    async def _read(self, names: Sequence[str]) -> dict[str, TopicNode | None]:
        """Return topics by name, None for missing ones, without those whose node is damaged."""
        topics: dict[str, TopicNode | None] = {}
        async for start in self._runtime.slices.over(range(0, len(names), _TOPICS_PER_READ)):
            some = names[start : start + _TOPICS_PER_READ]
            nodes = await self._tree.get_many([zk_paths.topic(name) for name in some])
            for name, node in zip(some, nodes, strict=True):
                with suppress(zk_schema.BadNode):
                    topics[name] = None if node is None else zk_schema.decode_topic(node.data)
        return topics

    def _is_assigned(self, key: TopicPartition, topic: TopicNode) -> bool:
        topic_id = self._partitions.logged()[key].topic_id
        is_of_topic = topic_id is None or not is_another_topic(topic.topic_id, topic_id)
        return is_of_topic and self._broker_id in topic.replicas.get(key[1], ())
