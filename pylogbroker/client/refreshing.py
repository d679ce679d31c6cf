"""When metadata is asked for, and about which topics.

One question at a time is under way. Whoever comes meanwhile is answered by the next one, since what made them ask may
be newer than the first. Without anybody asking it is done every metadata.max.age.ms, and sooner after a failure, or
while there is a wanted topic that the broker asked did not know: it may be a new one, and others may know it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred, fail
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.client.connection import BrokerConnection
from pylogbroker.client.errors import Closed
from pylogbroker.client.metadata import Metadata
from pylogbroker.client.retrying import Backoff
from pylogbroker.config import Values
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

log = Logger()

#: Answers in a row that do not know a wanted topic, until that is said: a topic that is being made is known before.
_LONG = 4


class Refresher:
    """Keeps `metadata` as new as it need be. `reach` gives a connection to any broker, `heed` looks at each answer."""

    def __init__(
        self,
        reactor: Any,
        settings: Values,
        reach: Callable[[], Awaitable[BrokerConnection]],
        heed: Callable[[Any, BrokerConnection], object],
    ) -> None:
        self.metadata = Metadata()
        self.trouble = ""  # why the last question was not answered, if it was not
        self.all_topics = False
        self.wanted: set[str] = set()  # topics that are always asked for
        self._asked_for: dict[str, float] = {}  # others, and when somebody did last
        self._reactor = reactor
        self._reach = reach
        self._heed = heed
        self._max_age = settings.integer("metadata.max.age.ms") / 1000
        self._max_idle = settings.integer("metadata.max.idle.ms") / 1000
        self._auto_create = settings.boolean("allow.auto.create.topics")
        self._backoff = Backoff.of(settings)
        self._watchers: list[Callable[[], object]] = []
        self._waiters: list[Deferred[None]] = []
        self._refreshing = False
        self._refreshed = -inf  # the time of the last answer
        self._failures = 0  # since then
        self._vain = 0  # answers in a row that did not know a topic that is wanted
        self._said: set[str] = set()  # topics that were said not to be there
        self._timer: IDelayedCall | None = None
        self._closed = False

    def asked_for(self, topic: str) -> None:
        """Somebody needs to know of this topic."""
        self._asked_for[topic] = self._reactor.seconds()

    def refresh(self) -> Deferred[None]:
        """Ask; fires with the answer to a question that is sent from now on."""
        if self._closed:
            return fail(Closed("the client has been closed"))
        waiter: Deferred[None] = Deferred()
        self._waiters.append(waiter)
        if not self._refreshing:
            self._refreshing = True
            ensureDeferred(self._refresh_all())
        return waiter

    def refresh_soon(self) -> None:
        """Ask, but not twice within retry.backoff.ms."""
        if not self._waiters:
            self._refresh_in(max(0.0, self._refreshed + self._backoff.first - self._reactor.seconds()))

    def watch(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back after each answer; returns what ends that."""
        self._watchers.append(callback)

        def stop() -> None:
            if callback in self._watchers:
                self._watchers.remove(callback)

        return stop

    def close(self) -> None:
        """Ask no more."""
        self._closed = True
        self._stop_timer()

    # -- asking --------------------------------------------------------------------------------------------------

    async def _refresh_all(self) -> None:
        """Ask as long as somebody waits who came after the last question."""
        while self._waiters:
            waiters, self._waiters = self._waiters, []
            outcome: Failure | None = None
            try:
                await self._refresh_once()
            except Exception:
                outcome = Failure()
            self._schedule(outcome)
            if outcome is None:
                self._tell_watchers()
            for waiter in waiters:
                if outcome is None:
                    waiter.callback(None)
                else:
                    waiter.errback(outcome)
        self._refreshing = False

    async def _refresh_once(self) -> None:
        self._forget_idle_topics()
        connection = await self._reach()
        if self.all_topics:
            await self._ask(connection, None)
        names = self.wanted.union(self._asked_for)
        if self.all_topics:
            names -= self.metadata.topics.keys()
        if names or not self.all_topics:
            await self._ask(connection, sorted(names))

    async def _ask(self, connection: BrokerConnection, names: list[str] | None) -> None:
        """Ask for topics, or for all of them, which creates none."""
        version = connection.version_of(MetadataRequest)
        request = MetadataRequest(topics=None if names is None else [MetadataRequestTopic(name=name) for name in names])
        if names is None and version == 0:
            request.topics = []  # which is how that version asks for all
        if version >= 4:
            request.allow_auto_topic_creation = self._auto_create and names is not None
        response: MetadataResponse = await connection.request(request, version=version)
        self._heed(response, connection)
        self.metadata.learn(response, names)

    def _forget_idle_topics(self) -> None:
        """Do not ask for ever about topics that there are not."""
        limit = self._reactor.seconds() - self._max_idle
        for name, when in tuple(self._asked_for.items()):
            if when < limit and name not in self.metadata.topics:
                del self._asked_for[name]

    def _tell_watchers(self) -> None:
        for watcher in tuple(self._watchers):
            try:
                watcher()
            except Exception:
                log.failure("one who watches the cluster failed")

    # -- the next time -------------------------------------------------------------------------------------------

    def _schedule(self, outcome: Failure | None) -> None:
        """When to ask again without being asked to."""
        if outcome is None:
            self._failures, self.trouble = 0, ""
            self._refreshed = self._reactor.seconds()
            self._stop_timer()
            self._look_for_missing()
            self._refresh_in(self._backoff.pause(self._vain) if self._vain else self._max_age)
            return
        self._failures += 1
        self.trouble = outcome.getErrorMessage()
        if self._failures == 1 and not self._closed:
            log.warn("brokers and topics could not be asked for: {why}", why=self.trouble)
        self._refresh_in(self._backoff.pause(self._failures))

    def _look_for_missing(self) -> None:
        """Count the answers that lack a wanted topic, which may be there by and by; say so when it takes long."""
        errors = self.metadata.errors
        missing = {name for name in self.wanted & errors.keys() if errors[name].code.retriable}
        self._vain = self._vain + 1 if missing else 0
        self._said &= missing
        for name in sorted(missing - self._said) if self._vain >= _LONG else ():
            self._said.add(name)
            log.warn("topic {topic} is not there, and is waited for: {why}", topic=name, why=str(errors[name]))

    def _refresh_in(self, seconds: float) -> None:
        """Ask after a while, unless that will be done sooner."""
        if self._closed:
            return
        timer = self._timer
        if timer is not None and timer.active() and timer.getTime() <= self._reactor.seconds() + seconds:
            return
        self._stop_timer()
        self._timer = self._reactor.callLater(seconds, self._refresh_now)

    def _refresh_now(self) -> None:
        self.refresh().addErrback(lambda _: None)  # logged, and tried again

    def _stop_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
