"""The share consumer: a member of a share group, whose members get records of the same partitions one by one.

consumer = ShareConsumer("localhost:9092", group="workers")
await consumer.subscribe(["orders"])
for message in await consumer.poll():
    ...
    consumer.acknowledge(message, AcknowledgeType.REJECT)      # else the next poll accepts it
await consumer.commit()
await consumer.close()
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.client import arguments
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.actions import MemberSubscription, Partitions
from pylogbroker.client.consumer.epoch_member_driver import EpochMemberDriver
from pylogbroker.client.errors import ClientError, Closed, is_retriable
from pylogbroker.client.plugin_guards import decoder_of
from pylogbroker.client.settings import SHARE_CONSUMER, read
from pylogbroker.client.share.acknowledgements import AcknowledgeType
from pylogbroker.client.share.acquired import AcquiredUnpacker, ShareMessage
from pylogbroker.client.share.exchange import Received, ShareExchange, ShareFetchSettings, renewal_error
from pylogbroker.client.share.wiring import share_fetch_settings, share_member
from pylogbroker.client.sources import StaticBrokers
from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.interfaces import IDecoder, TopicPartition
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.retries import Pauses, retrying

log = Logger()

_EXPLICIT: Final = "explicit"


class NotAcquired(ClientError):
    """The message is not this consumer's any more: it was acknowledged, or the broker gives it to others."""


class NotAcknowledged(ClientError):
    """Messages of the last poll are not acknowledged, which share.acknowledgement.mode=explicit demands."""


class AcknowledgementsFailed(ClientError):
    """The broker rejected acknowledgements; `errors` has the reason for each partition."""

    def __init__(self, errors: Mapping[TopicPartition, KafkaError]) -> None:
        shown = "; ".join(f"{topic}/{number}: {error}" for (topic, number), error in sorted(errors.items()))
        super().__init__(f"acknowledgements were rejected, their messages may be delivered again: {shown}")
        self.errors = dict(errors)


@attrs.frozen
class ReadyMessage:
    """A message for the next poll, and the time when the broker's lock ends."""

    message: ShareMessage
    until: float

    @property
    def partition(self) -> TopicPartition:
        return self.message.topic, self.message.partition


class ShareConsumer:
    """A member of a share group. `decoder` and `key_decoder` are plugins or names. Call it on the reactor's thread."""

    def __init__(
        self,
        bootstrap: str | Iterable[str] | None = None,
        *,
        group: str,
        reactor: Any = None,
        settings: Mapping[str, Any] | None = None,
        decoder: str | IDecoder | None = None,
        key_decoder: str | IDecoder | None = None,
        **named_settings: Any,
    ) -> None:
        if group == "":
            raise ConfigError("group: the name of a group is missing")
        self.group = arguments.name("group", group)
        self.settings = values = read(SHARE_CONSUMER, settings, arguments.names_of(ShareConsumer), **named_settings)
        self._reactor = arguments.reactor_or_default(reactor)
        source = StaticBrokers(bootstrap or values.texts("bootstrap.servers"))
        self._cluster = Cluster(self._reactor, values, source)
        self._pauses = Pauses(self._reactor)
        self._is_explicit = values.text("share.acknowledgement.mode") == _EXPLICIT
        self._topics: frozenset[str] = frozenset()
        self._assigned: set[TopicPartition] = set()
        self._ready: deque[ReadyMessage] = deque()
        self._errors: deque[Exception] = deque()
        self._waiting: list[Deferred[None]] = []
        self._is_polling = False
        self._closed = False
        self._joined: Deferred[None] = Deferred()
        self._joined.addErrback(lambda _: None)
        self._member = share_member(
            self._cluster, self._reactor, self.group, values, self._subscription, self._reads, self
        )
        self._exchange = self._make_exchange(share_fetch_settings(values), key_decoder, decoder)
        self._unwatch = self._cluster.watch(self._wake)

    def __repr__(self) -> str:
        return f"<ShareConsumer of {self._cluster}, group {self.group}{', closed' if self._closed else ''}>"

    @property
    def member(self) -> EpochMemberDriver:
        return self._member

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions whose records this member may get now; others may get them, too."""
        return frozenset(self._assigned)

    @property
    def trouble(self) -> str:
        """Why the last request for metadata reached no broker, or which topics it did not find; "" if neither."""
        return self._cluster.trouble

    @property
    def acknowledgement_failures(self) -> int:
        """Partitions whose acknowledgements the broker rejected; their messages may be delivered again."""
        return self._exchange.failures

    # subscription

    def subscribe(self, topics: Iterable[str]) -> Deferred[None]:
        """Subscribe to these topics instead of former ones; the first call waits until the group accepts the member."""
        self._check_open()
        names = arguments.texts("topics", topics)
        if not names:
            raise ConfigError("topics: no topics are given")
        return ensureDeferred(self._subscribe(frozenset(names)))

    async def _subscribe(self, topics: frozenset[str]) -> None:
        is_first = not self._topics
        self._topics = topics
        self._cluster.want(topics)
        if not is_first:
            self._member.topics_changed()
            return
        try:
            await retrying(
                self._cluster.refresh,
                self._pauses,
                Backoff.of(self.settings),
                self._exchange.settings.api_timeout,
                retriable=is_retriable,
            )
            for topic in topics:
                if (error := self._cluster.error_of_topic(topic)) is not None:
                    raise error
        except BaseException:
            self._topics = frozenset()  # the caller may retry
            raise
        self._check_open()
        self._member.topics_changed()
        self._member.start()
        waiting: Deferred[None] = Deferred()
        self._joined.addBoth(waiting.callback)
        await waiting
        if self._errors:
            raise self._errors.popleft()

    def _subscription(self) -> MemberSubscription:
        return MemberSubscription(self._topics)

    def _reads(self, topic: str) -> bool:
        return topic in self._topics

    # messages

    def poll(self, count: int | None = None, timeout: float | None = None) -> Deferred[list[ShareMessage]]:
        """Return at most `count` messages once there are any; none after `timeout` seconds.

        Messages of the poll before are accepted unless they are acknowledged; with
        share.acknowledgement.mode=explicit, NotAcknowledged is raised then.
        """
        self._check_open()
        if not self._topics:
            raise ClientError("subscribe to topics before the first poll")
        if self._is_polling:
            raise ClientError("another poll of this consumer waits for messages: await it first")
        self._finish_given()
        most = self._exchange.settings.records_max if count is None else arguments.number("count", count, 1)
        return ensureDeferred(self._poll(most, timeout))

    async def _poll(self, most: int, timeout: float | None) -> list[ShareMessage]:
        deadline = None if timeout is None else self._reactor.seconds() + timeout
        self._is_polling = True
        try:
            while True:
                if messages := self._take(most):
                    self._exchange.send_acknowledgements()
                    return messages
                if self._errors:
                    raise self._errors.popleft()
                if self._closed:
                    return []
                self._exchange.fetch(self._assigned)
                if not await self._something(deadline):
                    return []
        finally:
            self._is_polling = False

    def _take(self, most: int) -> list[ShareMessage]:
        messages: list[ShareMessage] = []
        now = self._reactor.seconds()
        while self._ready and len(messages) < most:
            ready = self._ready.popleft()
            if ready.until <= now:
                continue  # the broker gives it to others
            message = ready.message
            self._exchange.acquired(message.topic, message.partition).give(message.offset)
            messages.append(message)
        return messages

    def _finish_given(self) -> None:
        if not self._is_explicit:
            self._exchange.accept_given()
            return
        given = self._exchange.given()
        if given:
            (topic, number), offsets = next(iter(given.items()))
            count = sum(map(len, given.values()))
            raise NotAcknowledged(
                f"{count} messages are not acknowledged, such as {topic}/{number}@{min(offsets)}: acknowledge each,"
                " or set share.acknowledgement.mode=implicit"
            )

    def acknowledge(self, message: ShareMessage, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Say how a message was processed; it is sent with the next poll or `commit`.

        RENEW keeps the message for another lock duration; acknowledge it again then. Brokers before Kafka 4.2 do not
        know it: then this raises KafkaError, and the message stays as it is.
        """
        self._check_open()
        if not isinstance(kind, AcknowledgeType) or kind is AcknowledgeType.GAP:
            raise arguments.invalid("kind", kind, "AcknowledgeType.ACCEPT, RELEASE, REJECT or RENEW")
        acquired = self._exchange.acquired(message.topic, message.partition)
        if kind is AcknowledgeType.RENEW and not acquired.may_renew:
            raise renewal_error()
        if not acquired.acknowledge(message.offset, kind):
            raise NotAcquired(
                f"{message.topic}/{message.partition}@{message.offset} is not this consumer's any more: it was"
                " acknowledged, or the broker gives it to another one because its connection was lost"
            )

    def commit(self) -> Deferred[None]:
        """Send acknowledgements, and wait for the answers; raise AcknowledgementsFailed.

        Messages that are not acknowledged are accepted, with share.acknowledgement.mode=explicit they stay as they are.
        """
        self._check_open()
        if not self._is_explicit:
            self._exchange.accept_given()
        return ensureDeferred(self._commit())

    async def _commit(self) -> None:
        errors = await self._exchange.commit()
        if errors:
            raise AcknowledgementsFailed(errors)

    # the end

    def close(self) -> Deferred[None]:
        """Send acknowledgements, release all other messages, and leave the group."""
        return ensureDeferred(self._close())

    async def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._unwatch()
        self._wake()
        await self._exchange.close()
        try:
            await self._member.leave()
        except Exception:
            log.failure("leaving the share group {group} failed", group=self.group)
        if not self._joined.called:
            self._joined.callback(None)
        self._pauses.close()
        await self._cluster.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the share consumer is closed")

    # called by the member

    def assign(self, partitions: Partitions) -> None:
        self._assigned |= partitions
        if not self._joined.called:
            self._joined.callback(None)
        self._wake()

    async def revoke(self, partitions: Partitions, lost: bool) -> None:
        """Release messages that the program has not got yet; it may acknowledge the others."""
        self._assigned -= partitions
        kept: deque[ReadyMessage] = deque()
        for ready in self._ready:
            if ready.partition in partitions:
                self._release(ready.message)
            else:
                kept.append(ready)
        self._ready = kept

    def failed(self, error: Exception) -> None:
        self._errors.append(error)
        if not self._joined.called:
            self._joined.callback(None)
        self._wake()

    # called by the exchange

    def received(self, received: Received) -> None:
        self._errors.extend(received.errors)
        until = self._reactor.seconds() + received.lock_seconds
        for message in received.messages:
            if self._closed:
                self._release(message)
            else:
                self._ready.append(ReadyMessage(message, until))
        self._wake()

    def released(self, partition: TopicPartition) -> None:
        """Drop messages that the broker gives to others now."""
        self._ready = deque(ready for ready in self._ready if ready.partition != partition)

    def _release(self, message: ShareMessage) -> None:
        acquired = self._exchange.acquired(message.topic, message.partition)
        acquired.acknowledge_range(message.offset, message.offset, AcknowledgeType.RELEASE)

    # waiting

    async def _something(self, deadline: float | None) -> bool:
        """Wait for messages, errors or changes; return False at the deadline."""
        now = self._reactor.seconds()
        if deadline is not None and now >= deadline:
            return False
        pauses = [self._exchange.pause(), None if deadline is None else deadline - now]
        seconds = min((pause for pause in pauses if pause is not None), default=None)
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        timer = None if seconds is None else self._reactor.callLater(seconds, self._wake)
        try:
            await waiting
        finally:
            if timer is not None and timer.active():
                timer.cancel()
            if waiting in self._waiting:
                self._waiting.remove(waiting)
        return True

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.callback(None)

    def _make_exchange(
        self, settings: ShareFetchSettings, key: str | IDecoder | None, value: str | IDecoder | None
    ) -> ShareExchange:
        unpack = AcquiredUnpacker(
            decoder_of(self.settings, "key.deserializer", key),
            decoder_of(self.settings, "value.deserializer", value),
            settings.check_crcs,
        )
        return ShareExchange(self._cluster, self._reactor, self.group, settings, self._member, unpack, self)
