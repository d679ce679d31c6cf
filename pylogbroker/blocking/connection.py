"""Blocking connection to a broker, for processes without a reactor.

    response = dial(Address("localhost", 9092), settings).ask(MetadataRequest(topics=None))

Not thread-safe. Any failure closes it: later responses could not be matched to requests. Nothing is resent.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from pylogbroker.blocking.name_lookup import looked_up
from pylogbroker.client.errors import ConnectionLost, NotAuthenticated, NotConnected, RequestTimedOut, SetUpFailed
from pylogbroker.features import on_first_use
from pylogbroker.rpc.client_protocol import ClientProtocol, EncodedRequest
from pylogbroker.rpc.malloc_tuning import retain_freed_memory
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.wire import Request, WireError
from pylogbroker.wire.recognition import TLS, protocol_of_length

if TYPE_CHECKING:
    from pylogbroker.blocking import tls_socket
    from pylogbroker.blocking.tls_socket import TlsSocket
    from pylogbroker.rpc import authentication
    from pylogbroker.security.sasl import authentication as sasl_authentication
    from pylogbroker.security.tls.engine import MakeEngine
else:
    authentication = on_first_use("pylogbroker.rpc.authentication")
    sasl_authentication = on_first_use("pylogbroker.security.sasl.authentication")
    tls_socket = on_first_use("pylogbroker.blocking.tls_socket")

_length_of = struct.Struct(">i").unpack
_timeval = struct.Struct("ll").pack
_HTTP_ANSWER: Final = int.from_bytes(b"HTTP", "big")
_CHUNKS: Final = 512  # buffers per sendmsg; the system allows 1,024


class BlockingConnection:
    def __init__(self, connected: socket.socket | TlsSocket, address: Address, settings: ConnectionSettings) -> None:
        self.address = address
        self._socket = connected
        self._tls = None if isinstance(connected, socket.socket) else connected
        self._kafka = ClientProtocol(str(address), settings.client_id)
        self._timeout = settings.request_timeout
        self._response_bytes_max = settings.response_bytes_max
        self._security = settings.security
        self._credentials = settings.security.credentials
        self._setup_timeout = settings.setup_timeout
        self._renewal = float("inf")  # monotonic time at which to authenticate again
        self._waiting: deque[EncodedRequest] = deque()
        self._received: deque[Any] = deque()  # responses that came before an authentication
        self._timeout_now = -1.0
        self._until = float("inf")  # monotonic time at which a set-up must be over
        self._why_ended: str | None = None

    @property
    def is_open(self) -> bool:
        return self._why_ended is None

    @property
    def in_flight(self) -> int:
        """Number of responses not received."""
        return len(self._waiting) + len(self._received)

    def fileno(self) -> int:
        """Descriptor for `readable`."""
        return self._socket.fileno()

    @property
    def has_received(self) -> bool:
        """True if there are responses or bytes that were received, which the descriptor does not show."""
        return bool(self._received) or (self._tls is not None and self._tls.has_received)

    def version_of(self, kind: type[Request]) -> int:
        """Return the newest common version; raise UnsupportedVersion."""
        return self._kafka.version_of(kind)

    def feature_level(self, name: str) -> int:
        """Return the level that a feature of the cluster had when the connection was made; 0 if it was off."""
        return self._kafka.feature_level(name)

    def ask(self, request: Request, *, version: int | None = None, timeout: float | None = None) -> Any:
        """Send a request and return its response. Nothing else may be in flight.

        Raise ConnectionLost or RequestTimedOut without a response in `timeout` seconds (default request.timeout.ms).
        Raise UnsupportedVersion or EncodingError if the broker does not support the request.
        """
        self.send(request, version=version)
        return self.receive(timeout)

    def send(self, request: Request, *, version: int | None = None, answered: bool = True) -> None:
        """Send; if `answered`, `receive` returns the response later."""
        if self._why_ended is not None:
            raise NotConnected(f"the connection to {self.address} has ended: {self._why_ended}")
        if time.monotonic() >= self._renewal:
            self._renew()
        encoded = self._kafka.encode(request, version)
        if answered:
            self._waiting.append(encoded)
        self._allow(self._timeout)
        try:
            self._send_all(encoded.chunks)
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, timeout: float | None = None) -> Any:
        """Return the response to the oldest pending request."""
        return self._received.popleft() if self._received else self._receive(timeout)

    def _receive(self, timeout: float | None = None) -> Any:
        name, _, decode = self._waiting[0]
        self._allow(self._timeout if timeout is None else timeout)
        try:
            frame = self._frame()
        except BlockingIOError as error:
            self._end("it did not answer in time")
            raise RequestTimedOut(f"{self.address} did not answer in time: {name}") from error
        except OSError as error:
            raise self._lost(error) from error
        try:
            response = decode(memoryview(frame))
        except WireError as error:
            raise self._violated(str(error)) from error
        self._waiting.popleft()
        return response

    def close(self) -> None:
        self._end("it was closed")

    def set_up(self, until: float) -> None:
        """Negotiate versions and authenticate until a monotonic time; raise RequestTimedOut, or NotAuthenticated."""
        self._until = until
        while not self._kafka.is_negotiated:
            request, version = self._kafka.next_request()
            self._kafka.handle_response(self.ask(request, version=version, timeout=self._setup_timeout))
        self._authenticate()
        self._until = float("inf")

    def _authenticate(self) -> None:
        """Authenticate, if there are credentials; raise NotAuthenticated."""
        if self._credentials is None:
            return
        self._renewal = float("inf")
        steps = authentication.authenticate(self._kafka, self._credentials)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Request):
                    step = steps.send(self.ask(step, timeout=self._setup_timeout))
                    continue
                try:
                    result = step()
                except sasl_authentication.AuthenticationFailed as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            if end.value:
                self._renewal = time.monotonic() + authentication.renewal_seconds(end.value)

    def _renew(self) -> None:
        """Authenticate again, after the responses that are pending."""
        received = deque(self._received)
        self._received.clear()
        try:
            while self._waiting:
                received.append(self._receive())
            self.set_up(time.monotonic() + self._setup_timeout)
        except NotAuthenticated as error:
            self._end(str(error))
            raise
        self._received = received

    def _allow(self, seconds: float) -> None:
        """Set the kernel's timeout of each system call: one blocking call can receive a whole response.

        During a set-up, this is the rest of its time at most.
        """
        seconds = min(seconds, self._until - time.monotonic())
        if seconds != self._timeout_now:
            whole = max(0.001, seconds)
            value = _timeval(int(whole), int(whole % 1 * 1e6))
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                self._socket.setsockopt(socket.SOL_SOCKET, option, value)
            self._timeout_now = seconds

    def _keep_time(self) -> None:
        """Raise BlockingIOError at the end of a set-up's time; a peer may send the rest of a response slowly."""
        if self._until < float("inf"):
            self._allow(self._setup_timeout)
            if time.monotonic() >= self._until:
                raise BlockingIOError

    def _send_all(self, chunks: list[Any]) -> None:
        left = deque(memoryview(chunk).cast("B") for chunk in chunks if len(chunk))
        while left:
            some = [left[index] for index in range(min(_CHUNKS, len(left)))]
            taken = self._socket.sendmsg(some)
            while left and taken >= len(left[0]):
                taken -= len(left.popleft())
            if taken:
                left[0] = left[0][taken:]

    def _frame(self) -> bytes | bytearray:
        (length,) = _length_of(self._exactly(4))
        if not 0 <= length <= self._response_bytes_max:
            raise self._violated(_invalid_length(length))
        self._keep_time()
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes | bytearray:
        data = self._socket.recv(size, socket.MSG_WAITALL)
        if len(data) == size:
            return data
        whole = bytearray(size)
        whole[: len(data)] = data
        rest = memoryview(whole)[len(data) :]
        received = len(data)
        while rest:
            if not received:
                raise ConnectionResetError("the broker closed it")
            self._keep_time()
            received = self._socket.recv_into(rest)
            rest = rest[received:]
        return whole

    def _lost(self, error: OSError) -> ConnectionLost:
        why = error.strerror or str(error)
        hint = self._kafka.hint(len(self._waiting), self._security)
        self._end(why)
        return ConnectionLost(f"the connection to {self.address} was lost: {why}{hint}")

    def _violated(self, what: str) -> ConnectionLost:
        self._end(what)
        return ConnectionLost(f"{self.address} does not speak Kafka's protocol: invalid response: {what}")

    def _end(self, why: str) -> None:
        self._why_ended = self._why_ended or why
        self._waiting.clear()
        self._received.clear()
        self._socket.close()


def _invalid_length(length: int) -> str:
    if length == _HTTP_ANSWER:
        return "it is HTTP: name the port of a broker's listener, not of a web server"
    is_tls = protocol_of_length(length) == TLS
    return "it is in TLS; see security.protocol" if is_tls else f"it is {length} bytes long"


def dial(address: Address, settings: ConnectionSettings, most_seconds: float | None = None) -> BlockingConnection:
    """Return a connection ready for requests; raise NotConnected, or NotAuthenticated.

    Connecting to one of its addresses and the whole set-up may take socket.connection.setup.timeout.ms, or
    `most_seconds` if less.
    """
    retain_freed_memory()
    seconds = settings.setup_timeout if most_seconds is None else min(settings.setup_timeout, most_seconds)
    try:
        connected, until = _connect(address, seconds, min(seconds, settings.lookup_timeout))
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise NotConnected(f"cannot connect to {address}: {why}") from error
    make_engine = settings.security.make_engine
    stream = connected if make_engine is None else _secured(connected, address, make_engine, until)
    connected.settimeout(None)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, size in ((socket.SO_SNDBUF, settings.send_buffer), (socket.SO_RCVBUF, settings.receive_buffer)):
        if size >= 0:
            connected.setsockopt(socket.SOL_SOCKET, option, size)
    connection = BlockingConnection(stream, address, settings)
    try:
        connection.set_up(until)
    except BaseException as error:
        connection.close()
        if isinstance(error, RequestTimedOut):
            hint = "it accepts connections, but hangs, or is no broker's listener"
            raise SetUpFailed(f"{error}: {hint}", is_late=True) from error
        if isinstance(error, ConnectionLost):
            raise SetUpFailed(str(error)) from error
        raise
    return connection


def _connect(address: Address, seconds: float, lookup_seconds: float) -> tuple[socket.socket, float]:
    """Connect to the first address of the host that accepts; return the monotonic time until which it has time.

    Raise OSError, or UnicodeError.
    """
    failed: OSError | None = None
    for host, port in looked_up(address, lookup_seconds):
        until = time.monotonic() + seconds
        try:
            return socket.create_connection((host, port), seconds), until
        except OSError as error:
            failed = error
    raise failed or OSError("the host has no address")


def _secured(connected: socket.socket, address: Address, make_engine: MakeEngine, until: float) -> TlsSocket:
    """Return the socket after its handshake, which may last until a monotonic time; raise NotConnected."""
    stream = tls_socket.TlsSocket(connected, make_engine(address.host))
    try:
        stream.shake_hands(until)
    except OSError as error:
        connected.close()
        late = "the TLS handshake takes too long: does this listener have TLS? See security.protocol"
        is_late = isinstance(error, TimeoutError)
        why = late if is_late else error.strerror or str(error)
        raise SetUpFailed(f"cannot connect to {address}: {why}", is_late=is_late) from None
    return stream


def readable(connections: Collection[BlockingConnection], seconds: float) -> set[int]:
    """Wait up to `seconds` for a response; return the descriptors of connections that may have one."""
    received = {connection.fileno() for connection in connections if connection.has_received}
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN)
    return received | {number for number, _ in poll.poll(0 if received else seconds * 1000)}
