"""Waits until clients can use all of several brokers: each knows the others and a controller.

Brokers learn both from the controller, after they have registered. A client that asks before gets an answer with one
broker and without controller, and may wait a minute until it asks again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
from twisted.internet.task import deferLater

from pylogbroker.broker.security.logins import credentials_of_broker, names_between_brokers
from pylogbroker.config import BrokerConfig
from pylogbroker.features import on_first_use
from pylogbroker.metadata.zk_schema import BrokerNode, parse_endpoint
from pylogbroker.rpc.connection import connect
from pylogbroker.rpc.errors import ClientError, NotAuthenticated
from pylogbroker.rpc.security import ConnectionSecurity
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.security.tls.engine import MakeEngine
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from pylogbroker.security.tls import contexts as tls_contexts
    from pylogbroker.security.tls import settings as tls_settings
else:
    tls_contexts = on_first_use("pylogbroker.security.tls.contexts")
    tls_settings = on_first_use("pylogbroker.security.tls.settings")

RETRY_SECONDS: Final = 0.1
_VERSIONS: Final = {MetadataRequest.api_key: 1}  # the first one with a controller
_SECONDS_MAX: Final = 5.0  # for a connection, and for an answer

_AskMetadata = Callable[[Address], Awaitable[MetadataResponse]]


def metadata_question(reactor: Any, config: BrokerConfig) -> _AskMetadata:
    """Return how to ask a broker as others do; raise ConfigError. Blocks."""
    security = ConnectionSecurity(_make_engine(config), credentials_of_broker(config), names_between_brokers(config))
    settings = ConnectionSettings(setup_timeout=_SECONDS_MAX, request_timeout=_SECONDS_MAX, security=security)
    return partial(_ask, reactor, settings)


def _make_engine(config: BrokerConfig) -> MakeEngine | None:
    listener = config.inter_broker_listener
    if not listener.security.has_tls:
        return None
    return tls_contexts.ClientTls.of(
        tls_settings.TlsSettings.of(config.of_listener(listener), tls_settings.NONE)
    ).engine


async def _ask(reactor: Any, settings: ConnectionSettings, address: Address) -> MetadataResponse:
    """Ask for metadata without topics; raise ClientError."""
    connection = await connect(reactor, address, settings, _VERSIONS)
    try:
        response: MetadataResponse = await connection.request(MetadataRequest(topics=[]))
        return response
    finally:
        connection.close()


@attrs.frozen
class MetadataWait:
    """Waits for the metadata of brokers, which are asked on the listener of this name.

    `registrations` returns the registered brokers, none without a controller.
    """

    _reactor: Any
    _brokers: Collection[int]
    _registrations: Callable[[], Mapping[int, BrokerNode]]
    _listener: str
    _ask: _AskMetadata

    async def finish(self) -> None:
        """Return once each broker has known all of them and a controller."""
        waiting = list(self._brokers)
        while waiting:
            registered = self._registrations()  # a broker that was started again may have another address
            waiting = [broker_id for broker_id in waiting if not await self._is_ready(registered.get(broker_id))]
            if waiting:
                await deferLater(self._reactor, RETRY_SECONDS)

    async def _is_ready(self, broker: BrokerNode | None) -> bool:
        if broker is None:
            return False
        try:
            metadata = await self._ask(self._address(broker))
        except (ClientError, NotAuthenticated):
            return False
        ids = {node.node_id for node in metadata.brokers}
        return ids.issuperset(self._brokers) and metadata.controller_id in ids

    def _address(self, broker: BrokerNode) -> Address:
        endpoints = map(parse_endpoint, broker.endpoints)
        return next(Address(host, port) for name, host, port in endpoints if name == self._listener)
