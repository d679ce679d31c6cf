"""Part of a broker that is alone in its cluster: it is the controller, and has all replicas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata, MetadataFollower
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.partitions.sole_replicas import SoleReplicas
from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.sole.controller import LocalController
from pylogbroker.metadata.image import TopicImage
from pylogbroker.metadata.zk_schema import BrokerNode


@attrs.define(eq=False, repr=False)
class SoleRole:
    _broker_id: int
    _runtime: Runtime
    _metadata: ClusterMetadata
    controller: LocalController
    kraft: None = attrs.field(default=None, init=False)
    ended: Deferred[str] = attrs.field(factory=Deferred, init=False)
    """Never fires: the broker is the whole cluster."""
    _replicas: SoleReplicas = attrs.field(init=False)

    def host(self, partitions: Partitions) -> None:
        self._replicas = SoleReplicas(self._runtime, self._metadata, partitions, self._broker_id)
        self._metadata.prepare = self._replicas.prepare

    def served(self, apis: Iterable[Api]) -> tuple[Api, ...]:
        """Return the APIs without those that members of a cluster send each other."""
        return tuple(api for api in apis if not api.cluster_only)

    def marker_sender(self) -> None:
        """Return None: no other broker leads partitions."""

    def verification_sender(self) -> None:
        """Return None: no other broker has coordinators."""

    def share_state_peers(self) -> None:
        """Return None: no other broker has states of share groups."""

    @property
    def followers(self) -> Sequence[MetadataFollower]:
        return (self._replicas,)

    @property
    def interrupted_deletions(self) -> Sequence[TopicImage]:
        return self.controller.interrupted_deletions

    async def open(self) -> None:
        await self.controller.open(self._runtime.slices)

    async def open_replicas(self) -> None:
        await self._replicas.open()

    async def reopen_offline_partitions(self) -> None:
        await self._replicas.reopen_offline_partitions()

    async def finish_deletions(self) -> None:
        await self.controller.finish_deletions()

    async def register(self, node: BrokerNode) -> None:
        await self.controller.register(node, self._runtime.now_ms())

    async def leave(self) -> None:
        """Do nothing: no other broker waits for this one."""

    def close(self) -> None:
        """Do nothing: nothing goes on by itself."""
