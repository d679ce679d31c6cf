"""Fetches from one leader, for the replicas here that follow it.

    round   each replica says what to ask the leader
            --> lookups and a fetch, which waits for records up to `replica.fetch.wait.max.ms` (`leader_requests`)

Rounds follow each other. A replica that waits after an error is asked again when its time has come. Throttled replicas
are left out while their rate is exceeded. While `flush.messages` lets a replica write to the disk, the others' fetch
does not wait for long, so that the next one reports what was written.

While one replica alone gets records, and none becomes ready, its fetches follow each other in one round.

Replicas that become ready while a fetch waits at the leader are fetched on a `SecondConnection` meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.replication.fetch_sessions import FollowerFetchSession
from pylogbroker.broker.replication.followed_replicas import FollowedReplicas
from pylogbroker.broker.replication.followership import Followership
from pylogbroker.broker.replication.leader_requests import FetcherSettings, LeaderRequests, RequestChannel
from pylogbroker.broker.replication.second_connection import SHORT_WAIT_MS, SecondConnection
from pylogbroker.broker.runtime.idle_pause import IdlePause
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.coordinators import TopicPartition
from pylogbroker.rpc.errors import NotConnected

log = Logger()
_IDLE_SECONDS = 1.0


@attrs.define(eq=False, repr=False)
class ReplicaFetcher:
    """Fetcher of one leader; `_open_channel` returns a new channel, or raises NotConnected."""

    leader: int
    _channel: RequestChannel
    _open_channel: Callable[[], RequestChannel]
    _settings: FetcherSettings
    _runtime: Runtime
    _broker_epoch: int = -1
    started: float = attrs.field(init=False)
    """Time in seconds."""
    replicas: FollowedReplicas = attrs.field(factory=FollowedReplicas, init=False)
    _requests: LeaderRequests = attrs.field(init=False)
    _fetches_until: float = attrs.field(default=0.0, init=False)
    """Time until which the fetch that is under way may wait; 0 without one."""
    _second: list[SecondConnection] = attrs.field(factory=list, init=False)
    """One, while it is needed."""
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
        for requests in self._connections():
            requests.broker_epoch = epoch

    def _connections(self) -> Iterator[LeaderRequests]:
        yield self._requests
        for second in self._second:
            yield second.requests

    def start(self) -> None:
        run_in_background(log, self._run(), "the fetcher of broker {leader} failed", leader=self.leader)

    def stop(self) -> None:
        """Stop; the replicas may go to another fetcher, and answers that still come are ignored."""
        self._is_stopped = True
        replicas = self.replicas.clear()
        for requests in self._connections():
            requests.pending.clear()
        for replica in replicas:
            replica.connection_lost()
        self._requests.close()
        for second in self._second:
            second.close()
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
        """Look for requests in the reactor's next iteration: other replicas of a topic become ready until then."""
        if self._fetches_until:
            self._is_woken = True
            self._fetch_meanwhile()
        elif not self._is_woken:
            self._is_woken = True
            self._runtime.deferred_actions.defer(self._idle.wake)

    def remove(self, key: TopicPartition) -> None:
        for requests in self._connections():
            requests.take_pending(key)
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
            requests = self._requests
            lookups, fetches, is_syncing = await requests.next_round(is_exceeded)
            if self._is_stopped:
                return
            if lookups or requests.pending:
                wait_ms = self._wait_ms(is_syncing)
                self._fetches_until = self._runtime.clock.seconds() + wait_ms / 1000
                if self._is_woken:
                    self._fetch_meanwhile()
                await requests.round(lookups, fetches, wait_ms, self._may_repeat)
                self._fetches_until = 0.0
            elif not self._is_woken:
                await self._wait()

    def _may_repeat(self) -> bool:
        """Return whether the fetch that was answered may be followed by the same one, without another round."""
        if self._is_stopped or self._is_woken or self._second:
            return False
        self._fetches_until = self._runtime.clock.seconds() + self._settings.wait_max_ms / 1000
        return True

    def _wait_ms(self, is_syncing: bool) -> int:
        """Return how long a fetch waits for records: less if other replicas may become ready meanwhile."""
        wait_ms = self._settings.wait_max_ms
        if is_syncing:
            wait_ms = min(wait_ms, SHORT_WAIT_MS)
        for second in self._second:
            if second.fetches_until:
                left_ms = round((second.fetches_until - self._runtime.clock.seconds()) * 1000)
                wait_ms = min(wait_ms, max(left_ms, 0) + 1)
        if self.replicas.resting:
            now_ms = self._runtime.now_ms()
            retry_ms = self.replicas.next_retry_ms(now_ms)
            wait_ms = wait_ms if retry_ms is None else min(wait_ms, retry_ms - now_ms)
        return wait_ms

    def _fetch_meanwhile(self) -> None:
        """Let the second connection fetch for replicas that have become ready, unless all are fetched soon."""
        if self._second:
            self._second[0].wake()
        elif self._fetches_until - self._runtime.clock.seconds() >= SHORT_WAIT_MS / 1000:
            try:
                channel = self._open_channel()
            except NotConnected:  # the leader has just died
                return
            settings, runtime, replicas = self._settings, self._runtime, self.replicas
            epoch, session = self._requests.broker_epoch, FollowerFetchSession.none()
            requests = LeaderRequests(self.leader, channel, settings, runtime, replicas, epoch, session)
            second = SecondConnection(requests, replicas, settings.throttle, runtime, lambda: self._fetches_until)
            self._second.append(second)
            runtime.deferred_actions.defer(self._run_second)

    def _run_second(self) -> None:
        run_in_background(
            log, self._use_second(), "the second connection to broker {leader} failed", leader=self.leader
        )

    async def _use_second(self) -> None:
        [second] = self._second
        try:
            await second.run()
        finally:
            second.close()
            self._second.clear()

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
        await self._idle.for_seconds(self._runtime.clock, seconds)
