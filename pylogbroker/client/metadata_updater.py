"""Metadata updater: when metadata is requested, and for which topics.

One request is in flight at a time. A later caller gets the next response: its reason may be newer. Metadata is also
refreshed every metadata.max.age.ms, and with backoff after a failure or while a wanted topic is unknown: it may be new,
and other brokers may know it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from math import inf
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.background import run_in_background
from pylogbroker.client.errors import Closed, ConnectionLost
from pylogbroker.client.first_contact import FirstContact
from pylogbroker.client.metadata import MetadataCache
from pylogbroker.client.thread_decoding import decoded
from pylogbroker.config import Values
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.connection import BrokerConnection, UndecodedResponse
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

log = Logger()

#: Responses in a row without a wanted topic until a warning; a topic being created appears earlier.
_MISSES_MAX = 4
_SHOWN_MAX = 3
_IDS_VERSION: Final = 12


@attrs.frozen(eq=False, repr=False)
class _LearnedResponse:
    """A response with all topics, and `MetadataCache.changes` after it."""

    _version: int
    _response: UndecodedResponse
    _changes: int

    def is_still_true(self, version: int, response: UndecodedResponse, changes: int) -> bool:
        """Return whether a newer response says nothing else, and nothing else has changed the cache."""
        return (version, changes) == (self._version, self._changes) and response.equals(self._response)


_NOTHING_LEARNED: Final = _LearnedResponse(-1, UndecodedResponse(bytes, memoryview(b"")), -1)


class MetadataUpdater:
    def __init__(
        self,
        reactor: Any,
        settings: Values,
        reach: Callable[[], Awaitable[BrokerConnection]],
        honour_throttle: Callable[[Any, BrokerConnection], object],
        first_contact: FirstContact,
    ) -> None:
        self.metadata = MetadataCache()
        self._last = _NOTHING_LEARNED
        self.trouble = ""  # why the last request failed, or the topics that it did not find
        self.all_topics = False
        self.followed_topics: set[str] = set()  # in every request
        self._asked_for: dict[str, float] = {}  # time of the last use, of other topics
        self._reactor = reactor
        self._reach = reach
        self._honour_throttle = honour_throttle
        self._first_contact = first_contact
        self._max_age = settings.integer("metadata.max.age.ms") / 1000
        self._max_idle = settings.integer("metadata.max.idle.ms") / 1000
        self._auto_create = settings.boolean("allow.auto.create.topics")
        self._backoff = Backoff.of(settings)
        self._watchers: list[Callable[[], object]] = []
        self._waiters: list[Deferred[None]] = []
        self._refreshing = False
        self._refreshed = -inf
        self._failures = 0  # since the last response
        self._misses = 0
        self._logged_missing: set[str] = set()
        self._timer: IDelayedCall | None = None
        self._closed = False

    def asked_for(self, topic: str) -> None:
        """Include this topic while it is in use."""
        self._asked_for[topic] = self._reactor.seconds()

    def refresh(self) -> Deferred[None]:
        if self._closed:
            return fail(Closed("the client has been closed"))
        waiter: Deferred[None] = Deferred()
        self._waiters.append(waiter)
        if not self._refreshing:
            self._refreshing = True
            run_in_background(log, self._refresh_all(), "metadata of brokers and topics are not refreshed any more")
        return waiter

    def refresh_soon(self) -> None:
        if not self._waiters:
            self._refresh_in(max(0.0, self._refreshed + self._backoff.first - self._reactor.seconds()))

    def watch(self, callback: Callable[[], object]) -> Callable[[], None]:
        self._watchers.append(callback)

        def stop() -> None:
            if callback in self._watchers:
                self._watchers.remove(callback)

        return stop

    def close(self) -> None:
        self._closed = True
        self._stop_timer()

    # asking

    async def _refresh_all(self) -> None:
        while self._waiters:
            waiters, self._waiters = self._waiters, []
            outcome: Failure | None = None
            try:
                await self._refresh_once()
            except Exception:
                outcome = Failure()
            self._schedule(outcome)
            if outcome is None:
                self._notify_watchers()
            for waiter in waiters:
                if outcome is None:
                    waiter.callback(None)
                else:
                    waiter.errback(outcome)
        self._refreshing = False

    async def _refresh_once(self) -> None:
        self._forget_idle_topics()
        connection = await self._reach()
        try:
            await self._ask_for_topics(connection)
        except ConnectionLost as error:  # such as by a listener with SASL, which answers ApiVersions alone
            raise self._first_contact.failed(str(error)) or error from None
        self._first_contact.succeeded()

    async def _ask_for_topics(self, connection: BrokerConnection) -> None:
        if self.all_topics:
            await self._ask_for_all(connection)
        names = self.followed_topics.union(self._asked_for)
        if self.all_topics:
            names -= self.metadata.topics.keys()
        if names or not self.all_topics:
            await self._ask(connection, sorted(names))

    async def request(self, connection: BrokerConnection, names: Sequence[str] | None) -> MetadataResponse:
        """Request topics, or all (None), which creates none; nothing is remembered."""
        request, version = self._request_of(connection, names)
        response: MetadataResponse = await connection.request(request, version=version)
        self._honour_throttle(response, connection)
        return response

    def _request_of(self, connection: BrokerConnection, names: Sequence[str] | None) -> tuple[MetadataRequest, int]:
        version = connection.version_of(MetadataRequest)
        request = MetadataRequest(topics=None if names is None else [MetadataRequestTopic(name=name) for name in names])
        if names is None and version == 0:
            request.topics = []  # all topics, in version 0
        if version >= 4:
            request.allow_auto_topic_creation = self._auto_create and names is not None
        return request, version

    async def request_by_id(self, connection: BrokerConnection, topic_ids: Collection[UUID]) -> MetadataResponse:
        """Request topics by their ids, which creates none; raise KafkaError if the broker does not know ids."""
        version = connection.version_of(MetadataRequest)
        if version < _IDS_VERSION:
            raise KafkaError("the broker has no topic ids in metadata", ErrorCode.UNSUPPORTED_VERSION)
        topics = [MetadataRequestTopic(topic_id, None) for topic_id in topic_ids]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response: MetadataResponse = await connection.request(request, version=version)
        self._honour_throttle(response, connection)
        return response

    async def _ask(self, connection: BrokerConnection, names: list[str] | None) -> None:
        self.metadata.learn(await self.request(connection, names), names)

    async def _ask_for_all(self, connection: BrokerConnection) -> None:
        """Merge a response with all topics, of which there may be thousands; as a rule it equals the last one."""
        request, version = self._request_of(connection, None)
        undecoded: UndecodedResponse = await connection.request(request, version=version, decode_later=True)
        if self._last.is_still_true(version, undecoded, self.metadata.changes):
            return
        response: MetadataResponse = await decoded(self._reactor, connection, undecoded)
        self._honour_throttle(response, connection)
        changes = self.metadata.changes + 1
        for _ in self.metadata.learn_in_parts(response, None):
            await deferLater(self._reactor, 0)
        if not response.throttle_time_ms:
            self._last = _LearnedResponse(version, undecoded, changes)

    def _forget_idle_topics(self) -> None:
        limit = self._reactor.seconds() - self._max_idle
        for name, when in tuple(self._asked_for.items()):
            if when < limit and name not in self.metadata.topics:
                del self._asked_for[name]

    def _notify_watchers(self) -> None:
        for watcher in tuple(self._watchers):
            try:
                watcher()
            except Exception:
                log.failure("a callback on cluster metadata failed")

    # the next time

    def _schedule(self, outcome: Failure | None) -> None:
        if outcome is None:
            self._failures, self.trouble = 0, self._missing_topics()
            self._refreshed = self._reactor.seconds()
            self._stop_timer()
            self._look_for_missing()
            self._refresh_in(self._backoff.pause(self._misses) if self._misses else self._max_age)
            return
        self._failures += 1
        self.trouble = outcome.getErrorMessage()
        if self._failures == 1 and not self._closed:
            log.warn("requesting metadata of brokers and topics failed: {why}", why=self.trouble)
        self._refresh_in(self._backoff.pause(self._failures))

    def _missing_topics(self) -> str:
        errors = self.metadata.errors
        missing = sorted(errors.keys() & self.followed_topics.union(self._asked_for))
        shown = "; ".join(str(errors[name]) for name in missing[:_SHOWN_MAX])
        return f"{shown}; and {len(missing) - _SHOWN_MAX} more topics" if len(missing) > _SHOWN_MAX else shown

    def _look_for_missing(self) -> None:
        errors = self.metadata.errors
        missing = {name for name in self.followed_topics & errors.keys() if errors[name].code.retriable}
        self._misses = self._misses + 1 if missing else 0
        self._logged_missing &= missing
        for name in sorted(missing - self._logged_missing) if self._misses >= _MISSES_MAX else ():
            self._logged_missing.add(name)
            log.warn("topic {topic} does not exist; waiting for its creation: {why}", topic=name, why=str(errors[name]))

    def _refresh_in(self, seconds: float) -> None:
        if self._closed:
            return
        timer = self._timer
        if timer is not None and timer.active() and timer.getTime() <= self._reactor.seconds() + seconds:
            return
        self._stop_timer()
        self._timer = self._reactor.callLater(seconds, self._refresh_now)

    def _refresh_now(self) -> None:
        self.refresh().addErrback(lambda _: None)  # logged and retried

    def _stop_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
