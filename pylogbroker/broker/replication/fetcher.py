"""Fetches from one leader, for the replicas here that follow it.

    round   each replica says what to ask the leader
            --> lookups and a fetch, which waits for records up to `replica.fetch.wait.max.ms` (`leader_requests`)

Rounds follow each other. A replica that waits after an error is asked again when its time has come. Throttled replicas
are left out while their rate is exceeded. While `flush.messages` lets a replica write to the disk, the others' fetch
does not wait for long, so that the next one reports what was written.
"""

from __future__ import annotations

from uuid import UUID

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.replication.followed_replicas import FollowedReplicas
from pylogbroker.broker.replication.followership import Followership
from pylogbroker.broker.replication.leader_requests import FetcherSettings, Fetches, LeaderRequests, RequestChannel
from pylogbroker.broker.runtime.idle_pause import IdlePause
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.coordinators import TopicPartition
from pylogbroker.replication import FetchFrom, FollowerRequest

log = Logger()
_IDLE_SECONDS = 1.0
_SYNCING_WAIT_MS = 5
"""Wait of a fetch while records of other partitions are written to the disk: the next fetch reports them."""


@attrs.define(eq=False, repr=False)
class ReplicaFetcher:
    """Fetcher of one leader."""

    leader: int
    _channel: RequestChannel
    _settings: FetcherSettings
    _runtime: Runtime
    _broker_epoch: int = -1
    started: float = attrs.field(init=False)
    """Time in seconds."""
    replicas: FollowedReplicas = attrs.field(factory=FollowedReplicas, init=False)
    _requests: LeaderRequests = attrs.field(init=False)
    _idle: IdlePause = attrs.field(factory=IdlePause, init=False)
    _is_woken: bool = attrs.field(default=False, init=False)
    """A replica has become ready since the loop began to look for requests."""
    _is_stopped: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.started = self._runtime.clock.seconds()
        self._requests = LeaderRequests(
            self.leader, self._channel, self._settings, self._runtime, self.replicas, self._broker_epoch
        )

    @property
    def requests(self) -> int:
        """Number of fetches that were sent."""
        return self._requests.fetches

    def set_broker_epoch(self, epoch: int) -> None:
        """Take this broker's epoch, for the next requests."""
        self._requests.broker_epoch = epoch

    def start(self) -> None:
        run_in_background(log, self._run(), "the fetcher of broker {leader} failed", leader=self.leader)

    def stop(self) -> None:
        """Stop; the replicas may go to another fetcher, and answers that still come are ignored."""
        self._is_stopped = True
        replicas = self.replicas.clear()
        self._requests.pending.clear()
        for replica in replicas:
            replica.connection_lost()
        self._requests.close()
        self._idle.wake()

    def add(self, replica: Followership) -> None:
        key = replica.topic, replica.index
        if self.replicas.follows(key, replica):
            return
        self.remove(key)
        self.replicas.add(replica)
        replica.on_ready = self._wake
        self._wake()

    def _wake(self) -> None:
        self._is_woken = True
        self._idle.wake()

    def remove(self, key: TopicPartition) -> None:
        self._requests.take_pending(key)
        self.replicas.remove(key)

    def set_topic_id(self, replica: Followership, topic_id: UUID) -> None:
        """Fetch by an id that the topic had not before, in a new session: the present one may name the topic."""
        key = replica.topic, replica.index
        if self.replicas.follows(key, replica):
            self.remove(key)
            replica.connection_lost()
            replica.topic_id = topic_id
            self._requests.begin_session()
            self.add(replica)

    async def _run(self) -> None:
        while not self._is_stopped:
            self._is_woken = False
            is_exceeded = self._settings.throttle.is_exceeded(self._runtime.now_ms())
            if is_exceeded:
                self._hold_back_throttled()
            is_syncing = False
            lookups: dict[TopicPartition, tuple[Followership, FollowerRequest]] = {}
            fetches: Fetches = {}
            resting, requests = self.replicas.resting, self._requests
            async for key, replica in self._runtime.slices.over(tuple(resting.items())):
                if resting.get(key) is not replica or (is_exceeded and replica.is_throttled):
                    continue
                request = replica.next_request()
                if isinstance(request, FetchFrom):
                    requests.add(key, replica, request, fetches)
                elif request is not None:
                    lookups[key] = replica, request
                else:
                    is_syncing |= replica.is_syncing
            if self._is_stopped:
                return
            if lookups or requests.pending:
                wait_ms = self._settings.wait_max_ms
                await requests.round(lookups, fetches, min(wait_ms, _SYNCING_WAIT_MS) if is_syncing else wait_ms)
            elif not self._is_woken:
                await self._wait()

    def _hold_back_throttled(self) -> None:
        for key, (replica, request) in tuple(self._requests.pending.items()):
            if replica.is_throttled:
                self._requests.take_pending(key)
                replica.not_answered(request)

    async def _wait(self) -> None:
        """Wait until a replica's time has come, or the loop is woken."""
        now_ms = self._runtime.now_ms()
        due = [
            replica.follower.retry_at_ms
            for replica in self.replicas.resting.values()
            if replica.follower.retry_at_ms is not None
        ]
        throttled_ms = self._settings.throttle.wait_ms(now_ms)
        if throttled_ms:
            due.append(now_ms + throttled_ms)
        seconds = min([_IDLE_SECONDS, *((at - now_ms) / 1000 for at in due)])
        timer = self._runtime.clock.callLater(max(seconds, 0.0), self._idle.wake)
        await self._idle.until_woken()
        if timer.active():
            timer.cancel()
