"""Connections to the KRaft controllers, and requests to the active one.

The reader of the metadata log learns which controller is active. Each purpose has a connection of its own: a fetch
waits at the controller for records, and heartbeats must not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any, Final

import attrs

from pylogbroker.broker.kraft.addresses import QuorumAddresses
from pylogbroker.errors import ErrorCode
from pylogbroker.rpc.broker_channel import BrokerChannel
from pylogbroker.rpc.errors import ClientError, NotConnected, code_of
from pylogbroker.rpc.settings import Address
from pylogbroker.wire import Request, UnsupportedVersion

_NO_LEADER: Final = -1
_OTHER_LEADS: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER})


@attrs.define(eq=False, repr=False)
class Quorum:
    """`open_channel` returns a new channel to an address; `leader_id` is -1 while no controller is known to lead."""

    _addresses: QuorumAddresses
    _open_channel: Callable[[Address], BrokerChannel]
    leader_id: int = attrs.field(default=_NO_LEADER, init=False)
    _known: dict[int, Address] = attrs.field(factory=dict, init=False)
    _channels: dict[str, BrokerChannel] = attrs.field(factory=dict, init=False)
    _next_addresses: Any = attrs.field(init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._known.update(self._addresses.voters)
        self._next_addresses = cycle(self._addresses.first)

    def learned(self, node_id: int, host: str, port: int) -> None:
        """Take the address of a controller."""
        self._known[node_id] = Address(host, port)

    def follow_leader(self, leader_id: int) -> None:
        self.leader_id = leader_id if leader_id in self._known else _NO_LEADER

    def leader_lost(self) -> None:
        """Close all connections: the controller does not answer, or does not lead any more."""
        self.leader_id = _NO_LEADER
        self._close_channels()

    def channel_to_any(self, purpose: str) -> BrokerChannel:
        """Return a channel to the active controller, or to the next one of the settings."""
        if self.leader_id != _NO_LEADER:
            return self.channel(purpose)
        return self._channel_to(purpose, next(self._next_addresses))

    def channel(self, purpose: str) -> BrokerChannel:
        """Return the channel to the active controller; raise NotConnected while none is known."""
        if self.leader_id == _NO_LEADER:
            raise NotConnected("no active controller is known now")
        return self._channel_to(purpose, self._known[self.leader_id])

    def _channel_to(self, purpose: str, address: Address) -> BrokerChannel:
        channel = self._channels.get(purpose)
        if channel is None or channel.address != address:
            if channel is not None:
                channel.close()
            channel = self._channels[purpose] = self._open_channel(address)
            if self._is_closed:
                channel.close()
        return channel

    async def send(
        self, purpose: str, request: Request, version: int | None = None, timeout: float | None = None
    ) -> Any:
        """Return the active controller's answer; raise ClientError without one, also after `timeout` seconds.

        An answer that another controller leads forgets this one.
        """
        try:
            answer = await self.channel(purpose).request(request, version, timeout)
        except ClientError:
            self._disconnect(purpose)
            raise
        if code_of(getattr(answer, "error_code", 0)) in _OTHER_LEADS:
            self.leader_lost()
        return answer

    async def request(self, make: Callable[[int], Request], versions: Sequence[int]) -> Any:
        """Like `send`, in the first of the versions that the controller has; `make` gets it."""
        for version in versions[:-1]:
            try:
                return await self.send("requests", make(version), version)
            except UnsupportedVersion:
                continue
        return await self.send("requests", make(versions[-1]), versions[-1])

    def close(self) -> None:
        self._is_closed = True
        self._close_channels()

    def _disconnect(self, purpose: str) -> None:
        channel = self._channels.pop(purpose, None)
        if channel is not None:
            channel.close()

    def _close_channels(self) -> None:
        for purpose in tuple(self._channels):
            self._disconnect(purpose)
