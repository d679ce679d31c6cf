"""The broker as a Twisted service, for twistd and for programs of any kind.

    service = BrokerService(reactor, {"log.dirs": "/srv/data", "listeners": "PLAINTEXT://127.0.0.1:0"})
    service.startService()
    (listener,) = await service.listening
    print(listener.host, listener.port)
    await service.stopService()

While the reactor runs, the start does what blocks in worker threads.  Before that, `startService` returns when all is
done.  Either way a start that fails leaves nothing open and may be tried again, a service that was stopped may be
started again, and several brokers may share a process.  Nothing here changes the process: its signals, its limits, its
garbage collection and its reactor belong to the program (see `twistd` for a process that is a broker and nothing else).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredLock, ensureDeferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.config import BrokerConfig, Listener, Reloaded
from pylogbroker.errors import StartupError
from pylogbroker.tap.node import Node

Listeners = tuple[Listener, ...]
log = Logger()


class BrokerService(Service):
    """One broker, with these settings by Kafka's names; ConfigError if they are not acceptable.

    All methods are for the thread of the reactor, or for any one thread before the reactor runs.
    """

    def __init__(self, reactor: Any, settings: Mapping[str, str]) -> None:
        self._reactor = reactor
        self._settings = dict(settings)
        self._node: Node | None = None  # from the beginning of a start to that of the stop
        self._outcome: Listeners | Failure | None = None  # of the last start
        self._awaiting: list[Deferred[Listeners]] = []
        self._one_at_a_time = DeferredLock()
        BrokerConfig(self._settings)

    @property
    def listening(self) -> Deferred[Listeners]:
        """A new Deferred of the listeners, with their real ports, when the broker serves; or of why it cannot."""
        if isinstance(self._outcome, Failure):
            return fail(self._outcome)
        if self._outcome is not None:
            return succeed(self._outcome)
        waiting: Deferred[Listeners] = Deferred(self._awaiting.remove)
        self._awaiting.append(waiting)
        return waiting

    def startService(self) -> None:
        """Begin the start; `listening` says how it ends."""
        super().startService()
        if self._node is None:
            self._outcome = None  # of an earlier start
        self._one_at_a_time.run(lambda: ensureDeferred(self._start()))

    def stopService(self) -> Deferred[None]:
        """Close everything; what is under way is answered first.  A start that is under way is given up."""
        super().stopService()
        self._outcome = None
        if self._node is not None:
            self._node.give_up()
        return self._one_at_a_time.run(lambda: ensureDeferred(self._stop()))

    def start_failed(self, reason: Failure) -> None:
        """Say in the log that the broker does not run, and why."""
        if reason.check(StartupError):
            log.critical("the broker cannot start: {reason}", reason=reason.value)
        else:
            log.failure("the broker cannot start", failure=reason)

    async def reload(self, settings: Mapping[str, str]) -> Reloaded | None:
        """Take other settings: what can change while the broker runs at once, all else with the next start.

        Returns what came of it, None if the broker does not run.  ConfigError, with nothing changed, if the settings
        are not acceptable.
        """
        await self._one_at_a_time.acquire()
        try:
            BrokerConfig(settings)
            reloaded = None if self._node is None else self._node.config.reload(settings)
            self._settings = dict(settings)
            return reloaded
        finally:
            self._one_at_a_time.release()

    def use(self, config: BrokerConfig) -> None:
        """Called with the settings of every start, before it begins; they change while the broker runs."""

    async def _start(self) -> None:
        if self._node is not None or not self.running:  # it runs already, or was stopped meanwhile
            return
        config = BrokerConfig(self._settings)  # for this start alone: a broker changes its settings
        self.use(config)
        node = self._node = Node(self._reactor, config)
        try:
            self._decide(await node.start())
        except Exception:
            self._node = None
            if not node.given_up:
                self.running = 0
                self.start_failed(Failure())
            if not self.running:  # else it is to start once more
                self._decide(Failure())

    async def _stop(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            await node.stop()
        if not self.running:
            self._answer(Failure(StartupError("the broker was stopped")))

    def _decide(self, outcome: Listeners | Failure) -> None:
        self._outcome = outcome
        self._answer(outcome)

    def _answer(self, outcome: Listeners | Failure) -> None:
        awaiting, self._awaiting = self._awaiting, []
        for waiting in awaiting:
            if isinstance(outcome, Failure):
                waiting.errback(outcome)
            else:
                waiting.callback(outcome)
