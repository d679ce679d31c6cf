"""Requests of a share consumer to the leaders of its partitions, one at a time to each.

A fetch takes acknowledgements along. Others, and those that renew, are sent by ShareAcknowledge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, Protocol

import attrs
from twisted.internet.defer import DeferredLock, ensureDeferred, gatherResults
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.epoch_member_driver import EpochMemberDriver
from pylogbroker.client.share.acknowledgements import AcquiredPartition
from pylogbroker.client.share.acquired import AcquiredUnpacker, ShareMessage
from pylogbroker.client.share.session import Acknowledgements, ClientShareSession, TopicIdPartition
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.errors import code_of, error_of, raise_for
from pylogbroker.wire import NO_ID, UnsupportedVersion
from pylogbroker.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from pylogbroker.wire.messages.share_fetch import (
    AcknowledgementBatch,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)

log = Logger()

_CLOSE_TIMEOUT_SECONDS: Final = 2.0
_RENEW_VERSION: Final = 2
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)
_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)


def renewal_error(node: int | None = None) -> KafkaError:
    """Return the error of a program that renews records which a broker cannot renew."""
    broker = "the broker" if node is None else f"broker {node}"
    return KafkaError(
        f"{broker} cannot renew the locks of messages, as Kafka does from 4.2 on: acknowledge them in time, or raise"
        " share.record.lock.duration.ms of the group",
        ErrorCode.UNSUPPORTED_VERSION,
    )


class ShareReader(Protocol):
    def received(self, received: Received) -> None:
        """Take messages, which are this member's for a time, and errors; maybe neither: then a fetch may begin."""

    def released(self, partition: TopicPartition) -> None: ...


@attrs.frozen
class ShareFetchSettings:
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    records_max: int
    acquire_mode: int
    check_crcs: bool
    backoff: float
    request_timeout: float
    api_timeout: float


@attrs.define(eq=False, repr=False)
class Received:
    """Results of a fetch."""

    messages: list[ShareMessage] = attrs.field(factory=list)
    errors: list[Exception] = attrs.field(factory=list)
    lock_seconds: float = 0.0


@attrs.define(eq=False, repr=False)
class ShareLeader:
    node: int
    session: ClientShareSession = attrs.field(factory=ClientShareSession)
    lock: DeferredLock = attrs.field(factory=DeferredLock)
    partitions: dict[TopicIdPartition, TopicPartition] = attrs.field(factory=dict)  # acquired from this leader
    unanswered: set[TopicPartition] = attrs.field(factory=set)  # whose acknowledgements are on their way
    may_renew: bool = True
    not_before: float = 0.0


@attrs.define(eq=False, repr=False)
class ShareExchange:
    _cluster: Cluster
    _clock: IReactorTime
    _group: str
    settings: ShareFetchSettings
    _member: EpochMemberDriver
    _unpack: AcquiredUnpacker
    _reader: ShareReader
    failures: int = 0
    _leaders: dict[int, ShareLeader] = attrs.field(factory=dict)
    _acquired: dict[TopicPartition, AcquiredPartition] = attrs.field(factory=dict)
    _has_leaderless: bool = False

    # state of records

    def acquired(self, topic: str, partition: int) -> AcquiredPartition:
        return self._acquired.get((topic, partition)) or self._acquired.setdefault(
            (topic, partition), AcquiredPartition()
        )

    def given(self) -> dict[TopicPartition, frozenset[int]]:
        return {key: acquired.given for key, acquired in self._acquired.items() if acquired.given}

    def accept_given(self) -> None:
        for acquired in self._acquired.values():
            acquired.accept_given()

    def pause(self) -> float | None:
        """Return the seconds until a fetch may be tried again that cannot be sent now; None if there is none."""
        now = self._clock.seconds()
        times = [leader.not_before - now for leader in self._leaders.values() if leader.not_before > now]
        return min([*times, *([self.settings.backoff] if self._has_leaderless else [])], default=None)

    # requests

    def fetch(self, assigned: Collection[TopicPartition]) -> None:
        """Fetch from each leader that has no request in flight."""
        by_leader: dict[int, dict[TopicIdPartition, TopicPartition]] = {}
        self._has_leaderless = False
        for topic, number in assigned:
            info, node = self._cluster.topics().get(topic), self._cluster.leader_of(topic, number)
            if info is None or node is None or info.topic_id == NO_ID:
                self._has_leaderless = True
                self._cluster.leader_is_stale(topic, number)
            else:
                by_leader.setdefault(node, {})[info.topic_id, number] = topic, number
        now = self._clock.seconds()
        for node, partitions in by_leader.items():
            leader = self._leaders.get(node) or self._leaders.setdefault(node, ShareLeader(node))
            if not leader.lock.locked and leader.not_before <= now:
                self._run(self._fetch_from(leader, partitions))
        self._send_acknowledgements(self._leaders.keys() - by_leader.keys())

    def send_acknowledgements(self) -> None:
        """Send what is acknowledged, without waiting for the answers."""
        self._send_acknowledgements(self._leaders)

    def _send_acknowledgements(self, nodes: Iterable[int]) -> None:
        for leader in [self._leaders[node] for node in nodes]:
            if not leader.lock.locked and self._is_ready(leader):
                self._run(self._acknowledge_to(leader))

    async def commit(self) -> dict[TopicPartition, KafkaError]:
        """Send what is acknowledged; return errors by partition."""
        answers = [ensureDeferred(self._acknowledge_to(leader)) for leader in self._leaders.values()]
        errors: dict[TopicPartition, KafkaError] = {}
        for some in await gatherResults(answers, consumeErrors=True):
            errors.update(some)
        return errors

    async def close(self) -> None:
        """Send what is acknowledged, and close the sessions: brokers then release all other records."""
        open_leaders = [leader for leader in self._leaders.values() if leader.session.is_open]
        await gatherResults([ensureDeferred(self._close_session(leader)) for leader in open_leaders])

    def _run(self, work: Any) -> None:
        run_in_background(log, work, "an answer to the share group {group} was lost", group=self._group)

    def _is_ready(self, leader: ShareLeader) -> bool:
        return any(self.acquired(*key).is_ready for key in leader.partitions.values())

    async def _fetch_from(self, leader: ShareLeader, partitions: dict[TopicIdPartition, TopicPartition]) -> None:
        await leader.lock.acquire()
        received = Received()
        try:
            if any(self.acquired(*key).renews for key in leader.partitions.values()):
                await self._send_acknowledgements_to(leader, False, self.settings.request_timeout)
            await self._exchange_fetch(leader, partitions, received)
        except UnsupportedVersion as error:
            received.errors.append(error)
        except PylogbrokerError as error:
            self._failed(leader, error)
        finally:
            leader.lock.release()
        self._reader.received(received)

    async def _exchange_fetch(
        self, leader: ShareLeader, partitions: dict[TopicIdPartition, TopicPartition], received: Received
    ) -> None:
        settings = self.settings
        leader.may_renew = await self._cluster.find_version(leader.node, ShareAcknowledgeRequest) >= _RENEW_VERSION
        request = ShareFetchRequest(
            self._group,
            self._member.member_id,
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            max_records=settings.records_max,
            batch_size=settings.records_max,
            share_acquire_mode=settings.acquire_mode,
        )
        sent = self._take_acknowledgements(leader) if leader.session.is_open else {}
        leader.session.fill_fetch(request, partitions, sent)
        self._move_to(leader, partitions)
        timeout = settings.request_timeout + settings.max_wait_ms / 1000
        response: ShareFetchResponse = await self._cluster.send(leader.node, request, timeout=timeout)
        raise_for(response.error_code, response.error_message)
        leader.session.answered()
        leader.unanswered.clear()
        received.lock_seconds = response.acquisition_lock_timeout_ms / 1000
        for topic in response.responses:
            for data in topic.partitions:
                key = leader.partitions.get((topic.topic_id, data.partition_index))
                if key is not None:
                    await self._take_partition(leader, key, data, received)

    async def _take_partition(
        self, leader: ShareLeader, key: TopicPartition, data: ShareFetchPartitionData, received: Received
    ) -> None:
        if data.acknowledge_error_code:
            self._rejected(key, error_of(data.acknowledge_error_code, data.acknowledge_error_message))
        code = code_of(data.error_code)
        if not code:
            acquired = self.acquired(*key)
            acquired.may_renew = leader.may_renew
            messages, errors = await self._unpack(key[0], data, acquired, self._pause)
            if self._acquired.get(key) is acquired:  # else the partition moved to another leader meanwhile
                received.messages += messages
            received.errors += errors
        elif code in _MOVED or code.retriable:
            self._cluster.leader_is_stale(*key)
            leader.not_before = self._clock.seconds() + self.settings.backoff
        else:
            text = f"{key[0]}/{key[1]}: {data.error_message or code.meaning}"
            received.errors.append(error_of(data.error_code, text))

    async def _pause(self) -> None:
        """Let other work of the reactor run."""
        await deferLater(self._clock, 0)

    async def _acknowledge_to(self, leader: ShareLeader) -> dict[TopicPartition, KafkaError]:
        await leader.lock.acquire()
        try:
            return await self._send_acknowledgements_to(leader, False, self.settings.request_timeout)
        except PylogbrokerError as error:
            return self._failed(leader, error)
        finally:
            leader.lock.release()
            self._reader.received(Received())

    async def _close_session(self, leader: ShareLeader) -> None:
        await leader.lock.acquire()
        try:
            await self._send_acknowledgements_to(leader, True, _CLOSE_TIMEOUT_SECONDS)
        except PylogbrokerError as error:
            log.debug("a share session with broker {node} was not closed: {error}", node=leader.node, error=error)
        finally:
            leader.lock.release()

    async def _send_acknowledgements_to(
        self, leader: ShareLeader, is_final: bool, timeout: float
    ) -> dict[TopicPartition, KafkaError]:
        if not leader.session.is_open:
            return {}
        renews = any(self.acquired(*key).renews for key in leader.partitions.values())
        version = await self._cluster.find_version(leader.node, ShareAcknowledgeRequest)
        errors: dict[TopicPartition, KafkaError] = {}
        if renews and version < _RENEW_VERSION:
            renews, errors = False, self._cancel_renewals(leader)
        sent = self._take_acknowledgements(leader)
        if not sent and not is_final:
            return errors
        request = ShareAcknowledgeRequest(self._group, self._member.member_id, is_renew_ack=renews)
        leader.session.fill_acknowledge(request, sent, is_final)
        response: ShareAcknowledgeResponse = await self._cluster.send(leader.node, request, timeout=timeout)
        raise_for(response.error_code, response.error_message)
        leader.session.answered()
        leader.unanswered.clear()
        for topic in response.responses:
            for data in topic.partitions:
                key = leader.partitions.get((topic.topic_id, data.partition_index))
                if key is not None and data.error_code:
                    errors[key] = error_of(data.error_code, data.error_message)
                    self._rejected(key, errors[key])
        return errors

    def _cancel_renewals(self, leader: ShareLeader) -> dict[TopicPartition, KafkaError]:
        """Keep records that the broker cannot renew, until their locks expire; return the error for each partition."""
        leader.may_renew = False
        error = renewal_error(leader.node)
        cancelled = [key for key in leader.partitions.values() if self.acquired(*key).cancel_renewals()]
        for key in cancelled:
            self.acquired(*key).may_renew = False
        self._reader.received(Received(errors=[error]))
        return dict.fromkeys(cancelled, error)

    def _take_acknowledgements(self, leader: ShareLeader) -> Acknowledgements:
        taken: dict[TopicIdPartition, list[AcknowledgementBatch]] = {}
        for topic_id_partition, key in leader.partitions.items():
            acquired = self._acquired.get(key)
            if acquired is not None and acquired.is_ready:
                taken[topic_id_partition] = acquired.take()
                leader.unanswered.add(key)
        return taken

    def _move_to(self, leader: ShareLeader, partitions: dict[TopicIdPartition, TopicPartition]) -> None:
        """Drop what was acquired from a former leader: the new one gives it to others."""
        for other in self._leaders.values():
            for moved in other.partitions.keys() & partitions.keys() if other is not leader else ():
                key = other.partitions.pop(moved)
                error = KafkaError("the partition has another leader now", ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self._drop(other, key, error)
        leader.partitions |= partitions

    # errors

    def _drop(self, leader: ShareLeader, key: TopicPartition, error: KafkaError) -> bool:
        """Forget acquired records; return whether the program has some, or has acknowledged some without an answer."""
        acquired = self._acquired.pop(key, None)
        has_messages = acquired is not None and bool(acquired.given or acquired.is_ready)
        is_lost = has_messages or key in leader.unanswered
        if is_lost:
            self._rejected(key, error)
        self._reader.released(key)
        return is_lost

    def _rejected(self, key: TopicPartition, error: KafkaError) -> None:
        self.failures += 1
        if error.code in _MOVED:
            self._cluster.leader_is_stale(*key)
        log.warn(
            "acknowledgements of {topic}/{partition} were rejected, messages may be delivered again: {error}",
            topic=key[0],
            partition=key[1],
            error=error,
        )

    def _failed(self, leader: ShareLeader, error: PylogbrokerError) -> dict[TopicPartition, KafkaError]:
        """End the session: what was acquired in it is released. Return the error for each partition with messages."""
        leader.session.broken()
        leader.not_before = self._clock.seconds() + self.settings.backoff
        code = error.code if isinstance(error, KafkaError) else ErrorCode.NETWORK_EXCEPTION
        errors: dict[TopicPartition, KafkaError] = {}
        for key in leader.partitions.values():
            lost = KafkaError(str(error), code)
            if self._drop(leader, key, lost):
                errors[key] = lost
            self._cluster.leader_is_stale(*key)
        leader.partitions.clear()
        leader.unanswered.clear()
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member.commit_rejected(code)
        elif isinstance(error, KafkaError) and not code.retriable and code not in _SESSION_ERRORS:
            self._reader.received(Received(errors=[error]))
        else:
            log.debug("a request to broker {node} failed: {error}", node=leader.node, error=error)
        return errors
