"""Starts the brokers of a test: in a thread of its process, or in a process of their own."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

import attrs

from pylogbroker.testing.child_process import ControlledProcess
from pylogbroker.testing.clock import BrokerClock
from pylogbroker.testing.control.remote import RemoteClock, RemoteFaults
from pylogbroker.testing.faults import Faults
from pylogbroker.testing.in_thread import BrokersInThread
from pylogbroker.testing.reactor_thread import ReactorThread

START_SECONDS: Final = 60.0

Addresses = list[dict[str, str]]
"""Of each broker, by the names of its listeners."""


@attrs.frozen(eq=False)
class ThreadRunner:
    faults: Faults = attrs.field(factory=Faults, init=False)
    clock: BrokerClock = attrs.field(factory=BrokerClock, init=False)

    def start(self, stack: ExitStack, thread: ReactorThread, settings: dict[str, str], count: int) -> Addresses:
        """Start brokers; the stack stops them. Raise StartupError or ConfigError."""
        clock = self.clock.attach(thread.reactor, thread.call, lambda: brokers.have_busy_threads)
        stack.callback(self.clock.detach)
        brokers = BrokersInThread(thread.reactor, settings, count, clock, self.faults)
        found = thread.call(brokers.start, "start of the broker", START_SECONDS)
        stack.callback(thread.call, brokers.stop, "stop of the broker", START_SECONDS)
        return [{name: f"{each.host}:{each.port}" for name, each in listeners.items()} for listeners in found]


@attrs.frozen(eq=False)
class ProcessRunner:
    faults: RemoteFaults = attrs.field(factory=RemoteFaults, init=False)
    clock: RemoteClock = attrs.field(factory=RemoteClock, init=False)

    def start(self, stack: ExitStack, thread: ReactorThread, settings: dict[str, str], count: int) -> Addresses:
        """Start brokers; the stack stops them. Raise StartupError or ConfigError."""
        process = ControlledProcess.start(settings, count, START_SECONDS)
        stack.callback(process.stop)
        stack.callback(self.faults.attach, None)
        stack.callback(self.clock.attach, None)
        self.faults.attach(process.control)
        self.clock.attach(process.control)
        return process.listeners
