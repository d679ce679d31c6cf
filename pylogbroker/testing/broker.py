"""A broker for tests, in a thread of the test's process.

    with Broker(num_partitions=3) as broker:
        broker.create_topic("orders")
        run_my_service(broker.bootstrap)
        assert [each.value for each in broker.records("orders")] == [b"hello"]

Any thread may call a broker, except the broker's own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pylogbroker.records import Header
from pylogbroker.testing.data_directory import temporary_directory
from pylogbroker.testing.faults import Faults
from pylogbroker.testing.in_thread import BrokersInThread, Listeners
from pylogbroker.testing.reactor_thread import CALL_SECONDS, ReactorThread
from pylogbroker.testing.settings import ALLOW_FAULTS, QUICK, texts

if TYPE_CHECKING:
    from pylogbroker.client.messages import Message
    from pylogbroker.testing.admin import Admin

T = TypeVar("T")

START_SECONDS: Final = 60.0


class Broker:
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
        self._settings = {**QUICK, **texts(settings or {}), **texts(named)}
        self._count = brokers
        self._data_dir = data_dir
        self._thread: ReactorThread | None = None
        self._admin: Admin | None = None
        self._listeners: list[Listeners] = []
        self._stack = ExitStack()
        self.faults: Final = Faults()
        """Faults of all its brokers: `pylogbroker.testing.faults` describes them."""

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
        thread, admin = self._thread, self._admin
        self._thread = self._admin = None
        with self._stack:
            if thread is not None and admin is not None:
                thread.call(admin.close, "end of the broker's own requests")

    def _start(self, stack: ExitStack) -> None:
        directory = self._data_dir
        if directory is None:
            directory = stack.enter_context(temporary_directory())
        thread = ReactorThread()
        thread.start()
        stack.callback(thread.stop)
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": directory, **ALLOW_FAULTS, **self._settings}
        brokers = BrokersInThread(thread.reactor, settings, self._count, faults=self.faults)
        self._listeners = thread.call(brokers.start, "start of the broker", START_SECONDS)
        stack.callback(thread.call, brokers.stop, "stop of the broker", START_SECONDS)
        self._thread = thread

    # addresses

    @property
    def bootstrap(self) -> str:
        """Addresses for clients: `127.0.0.1:45123`, of a cluster several with commas."""
        firsts = [next(iter(listeners.values())) for listeners in self._listeners]
        return ",".join(f"{each.host}:{each.port}" for each in firsts)

    @property
    def port(self) -> int:
        """Port of the first broker."""
        return next(iter(self._listeners[0].values())).port

    # requests

    def create_topic(self, name: str, partitions: int = -1, *, replication_factor: int = -1, **settings: Any) -> str:
        """Create a topic with settings such as `cleanup_policy="compact"`, and return its name."""
        wanted = texts(settings)
        self._ask(lambda admin: admin.create_topic(name, partitions, replication_factor, wanted), f"topic {name}")
        return name

    def delete_topic(self, *names: str) -> None:
        """Delete topics; missing ones are no error."""
        self._ask(lambda admin: admin.delete_topics(names), "deletion of topics")

    @property
    def topics(self) -> dict[str, int]:
        """Number of partitions of each topic, without internal ones."""
        return self._ask(lambda admin: admin.topics(), "list of topics")

    @property
    def groups(self) -> list[str]:
        """Consumer groups."""
        return self._ask(lambda admin: admin.groups(), "list of groups")

    def delete_group(self, *names: str) -> None:
        """Delete groups without members; missing ones are no error."""
        self._ask(lambda admin: admin.delete_groups(names), "deletion of groups")

    @property
    def open_transactions(self) -> list[str]:
        """Transactional ids of open transactions."""
        return self._ask(lambda admin: admin.open_transactions(), "list of transactions")

    def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> list[int]:
        """Append a record for each value; return the offsets. The topic is created if it may be."""
        stamp = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        return self._ask(
            lambda admin: admin.produce(topic, values, key, partition, stamp, headers), f"records to {topic}"
        )

    def records(self, topic: str, *, isolation_level: str = "read_uncommitted") -> list[Message]:
        """Return all records of a topic, by partition and offset, with `offset`, `key`, `value`, `timestamp` ..."""
        return self._ask(lambda admin: admin.records(topic, isolation_level), f"records of {topic}")

    def _ask(self, question: Callable[[Admin], Awaitable[T]], what: str) -> T:
        thread = self._thread
        if thread is None:
            raise RuntimeError(f"{what}: the broker does not run")

        async def ask() -> T:
            if self._admin is None:
                self._admin = self._new_admin(thread.reactor)
            return await question(self._admin)

        return thread.call(ask, what, CALL_SECONDS)

    def _new_admin(self, reactor: Any) -> Admin:
        from pylogbroker.testing.admin import Admin  # imports numpy, which takes longer than the broker's start

        return Admin(reactor, self.bootstrap, {"client.id": "pylogbroker-testing"})


async def _in_executor(function: Callable[[], None]) -> None:
    """Call a function in a thread of asyncio's; in other frameworks it blocks for some milliseconds."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        function()
        return
    await loop.run_in_executor(None, function)
