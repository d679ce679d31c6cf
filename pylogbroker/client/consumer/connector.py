"""The group consumer: streams of messages from topics that a group's members share.

    connector = ConsumerConnector("localhost:9092", group="billing")
    async for message in await connector.stream("orders"):
        ...
    await connector.shutdown()

`create_message_streams({"orders": 2})` creates several streams.

The streams of a connector share its partitions evenly; surplus streams stay empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.client import arguments
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.assigned_partitions import NoListener, RebalanceListener, Relay
from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.client.consumer.filters import TopicFilter
from pylogbroker.client.consumer.group_membership import (
    CoordinatedMember,
    CoordinatorMembership,
    GroupMembership,
    MemberListener,
    TreeMembership,
)
from pylogbroker.client.consumer.group_protocol import CONSUMER as CONSUMER_PROTOCOL
from pylogbroker.client.consumer.group_protocol import check_group_protocol
from pylogbroker.client.consumer.member_driver import MemberDriver
from pylogbroker.client.consumer.offset_stores import BrokerOffsets, OffsetStore, TreeOffsets, choose_store
from pylogbroker.client.consumer.stream_subscription import StreamSubscription
from pylogbroker.client.consumer.streams import Stream
from pylogbroker.client.consumer.wiring import (
    api_timeout_ms,
    epoch_member,
    group_settings,
    make_assigned_partitions,
    make_source,
    make_stream,
    make_unpacker,
)
from pylogbroker.client.errors import ClientError, Closed, is_retriable
from pylogbroker.client.plugin_lookup import ASSIGNOR, given_as_arguments, resolve_plugins
from pylogbroker.client.settings import CONSUMER, as_mapping, read
from pylogbroker.client.zookeeper import zookeeper_of
from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.interfaces import IAssignor, IDecoder, ITree, TopicPartition
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.retries import Pauses, retrying

log = Logger()


_STRATEGY: Final = "partition.assignment.strategy"


class NotAssigned(ClientError):
    """The partition is not assigned to this connector."""


class ConsumerConnector:
    """A member of a consumer group, and its streams.

    With a coordination tree, `tree` or the setting `zookeeper.connect`, the tree, not the brokers, keeps the
    group. It names the brokers, too, unless `bootstrap` does.
    With `group_protocol="consumer"`, the broker assigns the partitions.
    `decoder`, `key_decoder` and `assignor` are plugins or names. Call methods on the reactor thread.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | None = None,
        *,
        group: str,
        coordination: ITree | None = None,
        reactor: Any = None,
        settings: Mapping[str, Any] | None = None,
        decoder: str | IDecoder | None = None,
        key_decoder: str | IDecoder | None = None,
        assignor: str | IAssignor | Iterable[str | IAssignor] | None = None,
        listener: RebalanceListener | None = None,
        **named_settings: Any,
    ) -> None:
        if group == "":
            raise ConfigError("group: the name of a group is missing")
        self.group = arguments.name("group", group)
        self.settings = values = read(CONSUMER, settings, arguments.names_of(ConsumerConnector), **named_settings)
        self._reactor = arguments.reactor_or_default(reactor)
        arguments.tree("coordination", coordination)
        self._zookeeper = zookeeper_of(values, coordination, self._reactor)
        tree = coordination if self._zookeeper is None else self._zookeeper
        given = _given(settings, named_settings) | (set() if assignor is None else {_STRATEGY})
        self._protocol = check_group_protocol(values, given, tree is not None)
        strategy = values.texts(_STRATEGY) if assignor is None else assignor
        with given_as_arguments([] if assignor is None else [_STRATEGY]):
            self._assignors = resolve_plugins(ASSIGNOR, _STRATEGY, strategy, values.by_name())
        if not self._assignors:
            raise arguments.invalid("assignor", strategy, "the name of an assignor, or several")
        unpack = make_unpacker(values, key_decoder, decoder)
        self._cluster = Cluster(self._reactor, values, make_source(bootstrap, tree, values))
        self._subscribed = StreamSubscription()
        self._closed = False
        self._closing: Deferred[None] | None = None
        self._pauses = Pauses(self._reactor)
        self._unwatch: Callable[[], None] = lambda: None
        self._reported_errors: dict[str, KafkaError] = {}
        self._member_settings = group_settings(self.group, values)
        self._group = self._make_group(tree)
        self._store = self._make_store(tree)
        self._assigned = make_assigned_partitions(
            self._cluster,
            self._pauses,
            values,
            unpack,
            self._store,
            self._group,
            self._streams_of,
            NoListener() if listener is None else _checked(listener),
        )

    def __repr__(self) -> str:
        return f"<ConsumerConnector of {self._cluster}, group {self.group}{', closed' if self._closed else ''}>"

    @property
    def member(self) -> CoordinatedMember | None:
        """Member of a broker-based group, once joining begins."""
        return self._group.member

    @property
    def trouble(self) -> str:
        """Why the last request for metadata reached no broker, or which topics it did not find; "" if neither."""
        return self._cluster.trouble

    # streams

    def create_message_streams(self, topics: Mapping[str, int]) -> Deferred[dict[str, list[Stream]]]:
        """Create each topic's number of streams; wait for the first assignment."""
        return ensureDeferred(self._create_message_streams(topics))

    def stream(self, topic: str) -> Deferred[Stream]:
        """Create one stream of a topic; wait for the first assignment."""
        return self.create_message_streams({topic: 1}).addCallback(lambda streams: streams[topic][0])

    def create_message_streams_by_filter(self, topics: TopicFilter, count: int = 1) -> Deferred[list[Stream]]:
        """Create `count` streams for all matching topics, including later ones."""
        return ensureDeferred(self._create_by_filter(topics, count))

    async def _create_message_streams(self, topics: Mapping[str, int]) -> dict[str, list[Stream]]:
        await self._subscribe(StreamSubscription.to_topics(topics, self._new_stream))
        return {topic: list(streams) for topic, streams in self._subscribed.topics.items()}

    async def _create_by_filter(self, topics: TopicFilter, count: int) -> list[Stream]:
        if not self.settings.boolean("exclude.internal.topics"):
            topics = attrs.evolve(topics, internal=True)
        await self._subscribe(StreamSubscription.to_filter(topics, count, self._new_stream))
        return list(self._subscribed.shared)

    async def _subscribe(self, subscribed: StreamSubscription) -> None:
        self._check_open()
        if self._subscribed.streams():
            raise ClientError("the streams of this connector exist already: create another connector for more streams")
        self._subscribed = subscribed
        try:
            if self._zookeeper is not None:
                await self._zookeeper.open()
            await self._learn_topics()
        except BaseException:
            self._subscribed = StreamSubscription()  # the caller may retry
            raise
        self._check_open()
        self._unwatch = self._cluster.watch(self._look_at_topics)
        await self._group.join(subscribed, self._assigned)
        self._check_open()
        if self.settings.boolean("enable.auto.commit"):
            interval = self.settings.integer("auto.commit.interval.ms") / 1000
            self._assigned.committer.start(interval, self._assigned.buffers.values)

    def _new_stream(self) -> Stream:
        return make_stream(self._reactor, self.settings)

    def _streams_of(self, topic: str) -> Sequence[Stream]:
        return self._subscribed.streams_of(topic)

    # offsets

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions read now."""
        return frozenset(self._assigned.buffers)

    def commit_offsets(self, offsets: Mapping[TopicPartition, int] | None = None) -> Deferred[None]:
        """Commit offsets of next messages; by default after all given messages, which then count as finished."""
        self._check_open()
        return ensureDeferred(self._commit(None if offsets is None else arguments.offsets("offsets", offsets)))

    async def _commit(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        assigned = self._assigned
        buffers, given = assigned.ours(), assigned.given()
        if offsets is not None:
            await assigned.committer.commit(offsets, buffers)
            return
        changed = {key: offset for key, offset in given.items() if offset != buffers[key].committed}
        await assigned.committer.commit(changed, buffers)
        assigned.mark_processed(given, buffers)

    def committed(self, partitions: Iterable[TopicPartition] | None = None) -> Deferred[dict[TopicPartition, int]]:
        """Return committed offsets, by default of all assigned partitions."""
        self._check_open()
        keys = self.assignment if partitions is None else arguments.partitions("partitions", partitions)
        return ensureDeferred(self._store.fetch(keys))

    def position(self, topic: str, partition: int) -> int | None:
        """Return the next message's offset; None until known."""
        return self._assigned.given().get(self._buffer(topic, partition).key)

    def lag(self, topic: str, partition: int) -> int | None:
        """Return high watermark minus position; None until both are known."""
        buffer, position = self._buffer(topic, partition), self.position(topic, partition)
        return None if buffer.high_watermark < 0 or position is None else max(0, buffer.high_watermark - position)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at this offset, or at the next message."""
        self._assigned.seek(self._buffer(topic, partition).key, arguments.offset("offset", offset))

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(self._assigned.paused)

    def pause(self, topic: str, partition: int) -> None:
        """Withhold messages until `resume` or reassignment."""
        self._assigned.pause(self._buffer(topic, partition).key)

    def resume(self, topic: str, partition: int) -> None:
        self._assigned.resume(self._buffer(topic, partition).key)

    def _buffer(self, topic: str, partition: int) -> FetchBuffer:
        buffer = self._assigned.buffers.get((topic, partition))
        if buffer is None:
            raise NotAssigned(f"{topic}/{partition} is not assigned to this connector")
        return buffer

    # shutdown

    def shutdown(self) -> Deferred[None]:
        """Commit given messages if `enable.auto.commit`, leave the group and end the streams."""
        if self._closing is None:
            self._closing = ensureDeferred(self._shutdown())
        waiting: Deferred[None] = Deferred()
        self._closing.addBoth(waiting.callback)
        return waiting

    async def _shutdown(self) -> None:
        self._closed = True
        self._unwatch()
        self._assigned.committer.stop()
        self._assigned.finish()
        try:
            await self._group.leave()
        except Exception:
            log.failure("leaving the group {group} failed", group=self.group)
        for stream in self._subscribed.streams():
            stream.end()
        self._assigned.close()
        self._pauses.close()
        await self._cluster.close()
        if self._zookeeper is not None:
            await self._zookeeper.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the connector is shut down")

    def relay_through(self, relay: Relay) -> None:
        self._assigned.relay = relay

    # the group

    def topics(self) -> frozenset[str]:
        return self._subscribed.among(self._cluster.topics())

    async def _learn_topics(self) -> None:
        by_broker = self._protocol == CONSUMER_PROTOCOL and self._subscribed.expression is not None
        if self._subscribed.filter is not None and not by_broker:
            await self._cluster.all_topics()
        else:
            self._cluster.want(self._subscribed.topics)
            timeout = api_timeout_ms(self.settings) / 1000
            backoff = Backoff.of(self.settings)
            await retrying(self._cluster.refresh, self._pauses, backoff, timeout, retriable=is_retriable)
            for error in self._topic_errors().values():
                raise error

    def _topic_errors(self) -> dict[str, KafkaError]:
        errors = {topic: self._cluster.error_of_topic(topic) for topic in self._subscribed.topics}
        return {topic: error for topic, error in errors.items() if error is not None}

    def _look_at_topics(self) -> None:
        self._assigned.fetcher.wake()
        self._group.check_topics()
        errors = self._topic_errors()
        for topic in errors.keys() - self._reported_errors.keys():
            for stream in self._streams_of(topic):
                stream.fail(errors[topic])
        self._reported_errors = errors

    def _fail(self, error: Exception) -> None:
        self._report_error(error)
        for stream in self._subscribed.streams():
            stream.end()

    def _report_error(self, error: Exception) -> None:
        for stream in self._subscribed.streams():
            stream.fail(error)

    def _make_group(self, tree: ITree | None) -> GroupMembership:
        if tree is not None:
            return TreeMembership(tree, self._reactor, self.group, self.settings, self._report_error)
        return CoordinatorMembership(self._new_member, self._member_settings.instance_id, self.topics, self._fail)

    def _new_member(self, listener: MemberListener) -> CoordinatedMember:
        cluster, reactor = self._cluster, self._reactor
        if self._protocol == CONSUMER_PROTOCOL:
            subscribed = self._subscribed
            return epoch_member(
                cluster,
                reactor,
                self._member_settings,
                self.settings,
                lambda: subscribed.of_member(cluster.topics()),
                subscribed.reads,
                listener,
            )
        return MemberDriver(cluster, reactor, self._member_settings, self._assignors, listener)

    def _make_store(self, tree: ITree | None) -> OffsetStore:
        in_tree = None if tree is None else TreeOffsets(tree, self.group)
        has_epochs = self._protocol == CONSUMER_PROTOCOL
        brokers = BrokerOffsets(self._cluster, self.group, self._group, has_epochs)
        storage, dual = self.settings.text("offsets.storage"), self.settings.boolean("dual.commit.enabled")
        return choose_store(storage, dual, brokers, in_tree)


def _given(settings: Mapping[str, Any] | None, named: Mapping[str, Any]) -> set[str]:
    """Return the names of settings that the program has set."""
    values = {**as_mapping(settings), **{keyword.replace("_", "."): value for keyword, value in named.items()}}
    return {name for name, value in values.items() if value is not None}


def _checked(listener: RebalanceListener) -> RebalanceListener:
    for name in ("assigned", "revoked", "lost"):
        if not callable(getattr(listener, name, None)):
            raise arguments.invalid("listener", listener, f"an object with the method {name}")
    return listener
