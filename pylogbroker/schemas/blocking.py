"""Exchange with a registry that blocks, over a connection that stays open. Its time is bounded for each address."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

from pylogbroker.schemas.endpoint import ANSWER_BYTES_MAX, CA, SECONDS, RegistryAddress, RegistryEndpoint
from pylogbroker.schemas.errors import RegistryUnavailable
from pylogbroker.schemas.registry_client import Answer, RegistryClient

_LOOKUP_REQUESTS: Final = 3  # that take as long as they may
_ATTEMPTS: Final = 2  # the registry may have closed a connection that was open


class BlockingExchange:
    """Tries the URLs in turn, and stays with the one that answered."""

    def __init__(self, endpoint: RegistryEndpoint, seconds: float = SECONDS) -> None:
        self._addresses = list(endpoint.addresses)
        self._seconds = seconds
        uses_tls = any(address.url.startswith("https:") for address in endpoint.addresses)
        self._context = endpoint.tls_context() if uses_tls else None
        self._open: dict[RegistryAddress, http.client.HTTPConnection] = {}

    async def __call__(self, method: str, path: str, body: bytes | None) -> Answer:
        problems: list[str] = []
        for address in (*self._addresses,):
            try:
                return self._ask(address, method, path, body)
            except (OSError, http.client.HTTPException) as error:
                problems.append(f"the schema registry at {address.url} is not reached: {_reason(error)}")
                self._addresses.append(self._addresses.pop(0))
        raise RegistryUnavailable("; ".join(problems))

    def _ask(self, address: RegistryAddress, method: str, path: str, body: bytes | None) -> Answer:
        target = urlsplit(address.url).path + path
        ends_at = time.monotonic() + self._seconds
        for attempt in range(_ATTEMPTS):
            is_new = address not in self._open
            connection = self._open.pop(address, None) or self._connected(address.url)
            try:
                if is_new:
                    connection.connect()
                with _ended_at(connection, ends_at):
                    connection.request(method, target, body, address.headers())
                    response = connection.getresponse()
                    data = response.read(ANSWER_BYTES_MAX + 1)
            except (OSError, http.client.HTTPException):
                connection.close()
                if is_new or attempt + 1 == _ATTEMPTS or time.monotonic() >= ends_at:
                    raise
                continue
            if len(data) > ANSWER_BYTES_MAX:
                connection.close()
                raise RegistryUnavailable(f"the answer of {address.url} is longer than {ANSWER_BYTES_MAX} bytes")
            if response.will_close:
                connection.close()
            else:
                self._open[address] = connection
            return Answer(response.status, data)
        raise AssertionError

    def _connected(self, url: str) -> http.client.HTTPConnection:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, parts.port, timeout=self._seconds, context=self._context)
        return http.client.HTTPConnection(host, parts.port, timeout=self._seconds)


@contextmanager
def _ended_at(connection: http.client.HTTPConnection, ends_at: float) -> Iterator[None]:
    """End an exchange at a time: the timeout of a socket begins again with each byte that arrives."""
    sock: socket.socket = connection.sock
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # that of TLS would change what the other thread reads

    timer = threading.Timer(max(0.0, ends_at - time.monotonic()), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError) as error:
        if is_late.is_set():
            raise TimeoutError from error
        raise
    finally:
        timer.cancel()
    if is_late.is_set():
        raise TimeoutError


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}): name its authority by {CA}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or error}): is it https?"
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error) or type(error).__name__


def blocking_client(endpoint: RegistryEndpoint, seconds: float = SECONDS) -> RegistryClient:
    return RegistryClient(BlockingExchange(endpoint, seconds), endpoint.where, _LOOKUP_REQUESTS * seconds)
