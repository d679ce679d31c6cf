"""One session of ZooKeeper, over a client of kazoo. No other module of the coordination tree imports kazoo's client.

kazoo runs a session in a thread. Its callbacks run in that thread and do one thing: `post`. Results, watch events and
changes of the session's state so reach the reactor in the order in which the thread saw them. Those that come before
the reactor has handled the earlier ones wake it only once. kazoo's own two worker threads would change that order, so
they are not started.

kazoo replaces an expired session by itself. Here it does not: after the session's end no connection is made, and
what is still submitted fails.
"""

from __future__ import annotations

import logging
import math
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

import attrs
from kazoo.client import KazooClient
from kazoo.exceptions import WriterNotClosedException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger, LogLevel

from pylogbroker.tree.kazoo_sockets import BufferedSocket, Wakeups, wait_until_ready
from pylogbroker.tree.zookeeper_options import ZooKeeperLogin, ZooKeeperOptions, ZooKeeperServers

log = Logger()
_CONNECT_SECONDS_MAX: Final = 5.0  # for one attempt; a stop waits for it
_CLOSE_SECONDS_MAX: Final = 2.0  # for the server's answer to the session's end
_HANDSHAKE_SECONDS_MAX: Final = 10.0  # and half of the session's timeout: a starting server may never answer one
_RETRY_SECONDS_MAX: Final = 1.0
_CALLS_AT_ONCE: Final = 100  # on the reactor thread; others are served before the next ones
_LEVELS: Final = {logging.ERROR: LogLevel.error, logging.CRITICAL: LogLevel.critical}  # others: debug

InThread = Callable[[Callable[[], None]], Awaitable[None]]
Submission = Callable[[KazooClient], Any]
Answer = Callable[[Any, Exception | None], object]


class SessionOwner(Protocol):
    """Methods that a session calls on the reactor thread."""

    def connected(self, session_id: int) -> None:
        """Called for the first connection, and for each one after `suspended`."""

    def suspended(self) -> None: ...

    def ended(self, is_rejected: bool) -> None:
        """Called at the session's expiry; `is_rejected` if ZooKeeper rejected the login."""


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and sockets, without worker threads, and with an end to connections."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[Any] = []
        self.has_ended = False
        self.wait_seconds_max = math.inf  # for the socket; finite during a handshake
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Start no worker threads: completions then run in the session's thread."""

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], errors: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], ...]:
        return wait_until_ready(readers, writers, timeout if timeout is None else min(timeout, self.wait_seconds_max))

    def create_socket_pair(self) -> tuple[Wakeups, Wakeups]:
        wakeups = Wakeups()
        return wakeups, wakeups

    def spawn(self, func: Callable[..., object], *args: Any, **kwargs: Any) -> Any:
        thread = super().spawn(func, *args, **kwargs)
        self.threads.append(thread)
        return thread

    def create_connection(
        self, *args: Any, timeout: float = _CONNECT_SECONDS_MAX, **kwargs: Any
    ) -> socket.socket | BufferedSocket:
        if self.has_ended:
            raise OSError("the session has ended")
        self._socket = super().create_connection(*args, timeout=min(timeout, _CONNECT_SECONDS_MAX), **kwargs)
        if self.has_ended:  # meanwhile, in another thread
            self.abort()
        return self._socket if isinstance(self._socket, ssl.SSLSocket) else BufferedSocket(self._socket)

    def abort(self) -> None:
        """Cut the connection, and make no other one; called in any thread."""
        self.has_ended = True
        if self._socket is not None:
            with suppress(OSError):  # closed meanwhile
                self._socket.shutdown(socket.SHUT_RDWR)


@attrs.define(eq=False, repr=False)
class KazooSession:
    """A session from `start` until it has ended or `stop` was called. Methods are called on the reactor thread."""

    _servers: ZooKeeperServers
    _options: ZooKeeperOptions
    _reactor: Any
    _in_thread: InThread
    _owner: SessionOwner
    last_problem: str = attrs.field(init=False, default="no answer")
    _handler: _Handler = attrs.field(init=False, factory=_Handler)
    _client: KazooClient = attrs.field(init=False)
    _is_connected: bool = attrs.field(init=False, default=False)
    _is_stopped: bool = attrs.field(init=False, default=False)
    _stop_lock: DeferredLock = attrs.field(init=False, factory=DeferredLock)
    _posted: deque[Callable[[], object]] = attrs.field(init=False, factory=deque)
    _is_waking: bool = attrs.field(init=False, default=False)

    def start(self) -> None:
        """Connect in the background, again and again."""
        retry = KazooRetry(max_tries=-1, max_delay=_RETRY_SECONDS_MAX, sleep_func=self._handler.sleep_func)
        self._client = KazooClient(
            self._servers.hosts,
            timeout=self._options.session_timeout,
            handler=self._handler,
            connection_retry=retry,
            logger=_forwarding_logger(self._forward),
            **_security(self._options),
        )
        self._client.add_listener(self._state_changed)
        self._limit_handshake()
        self._client.start_async()

    def submit(self, submission: Submission, answer: Answer) -> None:
        """Call one of kazoo's asynchronous methods, and `answer` with its value or error."""

        def answered(result: Any) -> None:
            self.post(partial(answer, result.value, result.exception))

        submission(self._client).rawlink(answered)

    async def stop(self) -> None:
        """End the session, if the server answers, and wait for the end of its thread."""
        await self._stop_lock.acquire()
        try:
            if not self._is_stopped:
                self._is_stopped = True
                await self._end()
        finally:
            self._stop_lock.release()

    async def _end(self) -> None:
        if not self._is_connected:
            self._handler.abort()
        timer = self._reactor.callLater(_CLOSE_SECONDS_MAX, self._handler.abort)
        try:
            await self._in_thread(self._stop_client)
        finally:
            if timer.active():
                timer.cancel()

    def _stop_client(self) -> None:
        with suppress(WriterNotClosedException):  # the thread is joined below
            self._client.stop()
        for thread in self._handler.threads:
            thread.join()
        self._client.close()

    # in kazoo's thread

    def _state_changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._handler.wait_seconds_max = math.inf
            session_id, _password = self._client.client_id
            self.post(partial(self._connected, session_id))
        elif state == KazooState.SUSPENDED:
            self._limit_handshake()
            self.post(self._suspended)
        else:
            self._handler.has_ended = True  # before kazoo connects again, for another session
            self.post(partial(self._ended, self._client.client_state == KeeperState.AUTH_FAILED))

    def _limit_handshake(self) -> None:
        """Leave time for another attempt before the session ends, where kazoo would wait as long as it lasts."""
        self._handler.wait_seconds_max = min(self._options.session_timeout / 2, _HANDSHAKE_SECONDS_MAX)

    def _forward(self, level: int, text: str) -> None:
        self.post(partial(self._log, level, text))

    def post(self, call: Callable[[], object]) -> None:
        """Make a call on the reactor thread, after all earlier ones."""
        self._posted.append(call)
        if not self._is_waking:
            self._is_waking = True
            self._reactor.callFromThread(self._handle_posted)

    # on the reactor thread

    def _handle_posted(self) -> None:
        self._is_waking = False  # first: a call that is posted from now on wakes the reactor again
        for _ in range(min(len(self._posted), _CALLS_AT_ONCE)):
            call = self._posted.popleft()
            try:
                call()
            except Exception:  # later calls must be made
                log.failure("a result of ZooKeeper could not be handled")
        if self._posted and not self._is_waking:
            self._is_waking = True
            self._reactor.callFromThread(self._handle_posted)

    def _connected(self, session_id: int) -> None:
        self._is_connected = True
        if not self._is_stopped:
            self._owner.connected(session_id)

    def _suspended(self) -> None:
        self._is_connected = False
        if not self._is_stopped:
            self._owner.suspended()

    def _ended(self, is_rejected: bool) -> None:
        self._is_connected = False
        if not self._is_stopped:
            self._owner.ended(is_rejected)

    def _log(self, level: int, text: str) -> None:
        if level >= logging.WARNING and not text.startswith("Transition"):
            self.last_problem = text
        log.emit(_LEVELS.get(level, LogLevel.debug), "kazoo: {text}", text=text)


def _security(options: ZooKeeperOptions) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if options.tls is not None:
        arguments |= {
            "use_ssl": True,
            "ca": options.tls.authorities,
            "certfile": options.tls.certificate,
            "keyfile": options.tls.certificate,
            "keyfile_password": options.tls.password or "",  # without one, OpenSSL asks for it
            "check_hostname": options.tls.check_hostname,
        }
    if options.sasl is not None:
        login = {"username": options.sasl.username, "password": options.sasl.password}
        arguments["sasl_options"] = {"mechanism": "DIGEST-MD5", **login}
    if options.digest is not None:
        arguments["auth_data"] = [("digest", _credential(options.digest))]
    return arguments


def _credential(login: ZooKeeperLogin) -> str:
    return f"{login.username}:{login.password}"


def _forwarding_logger(forward: Callable[[int, str], None]) -> logging.Logger:
    """Return a logger of its own, which the process's configuration of `logging` does not know."""
    logger = logging.Logger("kazoo", logging.INFO)
    logger.addHandler(_Forwarding(forward))
    return logger


class _Forwarding(logging.Handler):
    """Pass log records on; an error's traceback is part of its text."""

    def __init__(self, forward: Callable[[int, str], None]) -> None:
        super().__init__()
        self._forward = forward

    def emit(self, record: logging.LogRecord) -> None:
        self._forward(record.levelno, self.format(record))
