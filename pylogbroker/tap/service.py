"""Broker as a Twisted service, for twistd and for programs that embed it.

    service = BrokerService(reactor, {"log.dirs": "/srv/data", "listeners": "PLAINTEXT://127.0.0.1:0"})
    service.startService()
    (listener,) = await service.listening
    print(listener.host, listener.port)
    await service.stopService()

While the reactor runs, worker threads do blocking work. Before that, `startService` returns when the start has
finished. A failed start leaves nothing open. Failed and stopped services may be started again, and several brokers may
share a process. Signals, limits, garbage collection and the reactor belong to the program: only `twistd` changes them,
in a process that is only a broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredLock, ensureDeferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.config import BrokerConfig, Endpoint, Listener, Reloaded, broker_texts
from pylogbroker.errors import BrokerEnded, StartupError
from pylogbroker.tap.faults import BrokerFaults, faults_of
from pylogbroker.tap.lifecycle import BrokerStart, ServingBroker

Listeners = tuple[Listener, ...]
log = Logger()


class BrokerService(Service):
    """One broker with `settings` by Kafka's names; raises ConfigError if they are invalid.

    Values are texts, numbers, booleans, paths, and lists of these. A name that no broker knows is an error; in files,
    which twistd reads, programs of Kafka may have names of their own.

    Call methods on the reactor's thread, or before the reactor runs on one single thread. `clock` is the time of
    records, groups, transactions and jobs, by default the reactor's.
    """

    accepts_unknown_names = False
    has_ui = False
    """True to serve the web UI without the setting `http.listeners`, too."""

    # Stages without types: Twisted starts and stops a service as often as it likes

    def __init__(self, reactor: Any, settings: Mapping[str, Any], clock: IReactorTime | None = None) -> None:
        self._reactor = reactor
        self._clock = reactor if clock is None else clock
        self._settings = self._texts(settings)
        self._starting: BrokerStart | None = None
        self._serving: ServingBroker | None = None
        self._outcome: Listeners | Failure | None = None
        self._awaiting: list[Deferred[Listeners]] = []
        self._awaiting_end: list[Deferred[None]] = []
        self._one_at_a_time = DeferredLock()
        self.faults: BrokerFaults | None = faults_of(BrokerConfig(self._settings))

    @property
    def listening(self) -> Deferred[Listeners]:
        """New Deferred of the listeners with actual ports, or of the start's failure."""
        if isinstance(self._outcome, Failure):
            return fail(self._outcome)
        if self._outcome is not None:
            return succeed(self._outcome)
        waiting: Deferred[Listeners] = Deferred(self._awaiting.remove)
        self._awaiting.append(waiting)
        return waiting

    @property
    def http_addresses(self) -> Sequence[Endpoint]:
        """Addresses of the HTTP server, with actual ports, while the broker serves."""
        return () if self._serving is None else self._serving.http_addresses

    @property
    def schema_registry_addresses(self) -> Sequence[Endpoint]:
        """Addresses of the schema registry, with actual ports, while the broker serves."""
        return () if self._serving is None else self._serving.schema_registry_addresses

    @property
    def has_busy_threads(self) -> bool:
        """True if the running broker's worker threads have work."""
        return self._serving is not None and self._serving.threads.is_busy

    @property
    def ended(self) -> Deferred[None]:
        """New Deferred that fires when the broker has stopped; fails with BrokerEnded if it did so by itself.

        A member of a cluster stops by itself when it cannot go on as one.
        """
        waiting: Deferred[None] = Deferred(self._awaiting_end.remove)
        self._awaiting_end.append(waiting)
        return waiting

    def startService(self) -> None:
        """Begin the start; `listening` fires at its end."""
        super().startService()
        if self._starting is None and self._serving is None:
            self._outcome = None
        self._one_at_a_time.run(lambda: ensureDeferred(self._start()))

    def stopService(self) -> Deferred[None]:
        """Answer running requests, then close everything; abort an unfinished start."""
        super().stopService()
        self._outcome = None
        if self._starting is not None:
            self._starting.abort()
        return self._one_at_a_time.run(lambda: ensureDeferred(self._stop()))

    def start_failed(self, reason: Failure) -> None:
        if reason.check(StartupError):
            log.critical("the broker cannot start: {reason}", reason=reason.value)
        else:
            log.failure("the broker cannot start", failure=reason)

    async def reload(self, settings: Mapping[str, Any]) -> Reloaded | None:
        """Replace the settings: dynamic ones take effect at once, the others with the next start.

        Returns the changes, None if the broker does not run. Raises ConfigError, and changes nothing, if the settings
        are invalid.
        """
        await self._one_at_a_time.acquire()
        try:
            texts = self._texts(settings)
            BrokerConfig(texts)
            reloaded = None if self._serving is None else self._serving.reload(texts)
            self._settings = texts
            return reloaded
        finally:
            self._one_at_a_time.release()

    def _texts(self, settings: Mapping[str, Any]) -> dict[str, str]:
        return dict(settings) if self.accepts_unknown_names else broker_texts(settings)

    def use(self, config: BrokerConfig) -> None:
        """Hook for subclasses before each start, with its settings, which change while the broker runs."""

    async def _start(self) -> None:
        if self._serving is not None or not self.running:  # serving, or stopped
            return
        config = BrokerConfig(self._settings)  # a broker changes its settings
        self.use(config)
        start = self._starting = BrokerStart(self._reactor, config, self._clock, self.faults, self.has_ui)
        try:
            self._serving = await start.run()
        except Exception:
            self._starting = None
            if not start.aborted:
                self.running = 0
                self.start_failed(Failure())
            if not self.running:  # otherwise another start follows
                self._decide(Failure())
        else:
            self._starting = None
            self._decide(self._serving.listeners)
            self._serving.ended.addCallback(self._end, self._serving)

    def _end(self, reason: str, serving: ServingBroker) -> None:
        if self._serving is not serving:  # stopped meanwhile
            return
        log.critical("this broker leaves the cluster, and stops: {why}", why=reason)
        self.running = 0
        self._outcome = None
        self._one_at_a_time.run(lambda: ensureDeferred(self._stop(BrokerEnded(reason))))

    async def _stop(self, reason: BrokerEnded | None = None) -> None:
        serving, self._serving = self._serving, None
        if serving is not None:
            await serving.stop()
            self._answer_end(reason)
        if not self.running:
            self._answer(Failure(StartupError("the broker was stopped")))

    def _answer_end(self, reason: BrokerEnded | None) -> None:
        awaiting, self._awaiting_end = self._awaiting_end, []
        for waiting in awaiting:
            if reason is None:
                waiting.callback(None)
            else:
                waiting.errback(reason)

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
