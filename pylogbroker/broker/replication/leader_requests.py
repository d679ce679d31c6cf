"""Requests to one leader on one connection, and the fetches that are pending there.

    round   --> OffsetForLeaderEpoch, ListOffsets: after an error, or before `inter.broker.protocol.version` 2.7
            --> Fetch: the others, with records from 1 byte on, or after a wait

A fetch that names one partition may get records of it alone. The next one follows at once then (`_Repetition`), without
a new round, unless other replicas are ready, or the caller of `round` has other work.

An incremental response has the partitions with news. Fetches that it leaves out stay pending, in the leader's session:
a round costs what changes, not what is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from pylogbroker.broker.replication.fetch_sessions import FetchedPartition, FollowerFetchSession
from pylogbroker.broker.replication.followed_replicas import FollowedReplicas
from pylogbroker.broker.replication.followership import Followership
from pylogbroker.broker.replication.prepared_fetch import FIRST_PREPARED, PreparedFetch
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.replication import FetchFrom, FindEpochEnd, FollowerRequest, LeaderOffset, ListOffset
from pylogbroker.replication.throttle import ReplicationThrottle
from pylogbroker.rpc.client_protocol import PreparedRequest
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire import Request
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, ReplicaState
from pylogbroker.wire.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
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
_FIRST_WITH_STATE = 15
_TIMES = {
    LeaderOffset.LOG_END: LATEST,
    LeaderOffset.LOG_START: EARLIEST,
    LeaderOffset.LOCAL_START: EARLIEST_LOCAL,
    LeaderOffset.LAST_TIERED: LATEST_TIERED,
}
_LIST_OFFSETS_VERSIONS = {LeaderOffset.LOCAL_START: 8, LeaderOffset.LAST_TIERED: 9}
"""First versions with these offsets. A leader that archives has them."""
_FORMS_MAX = 64
"""Partitions that were named alone, and are remembered; with more, all are learned again."""

_FollowUp = Callable[[FetchResponse], Any]
Lookups = Mapping[TopicPartition, tuple[Followership, FollowerRequest]]
Fetches = dict[FetchedPartition, FetchPartition]


def _never() -> bool:
    """Return False: each fetch is a round of its own."""
    return False


class NextRound(NamedTuple):
    lookups: Lookups
    fetches: Fetches
    is_syncing: bool
    """A replica writes to the disk, and has something to report soon."""


class RequestChannel(Protocol):
    def request(self, request: Request | PreparedRequest, version: int | None = None) -> Deferred[Any]: ...
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


@attrs.define(eq=False, repr=False)
class LeaderRequests:
    """`broker_epoch` is this broker's."""

    _leader: int
    _channel: RequestChannel
    _settings: FetcherSettings
    _runtime: Runtime
    _replicas: FollowedReplicas
    broker_epoch: int = -1
    _session: FollowerFetchSession = attrs.field(factory=FollowerFetchSession)
    fetches: int = attrs.field(default=0, init=False)
    """Number of fetches that were sent."""
    pending: dict[TopicPartition, tuple[Followership, FetchFrom]] = attrs.field(factory=dict, init=False)
    """Fetches that the leader has not answered."""
    _answered: set[FetchedPartition] = attrs.field(factory=set, init=False)
    """Partitions that are not pending any more, since the last request."""
    _is_session_outdated: bool = attrs.field(default=False, init=False)
    _forms: dict[tuple[FetchedPartition, int], PreparedFetch | None] = attrs.field(factory=dict, init=False)
    """By partition and `max_wait_ms`; None if it was named alone once: many in turn would not repay to learn each."""
    _by_id: bool = attrs.field(default=True, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    def close(self) -> None:
        """Forget the pending fetches; answers that still come are ignored."""
        self._is_closed = True
        self.pending.clear()
        self._channel.close()

    def begin_session(self) -> None:
        """Fetch in a new session from the next request on."""
        self._is_session_outdated = True

    def take_pending(self, key: TopicPartition) -> tuple[Followership, FetchFrom] | None:
        """Return a pending fetch, which is over; None if there is none."""
        pending = self.pending.pop(key, None)
        if pending is not None:
            self._replicas.resting[key] = pending[0]
            self._answered.add(_key_of(pending[0]))
        return pending

    async def next_round(self, is_exceeded: bool) -> NextRound:
        """Ask the resting replicas what they need; their fetches are pending from now on.

        Throttled replicas are left out if the rate that they share `is_exceeded`.
        """
        resting, is_syncing = self._replicas.resting, False
        lookups: dict[TopicPartition, tuple[Followership, FollowerRequest]] = {}
        fetches: Fetches = {}
        async for key, replica in self._runtime.slices.over(tuple(resting.items())):
            if resting.get(key) is not replica or (is_exceeded and replica.is_throttled):
                continue
            request = replica.next_request()
            if isinstance(request, FetchFrom):
                del resting[key]
                self.pending[key] = replica, request
                fetches[_key_of(replica)] = self._partition(replica, request)
            elif request is not None:
                lookups[key] = replica, request
            else:
                is_syncing |= replica.is_syncing
        return NextRound(lookups, fetches, is_syncing)

    async def round(
        self, lookups: Lookups, new: Fetches, wait_ms: int, may_repeat: Callable[[], bool] = _never
    ) -> None:
        """Look up, and fetch with what is `new` among the pending fetches; repeat that while `may_repeat` says so."""
        try:
            if lookups:
                await self._find_epoch_ends(_of_kind(lookups, FindEpochEnd))
                await self._list_offsets(_of_kind(lookups, ListOffset))
            await self._fetch(new, wait_ms, may_repeat)
        except Exception as error:
            self._session.end()
            if not self._is_closed and self._runtime.may_log(f"fetches from broker {self._leader}"):
                log.warn("fetches from broker {leader} fail: {why}", leader=self._leader, why=error)
            for replica, request in (*lookups.values(), *self.pending.values()):
                replica.request_failed(request, ErrorCode.NETWORK_EXCEPTION)
            self._end_pending()

    def _end_pending(self) -> None:
        for key in tuple(self.pending):
            self.take_pending(key)

    # Fetch

    async def _fetch(self, fetches: Fetches, wait_ms: int, may_repeat: Callable[[], bool]) -> None:
        if not self.pending:
            return
        by_id = self._replicas.have_topic_ids
        if by_id != self._by_id or self._is_session_outdated:
            self._by_id, self._is_session_outdated = by_id, False
            self._session.end()
        was_incremental = self._session.is_incremental
        if not was_incremental:
            fetches = {}
            async for replica, position in self._runtime.slices.over(tuple(self.pending.values())):
                fetches[_key_of(replica)] = self._partition(replica, position)
        answered, self._answered = self._answered, set()
        over = [key for key in answered if not self._is_pending(key)]
        for key in over:
            fetches.pop(key, None)  # it was removed meanwhile
        version = self._settings.protocol.fetch_version(has_topic_ids=by_id)
        request = self._request(fetches, over, wait_ms, version, may_repeat)
        self.fetches += 1
        response: FetchResponse | None = await self._channel.request(request, version)
        if response is None:  # the last of several, and all of it was taken
            return
        if response.error_code:
            self._session.end()
            for replica, failed in self.pending.values():
                if was_incremental:  # the leader has forgotten the session
                    replica.not_answered(failed)
                else:
                    replica.request_failed(failed, code_of(response.error_code))
            self._end_pending()
            return
        self._session.answered(response.session_id)
        await self._fetched(response)
        if not was_incremental:
            for replica, missed in self.pending.values():
                replica.request_failed(missed, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._end_pending()

    def _request(
        self,
        fetches: Fetches,
        over: list[FetchedPartition],
        wait_ms: int,
        version: int,
        may_repeat: Callable[[], bool],
    ) -> FetchRequest | PreparedRequest:
        """Return the request for fetches, prepared if it repeats an earlier one that named the same partition alone."""
        if len(fetches) != 1 or over or not self._session.is_incremental or version < FIRST_PREPARED:
            return self._new_request(fetches, over, wait_ms, version)
        [(key, partition)] = fetches.items()
        form = self._forms.get((key, wait_ms))
        if form is not None and form.is_of(self._session.id, self.broker_epoch):
            if self._session.names(key, partition):
                return form.request(self._session.epoch, partition, _Repetition(self, form, key, may_repeat).follow_up)
            return self._new_request(fetches, over, wait_ms, version)
        request = self._new_request(fetches, over, wait_ms, version)
        if request.topics:
            if (key, wait_ms) in self._forms:
                self._forms[key, wait_ms] = PreparedFetch.learn(request, version)
            else:
                if len(self._forms) == _FORMS_MAX:
                    self._forms.clear()
                self._forms[key, wait_ms] = None
        return request

    def repeated(
        self, form: PreparedFetch, key: FetchedPartition, response: FetchResponse, follow_up: _FollowUp
    ) -> PreparedRequest | None:
        """Take a usual response; return the next request for its partition, or None if its replica does not fetch."""
        self._session.answered(response.session_id)
        place = key.topic, key.partition
        replica, request = pending = self.pending[place]
        replica.fetched(request, response.responses[0].partitions[0])
        if self.pending.get(place) is not pending:  # it was removed meanwhile
            return None
        following = replica.next_request() if replica.is_fetching else None
        if not isinstance(following, FetchFrom):
            self.take_pending(place)
            return None
        self.pending[place] = replica, following
        partition = self._partition(replica, following)
        if not self._session.names(key, partition):
            return None
        self.fetches += 1
        return form.request(self._session.epoch, partition, follow_up)

    def is_usual(self, form: PreparedFetch, key: FetchedPartition, response: FetchResponse) -> bool:
        """Return whether a response has records of a partition that is pending, and nothing else is to be done."""
        if (
            response.error_code
            or response.session_id != self._session.id
            or len(response.responses) != 1
            or self._answered
            or self._is_session_outdated
            or self._replicas.resting
            or not self._is_pending(key)
            or not form.is_of(self._session.id, self.broker_epoch)
            or not self._settings.throttle.is_unlimited
        ):
            return False
        [topic] = response.responses
        if topic.topic_id != key.topic_id or len(topic.partitions) != 1:
            return False
        [answer] = topic.partitions
        return bool(answer.partition_index == key.partition and not answer.error_code and answer.records)

    def _new_request(self, fetches: Fetches, over: list[FetchedPartition], wait_ms: int, version: int) -> FetchRequest:
        settings = self._settings
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_bytes_max,
        )
        if version >= _FIRST_WITH_STATE:
            request.replica_state = ReplicaState(settings.broker_id, self.broker_epoch)
        else:
            request.replica_id = settings.broker_id
        self._session.fill(request, fetches, over)
        return request

    def _is_pending(self, key: FetchedPartition) -> bool:
        pending = self.pending.get((key.topic, key.partition))
        return pending is not None and pending[0].topic_id == key.topic_id

    def _partition(self, replica: Followership, position: FetchFrom) -> FetchPartition:
        return FetchPartition(
            replica.index,
            position.leader_epoch,
            position.offset,
            position.last_fetched_epoch,
            position.log_start_offset,
            self._settings.partition_bytes_max,
        )

    async def _fetched(self, response: FetchResponse) -> None:
        for topic in response.responses:
            name = topic.topic or self._replicas.name_of(topic.topic_id)
            async for answer in self._runtime.slices.over(topic.partitions):
                pending = self.take_pending((name, answer.partition_index))
                if pending is None:  # it was removed meanwhile
                    continue
                replica, request = pending
                if answer.error_code:
                    self._failed(replica, request, code_of(answer.error_code))
                    continue
                if answer.records and replica.is_throttled:
                    self._settings.throttle.record(len(answer.records), self._runtime.now_ms())
                replica.fetched(request, answer)

    def _failed(self, replica: Followership, request: FollowerRequest, error: ErrorCode) -> None:
        if self._runtime.may_log(f"{error.name} of broker {self._leader}"):
            log.info(
                "broker {leader} answered {error} for {topic}-{partition}; it is asked again",
                leader=self._leader,
                error=error.name,
                topic=replica.topic,
                partition=replica.index,
            )
        replica.request_failed(request, error)

    # Lookups

    async def _find_epoch_ends(self, requests: Lookups) -> None:
        if not requests:
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
            for topic, some in _by_topic(requests.values()).items()
        ]
        response = await self._send(OffsetForLeaderEpochRequest(self._settings.broker_id, topics))
        answers = (
            (topic.topic, partition.partition, partition) for topic in response.topics for partition in topic.partitions
        )
        for replica, request, answer in self._matched(requests, answers):
            replica.epoch_end_found(request, answer.leader_epoch, answer.end_offset)

    async def _list_offsets(self, requests: Lookups) -> None:
        if not requests:
            return
        topics = [
            ListOffsetsTopic(
                topic,
                [
                    ListOffsetsPartition(replica.index, request.leader_epoch, _TIMES[request.of])
                    for replica, request in some
                    if isinstance(request, ListOffset)
                ],
            )
            for topic, some in _by_topic(requests.values()).items()
        ]
        version = self._settings.protocol.version_of(ListOffsetsRequest.api_key)
        for _, request in requests.values():
            if isinstance(request, ListOffset):
                version = max(version, _LIST_OFFSETS_VERSIONS.get(request.of, 0))
        response = await self._channel.request(ListOffsetsRequest(self._settings.broker_id, topics=topics), version)
        answers = (
            (topic.name, partition.partition_index, partition)
            for topic in response.topics
            for partition in topic.partitions
        )
        for replica, request, answer in self._matched(requests, answers):
            replica.offset_listed(request, answer.offset)

    def _matched(
        self, requests: Lookups, answers: Iterable[tuple[str, int, Any]]
    ) -> Iterable[tuple[Followership, FollowerRequest, Any]]:
        """Return answers without errors; report errors, and missing answers."""
        waiting = dict(requests)
        for topic, index, answer in answers:
            pending = waiting.pop((topic, index), None)
            if pending is None or not self._replicas.follows((topic, index), pending[0]):
                continue
            if answer.error_code:
                self._failed(*pending, code_of(answer.error_code))
            else:
                yield *pending, answer
        for key, (replica, request) in waiting.items():
            if self._replicas.follows(key, replica):
                replica.request_failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)

    async def _send(self, request: Request) -> Any:
        return await self._channel.request(request, self._settings.protocol.version_of(request.api_key))


@attrs.frozen(eq=False, repr=False)
class _Repetition:
    """Fetches for one partition that follow each other while it alone has news."""

    _requests: LeaderRequests
    _form: PreparedFetch
    _key: FetchedPartition
    _may_repeat: Callable[[], bool]

    def follow_up(self, response: FetchResponse) -> PreparedRequest | FetchResponse | None:
        """Return the request that follows a response, or the response, or None if it was taken, and none follows."""
        requests, form, key = self._requests, self._form, self._key
        if not requests.is_usual(form, key, response) or not self._may_repeat():
            return response
        return requests.repeated(form, key, response, self.follow_up)


def _of_kind(requests: Lookups, kind: type[FollowerRequest]) -> Lookups:
    return {key: pending for key, pending in requests.items() if isinstance(pending[1], kind)}


def _key_of(replica: Followership) -> FetchedPartition:
    return FetchedPartition(replica.topic, replica.topic_id, replica.index)


def _by_topic(
    requests: Iterable[tuple[Followership, FollowerRequest]],
) -> dict[str, list[tuple[Followership, FollowerRequest]]]:
    by_topic: dict[str, list[tuple[Followership, FollowerRequest]]] = {}
    for pending in requests:
        by_topic.setdefault(pending[0].topic, []).append(pending)
    return by_topic
