"""Fetches from one leader, for the replicas here that follow it.

    round   each replica says what to ask the leader
            --> OffsetForLeaderEpoch, ListOffsets: after an error, or before `inter.broker.protocol.version` 2.7
            --> Fetch: the others, with records from 1 byte on, or after `replica.fetch.wait.max.ms`

Rounds follow each other. A replica that waits after an error is asked again when its time has come. Throttled replicas
are left out while their rate is exceeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.replication.fetch_sessions import FetchedPartition, FollowerFetchSession
from pylogbroker.broker.replication.following import Following
from pylogbroker.broker.runtime import Runtime
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.replication import FetchFrom, FindEpochEnd, FollowerRequest, ListOffset
from pylogbroker.replication.throttle import ReplicationThrottle
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire import NO_ID, Request
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, ReplicaState
from pylogbroker.wire.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pylogbroker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = Logger()
_IDLE_SECONDS = 1.0
_FIRST_WITH_STATE = 15

Asked = Mapping[TopicPartition, tuple[Following, FollowerRequest]]


class RequestChannel(Protocol):
    def request(self, request: Request, version: int | None = None) -> Deferred[Any]: ...
    def close(self) -> None: ...


@attrs.frozen
class FetcherSettings:
    broker_id: int
    protocol: InterBrokerProtocol
    wait_max_ms: int = 500
    min_bytes: int = 1
    response_bytes_max: int = 10 << 20
    partition_bytes_max: int = 1 << 20
    throttle: ReplicationThrottle = attrs.field(factory=ReplicationThrottle)
    """Shared by all fetchers."""


@attrs.define(eq=False)
class ReplicaFetcher:
    """Fetcher of one leader; `broker_epoch` is this broker's."""

    leader: int
    _channel: RequestChannel
    _settings: FetcherSettings
    _runtime: Runtime
    broker_epoch: int = -1
    replicas: dict[TopicPartition, Following] = attrs.field(factory=dict, init=False)
    _session: FollowerFetchSession = attrs.field(factory=FollowerFetchSession, init=False)
    _by_id: bool = attrs.field(default=True, init=False)
    _idle: Deferred[None] | None = attrs.field(default=None, init=False)
    _is_stopped: bool = attrs.field(default=False, init=False)

    def start(self) -> None:
        ensureDeferred(self._run()).addErrback(
            lambda failure: log.failure("the fetcher of broker {leader} failed", failure, leader=self.leader)
        )

    def stop(self) -> None:
        """Stop; the replicas may go to another fetcher, and answers that still come are ignored."""
        self._is_stopped = True
        replicas, self.replicas = self.replicas, {}
        for replica in replicas.values():
            replica.connection_lost()
        self._channel.close()
        self._wake()

    def add(self, replica: Following) -> None:
        self.replicas[replica.topic, replica.index] = replica
        replica.on_ready = self._wake
        self._wake()

    def remove(self, key: TopicPartition) -> None:
        self.replicas.pop(key, None)

    async def _run(self) -> None:
        while not self._is_stopped:
            asked: dict[TopicPartition, tuple[Following, FollowerRequest]] = {}
            is_exceeded = self._settings.throttle.is_exceeded(self._runtime.now_ms())
            for key, replica in tuple(self.replicas.items()):
                if is_exceeded and replica.is_throttled:
                    continue
                request = replica.next_request()
                if request is not None:
                    asked[key] = replica, request
            if asked:
                await self._round(asked)
            else:
                await self._wait()

    async def _wait(self) -> None:
        """Wait until a replica's time has come, or `_wake`."""
        now_ms = self._runtime.now_ms()
        due = [each.follower.retry_at_ms for each in self.replicas.values() if each.follower.retry_at_ms is not None]
        throttled_ms = self._settings.throttle.wait_ms(now_ms)
        if throttled_ms:
            due.append(now_ms + throttled_ms)
        seconds = min([_IDLE_SECONDS, *((at - now_ms) / 1000 for at in due)])
        idle: Deferred[None] = Deferred()
        self._idle = idle
        timer = self._runtime.clock.callLater(max(seconds, 0.0), self._wake)
        await idle
        if timer.active():
            timer.cancel()

    def _wake(self) -> None:
        if self._idle is not None:
            idle, self._idle = self._idle, None
            idle.callback(None)

    async def _round(self, asked: Asked) -> None:
        try:
            await self._find_epoch_ends(_of_kind(asked, FindEpochEnd))
            await self._list_offsets(_of_kind(asked, ListOffset))
            await self._fetch(_of_kind(asked, FetchFrom))
        except Exception as error:
            self._session.end()
            if not self._is_stopped and self._runtime.may_log(f"fetches from broker {self.leader}"):
                log.warn("fetches from broker {leader} fail: {why}", leader=self.leader, why=error)
            for replica, request in asked.values():
                replica.request_failed(request, ErrorCode.NETWORK_EXCEPTION)

    def _current(self, key: TopicPartition, replica: Following) -> bool:
        """Return whether the replica still follows this leader in the same leader epoch."""
        return self.replicas.get(key) is replica

    # Fetch

    async def _fetch(self, asked: Asked) -> None:
        if not asked:
            return
        by_id = all(replica.topic_id != NO_ID for replica, _ in asked.values())
        if by_id != self._by_id:
            self._by_id = by_id
            self._session.end()
        settings = self._settings
        version = settings.protocol.fetch_version(has_topic_ids=by_id)
        request = FetchRequest(
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_bytes_max,
        )
        if version >= _FIRST_WITH_STATE:
            request.replica_state = ReplicaState(settings.broker_id, self.broker_epoch)
        else:
            request.replica_id = settings.broker_id
        self._session.fill(request, {_key_of(each): self._partition(ask) for each, ask in _fetches(asked)})
        was_incremental = self._session.is_incremental
        response: FetchResponse = await self._channel.request(request, version)
        if response.error_code:
            self._session.end()
            for replica, failed in asked.values():
                if was_incremental:  # the leader has forgotten the session
                    replica.not_answered(failed)
                else:
                    replica.request_failed(failed, code_of(response.error_code))
            return
        self._session.answered(response.session_id)
        await self._fetched(response, asked, was_incremental)

    def _partition(self, ask: tuple[Following, FetchFrom]) -> FetchPartition:
        replica, wanted = ask
        return FetchPartition(
            replica.index,
            wanted.leader_epoch,
            wanted.offset,
            wanted.last_fetched_epoch,
            wanted.log_start_offset,
            self._settings.partition_bytes_max,
        )

    async def _fetched(self, response: FetchResponse, asked: Asked, was_incremental: bool) -> None:
        names = {replica.topic_id: replica.topic for replica, _ in asked.values()}
        waiting = dict(asked)
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            async for answer in self._runtime.slices.over(topic.partitions):
                key = name, answer.partition_index
                found = waiting.pop(key, None)
                if found is None or not self._current(key, found[0]):
                    continue
                replica, request = found
                if answer.error_code:
                    self._failed(replica, request, code_of(answer.error_code))
                    continue
                if answer.records and replica.is_throttled:
                    self._settings.throttle.record(len(answer.records), self._runtime.now_ms())
                replica.fetched(request, answer)
        for key, (replica, request) in waiting.items():
            if self._current(key, replica):
                if was_incremental:
                    replica.not_changed(request)
                else:
                    replica.request_failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _failed(self, replica: Following, request: FollowerRequest, error: ErrorCode) -> None:
        if self._runtime.may_log(f"{error.name} of broker {self.leader}"):
            log.info(
                "broker {leader} answered {error} for {topic}-{partition}; it is asked again",
                leader=self.leader,
                error=error.name,
                topic=replica.topic,
                partition=replica.index,
            )
        replica.request_failed(request, error)

    # Lookups

    async def _find_epoch_ends(self, asked: Asked) -> None:
        if not asked:
            return
        topics = [
            OffsetForLeaderTopic(
                topic,
                [
                    OffsetForLeaderPartition(replica.index, request.leader_epoch, request.epoch)
                    for replica, request in some
                    if isinstance(request, FindEpochEnd)
                ],
            )
            for topic, some in _by_topic(asked.values()).items()
        ]
        response = await self._send(OffsetForLeaderEpochRequest(self._settings.broker_id, topics))
        answers = ((topic.topic, each.partition, each) for topic in response.topics for each in topic.partitions)
        for replica, request, answer in self._matched(asked, answers):
            replica.epoch_end_found(request, answer.leader_epoch, answer.end_offset)

    async def _list_offsets(self, asked: Asked) -> None:
        if not asked:
            return
        topics = [
            ListOffsetsTopic(
                topic,
                [
                    ListOffsetsPartition(replica.index, request.leader_epoch, LATEST if request.latest else EARLIEST)
                    for replica, request in some
                    if isinstance(request, ListOffset)
                ],
            )
            for topic, some in _by_topic(asked.values()).items()
        ]
        response = await self._send(ListOffsetsRequest(self._settings.broker_id, topics=topics))
        answers = ((topic.name, each.partition_index, each) for topic in response.topics for each in topic.partitions)
        for replica, request, answer in self._matched(asked, answers):
            replica.offset_listed(request, answer.offset)

    def _matched(
        self, asked: Asked, answers: Iterable[tuple[str, int, Any]]
    ) -> Iterable[tuple[Following, FollowerRequest, Any]]:
        """Return answers without errors; report errors, and missing answers."""
        waiting = dict(asked)
        for topic, index, answer in answers:
            found = waiting.pop((topic, index), None)
            if found is None or not self._current((topic, index), found[0]):
                continue
            if answer.error_code:
                self._failed(*found, code_of(answer.error_code))
            else:
                yield *found, answer
        for key, (replica, request) in waiting.items():
            if self._current(key, replica):
                replica.request_failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)

    async def _send(self, request: Request) -> Any:
        return await self._channel.request(request, self._settings.protocol.version_of(request.api_key))


def _of_kind(asked: Asked, kind: type[FollowerRequest]) -> Asked:
    return {key: each for key, each in asked.items() if isinstance(each[1], kind)}


def _fetches(asked: Asked) -> Iterable[tuple[Following, tuple[Following, FetchFrom]]]:
    for replica, request in asked.values():
        if isinstance(request, FetchFrom):
            yield replica, (replica, request)


def _key_of(replica: Following) -> FetchedPartition:
    return FetchedPartition(replica.topic, replica.topic_id, replica.index)


def _by_topic(
    asked: Iterable[tuple[Following, FollowerRequest]],
) -> dict[str, list[tuple[Following, FollowerRequest]]]:
    found: dict[str, list[tuple[Following, FollowerRequest]]] = {}
    for each in asked:
        found.setdefault(each[0].topic, []).append(each)
    return found
