"""A broker for tests, in a thread of the test's process or in a process of its own.

    with Broker(num_partitions=3) as broker:
        broker.create_topic("orders")
        run_my_service(broker.bootstrap)
        assert [each.value for each in broker.records("orders")] == [b"hello"]

Any thread may call a broker, except the broker's own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pylogbroker.client import arguments
from pylogbroker.config import BrokerConfig, broker_texts
from pylogbroker.errors import ConfigError
from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use
from pylogbroker.tap.brokers.plan import BROKERS_MAX
from pylogbroker.testing.access import CONTROL, AccessFiles, AccessRules
from pylogbroker.testing.control.remote import RemoteRequests
from pylogbroker.testing.data_directory import temporary_directory
from pylogbroker.testing.errors import NotRunning
from pylogbroker.testing.faults import RequestLog
from pylogbroker.testing.in_thread import members_of
from pylogbroker.testing.reactor_thread import ReactorThread
from pylogbroker.testing.requests import CLIENT_ID, BrokerRequests
from pylogbroker.testing.runners import ProcessRunner, ThreadRunner
from pylogbroker.testing.settings import ALLOW_FAULTS, OPEN, OPEN_CLUSTER, quick

if TYPE_CHECKING:
    from pylogbroker.offline import kraft_format
    from pylogbroker.testing import admin as testing_admin
    from pylogbroker.testing import controllers as testing_controllers
    from pylogbroker.testing import schema_registry as registry_service
    from pylogbroker.testing.admin import Admin
    from pylogbroker.testing.schema_registry import BrokerRegistry
else:
    kraft_format = on_first_use("pylogbroker.offline.kraft_format")
    registry_service = on_first_use("pylogbroker.testing.schema_registry")
    testing_admin = on_first_use("pylogbroker.testing.admin")
    testing_controllers = on_first_use("pylogbroker.testing.controllers")


T = TypeVar("T")
OWN: Final = "own"
KRAFT: Final = "kraft"
_ENGINES: Final = (OWN, KRAFT)


class Broker(BrokerRequests):
    """Settings have Kafka's names, in `settings` or as arguments with underscores: `log_retention_ms=1000`.

    `brokers=3` makes a cluster. Without `data_dir`, the data is in memory where that is possible, and removed at the
    end. Clients connect to `bootstrap`. A setting that does not exist raises ConfigError, and a start that fails
    StartupError or ConfigError.

    `users={"alice": "secret"}` lets clients log in with SASL. `tls=True` makes certificates. `acls=["alice read
    topic:orders"]` denies what no ACL allows. `client_settings` has what a client needs for this.

    `engine="kraft"` joins the brokers by a controller of Apache Kafka, which is started from the installation at
    `kafka_home`, or at the environment's KAFKA_HOME. `controller.quorum.bootstrap.servers` names one that runs.

    `schema_registry=True` serves Confluent's REST interface at `schema_registry.url`. With `process=True` the brokers
    have a process of their own.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        brokers: int = 1,
        data_dir: str | os.PathLike[str] | None = None,
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        acls: Sequence[str] | None = None,
        schema_registry: bool = False,
        process: bool = False,
        engine: str = OWN,
        kafka_home: str | os.PathLike[str] | None = None,
        **named: Any,
    ) -> None:
        super().__init__()
        given = broker_texts(settings) | broker_texts(named, "arguments", arguments.names_of(Broker))
        self._count = arguments.number("brokers", brokers, 1, BROKERS_MAX)
        self._settings = {**quick(self._count), **given}
        if engine not in _ENGINES:
            raise ConfigError(f"engine: {engine!r} is not accepted; expected one of {', '.join(_ENGINES)}")
        self._in_kraft = engine == KRAFT or self._settings.get("process.roles") == "broker"
        self._kafka_home = None if kafka_home is None else arguments.path("kafka_home", kafka_home)
        self._data_dir = None if data_dir is None else arguments.path("data_dir", data_dir)
        arguments.flag("schema_registry", schema_registry)
        self._rules = AccessRules.of(users, tls, acls)
        self._acls = self._rules.acl_creations()
        self._access: AccessFiles | None = None
        if not self._rules.is_open and "listeners" in self._settings:
            raise ConfigError("listeners: leave it out; users, tls and acls have listeners of their own")
        self._has_registry = schema_registry
        self._registry: BrokerRegistry | None = None
        self.listeners: list[dict[str, str]] = []
        """Addresses of each broker by the names of its listeners."""
        self._stack = ExitStack()
        self._down: set[int] = set()
        self._runner = ProcessRunner() if arguments.flag("process", process) else ThreadRunner()
        self.faults: Final = self._runner.faults
        """Faults of all its brokers: `pylogbroker.testing.faults` describes them."""
        self.clock: Final = self._runner.clock

    @property
    def requests(self) -> RequestLog | RemoteRequests:
        """The last requests of clients, decoded: `[each.api for each in broker.requests]`."""
        return self.faults.requests

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
            self._down.clear()

    @property
    def ids(self) -> list[int]:
        """Broker ids, in the order of `listeners`."""
        return list(self._runner.ids)

    def down(self, broker: int | None = None) -> None:
        """Stop the broker, of a cluster the one with this id or all, until `up`: clients find its port closed.

        Data and clock are kept, and so are faults that are no changes of the cluster.
        """
        stopping = [node_id for node_id in self._chosen(broker) if node_id not in self._down]
        if len(self._down) + len(stopping) == len(self.ids):  # connections that fail would wait between attempts
            self._close_admin()
        self._runner.down(stopping)
        self._down.update(stopping)

    def up(self, broker: int | None = None) -> None:
        """Start brokers that are down, on their former ports; raise StartupError if a port is taken meanwhile."""
        starting = [node_id for node_id in self._chosen(broker) if node_id in self._down]
        self._runner.up(starting)
        self._down.difference_update(starting)

    def restart(self, broker: int | None = None) -> None:
        """Stop the broker, and start it again on the same port."""
        self.down(broker)
        self.up(broker)

    @property
    def is_down(self) -> bool:
        """True if no broker can be reached."""
        return bool(self._down) and len(self._down) == len(self.ids)

    def _chosen(self, broker: int | None) -> list[int]:
        if self._thread is None:
            raise NotRunning("the broker does not run")
        if broker is not None and broker not in self.ids:
            raise ValueError(f"there is no broker {broker}; expected one of {', '.join(map(str, self.ids))}")
        return self.ids if broker is None else [broker]

    def _before_creation(self) -> None:
        """Wait until no broker assigns partitions to one that is down: they would have no leader until `up`."""
        gone = frozenset(self._down)
        if gone and not self.is_down:
            running = [node_id for node_id in self.ids if node_id not in gone]
            self._ask(lambda admin: admin.wait_without(gone, running), "brokers that are down")

    def _ask(self, question: Callable[[Admin], Awaitable[T]], what: str) -> T:
        if self.is_down:
            raise NotRunning(f"{what}: the broker is down; up() starts it again")
        return super()._ask(question, what)

    def _start(self, stack: ExitStack) -> None:
        directory = self._data_dir
        if directory is None:
            directory = stack.enter_context(temporary_directory())
        thread = ReactorThread()
        thread.start()
        stack.callback(thread.stop)
        listeners = OPEN if self._count == 1 or "listeners" in self._settings else OPEN_CLUSTER
        if not self._rules.is_open:
            self._access = AccessFiles(self._rules, Path(stack.enter_context(temporary_directory())))
            self._access.write()
            listeners = self._access.broker_settings()
        settings = {**listeners, "log.dirs": directory, **ALLOW_FAULTS, **self._settings}
        if self._in_kraft:
            settings |= self._join_controllers(stack, settings, directory)
        self.listeners = self._runner.start(stack, thread, settings, self._count)
        self._thread = thread
        stack.callback(self._end_requests)
        if self._acls:
            self._ask(lambda admin: admin.create_acls(self._acls), "ACLs")
        if self._has_registry:
            self._start_registry(stack, thread)

    def _join_controllers(self, stack: ExitStack, settings: dict[str, str], directory: str) -> dict[str, str]:
        """Return settings of members of a cluster, whose log directories are formatted for it."""
        used = stack.enter_context(
            testing_controllers.controllers_of(settings, self._kafka_home, directory, self._count)
        )
        joined = {"node.id": str(used.first_id), **used.settings}
        for member in members_of(settings | joined, self._count).values():
            list(kraft_format.format_directories(BrokerConfig(member), used.cluster_id, ignores_formatted=True))
        return joined

    def _start_registry(self, stack: ExitStack, thread: ReactorThread) -> None:
        with required_by("schema_registry"):
            make_service = registry_service.BrokerRegistry

        async def make() -> BrokerRegistry:
            return make_service(thread.reactor, self._new_admin(thread.reactor))

        self._registry = thread.call(make, "schema registry")
        stack.callback(thread.call, self._registry.stop, "stop of the schema registry")
        thread.call(self._registry.start, "start of the schema registry")

    # addresses

    @property
    def bootstrap(self) -> str:
        if not self.listeners:
            raise NotRunning("the broker has no address yet: start() gives it one, and so does a `with` block")
        return ",".join(next(iter(addresses.values())) for addresses in self.listeners)

    def client_settings(self, user: str | None = None) -> dict[str, str]:
        """Return the settings of a client, with librdkafka's names, for a user: by default the first.

        With `tls` and no users, a named user gets a certificate.
        """
        return super().client_settings() | ({} if self._access is None else self._access.client_settings(user))

    def _new_admin(self, reactor: Any) -> Admin:
        if self._access is None:
            return super()._new_admin(reactor)
        addresses = ",".join(by_name[CONTROL] for by_name in self.listeners)
        return testing_admin.Admin(reactor, addresses, {"client.id": CLIENT_ID, **self._access.control_settings()})

    @property
    def has_schema_registry(self) -> bool:
        return self._registry is not None

    @property
    def schema_registry(self) -> BrokerRegistry:
        """The schema registry, with its `url`."""
        if self._registry is None:
            raise RuntimeError(
                "this broker has no schema registry: set schema_registry=True, or --kafka-schema-registry of pytest"
            )
        return self._registry

    def now_ms(self) -> int:
        return int(self.clock.time() * 1000)

    @property
    def port(self) -> int:
        """Port of the first broker."""
        return int(self.bootstrap.split(",")[0].rpartition(":")[2])


async def _in_executor(function: Callable[[], None]) -> None:
    """Call a function in a thread of asyncio's; in other frameworks it blocks for some milliseconds."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        function()
        return
    await loop.run_in_executor(None, function)


def kafka_cluster(brokers: int, *, engine: str = OWN, **arguments: Any) -> Broker:
    """Return a cluster of so many brokers, with arguments of `Broker`; engine "kraft" is for Kafka's controller."""
    return Broker(brokers=brokers, engine=engine, **arguments)
