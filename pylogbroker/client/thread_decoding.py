"""Responses with thousands of rows are decoded in a thread: meanwhile the reactor serves other connections."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.interfaces import IReactorThreads
from twisted.internet.threads import deferToThreadPool

from pylogbroker.rpc.connection import BrokerConnection, UndecodedResponse
from pylogbroker.rpc.errors import ConnectionLost
from pylogbroker.wire import WireError

_THREAD_BYTES_MIN: Final = 32_768
"""Size from which a thread takes less time than the response."""


async def decoded(reactor: Any, connection: BrokerConnection, response: UndecodedResponse) -> Any:
    """Return the response; raise ConnectionLost, and end the connection, if it cannot be decoded.

    A reactor without threads, and the reactor thread for a small response, decode it at once.
    """
    try:
        if len(response) < _THREAD_BYTES_MIN or not IReactorThreads.providedBy(reactor):
            return response()
        return await deferToThreadPool(reactor, reactor.getThreadPool(), response)
    except WireError as error:
        lost = ConnectionLost(f"{connection.address} sent an answer that cannot be decoded: {error}")
        connection.close(lost)
        raise lost from error
