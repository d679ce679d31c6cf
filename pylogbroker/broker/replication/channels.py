"""Channels to the other brokers of the cluster, on `inter.broker.listener.name`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from pylogbroker.metadata.image import ClusterImage
from pylogbroker.rpc.broker_channel import BrokerChannel, listener_address
from pylogbroker.rpc.errors import NotConnected
from pylogbroker.rpc.security import OPEN, ConnectionSecurity
from pylogbroker.rpc.settings import ConnectionSettings


@attrs.frozen(eq=False, repr=False)
class BrokerChannels:
    _reactor: Any
    _image: Callable[[], ClusterImage]
    _listener: str
    _request_seconds: float = 30.0
    _security: ConnectionSecurity = OPEN

    def open(self, broker_id: int, client_id: str, versions: Mapping[int, int] | None = None) -> BrokerChannel:
        """Return a new channel; without `versions` it negotiates. Raise NotConnected for a broker that is not alive."""
        broker = self._image().brokers.get(broker_id)
        if broker is None:
            raise NotConnected(f"broker {broker_id} is not registered")
        settings = ConnectionSettings(
            client_id=client_id, request_timeout=self._request_seconds, security=self._security
        )
        return BrokerChannel(self._reactor, listener_address(broker, self._listener), settings, versions)
