"""Waits until clients can use all of several brokers: each knows the others and a controller.

Brokers learn both from the controller, after they have registered. A client that asks before gets an answer without
brokers or controller, and may wait a minute until it asks again. A broker without a PLAINTEXT listener is not asked:
others may want a certificate or a password, which the supervisor does not have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

import attrs
from twisted.internet.task import deferLater

from pylogbroker.config.listeners import PLAINTEXT
from pylogbroker.metadata.zk_schema import BrokerNode, parse_endpoint
from pylogbroker.rpc.connection import connect
from pylogbroker.rpc.errors import ClientError
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataResponse

RETRY_SECONDS: Final = 0.1
_VERSIONS: Final = {MetadataRequest.api_key: 1}  # the first one with a controller
_SETTINGS: Final = ConnectionSettings(setup_timeout=5.0, request_timeout=5.0)

AskMetadata = Callable[[Any, Address], Awaitable[MetadataResponse]]


async def ask_metadata(reactor: Any, address: Address) -> MetadataResponse:
    """Ask for a broker's metadata without topics; raise ClientError."""
    connection = await connect(reactor, address, _SETTINGS, _VERSIONS)
    try:
        response: MetadataResponse = await connection.request(MetadataRequest(topics=[]))
        return response
    finally:
        connection.close()


@attrs.frozen
class MetadataWait:
    """Waits for the metadata of `brokers`; `registrations` returns the addresses that they have now."""

    _reactor: Any
    _brokers: Collection[int]
    _registrations: Callable[[], Mapping[int, BrokerNode]]
    _ask: AskMetadata = ask_metadata

    async def finish(self) -> None:
        """Return once each broker has known all of them and a controller."""
        waiting = list(self._brokers)
        while waiting:
            registered = self._registrations()  # a broker that was started again may have another address
            waiting = [each for each in waiting if not await self._is_ready(registered.get(each))]
            if waiting:
                await deferLater(self._reactor, RETRY_SECONDS)

    async def _is_ready(self, broker: BrokerNode | None) -> bool:
        if broker is None:
            return False
        address = _plaintext_address(broker)
        if address is None:
            return True
        try:
            metadata = await self._ask(self._reactor, address)
        except ClientError:
            return False
        found = {each.node_id for each in metadata.brokers}
        return found.issuperset(self._brokers) and metadata.controller_id in found


def _plaintext_address(broker: BrokerNode) -> Address | None:
    endpoints = map(parse_endpoint, broker.endpoints)
    found = (Address(host, port) for name, host, port in endpoints if broker.protocols[name] == PLAINTEXT)
    return next(found, None)
