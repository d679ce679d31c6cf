"""TLS on a TCP connection, for server and client: a mixin that encrypts what is sent and decrypts what arrives.

    socket --recv--> TlsEngine --read_into--> receive_buffer(), if there is one --> buffer_filled(count)
                               --read-------> dataReceived(data)
    send_chunks(chunks) --> unsent --a piece at a time--> TlsEngine --> records --send--> socket

| state        | from the peer                        | to the peer             | end             |
|--------------|--------------------------------------|-------------------------|-----------------|
| handshaking  | handshake; `secured` when it is over | handshake; chunks wait  | `tls_failed`    |
| secured      | decrypted and delivered              | encrypted               | `close_notify`  |

While reading is stopped, what is already received waits in the engine. A piece is encrypted only when the previous one
is sent, so that a connection holds little more than its chunks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final, cast

from twisted.internet import main
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure

from pylogbroker.rpc.transport import BUFFERS, ChunkConnection
from pylogbroker.security.tls.engine import Buffer, TlsEngine
from pylogbroker.security.tls.failures import PEER_CLOSED, TlsFailed

PIECE_BYTES: Final = 64 * 1024  # encrypted at a time for a socket that was full: they wait in memory
PIECE_BYTES_MAX: Final = 256 * 1024  # for one that takes all: fewer calls of the system
_RECEIVED_BYTES: Final = 128 * 1024  # with fewer at a time, large requests cost more iterations of the reactor
_READS_MAX: Final = 4  # of so many bytes, before other connections are read
YIELD_BYTES: Final = 256 * 1024  # sent, before others may send
_JOINED_BYTES_MAX: Final = 4096  # smaller chunks are joined, because each write makes a record


class _ReceiveBuffer(threading.local):
    """Memory that the connections of a thread share: the engine copies from it at once."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_RECEIVED_BYTES))


_received = _ReceiveBuffer()


class TlsConnection(ChunkConnection):
    """Mixin before the mixin or class of a plain connection; `begin_tls` gives it its engine."""

    _engine: TlsEngine
    _records: memoryview | None = None  # encrypted and not sent
    _piece_bytes = PIECE_BYTES
    _is_secured = False
    _is_paused = False
    _is_undelivered = False  # there may be plain bytes that nobody has read
    _resumption: IDelayedCall | None = None

    def begin_tls(self, engine: TlsEngine) -> None:
        """Begin the handshake; before it is over, chunks wait."""
        self._engine = engine
        engine.start()
        self._send_soon()

    # -- receiving -----------------------------------------------------------------------------------------------

    def doRead(self) -> Any:
        if self._is_undelivered:  # first, else the peer's end would overtake it, and the engine would hold ever more
            outcome = self._feed(b"")
            if outcome is not None or self._is_undelivered or not self.connected:
                return outcome
        buffer = _received.view
        for _ in range(_READS_MAX):
            try:
                count = self.socket.recv_into(buffer)
            except BlockingIOError:
                return None
            except OSError:
                return main.CONNECTION_LOST if self._is_secured else self._ended()
            if not count:
                return self._ended()
            outcome = self._feed(buffer[:count])
            if outcome is not None or count < len(buffer) or self._is_paused or not self.connected:
                return outcome
        return None

    def _ended(self) -> Any:
        """Return why the connection ends, as the peer has closed it."""
        return main.CONNECTION_DONE if self._is_secured else self._failed(PEER_CLOSED)

    def stopReading(self) -> None:
        self._is_paused = True
        super().stopReading()

    def startReading(self) -> None:
        self._is_paused = False
        super().startReading()
        if self._is_undelivered and self._resumption is None:
            self._resumption = cast(Any, self.reactor).callLater(0, self._resume)

    def _resume(self) -> None:
        self._resumption = None
        outcome = self._feed(b"")
        if outcome is not None and self.connected:
            self.connectionLost(Failure(outcome))

    def _feed(self, data: Buffer) -> Any:
        """Pass received bytes on; return None, or why the connection ends."""
        try:
            if data:
                self._engine.feed(data)
            if not self._is_secured and self._engine.is_established:
                self._finish_handshake()
            self._deliver()
        except TlsFailed as failure:
            return self._failed(str(failure))
        self._send_soon()
        return main.CONNECTION_DONE if self._engine.is_closed_by_peer and not self._is_undelivered else None

    def _finish_handshake(self) -> None:
        self._is_secured = True
        self.secured(self._engine.peer_certificate)
        if self._unsent:
            self.startWriting()

    def secured(self, certificate: bytes | None) -> None:
        """Report the end of the handshake; raise TlsFailed to end the connection."""
        raise NotImplementedError

    def tls_failed(self, cause: str) -> None:
        """Report the failure of the handshake, or of a record."""
        raise NotImplementedError

    def _deliver(self) -> None:
        engine = self._engine
        self._is_undelivered = False
        while (receiver := self._receiver) is not None:
            if self._is_paused:
                self._is_undelivered = True
                return
            buffer = receiver.receive_buffer()
            if buffer is None:
                data = engine.read()
                if not data:
                    return
                receiver.dataReceived(data)
            else:
                count = engine.read_into(buffer)
                buffer = None  # a growing buffer must not be referred to
                if not count:
                    return
                receiver.buffer_filled(count)

    def _failed(self, cause: str) -> TlsFailed:
        """Report the cause, and try to send the alert."""
        self.tls_failed(cause)
        alert = self._engine.take_output()
        if alert and self._records is None:
            self._records = memoryview(alert)
            self._send_unsent()
        return TlsFailed(cause)

    @property
    def unsent_chunks(self) -> int:
        return len(self._unsent) + (self._records is not None)

    # -- sending -------------------------------------------------------------------------------------------------

    def send_chunks(self, chunks: Iterable[Any]) -> None:
        if not self.connected:
            return
        waiting = self._records is not None or bool(self._unsent)
        self._unsent.extend(filter(None, chunks))
        if not waiting:
            self._send_soon()

    def _send_soon(self) -> None:
        if not self._send_unsent():
            self.abortConnection()
        elif self._has_to_send:
            self.startWriting()

    @property
    def _has_to_send(self) -> bool:
        return self._records is not None or (self._is_secured and bool(self._unsent))

    def doWrite(self) -> Any:
        if not self._send_unsent():
            return main.CONNECTION_LOST
        if self._has_to_send:
            return None
        if self.disconnecting:
            self._engine.close()
            if not self._send_unsent():
                return main.CONNECTION_LOST
            if self._records is not None:
                return None
            self.stopWriting()
            return self._postLoseConnection()
        self.stopWriting()
        if self._receiver is not None and self._is_secured:
            self._receiver.chunks_sent()
        return None

    def _send_on(self) -> bool:
        """Send until done, the socket is full or others wait; return False if a file ends too early."""
        sent = 0
        while True:
            while self._records is not None:
                records = self._records
                count = self.socket.send(records)
                sent += count
                if count < len(records):
                    self._records, self._piece_bytes = records[count:], PIECE_BYTES
                    continue
                self._records = None
                if self._piece_bytes <= count < PIECE_BYTES_MAX:
                    self._piece_bytes *= 2
            if sent >= YIELD_BYTES and self._unsent:
                if self._others_wait():
                    return True
                sent = 0
            if self._unsent and self._is_secured and not self._encrypt_piece():
                return False
            output = self._engine.take_output()
            if not output:
                return True
            self._records = memoryview(output)

    def _send_unsent(self) -> bool:
        try:
            return super()._send_unsent()
        except TlsFailed as failure:
            self.tls_failed(str(failure))
            return False

    def _others_wait(self) -> bool:
        """Return whether other connections have something to do."""
        return False

    def _encrypt_piece(self) -> bool:
        """Encrypt a piece of the chunks; return False if a file ends too early."""
        unsent, left = self._unsent, self._piece_bytes
        small: list[Any] = []
        while unsent and left > 0:
            chunk = unsent[0]
            if not isinstance(chunk, BUFFERS):
                self._encrypt_joined(small)
                data = self._take_region(chunk, left)
                if not data:
                    return False
                self._engine.write(data)
                left -= len(data)
                continue
            size = len(chunk)
            if size > left:
                view = memoryview(chunk)
                chunk, unsent[0], size = view[:left], view[left:], left
            else:
                unsent.popleft()
            left -= size
            if size <= _JOINED_BYTES_MAX:
                small.append(chunk)
            else:
                self._encrypt_joined(small)
                self._engine.write(chunk)
        self._encrypt_joined(small)
        return True

    def _encrypt_joined(self, small: list[Any]) -> None:
        if small:
            self._engine.write(b"".join(small))
            small.clear()

    def _take_region(self, region: Any, size: int) -> Buffer:
        """Read up to `size` bytes of the first chunk, a file region; nothing at the file's end."""
        raise NotImplementedError

    def connectionLost(self, reason: Any) -> None:
        self._records = None
        if self._resumption is not None:
            self._resumption.cancel()
            self._resumption = None
        super().connectionLost(reason)
