"""A broker for tests, in a thread of the test's process.

    with Broker(num_partitions=3) as broker:
        broker.create_topic("orders")
        run_my_service(broker.bootstrap)
        assert [each.value for each in broker.records("orders")] == [b"hello"]

Any thread may call a broker, except the broker's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self

from pylogbroker.testing.clock import BrokerClock
from pylogbroker.testing.data_directory import temporary_directory
from pylogbroker.testing.faults import Faults
from pylogbroker.testing.in_thread import BrokersInThread, Listeners
from pylogbroker.testing.reactor_thread import ReactorThread
from pylogbroker.testing.requests import BrokerRequests
from pylogbroker.testing.settings import ALLOW_FAULTS, QUICK, texts

START_SECONDS: Final = 60.0


class Broker(BrokerRequests):
    """Settings have Kafka's names, in `settings` or as arguments with underscores: `log_retention_ms=1000`.

    `brokers=3` makes a cluster. Without `data_dir`, the data is in memory where that is possible, and removed at the
    end. Clients connect to `bootstrap`. A start that fails raises StartupError, or ConfigError for a wrong setting.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        brokers: int = 1,
        data_dir: str | None = None,
        **named: Any,
    ) -> None:
        super().__init__()
        self._settings = {**QUICK, **texts(settings or {}), **texts(named)}
        self._count = brokers
        self._data_dir = data_dir
        self._listeners: list[Listeners] = []
        self._stack = ExitStack()
        self.faults: Final = Faults()
        """Faults of all its brokers: `pylogbroker.testing.faults` describes them."""
        self.clock: Final = BrokerClock()

    # life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await _in_executor(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await _in_executor(self.stop)

    def start(self) -> None:
        """Return when clients can connect."""
        if self._thread is not None:
            raise RuntimeError("this broker runs already")
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """Answer running requests, close everything, and remove the data."""
        with self._stack:
            self._end_requests()

    def _start(self, stack: ExitStack) -> None:
        directory = self._data_dir
        if directory is None:
            directory = stack.enter_context(temporary_directory())
        thread = ReactorThread()
        thread.start()
        stack.callback(thread.stop)
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": directory, **ALLOW_FAULTS, **self._settings}
        clock = self.clock.attach(thread.reactor, thread.call, lambda: brokers.have_busy_threads)
        stack.callback(self.clock.detach)
        brokers = BrokersInThread(thread.reactor, settings, self._count, clock, self.faults)
        self._listeners = thread.call(brokers.start, "start of the broker", START_SECONDS)
        stack.callback(thread.call, brokers.stop, "stop of the broker", START_SECONDS)
        self._thread = thread

    # addresses

    @property
    def bootstrap(self) -> str:
        firsts = [next(iter(listeners.values())) for listeners in self._listeners]
        return ",".join(f"{each.host}:{each.port}" for each in firsts)

    def now_ms(self) -> int:
        return int(self.clock.time() * 1000)

    @property
    def port(self) -> int:
        """Port of the first broker."""
        return next(iter(self._listeners[0].values())).port


async def _in_executor(function: Callable[[], None]) -> None:
    """Call a function in a thread of asyncio's; in other frameworks it blocks for some milliseconds."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        function()
        return
    await loop.run_in_executor(None, function)
