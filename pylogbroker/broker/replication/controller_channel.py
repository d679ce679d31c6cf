"""Requests to the cluster's controller, which may move to another broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from pylogbroker.broker.replication.channels import BrokerChannels
from pylogbroker.metadata.image import NO_CONTROLLER, BrokerListener, ClusterImage
from pylogbroker.rpc.broker_channel import BrokerChannel
from pylogbroker.rpc.channel_pool import ChannelPool
from pylogbroker.rpc.errors import NotConnected
from pylogbroker.wire import Request, UnsupportedVersion


@attrs.define(eq=False, repr=False)
class ControllerChannel:
    """Negotiates versions: the controller's release is not known."""

    _channels: BrokerChannels
    _image: Callable[[], ClusterImage]
    _client_id: str
    _controller: tuple[int, Mapping[str, BrokerListener]] | None = attrs.field(default=None, init=False)
    """Broker and addresses to which the channel was opened."""
    _pool: ChannelPool[BrokerChannel] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pool = ChannelPool(lambda broker_id: self._channels.open(broker_id, self._client_id))

    async def request(self, make: Callable[[int], Request], versions: Sequence[int]) -> Any:
        """Return the response, in the first of the versions that the controller knows; `make` gets it.

        Raise NotConnected without a controller, else as BrokerChannel does.
        """
        for version in versions[:-1]:
            try:
                return await self._current().request(make(version), version)
            except UnsupportedVersion:
                continue
        return await self._current().request(make(versions[-1]), versions[-1])

    def close(self) -> None:
        self._pool.close()

    def _current(self) -> BrokerChannel:
        image = self._image()
        controller_id = image.controller_id
        if controller_id == NO_CONTROLLER:
            raise NotConnected("the cluster has no controller now")
        broker = image.brokers.get(controller_id)
        controller = controller_id, {} if broker is None else broker.listeners
        if controller != self._controller:
            self._pool.close()
            self._controller = controller
        return self._pool.channel(controller_id)
