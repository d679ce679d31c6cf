"""Starts the brokers of a test: in a thread of its process, or in a process of their own."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack, suppress
from typing import Final

import attrs

from pylogbroker.errors import KafkaError
from pylogbroker.testing.child_process import ControlledProcess
from pylogbroker.testing.clock import BrokerClock
from pylogbroker.testing.control.remote import RemoteClock, RemoteFaults
from pylogbroker.testing.errors import NotRunning
from pylogbroker.testing.faults import Faults
from pylogbroker.testing.in_thread import BrokersInThread
from pylogbroker.testing.reactor_thread import ReactorThread

START_SECONDS: Final = 60.0

Addresses = list[dict[str, str]]
"""Of each broker, by the names of its listeners."""


@attrs.define(eq=False, repr=False)
class ThreadRunner:
    faults: Faults = attrs.field(factory=Faults, init=False)
    clock: BrokerClock = attrs.field(factory=BrokerClock, init=False)
    _thread: ReactorThread | None = attrs.field(default=None, init=False)
    _brokers: BrokersInThread | None = attrs.field(default=None, init=False)
    _keys: dict[int, int] = attrs.field(factory=dict, init=False)  # of `_brokers`, by broker id

    def start(self, stack: ExitStack, thread: ReactorThread, settings: dict[str, str], count: int) -> Addresses:
        """Start brokers; the stack stops them. Raise StartupError or ConfigError."""
        clock = self.clock.attach(thread.reactor, thread.call, lambda: brokers.have_busy_threads, self._apply_retention)
        stack.callback(self.clock.detach)
        brokers = BrokersInThread(thread.reactor, settings, count, clock, self.faults)
        all_listeners = thread.call(brokers.start, "start of the broker", START_SECONDS)
        stack.callback(thread.call, brokers.stop, "stop of the broker", START_SECONDS)
        self._thread, self._brokers = thread, brokers
        ids = brokers.ids if count > 1 else (self.faults.broker.node.id,)  # a single one may have generated its own
        self._keys = dict(zip(ids, brokers.ids, strict=True))
        if count > 1:
            thread.call(self._create_internal_topics, "creation of internal topics")
        return [
            {name: f"{listener.host}:{listener.port}" for name, listener in listeners.items()}
            for listeners in all_listeners
        ]

    async def _apply_retention(self) -> None:
        with suppress(NotRunning):  # all are down
            await self.faults.logs.apply_retention()

    async def _create_internal_topics(self) -> None:
        """Create them while all brokers run: with one down, a topic could not get as many replicas."""
        services = self.faults.broker
        for service in (services.group_service, services.transaction_service):
            with suppress(KafkaError):  # the settings do not allow it: clients get the reason
                await service.ensure_topic()

    @property
    def ids(self) -> Collection[int]:
        """Ids of the brokers that were started, those that are down, too."""
        return tuple(self._keys)

    def down(self, brokers: Collection[int]) -> None:
        thread, running = self._running()
        thread.call(
            lambda: running.down([self._keys[broker] for broker in brokers]), "stop of the broker", START_SECONDS
        )

    def up(self, brokers: Collection[int]) -> None:
        """Raise StartupError if a broker cannot start."""
        thread, running = self._running()
        thread.call(
            lambda: running.up([self._keys[broker] for broker in brokers]), "start of the broker", START_SECONDS
        )

    def _running(self) -> tuple[ReactorThread, BrokersInThread]:
        thread, brokers = self._thread, self._brokers
        assert thread is not None  # `Broker` runs
        assert brokers is not None
        return thread, brokers


@attrs.define(eq=False, repr=False)
class ProcessRunner:
    faults: RemoteFaults = attrs.field(factory=RemoteFaults, init=False)
    clock: RemoteClock = attrs.field(factory=RemoteClock, init=False)
    ids: Collection[int] = attrs.field(default=(), init=False)
    _process: ControlledProcess | None = attrs.field(default=None, init=False)

    def start(self, stack: ExitStack, thread: ReactorThread, settings: dict[str, str], count: int) -> Addresses:
        """Start brokers; the stack stops them. Raise StartupError or ConfigError."""
        process = ControlledProcess.start(settings, count, START_SECONDS)
        stack.callback(process.stop)
        stack.callback(self.faults.attach, None)
        stack.callback(self.clock.attach, None)
        self.faults.attach(process.control)
        self.clock.attach(process.control)
        self._process, self.ids = process, process.ids
        return process.listeners

    def down(self, brokers: Collection[int]) -> None:
        self._change("down", brokers)

    def up(self, brokers: Collection[int]) -> None:
        self._change("up", brokers)

    def _change(self, command: str, brokers: Collection[int]) -> None:
        assert self._process is not None  # `Broker` runs
        for broker in brokers:
            self._process.control.post(f"/broker/{command}", broker=broker)
