"""One connection to a broker, in Kafka's protocol.

    connection = await connect(reactor, Address("localhost", 9092), settings)
    response = await connection.request(MetadataRequest(topics=None))
    connection.close()

The first request negotiates API versions, unless they are given: between brokers, `inter.broker.protocol.version` fixes
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred, fail

from pylogbroker.rpc.client_protocol import ClientProtocol
from pylogbroker.rpc.endpoint import dial
from pylogbroker.rpc.errors import ConnectionLost, NotConnected, RequestTimedOut
from pylogbroker.rpc.pipelined_connection import PipelinedConnection
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.wire import EncodingError, Request, UnsupportedVersion


class BrokerConnection(PipelinedConnection):
    protocol_name = "Kafka's protocol"

    def __init__(self, clock: Any, address: Address, settings: ConnectionSettings) -> None:
        super().__init__(clock, address, settings)
        self._kafka = ClientProtocol(str(address), settings.client_id)

    @property
    def sent(self) -> int:
        return self._kafka.encoded

    def version_of(self, kind: type[Request]) -> int:
        return self._kafka.version_of(kind)

    def request(
        self,
        request: Request,
        *,
        version: int | None = None,
        expect_answer: bool = True,
        timeout: float | None = None,
    ) -> Deferred[Any]:
        """Send a request; return a Deferred of its response, or of None if none is expected.

        Without a response, it fires when the socket has accepted the request. It fails with ConnectionLost,
        RequestTimedOut after `timeout` seconds (default request.timeout.ms), UnsupportedVersion or EncodingError. Do
        not change records before: they are not copied.
        """
        if not self.is_open:
            return self._not_connected()
        try:
            name, chunks, decode = self._kafka.encode(request, version)
        except (UnsupportedVersion, EncodingError) as error:
            return fail(error)
        if not expect_answer:
            return self._send_unanswered(chunks)
        return self._send_request(name, chunks, decode, timeout)

    def assume_versions(self, newest: Mapping[int, int]) -> None:
        """Use the newest versions by API key, and older ones if asked for, without a negotiation."""
        self._kafka.assume_versions(newest)

    async def negotiate_versions(self, timeout: float) -> None:
        while not self._kafka.is_negotiated:
            request, version = self._kafka.next_request()
            self._kafka.handle_response(await self.request(request, version=version, timeout=timeout))


async def connect(
    reactor: Any, address: Address, settings: ConnectionSettings, versions: Mapping[int, int] | None = None
) -> BrokerConnection:
    """Return a connection ready for requests, or raise NotConnected.

    `versions` by API key are used without a negotiation.
    """
    started = reactor.seconds()
    connection = await dial(reactor, address, settings, BrokerConnection)
    if versions is not None:
        connection.assume_versions(versions)
        return connection
    try:
        await connection.negotiate_versions(max(0.001, started + settings.setup_timeout - reactor.seconds()))
    except BaseException as error:
        connection.close()
        if isinstance(error, ConnectionLost | RequestTimedOut):
            raise NotConnected(str(error)) from error
        raise
    return connection
