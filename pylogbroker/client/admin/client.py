"""The admin client's public class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred

from pylogbroker.client.admin.acls import AclAdmin
from pylogbroker.client.admin.cluster_info import ClusterInfoAdmin
from pylogbroker.client.admin.configs import ConfigAdmin
from pylogbroker.client.admin.groups import GroupAdmin
from pylogbroker.client.admin.quotas import QuotaAdmin
from pylogbroker.client.admin.records import RecordAdmin
from pylogbroker.client.admin.replicas import ReplicaAdmin
from pylogbroker.client.admin.routing import Router
from pylogbroker.client.admin.tokens import TokenAdmin
from pylogbroker.client.admin.topics import TopicAdmin
from pylogbroker.client.admin.transactions import TransactionAdmin
from pylogbroker.client.admin.users import UserAdmin
from pylogbroker.client.arguments import reactor_or_default
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.settings import CLIENT, read
from pylogbroker.client.sources import StaticBrokers


class AdminClient:
    """Administers a cluster, with the settings of all clients in `pylogbroker.client.settings`.

    Methods of its parts return Deferreds: `admin.topics.list()`. Call them on the reactor thread. Requests go to the
    controller, a coordinator, a leader or each broker, and are repeated while these change, for at most
    `default.api.timeout.ms`. They fail with KafkaError, ItemsFailed or another `pylogbroker.client.errors`.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        reactor: Any = None,
        settings: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> None:
        values = read(CLIENT, {"allow.auto.create.topics": False, **(settings or {})}, **named)
        reactor = reactor_or_default(reactor)
        source = StaticBrokers(bootstrap if bootstrap is not None else values.texts("bootstrap.servers"))
        self._cluster = Cluster(reactor, values, source)
        self._router = router = Router.of(self._cluster, reactor, values)
        self.topics = TopicAdmin(router)
        self.configs = ConfigAdmin(router)
        self.groups = GroupAdmin(router)
        self.records = RecordAdmin(router)
        self.cluster = ClusterInfoAdmin(router)
        self.transactions = TransactionAdmin(router)
        self.replicas = ReplicaAdmin(router)
        self.acls = AclAdmin(router)
        self.users = UserAdmin(router)
        self.quotas = QuotaAdmin(router)
        self.tokens = TokenAdmin(router)

    def __repr__(self) -> str:
        return f"<AdminClient of {self._cluster}>"

    @property
    def trouble(self) -> str:
        """Return why the last request for metadata failed; "" if it did not."""
        return self._cluster.trouble

    def close(self) -> Deferred[None]:
        """Drop all connections; pending calls fail with Closed."""
        self._router.pauses.close()
        return ensureDeferred(self._cluster.close())
