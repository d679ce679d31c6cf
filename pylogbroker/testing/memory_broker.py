"""A broker on a `task.Clock`, with connections in memory: no sockets, no threads, no waiting.

    with MemoryBroker() as broker:
        producer = Producer(broker.bootstrap, reactor=broker.clock)
        broker.run(producer.send("orders", b"tea"))

For `pylogbroker.client` alone: clients of other makes need sockets.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from math import inf, isfinite
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import attrs
from twisted.internet.defer import Deferred, ensureDeferred

from pylogbroker.client import arguments
from pylogbroker.config import broker_texts
from pylogbroker.errors import ConfigError
from pylogbroker.testing.data_directory import temporary_directory
from pylogbroker.testing.faults import Faults, RequestLog
from pylogbroker.testing.in_thread import BrokersInThread
from pylogbroker.testing.memory_network import MemoryReactor
from pylogbroker.testing.reactor_thread import CALL_SECONDS
from pylogbroker.testing.requests import BrokerRequests
from pylogbroker.testing.settings import ALLOW_FAULTS, SMALL

T = TypeVar("T")

_HOST: Final = "127.0.0.1"
_PORT: Final = 9092
_WITHOUT_PROCESSES: Final[Mapping[str, str]] = {
    "log.cleaner.enable": "false",
    "reactor.stall.warn.ms": "0",
    "socket.receive.buffer.bytes": "-1",
    "socket.send.buffer.bytes": "-1",
}

_NOT_OFFERED: Final[Mapping[str, str]] = {
    "listeners": "leave it out; clients of a broker in memory connect to its bootstrap address",
    "http.listeners": "leave it out; a broker in memory has no sockets",
    "zookeeper.connect": "leave it out; a broker in memory has no sockets",
    "log.cleaner.enable": "leave it out; a broker in memory does not compact, since that takes a process",
    **dict.fromkeys(
        ("acls", "brokers", "process", "schema.registry", "tls", "users"),
        "a broker in memory does not have this; use pylogbroker.testing.Broker",
    ),
}
"""Settings, and arguments of `Broker`, with what to do instead."""


@attrs.frozen(eq=False, repr=False)
class _Loop:
    """Runs requests of the test, as a reactor's thread does."""

    reactor: MemoryReactor

    def call(self, work: Callable[[], Awaitable[T]], what: str, timeout: float = CALL_SECONDS) -> T:
        return self.reactor.run(_deferred(work()), what, timeout)


class MemoryBroker(BrokerRequests):
    """Settings have Kafka's names, as of `Broker`. All methods belong to one thread.

    `clock` is the reactor of broker and clients. `clock.advance(3600)` lets an hour pass, and everything in it happen.
    `run` lets as much time pass as a Deferred or a coroutine needs. Bytes arrive after `latency` seconds. Compaction
    would be a process, so there is none.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        latency: float = 0.0,
        now: float | None = None,
        **named: Any,
    ) -> None:
        super().__init__()
        for given_name in (*(settings if isinstance(settings, Mapping) else ()), *named):
            name = str(given_name).replace("_", ".")
            if name in _NOT_OFFERED:
                raise ConfigError(f"{name}: {_NOT_OFFERED[name]}")
        given = broker_texts(settings) | broker_texts(named, "arguments", arguments.names_of(MemoryBroker))
        self._settings = {
            **SMALL,
            **_WITHOUT_PROCESSES,
            **ALLOW_FAULTS,
            "listeners": f"PLAINTEXT://{_HOST}:{_PORT}",
            **given,
        }
        self._data_dir = None if data_dir is None else arguments.path("data_dir", data_dir)
        self._stack = ExitStack()
        self.clock: Final = MemoryReactor(
            _finite("latency", latency), time.time() if now is None else _finite("now", now)
        )
        """Reactor of the broker and its clients; `clock.seconds()` are those since 1970."""
        self.faults: Final = Faults(can_compact=False, driver=self.clock)

    @property
    def bootstrap(self) -> str:
        return f"{_HOST}:{_PORT}"

    @property
    def requests(self) -> RequestLog:
        """The last requests of clients, decoded."""
        return self.faults.requests

    def now_ms(self) -> int:
        return int(self.clock.seconds() * 1000)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def run(self, work: Deferred[T] | Awaitable[T], seconds: float = 60.0) -> T:
        """Let time pass until a Deferred or coroutine is done; return its result, or raise its error or TimedOut."""
        return self.clock.run(_deferred(work), "it", seconds)

    def start(self) -> None:
        """Raise StartupError or ConfigError."""
        if self._thread is not None:
            raise RuntimeError("this broker runs already")
        with ExitStack() as stack:
            directory = self._data_dir
            if directory is None:
                directory = stack.enter_context(temporary_directory())
            brokers = BrokersInThread(
                self.clock, {**self._settings, "log.dirs": directory}, clock=self.clock, faults=self.faults
            )
            self.run(brokers.start())
            stack.callback(lambda: self.run(brokers.stop()))
            self.faults.broker.runtime.slices.seconds = inf  # measured in real time
            self._thread = _Loop(self.clock)
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """Answer running requests, close everything, and remove the data."""
        with self._stack:
            self._end_requests()


def _deferred(work: Deferred[T] | Awaitable[T]) -> Deferred[T]:
    async def awaited() -> T:
        return await work

    return work if isinstance(work, Deferred) else ensureDeferred(awaited())


def _finite(argument: str, value: Any) -> float:
    seconds = arguments.seconds(argument, value)
    if not isfinite(seconds) or seconds < 0:
        raise arguments.invalid(argument, value, "a number of seconds from 0 on")
    return seconds
