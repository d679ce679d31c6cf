"""Replicas on a broker of a cluster: each leads or follows, as the controller orders.

    order                       effect
    --------------------------  -----------------------------------------------------------------------------
    lead (LeaderAndIsr)         the log is made if it is new; Partitions leads it; followers are counted
    follow (LeaderAndIsr)       the log is made if it is new; the leader's fetcher fetches for it
    stop (StopReplica)          nothing leads or fetches; with `delete` the log is deleted

A replica whose log directory failed is offline: the controller hears of it (`log_dir_failures`), and elects others.

The states come from the controller alone, not from the image, which is for clients: a broker may lead before it has
heard of a topic's other partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Protocol
from uuid import UUID

import attrs
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.replication.fetcher import ReplicaFetcher
from pylogbroker.broker.replication.followership import Followership
from pylogbroker.broker.replication.leader_requests import FetcherSettings, RequestChannel
from pylogbroker.broker.replication.leadership import IsrProposals, Leadership
from pylogbroker.broker.replication.log_view import ReplicaLogView
from pylogbroker.broker.runtime.resources import PeriodicCall, Runtime
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import NO_TOPIC_ID, BrokerRegistration, PartitionState, TopicImage, is_another_topic
from pylogbroker.replication import (
    Actions,
    FollowerReplica,
    LeaderReplica,
    PartitionReplica,
    ReplicationSettings,
)
from pylogbroker.replication.replica import NO_EPOCH
from pylogbroker.replication.settings import never
from pylogbroker.rpc.errors import NotConnected

log = Logger()

_LeaderListener = Callable[[str, int, int], None]


class FetchChannels(Protocol):
    def __call__(self, leader: int, fetcher: int, /) -> RequestChannel:
        """Return a new channel to the leader; raise NotConnected if it is not alive."""


@attrs.frozen
class ReplicaSettings:
    lag_time_max_ms: int = 30_000
    fetch_backoff_ms: int = 1_000
    fetchers_per_leader: int = 1
    begins_at_tiered_end: Callable[[], bool] = never


@attrs.define(eq=False, repr=False)
class _Replica:
    topic: TopicImage
    partition: Partition
    machine: PartitionReplica
    leadership: Leadership | None = None
    following: Followership | None = None


@attrs.define(eq=False, repr=False)
class Replicas:
    """`on_led` and `on_resigned` get topic, partition and leader epoch after leaderships come and go."""

    _broker_id: int
    _runtime: Runtime
    _partitions: Partitions
    _settings: ReplicaSettings
    _fetcher_settings: FetcherSettings
    _fetch_channel: FetchChannels
    _proposals: IsrProposals
    on_led: list[_LeaderListener] = attrs.field(factory=list, init=False)
    on_resigned: list[_LeaderListener] = attrs.field(factory=list, init=False)
    broker_epoch: int = attrs.field(default=-1, init=False)
    _replicas: dict[TopicPartition, _Replica] = attrs.field(factory=dict, init=False)
    _brokers: Mapping[int, BrokerRegistration] = attrs.field(factory=dict, init=False)
    _fetchers: dict[tuple[int, int], ReplicaFetcher] = attrs.field(factory=dict, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _timer: PeriodicCall | None = attrs.field(default=None, init=False)

    def fetchers(self) -> Iterator[ReplicaFetcher]:
        return iter(tuple(self._fetchers.values()))

    def lags(self) -> Iterator[int]:
        """Yield how far each replica that follows is behind its leader."""
        for replica in tuple(self._replicas.values()):
            if replica.following is not None:
                yield replica.following.follower.lag

    # Orders of the controller: one at a time, which `ControllerOrders` ensures

    async def apply(
        self,
        topic: TopicImage,
        new: AbstractSet[int],
        settings: Mapping[str, str],
    ) -> dict[int, ErrorCode]:
        """Obey the states of the topic's partitions in `topic`; return an error for each that is not obeyed."""
        errors: dict[int, ErrorCode] = {}
        slices = self._runtime.slices
        await self._leave_replaced(topic)
        await self._take_id(topic, settings)
        missing = [index async for index in slices.over(topic.partitions) if (topic.name, index) not in self._replicas]
        for is_new in (True, False):
            some = [index for index in missing if (index in new) is is_new]
            if some:
                await self._partitions.open_replicas(topic, some, settings, is_new)
        await self._partitions.settings.apply(topic)  # first: min.insync.replicas bounds a new leader's high watermark
        async for index in slices.over(await self._leads_first(topic)):
            key = topic.name, index
            partition = self._partitions.hosted.get(key)
            if partition is None:
                errors[index] = ErrorCode.KAFKA_STORAGE_ERROR
                continue
            replica = self._replicas.get(key)
            if replica is None or replica.partition is not partition:
                replica = self._replicas[key] = _Replica(topic, partition, self._new_machine(partition))
            self._obey(replica, topic.partitions[index])
        return errors

    async def _leave_replaced(self, topic: TopicImage) -> None:
        """Leave replicas of a deleted topic of the same name: their logs are kept, but are not the new topic's.

        No StopReplica has come for them: they had been moved to other brokers, or the broker was away.
        """
        async for index in self._runtime.slices.over(topic.partitions):
            key = topic.name, index
            replica = self._replicas.get(key)
            if replica is not None and is_another_topic(topic.id, replica.topic.id):
                self._leave(key, replica)

    async def leave_earlier(self, former: TopicImage, present: TopicImage) -> None:
        """Leave replicas of a deleted topic without id, of which `present` has the name.

        They are of partitions that it has not, or in leader epochs that it has not reached.
        """
        async for index in self._runtime.slices.over(former.partitions):
            replica, state = self._replicas.get((former.name, index)), present.partitions.get(index)
            if replica is not None and (state is None or replica.machine.leader_epoch > state.leader_epoch):
                self._leave((former.name, index), replica)

    def _leave(self, key: TopicPartition, replica: _Replica) -> None:
        self._stop_following(replica)
        self._resign(replica)
        del self._replicas[key]
        self._partitions.release(key)

    async def _take_id(self, topic: TopicImage, settings: Mapping[str, str]) -> None:
        """Give replicas the id that their topic had not before, also if their epochs stay: the protocol is newer now.

        Followers name it in fetches, leaders in ISR changes, and logs keep it.
        """
        if topic.id == NO_TOPIC_ID:
            return
        slices = self._runtime.slices
        replicas: dict[int, _Replica] = {}
        async for index in slices.over(topic.partitions):
            present = self._replicas.get((topic.name, index))
            if present is not None and present.topic.id == NO_TOPIC_ID:
                replicas[index] = present
        if not replicas:
            return
        await self._partitions.open_replicas(topic, replicas, settings, is_new=False)
        async for replica in slices.over(replicas.values()):
            replica.topic = topic
            if replica.leadership is not None:
                replica.leadership.topic_id = topic.id
            if replica.following is not None:
                for fetcher in self._fetchers.values():
                    fetcher.set_topic_id(replica.following, topic.id)
                replica.following.topic_id = topic.id

    async def _leads_first(self, topic: TopicImage) -> list[int]:
        """Return the topic's partitions, first those to lead here."""
        led: list[int] = []
        others: list[int] = []
        async for index, state in self._runtime.slices.over(topic.partitions.items()):
            (led if state.leader == self._broker_id else others).append(index)
        return led + others

    def _new_machine(self, partition: Partition) -> PartitionReplica:
        settings = ReplicationSettings(
            partition.wanted_insync_replicas,
            self._settings.lag_time_max_ms,
            self._settings.fetch_backoff_ms,
            self._fetcher_settings.protocol.truncates_on_fetch,
            self._settings.begins_at_tiered_end,
        )
        view = ReplicaLogView(partition.log)
        return PartitionReplica(self._broker_id, view, settings, self._brokers, partition.log.high_watermark)

    def _obey(self, replica: _Replica, state: PartitionState) -> None:
        machine = replica.machine
        epoch = machine.leader_epoch
        machine.settings = attrs.evolve(machine.settings, min_insync_replicas=replica.partition.wanted_insync_replicas)
        actions = machine.apply(state, self._runtime.now_ms())
        if machine.leader_epoch == epoch:
            if replica.leadership is not None:
                replica.leadership.run(actions)
            return
        replica.partition.ordered_leader = machine.leader, machine.leader_epoch
        self._stop_following(replica)
        match machine.role:
            case LeaderReplica() as leader:
                self._lead(replica, leader, state, actions)
            case FollowerReplica() as follower:
                self._resign(replica)
                self._follow(replica, follower, machine.leader, actions)
            case None:
                self._resign(replica)

    def _lead(self, replica: _Replica, leader: LeaderReplica, state: PartitionState, actions: Actions) -> None:
        key = replica.partition.topic, replica.partition.index
        partition = self._partitions.lead(key, state.leader_epoch)
        replica.leadership = Leadership(partition, leader, replica.topic.id, self._runtime.now_ms, self._proposals)
        partition.replicate(replica.leadership, leader.high_watermark)
        replica.leadership.run(actions)
        for call in self.on_led:
            call(*key, state.leader_epoch)

    def _resign(self, replica: _Replica) -> None:
        key = replica.partition.topic, replica.partition.index
        if replica.leadership is not None:
            replica.leadership = None
            self._partitions.resign(key)
            for call in self.on_resigned:
                call(*key, replica.machine.leader_epoch)

    def _follow(self, replica: _Replica, follower: FollowerReplica, leader: int, actions: Actions) -> None:
        partition = replica.partition
        following = Followership(
            partition.topic,
            replica.topic.id,
            partition.index,
            partition,
            follower,
            self._runtime,
            self._partitions,
            self._settings.fetch_backoff_ms / 1000,
        )
        replica.following = following
        partition.follow(following, follower.leader_epoch)
        partition.high_watermark.open_at(follower.high_watermark, following)
        following.run(actions)
        self._attach(replica)

    def _attach(self, replica: _Replica) -> None:
        """Let the leader's fetcher fetch for a follower, if the leader is alive."""
        following = replica.following
        if following is not None:
            fetcher = self._fetcher(replica.machine.leader, following.index)
            if fetcher is not None:
                fetcher.add(following)

    def _stop_following(self, replica: _Replica) -> None:
        if replica.following is not None:
            replica.following = None
            key = replica.partition.topic, replica.partition.index
            for fetcher in self._fetchers.values():
                fetcher.remove(key)
            self._partitions.stop_following(key)

    async def stop(self, orders: Mapping[TopicPartition, tuple[int, bool]]) -> dict[TopicPartition, ErrorCode]:
        """Stop replicas, each with a leader epoch and whether to delete it; return errors.

        A log may be deleted before it was led or followed in this life of the broker.
        """
        errors: dict[TopicPartition, ErrorCode] = {}
        deleted: dict[str, list[int]] = {}
        async for key, (epoch, delete) in self._runtime.slices.over(orders.items()):
            replica = self._replicas.get(key)
            if replica is not None:
                if not replica.machine.may_stop(epoch):
                    errors[key] = ErrorCode.FENCED_LEADER_EPOCH
                    continue
                self._stop_following(replica)
                self._resign(replica)
            if delete:
                self._replicas.pop(key, None)
                deleted.setdefault(key[0], []).append(key[1])
        for name, indexes in deleted.items():
            for index in await self._partitions.delete(name, indexes):
                errors[name, index] = ErrorCode.KAFKA_STORAGE_ERROR
        return errors

    def has_role(self, key: TopicPartition) -> bool:
        """Return whether the replica leads or follows."""
        replica = self._replicas.get(key)
        return replica is not None and not (replica.leadership is None and replica.following is None)

    async def quarantine(self, keys: Sequence[TopicPartition]) -> None:
        """Forget replicas without a role; keep their logs under other names."""
        for key in keys:
            self._replicas.pop(key, None)
        await self._partitions.quarantine(keys)

    async def stop_moved(self, topic: str, topic_id: UUID, states: Mapping[int, PartitionState]) -> None:
        """Stop replicas that now belong to other brokers, if their StopReplica was sent while this broker was away.

        As leaders of an earlier epoch they would serve readers for ever, with no new records. Their logs are kept.
        The same goes for replicas of a deleted topic of that name.
        """
        moved: dict[TopicPartition, tuple[int, bool]] = {}
        async for index, state in self._runtime.slices.over(states.items()):
            replica = self._replicas.get((topic, index))
            if replica is None or not self.has_role((topic, index)):
                continue
            if is_another_topic(topic_id, replica.topic.id):
                log.info("{topic}-{partition} is of a deleted topic: it is stopped", topic=topic, partition=index)
                moved[topic, index] = NO_EPOCH, False
            elif self._is_moved(replica, state):
                log.info("{topic}-{partition} was moved to other brokers: it is stopped", topic=topic, partition=index)
                moved[topic, index] = state.leader_epoch, False
        await self.stop(moved)

    def _is_moved(self, replica: _Replica, state: PartitionState) -> bool:
        return self._broker_id not in state.replicas and state.leader_epoch > replica.machine.leader_epoch

    # Other events

    def on_partition_offline(self, topic: str, index: int) -> None:
        """Forget a replica whose log failed; orders for it get KAFKA_STORAGE_ERROR."""
        replica = self._replicas.pop((topic, index), None)
        if replica is not None:
            self._stop_following(replica)

    async def brokers_changed(self, brokers: Mapping[int, BrokerRegistration]) -> None:
        """Take the live brokers; connect again to leaders that have other addresses."""
        for (leader, number), fetcher in tuple(self._fetchers.items()):
            if not _has_same_address(self._brokers.get(leader), brokers.get(leader)):
                fetcher.stop()
                del self._fetchers[leader, number]
        self._brokers = brokers
        now_ms = self._runtime.now_ms()
        async for key, replica in self._runtime.slices.over(tuple(self._replicas.items())):
            if self._replicas.get(key) is replica:  # its log may have failed meanwhile
                actions = replica.machine.brokers_changed(brokers, now_ms)
                if replica.leadership is not None:
                    replica.leadership.run(actions)
                self._attach(replica)

    def set_broker_epoch(self, epoch: int) -> None:
        self.broker_epoch = epoch
        for fetcher in self._fetchers.values():
            fetcher.set_broker_epoch(epoch)

    def start(self) -> None:
        """Check periodically which followers lag behind."""
        timer = PeriodicCall(self._runtime.clock, lambda: ensureDeferred(self._tick()))
        timer.start(self._settings.lag_time_max_ms / 2000, now=False).addErrback(
            lambda failure: log.failure("followers are not checked", failure)
        )
        self._timer = timer

    def close(self) -> None:
        """Stop fetching, also for orders that still come."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()

    async def _tick(self) -> None:
        async for key, replica in self._runtime.slices.over(tuple(self._replicas.items())):
            if replica.leadership is not None and self._replicas.get(key) is replica:  # else its log failed meanwhile
                try:
                    replica.leadership.tick()
                except Exception:  # the other partitions must be checked, and this one again
                    log.failure("followers of {topic}-{partition} are not checked now", topic=key[0], partition=key[1])

    # Fetchers

    def _fetcher(self, leader: int, index: int) -> ReplicaFetcher | None:
        """Return the fetcher for a partition; None if the leader is not alive: another order will come."""
        number = index % self._settings.fetchers_per_leader
        fetcher = self._fetchers.get((leader, number))
        if fetcher is None and not self._is_closed:
            open_channel = partial(self._fetch_channel, leader, number)
            try:
                channel = open_channel()
            except NotConnected as error:
                log.info("nothing is fetched from broker {leader} now: {why}", leader=leader, why=error)
                return None
            settings, runtime = self._fetcher_settings, self._runtime
            fetcher = ReplicaFetcher(leader, channel, open_channel, settings, runtime, self.broker_epoch)
            self._fetchers[leader, number] = fetcher
            fetcher.start()
        return fetcher


def _has_same_address(one: BrokerRegistration | None, other: BrokerRegistration | None) -> bool:
    return one is not None and other is not None and one.listeners == other.listeners
