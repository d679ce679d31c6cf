"""Requests to other brokers: of the persister, and of a visitor of this one, who has been allowed to ask.

A broker has one channel, whose requests follow each other. A channel that fails is closed: the next request looks up
the address again. Responses may be long, so worker threads decode them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.channel_pool import ChannelPool
from pylogbroker.rpc.errors import ClientError
from pylogbroker.wire import Request, UnsupportedVersion, WireError


class PeerChannel(Protocol):
    def request_undecoded(self, request: Request, version: int | None = None) -> Deferred[Callable[[], Any]]: ...
    def close(self) -> None: ...


@attrs.define(eq=False, repr=False)
class PeerRequests:
    """`open_channel` raises NotConnected for a broker that is not alive."""

    _open_channel: Callable[[int], PeerChannel]
    _runtime: Runtime
    _channels: ChannelPool[PeerChannel] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._channels = ChannelPool(self._open_channel)

    async def send(self, broker_id: int, request: Request, version: int | None = None) -> Any:
        """Return the response, by default in the newest version of both brokers.

        Raise NETWORK_EXCEPTION if there is none: a change may have been made or not.
        """
        try:
            decode = await self._channels.channel(broker_id).request_undecoded(request, version)
            return await self._runtime.in_thread(decode)
        except UnsupportedVersion:
            raise
        except (ClientError, WireError, KafkaError) as error:
            self._channels.disconnect(broker_id)
            raise KafkaError(f"broker {broker_id} does not answer: {error}", ErrorCode.NETWORK_EXCEPTION) from error

    def disconnect(self, broker_id: int) -> None:
        """Fail the requests to a broker that is gone, or has another address."""
        self._channels.disconnect(broker_id)

    def close(self) -> None:
        self._channels.close()
