"""The admin client's public class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred

from pylogbroker.client.admin.parts import AdminParts
from pylogbroker.client.admin.reactor_waits import ReactorWaits
from pylogbroker.client.admin.routing import Router
from pylogbroker.client.arguments import names_of, reactor_or_default
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.settings import CLIENT, as_mapping, read
from pylogbroker.client.sources import StaticBrokers


class AdminClient(AdminParts):
    """Administers a cluster, with the settings of all clients in `pylogbroker.client.settings`.

    Methods of its parts return Deferreds: `admin.topics.list()`. Call them on the reactor thread. Requests go to the
    controller, a coordinator, a leader or each broker, and are repeated while these change, for at most
    `default.api.timeout.ms`. They fail with KafkaError, ItemsFailed or another `pylogbroker.client.errors`.

    A part is imported on first use.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        reactor: Any = None,
        settings: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> None:
        values = read(
            CLIENT,
            {"allow.auto.create.topics": False, **as_mapping(settings)},
            names_of(AdminClient),
            **named,
        )
        reactor = reactor_or_default(reactor)
        source = StaticBrokers(bootstrap if bootstrap is not None else values.texts("bootstrap.servers"))
        self._cluster = Cluster(reactor, values, source)
        self._waits = ReactorWaits.of(reactor, values)
        super().__init__(Router.of(self._cluster, self._waits, values))

    def __repr__(self) -> str:
        return f"<AdminClient of {self._cluster}>"

    @property
    def trouble(self) -> str:
        """Return why the last request for metadata failed; "" if it did not."""
        return self._cluster.trouble

    def close(self) -> Deferred[None]:
        """Drop all connections; pending calls fail with Closed."""
        self._waits.close()
        return ensureDeferred(self._cluster.close())
