"""The consumer of groups: streams of messages out of topics that the members of a group share.

    connector = ConsumerConnector("localhost:9092", group="billing")
    streams = await connector.create_message_streams({"orders": 2})
    async for message in streams["orders"][0]:
        ...
    await connector.shutdown()

    streams = await connector.create_message_streams_by_filter(Whitelist("orders-.*"), 4)

Members find each other by Kafka's group protocol, or, where a coordination tree is given, by the registry below
`/consumers` of it. Partitions are dealt out among the streams of a connector evenly; there can be more streams than
partitions, which then have nothing to give.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.committing import Committer, done_with
from pylogbroker.client.consumer.feeds import Feed
from pylogbroker.client.consumer.fetcher import Fetcher, FetchSettings
from pylogbroker.client.consumer.filters import TopicFilter
from pylogbroker.client.consumer.group_member import GroupMember, GroupSettings
from pylogbroker.client.consumer.membership import NO_GENERATION, Partitions
from pylogbroker.client.consumer.offset_stores import BrokerOffsets, OffsetStore, TreeOffsets, choose_store
from pylogbroker.client.consumer.positions import Positions
from pylogbroker.client.consumer.reading import Nobody, Reading, RebalanceListener
from pylogbroker.client.consumer.registry import Registry
from pylogbroker.client.consumer.streams import Stream
from pylogbroker.client.consumer.subscribing import Subscribed
from pylogbroker.client.consumer.unpacking import Unpacker
from pylogbroker.client.errors import ClientError, Closed
from pylogbroker.client.guarding import decoding
from pylogbroker.client.messages import Decode
from pylogbroker.client.plugging import ASSIGNOR, DECODER, Plugged, plug, plug_all
from pylogbroker.client.retrying import Backoff, Pauses, retrying
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.client.sources import BrokerSource, StaticBrokers, TreeBrokers
from pylogbroker.config import Values
from pylogbroker.errors import ConfigError, ErrorCode
from pylogbroker.interfaces import IAssignor, IDecoder, ITree, TopicPartition

log = Logger()


class NotAssigned(ClientError):
    """The group has not given the partition to this connector."""


class ConsumerConnector:
    """A member of a consumer group, and what it reads.

    `coordination` is a tree where the brokers are found, and that keeps the group; `bootstrap` says where brokers are,
    and then it is they who keep the group. `decoder`, `key_decoder` and `assignor` are plugins, or names of such. All
    methods are called on the reactor's thread; what takes time returns a Deferred.
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
        if not group:
            raise ConfigError("group: the name of a group is missing")
        self.group = group
        self.settings = values = read(CONSUMER, settings, **named_settings)
        self._reactor = reactor or _global_reactor()
        self._tree = coordination
        plugins = values.by_name()
        strategy = assignor or values.texts("partition.assignment.strategy")
        self._assignors = plug_all(ASSIGNOR, "partition.assignment.strategy", strategy, plugins)
        value = plug(DECODER, "value.deserializer", decoder or values.text("value.deserializer"), plugins)
        key = plug(DECODER, "key.deserializer", key_decoder or values.text("key.deserializer"), plugins)
        self._cluster = Cluster(self._reactor, values, _source(bootstrap, coordination, values))
        self.member: GroupMember | None = None
        self._registry: Registry | None = None
        self._subscribed = Subscribed()
        self._settled: Deferred[None] = Deferred()
        self._closed = False
        self._closing: Deferred[None] | None = None
        self._pauses = Pauses(self._reactor)
        self._unwatch: Callable[[], None] = lambda: None
        unpack = Unpacker(
            _decode(key),
            _decode(value),
            values.text("isolation.level") == "read_committed",
            values.boolean("check.crcs"),
        )
        self._store = self._make_store()
        self._reading = self._make_reading(unpack, listener or Nobody())

    # -- streams ---------------------------------------------------------------------------------------------------

    def create_message_streams(self, topics: Mapping[str, int]) -> Deferred[dict[str, list[Stream]]]:
        """So many streams for each topic, once the group has given this member its first partitions."""
        return ensureDeferred(self._create_message_streams(topics))

    def create_message_streams_by_filter(self, topics: TopicFilter, count: int = 1) -> Deferred[list[Stream]]:
        """So many streams for all topics that pass the filter, those too that are still to come."""
        return ensureDeferred(self._create_by_filter(topics, count))

    async def _create_message_streams(self, topics: Mapping[str, int]) -> dict[str, list[Stream]]:
        await self._subscribe(Subscribed.to_topics(topics, self._new_stream))
        return {topic: list(streams) for topic, streams in self._subscribed.topics.items()}

    async def _create_by_filter(self, topics: TopicFilter, count: int) -> list[Stream]:
        if not self.settings.boolean("exclude.internal.topics"):
            topics = attrs.evolve(topics, internal=True)
        await self._subscribe(Subscribed.to_filter(topics, count, self._new_stream))
        return list(self._subscribed.shared)

    async def _subscribe(self, subscribed: Subscribed) -> None:
        self._check_open()
        if self._subscribed.streams():
            raise ClientError("the streams of this connector were created before: another set takes another connector")
        self._subscribed = subscribed
        await self._learn_topics()
        self._unwatch = self._cluster.watch(self._look_at_topics)
        await self._join()
        await self._settled
        if self.settings.boolean("enable.auto.commit"):
            interval = self.settings.integer("auto.commit.interval.ms") / 1000
            self._reading.committer.start(interval, self._reading.feeds.values)

    # -- offsets ---------------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member reads now."""
        return frozenset(self._reading.feeds)

    def commit_offsets(self, offsets: Mapping[TopicPartition, int] | None = None) -> Deferred[None]:
        """Commit these, or all that the streams have given until now, which so counts as dealt with.

        Each offset is that of the next message to read.
        """
        self._check_open()
        feeds = self._reading.feeds
        if offsets is None:
            for feed in feeds.values():
                feed.returned()
        return ensureDeferred(
            self._reading.committer.commit(done_with(feeds.values()) if offsets is None else offsets, feeds)
        )

    def committed(self, partitions: Iterable[TopicPartition] | None = None) -> Deferred[dict[TopicPartition, int]]:
        """What the group has committed for these, or for all that this member reads, where it has."""
        self._check_open()
        return ensureDeferred(self._store.fetch(self.assignment if partitions is None else partitions))

    def position(self, topic: str, partition: int) -> int | None:
        """The offset of the next message that a stream gives; None as long as that is being found out."""
        offset = self._feed(topic, partition).handed
        return None if offset < 0 else offset

    def lag(self, topic: str, partition: int) -> int | None:
        """How many offsets of the partition are behind the position; None if that is not known yet."""
        return self._feed(topic, partition).lag

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Let the next message of the partition be the one at this offset, or the first behind it."""
        self._reading.seek(self._feed(topic, partition).key, offset)

    def _feed(self, topic: str, partition: int) -> Feed:
        feed = self._reading.feeds.get((topic, partition))
        if feed is None:
            raise NotAssigned(f"{topic}/{partition} is not assigned to this connector")
        return feed

    # -- the end ---------------------------------------------------------------------------------------------------

    def shutdown(self) -> Deferred[None]:
        """Commit what the streams have given, leave the group, end the streams and close all connections."""
        if self._closing is None:
            self._closing = ensureDeferred(self._shutdown())
        waiting: Deferred[None] = Deferred()
        self._closing.addBoth(waiting.callback)
        return waiting

    async def _shutdown(self) -> None:
        self._closed = True
        self._unwatch()
        self._reading.committer.stop()
        self._reading.finish()
        await self._leave()
        for stream in self._subscribed.streams():
            stream.end()
        self._reading.close()
        self._pauses.close()
        self.settle(Closed("the connector was shut down"))
        self._settled.addErrback(lambda _: None)  # there may be nobody who waits for it
        await self._cluster.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the connector is shut down")

    # -- the group -------------------------------------------------------------------------------------------------

    def topics(self) -> frozenset[str]:
        """What is subscribed to now."""
        return self._subscribed.among(self._cluster.topics())

    async def _learn_topics(self) -> None:
        if self._subscribed.filter is not None:
            await self._cluster.all_topics()
        else:
            self._cluster.want(self._subscribed.topics)
            patience = self.settings.integer("default.api.timeout.ms") / 1000
            await retrying(self._cluster.refresh, self._pauses, Backoff.of(self.settings), patience)

    def _look_at_topics(self) -> None:
        self._reading.fetcher.wake()
        if self.member is not None:
            self.member.topics_changed()

    async def _join(self) -> None:
        if self._tree is None:
            self.member = GroupMember(
                self._cluster,
                self._reactor,
                _group_settings(self.group, self.settings),
                self._assignors,
                _ByGroup(self, self._reading),
            )
            self.member.start()
        else:
            node = self._subscribed.node()
            self._registry = Registry(
                self._tree,
                self._reactor,
                self.group,
                node,
                _ByTree(self, self._reading),
                max_retries=self.settings.integer("rebalance.max.retries"),
                backoff=self.settings.integer("rebalance.backoff.ms") / 1000,
            )
            await self._registry.start()
            self.settle()

    async def _leave(self) -> None:
        if self.member is not None:
            await self.member.leave()
        if self._registry is not None:
            await self._registry.stop()

    def fail(self, error: Exception) -> None:
        """It is over: whoever waits for streams or for messages is told."""
        self.settle(error)
        for stream in self._subscribed.streams():
            stream.fail(error)
            stream.end()

    def settle(self, error: Exception | None = None) -> None:
        """The group has given this member its partitions, or does not want it."""
        if not self._settled.called:
            self._settled.callback(None) if error is None else self._settled.errback(error)

    # -- parts -----------------------------------------------------------------------------------------------------

    def _new_stream(self) -> Stream:
        timeout = self.settings.integer("consumer.timeout.ms")
        return Stream(self._reactor, self.settings.integer("max.poll.records"), None if timeout < 0 else timeout / 1000)

    def _make_reading(self, unpack: Unpacker, listener: RebalanceListener) -> Reading:
        values, backoff = self.settings, self.settings.integer("retry.backoff.ms") / 1000
        patience = values.integer("default.api.timeout.ms") / 1000
        reading = Reading(
            self._reactor,
            lambda topic: self._subscribed.streams_of(topic),
            values.integer("max.partition.fetch.bytes"),
            values.integer("rebalance.wait.ms") / 1000,
            values.boolean("enable.auto.commit"),
            Committer(self._reactor, self._store.commit, self._refused, backoff, patience),
            listener,
        )
        reading.fetcher = Fetcher(
            self._cluster,
            self._reactor,
            _fetch_settings(values),
            unpack,
            reading.fed,
            reading.out_of_range,
            reading.fail_one,
        )
        reading.positions = Positions(
            self._cluster,
            self._reactor,
            values.text("auto.offset.reset"),
            values.text("isolation.level") == "read_committed",
            backoff,
            self._store.fetch,
            reading.fail_one,
        )
        return reading

    def _make_store(self) -> OffsetStore:
        tree = None if self._tree is None else TreeOffsets(self._tree, self.group)
        brokers = BrokerOffsets(self._cluster, self.group, _Standing(self))
        return choose_store(
            self.settings.text("offsets.storage"), self.settings.boolean("dual.commit.enabled"), brokers, tree
        )

    def _refused(self, code: ErrorCode) -> None:
        if self.member is not None:
            self.member.refused(code)


@attrs.frozen
class _Standing:
    """In which capacity offsets are committed: as the member that this connector is now, if it is one."""

    _connector: ConsumerConnector

    @property
    def generation(self) -> int:
        member = self._connector.member
        return NO_GENERATION if member is None else member.generation

    @property
    def member_id(self) -> str:
        member = self._connector.member
        return "" if member is None else member.member_id

    @property
    def instance_id(self) -> str | None:
        member = self._connector.member
        return None if member is None else member.instance_id


@attrs.frozen
class _ByGroup:
    """What the group protocol tells."""

    _connector: ConsumerConnector
    _reading: Reading

    def topics(self) -> frozenset[str]:
        return self._connector.topics()

    async def give_up(self, partitions: Partitions, lost: bool) -> None:
        await (self._reading.lose if lost else self._reading.give_up)(partitions)

    def take(self, partitions: Partitions) -> None:
        self._reading.take(dict.fromkeys(partitions))
        self._connector.settle()

    def failed(self, error: Exception) -> None:
        self._connector.fail(error)


@attrs.frozen
class _ByTree:
    """What the registry in the coordination tree tells."""

    _connector: ConsumerConnector
    _reading: Reading

    async def give_up(self, partitions: Collection[TopicPartition]) -> None:
        await self._reading.give_up(partitions)

    async def lose(self, partitions: Collection[TopicPartition]) -> None:
        await self._reading.lose(partitions)

    def take(self, partitions: Mapping[TopicPartition, int]) -> None:
        self._reading.take(dict(partitions))

    def failed(self, error: Exception) -> None:
        log.warn("the group {group} does not settle: {error}", group=self._connector.group, error=error)


def _source(bootstrap: str | Iterable[str] | None, tree: ITree | None, settings: Values) -> BrokerSource:
    """Brokers by the list if there is one, else by the tree."""
    brokers = bootstrap or settings.texts("bootstrap.servers")
    if not brokers and tree is not None:
        return TreeBrokers(tree)
    return StaticBrokers(brokers)


def _group_settings(group: str, settings: Values) -> GroupSettings:
    return GroupSettings(
        group,
        settings.optional_text("group.instance.id"),
        settings.text("client.rack") or None,
        settings.integer("session.timeout.ms"),
        settings.integer("heartbeat.interval.ms"),
        settings.integer("max.poll.interval.ms"),
        settings.integer("retry.backoff.ms"),
        settings.integer("retry.backoff.max.ms"),
        settings.integer("request.timeout.ms") / 1000,
    )


def _fetch_settings(settings: Values) -> FetchSettings:
    return FetchSettings(
        settings.integer("fetch.max.wait.ms"),
        settings.integer("fetch.min.bytes"),
        settings.integer("fetch.max.bytes"),
        settings.integer("max.partition.fetch.bytes"),
        settings.text("isolation.level") == "read_committed",
        settings.text("client.rack"),
        settings.integer("retry.backoff.ms") / 1000,
        settings.integer("request.timeout.ms") / 1000,
    )


def _decode(plugged: Plugged[IDecoder]) -> Decode | None:
    """The decoder as a function; None for the one that does nothing, since that need not be called."""
    return None if plugged.name == "bytes" else decoding(plugged)


def _global_reactor() -> Any:
    from twisted.internet import reactor

    return reactor
