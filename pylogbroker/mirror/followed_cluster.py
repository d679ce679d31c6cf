"""One side of a mirror, as it is used by what follows the records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.client import AdminClient, Producer
from pylogbroker.client.admin import NewTopic
from pylogbroker.client.cluster import Cluster
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.mirror.settings import MirroredCluster
from pylogbroker.records import Header

log = Logger()

_PRODUCER: Final[Mapping[str, Any]] = {
    "allow.auto.create.topics": False,
    "buffer.memory": 4_194_304,
    "delivery.timeout.ms": 30_000,
    "linger.ms": 5,
    "queue.enqueue.timeout.ms": 0,
}
_COMPACTED: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}
_CLOSE_SECONDS_MAX: Final = 5.0


@attrs.frozen(eq=False, repr=False)
class FollowedCluster:
    """Clients of a cluster, by its alias. The producer writes records of the mirror's own topics."""

    alias: str
    cluster: Cluster
    admin: AdminClient
    producer: Producer

    @classmethod
    def of(cls, alias: str, cluster: Cluster, configured: MirroredCluster, reactor: Any) -> FollowedCluster:
        settings = {**_PRODUCER, **configured.producer_settings()}
        return cls(
            alias,
            cluster,
            AdminClient(configured.bootstrap, reactor=reactor, settings=configured.client_settings()),
            Producer(configured.bootstrap, reactor=reactor, settings=settings),
        )

    async def make_topic(self, name: str, replication_factor: int) -> None:
        """Create a compacted topic of one partition unless it exists."""
        if name in await self.cluster.all_topics():
            return
        try:
            await self.admin.topics.create([NewTopic(name, 1, replication_factor, configs=dict(_COMPACTED))])
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        await self.cluster.find_topic(name)

    def write(self, topic: str, key: bytes, value: bytes, headers: tuple[Header, ...] = ()) -> Deferred[bool]:
        """Write a record; fire with whether the cluster has it."""

        def failed(failure: Failure) -> bool:
            log.debug("{topic}: {error}", topic=topic, error=failure.value)
            return False

        sent = self.producer.send(topic, value, key, partition=0, headers=headers)
        return sent.addCallbacks(lambda _: True, failed)

    async def close(self) -> None:
        try:
            await self.producer.close(_CLOSE_SECONDS_MAX)
        except PylogbrokerError as error:
            log.debug("{alias}: records of the mirror's topics were not sent: {error}", alias=self.alias, error=error)
        await self.admin.close()
