"""Channels of a broker to others, by broker id: one to each, opened by the first request.

| call            | without a channel     | with one                         |
|-----------------|-----------------------|----------------------------------|
| channel(id)     | opens one             | returns it                       |
| disconnect(id)  | -                     | closes it: its requests fail     |
| close           | -                     | closes all; they may open again  |

A pool looks up addresses only when it opens a channel, so its user disconnects a broker that does not answer or has
moved. It retries nothing: only the user knows whether a request is still wanted. Clients have a pool of connections
(`pylogbroker.client.pool`), which reconnects by itself, pauses while it is throttled, and closes idle ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import attrs


class PooledChannel(Protocol):
    def close(self) -> None:
        """Fail all requests."""


C = TypeVar("C", bound=PooledChannel)


@attrs.define(eq=False, repr=False)
class ChannelPool(Generic[C]):
    """`open_channel` raises NotConnected for a broker that is not alive."""

    _open_channel: Callable[[int], C]
    _channels: dict[int, C] = attrs.field(factory=dict, init=False)

    def channel(self, broker_id: int) -> C:
        """Raise NotConnected."""
        if broker_id not in self._channels:
            self._channels[broker_id] = self._open_channel(broker_id)
        return self._channels[broker_id]

    def disconnect(self, broker_id: int) -> None:
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def close(self) -> None:
        for broker_id in tuple(self._channels):
            self.disconnect(broker_id)
