"""Blocking requests of a test to its brokers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pylogbroker.client import arguments
from pylogbroker.config import texts_of
from pylogbroker.features import on_first_use
from pylogbroker.records import Header
from pylogbroker.testing.errors import NotRunning
from pylogbroker.testing.reactor_thread import CALL_SECONDS

if TYPE_CHECKING:
    from pylogbroker.client.messages import Message
    from pylogbroker.testing import admin as testing_admin
    from pylogbroker.testing.admin import Admin, KeptNames
else:
    testing_admin = on_first_use("pylogbroker.testing.admin")

T = TypeVar("T")

CLIENT_ID: Final = "pylogbroker-testing"


class ReactorCalls(Protocol):
    """A reactor, in a thread or in memory."""

    @property
    def reactor(self) -> Any: ...

    def call(self, work: Callable[[], Awaitable[T]], what: str, timeout: float = CALL_SECONDS, /) -> T:
        """Run work on the reactor, and return its result; raise TimedOut, or its error."""


class BrokerRequests:
    """Requests while a broker runs; any thread may call, except the broker's own."""

    def __init__(self) -> None:
        self._thread: ReactorCalls | None = None
        self._admin: Admin | None = None

    @property
    def bootstrap(self) -> str:
        """Addresses for clients: `127.0.0.1:45123`, of a cluster several with commas."""
        raise NotImplementedError

    def client_settings(self) -> dict[str, str]:
        """Return the settings of a client, with librdkafka's names."""
        return {"bootstrap.servers": self.bootstrap}

    def now_ms(self) -> int:
        """Return the brokers' time in milliseconds since 1970."""
        return int(time.time() * 1000)

    def create_topic(self, name: str, partitions: int = -1, *, replication_factor: int = -1, **settings: Any) -> str:
        """Create a topic with settings such as `cleanup_policy="compact"`, and return its name."""
        texts = texts_of(settings)
        self._before_creation()
        self._ask(lambda admin: admin.create_topic(name, partitions, replication_factor, texts), f"topic {name}")
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

    def inventory(self) -> KeptNames:
        """Return `topics`, `groups` and `open_transactions` at once, which takes less time."""
        return self._ask(lambda admin: admin.inventory(), "inventory")

    def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> list[int]:
        """Append a record for each value; return the offsets. The topic is created if it may be.

        Texts become UTF-8.
        """
        name, encoded = arguments.name("topic", topic), [_encoded("values", value) for value in values]
        key_bytes = _encoded("key", key)
        self._before_creation()
        stamp = self.now_ms() if timestamp_ms is None else timestamp_ms
        return self._ask(
            lambda admin: admin.produce(name, encoded, key_bytes, partition, stamp, headers), f"records to {name}"
        )

    def records(self, topic: str, *, isolation_level: str = "read_uncommitted") -> list[Message]:
        """Return all records of a topic, by partition and offset, with `offset`, `key`, `value`, `timestamp` ..."""
        name = arguments.name("topic", topic)
        return self._ask(lambda admin: admin.records(name, isolation_level), f"records of {name}")

    def _before_creation(self) -> None:
        """Do what is due before a topic is created."""

    def _ask(self, question: Callable[[Admin], Awaitable[T]], what: str) -> T:
        thread = self._thread
        if thread is None:
            raise NotRunning(f"{what}: the broker does not run")

        async def ask() -> T:
            if self._admin is None:
                self._admin = self._new_admin(thread.reactor)
            return await question(self._admin)

        return thread.call(ask, what, CALL_SECONDS)

    def _new_admin(self, reactor: Any) -> Admin:
        return testing_admin.Admin(reactor, self.bootstrap, {"client.id": CLIENT_ID})

    def _end_requests(self) -> None:
        """Close the connections for requests; later ones raise RuntimeError."""
        self._close_admin()
        self._thread = None

    def _close_admin(self) -> None:
        """Close the connections for requests; the next one makes new ones."""
        thread, admin = self._thread, self._admin
        self._admin = None
        if thread is not None and admin is not None:
            thread.call(admin.close, "end of the test's requests")


def _encoded(argument: str, value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise arguments.invalid(argument, value, "bytes, a text or None")
    return value.encode()
