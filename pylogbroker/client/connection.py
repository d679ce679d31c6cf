"""One connection to a broker, in Kafka's protocol.

    connection = await connect(reactor, Address("localhost", 9092), settings)
    response = await connection.request(MetadataRequest(topics=None))
    connection.close()

The first request asks which versions the broker speaks. How requests find their answers, and what becomes of those
that wait when the connection ends, `pylogbroker.client.conversation` says.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, fail

from pylogbroker.client.address import Address
from pylogbroker.client.conversation import Conversation
from pylogbroker.client.errors import ConnectionLost, NotConnected, RequestTimedOut
from pylogbroker.client.speaking import Speakers
from pylogbroker.client.transport import dial
from pylogbroker.config import Values
from pylogbroker.wire import EncodingError, Request, UnsupportedVersion

_IDS = 2**31


class BrokerConnection(Conversation):
    """The client's side of one connection; made by `connect`."""

    language = "Kafka's protocol"

    def __init__(self, clock: Any, address: Address, settings: Values) -> None:
        super().__init__(clock, address, settings)
        self.sent = 0
        self._speakers = Speakers(str(address), settings.text("client.id"))

    def version_of(self, kind: type[Request]) -> int:
        """The newest version of an API that both sides know; UnsupportedVersion if there is none."""
        return self._speakers.newest(kind).version

    def request(
        self,
        request: Request,
        *,
        version: int | None = None,
        expect_answer: bool = True,
        timeout: float | None = None,
    ) -> Deferred[Any]:
        """Send a request; a Deferred of its response, or if none is expected, of None when the socket has taken it.

        It fails with ConnectionLost or RequestTimedOut (after `timeout` seconds, or else request.timeout.ms), and with
        UnsupportedVersion or EncodingError if the broker cannot be asked that. Records in the request are not copied:
        they must not be changed until then.
        """
        if not self.is_open:
            return self._refused()
        kind = type(request)
        try:
            speaker = self._speakers.newest(kind) if version is None else self._speakers.of(kind, version)
            correlation_id = self.sent
            chunks = speaker.request(correlation_id, request)
        except (UnsupportedVersion, EncodingError) as error:
            return fail(error)
        self.sent = (correlation_id + 1) % _IDS
        if not expect_answer:
            return self._tell(chunks)
        return self._exchange(speaker.name, chunks, partial(speaker.answer, correlation_id), timeout)

    async def shake_hands(self, timeout: float) -> None:
        """Ask the broker what it speaks: the first thing on every connection."""
        while not self._speakers.is_greeted:
            request, version = self._speakers.greeting()
            self._speakers.greeted(await self.request(request, version=version, timeout=timeout))


async def connect(reactor: Any, address: Address, settings: Values) -> BrokerConnection:
    """A connection that is ready for requests; NotConnected says why there is none."""
    seconds = settings.integer("socket.connection.setup.timeout.ms") / 1000
    started = reactor.seconds()
    connection = await dial(reactor, address, settings, BrokerConnection)
    try:
        await connection.shake_hands(max(0.001, started + seconds - reactor.seconds()))
    except BaseException as error:
        connection.close()
        if isinstance(error, ConnectionLost | RequestTimedOut):
            raise NotConnected(str(error)) from error
        raise
    return connection
