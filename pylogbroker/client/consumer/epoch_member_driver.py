"""Carries out the actions of `epoch_member`, and reports their results to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol
from uuid import UUID

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.actions import (
    Action,
    Actions,
    Assign,
    FindCoordinator,
    LookUpTopics,
    MemberSubscription,
    Partitions,
    ReportFailure,
    Revoke,
    SendEpochHeartbeat,
)
from pylogbroker.client.consumer.epoch_member import EpochHeartbeatAnswer, EpochMember, EpochMemberState
from pylogbroker.client.consumer.member_requests import MemberRequests
from pylogbroker.client.consumer.member_tasks import MemberTasks
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.wire import UnsupportedVersion

log = Logger()

_LEAVE_TIMEOUT_SECONDS: Final = 2.0


class EpochMemberListener(Protocol):
    async def revoke(self, partitions: Partitions, lost: bool) -> None:
        """Stop reading; commit unless lost."""

    def assign(self, partitions: Partitions) -> None: ...

    def failed(self, error: Exception) -> None: ...


class GroupHeartbeats(Protocol):
    """Heartbeats of a kind of group."""

    @property
    def unsupported(self) -> str:
        """Return what to do if a broker does not offer the kind of group."""

    async def send(self, node: int, beat: SendEpochHeartbeat, timeout: float) -> EpochHeartbeatAnswer:
        """Raise KafkaError if the coordinator rejects the heartbeat, or UnsupportedVersion."""


@attrs.frozen
class EpochMemberSettings:
    group: str
    instance_id: str | None = None
    backoff_ms: int = 100
    backoff_max_ms: int = 1000
    request_timeout: float = 30.0
    release_timeout_ms: int = 60_000
    says_owned: bool = True


@attrs.define(eq=False, repr=False)
class EpochMemberDriver:
    _cluster: Cluster
    _clock: IReactorTime
    _settings: EpochMemberSettings
    _heartbeats: GroupHeartbeats
    _subscription: Callable[[], MemberSubscription]
    _reads: Callable[[str], bool]
    _listener: EpochMemberListener
    _new_member_id: Callable[[], str]
    _machine: EpochMember = attrs.field(init=False)
    _tasks: MemberTasks = attrs.field(init=False)
    _requests: MemberRequests = attrs.field(init=False)
    _gone: list[Deferred[None]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        settings = self._settings
        self._tasks = MemberTasks(settings.group, self._clock)
        self._machine = EpochMember(
            self._new_member_id(),
            self._subscription(),
            settings.backoff_ms,
            settings.backoff_max_ms,
            settings.release_timeout_ms,
            static=settings.instance_id is not None,
            says_owned=settings.says_owned,
        )
        self._requests = MemberRequests(settings.group, self._cluster, self._tasks, self._machine, self._do)

    # called by the reader

    @property
    def member_id(self) -> str:
        return self._machine.member_id

    @property
    def generation(self) -> int:
        return self._machine.generation

    @property
    def instance_id(self) -> str | None:
        return self._settings.instance_id

    @property
    def state(self) -> EpochMemberState:
        return self._machine.state

    def start(self) -> None:
        self._do(self._machine.start(self._now()))

    def topics_changed(self) -> None:
        self._do(self._machine.subscribe(self._subscription(), self._now()))

    def commit_rejected(self, code: ErrorCode) -> None:
        self._do(self._machine.commit_rejected(code, self._now()))

    async def leave(self) -> None:
        self._do(self._machine.leave(self._now()))
        if self._machine.state is not EpochMemberState.GONE:
            gone: Deferred[None] = Deferred()
            self._gone.append(gone)
            await gone
        self.abandon()

    def abandon(self) -> None:
        self._tasks.cancel()

    # actions

    def _do(self, actions: Actions) -> None:
        for action in actions:
            self._perform(action)
        self._tasks.schedule(self._machine.next_due(), self._tick)
        if self._machine.state is EpochMemberState.GONE:
            gone, self._gone = self._gone, []
            for waiter in gone:
                waiter.callback(None)

    def _perform(self, action: Action) -> None:
        match action:
            case Assign():
                self._listener.assign(action.partitions)
            case ReportFailure():
                self._listener.failed(self._explained(action.error))
            case Revoke():
                self._tasks.spawn(self._revoke(action))
            case LookUpTopics():
                self._tasks.spawn(self._look_up(action))
            case FindCoordinator():
                self._requests.find_coordinator()
            case SendEpochHeartbeat() if action.epoch < 0:
                self._tasks.spawn(self._send_last(action))
            case SendEpochHeartbeat():
                self._requests.start(self._send_heartbeat(action))

    def _explained(self, error: Exception) -> Exception:
        """Return an error that says what to do if the broker does not know this kind of group."""
        is_unsupported = isinstance(error, UnsupportedVersion) or (
            isinstance(error, KafkaError) and error.code is ErrorCode.UNSUPPORTED_VERSION
        )
        if not is_unsupported:
            return error
        return KafkaError(f"{error}; {self._heartbeats.unsupported}", ErrorCode.UNSUPPORTED_VERSION)

    def _tick(self) -> None:
        self._do(self._machine.tick(self._now()))

    def _now(self) -> int:
        return self._tasks.now_ms()

    # requests

    async def _send_heartbeat(self, beat: SendEpochHeartbeat) -> Callable[[], Actions]:
        answer = await self._heartbeats.send(self._requests.node, beat, self._settings.request_timeout)
        names = self._names(topic_id for topic_id, _ in answer.assignment or ())
        return lambda: self._machine.heartbeat_answered(answer, names, self._now())

    async def _send_last(self, beat: SendEpochHeartbeat) -> None:
        try:
            await self._heartbeats.send(self._requests.node, beat, _LEAVE_TIMEOUT_SECONDS)
        except (PylogbrokerError, CancelledError) as error:
            log.debug("leaving {group} failed: {error}", group=self._settings.group, error=error)
        self._machine.left()
        self._do([])

    async def _revoke(self, action: Revoke) -> None:
        try:
            await self._listener.revoke(action.partitions, action.lost)
        except Exception:
            log.failure("revoking partitions of {group} failed", group=self._settings.group)
        self._do(self._machine.revoked(self._now()))

    # names of topics

    def _names(self, topic_ids: Iterable[UUID]) -> dict[UUID, str | None]:
        """Return names that metadata has."""
        needed = set(topic_ids)
        topics = self._cluster.topics().values() if needed else ()
        return self._to_read({topic.topic_id: topic.name for topic in topics if topic.topic_id in needed})

    async def _look_up(self, action: LookUpTopics) -> None:
        names: Mapping[UUID, str | None] = {}
        try:
            names = self._to_read(await self._cluster.topics_by_id(action.topic_ids))
        except PylogbrokerError as error:
            log.debug("topics of {group} are not known yet: {error}", group=self._settings.group, error=error)
        self._do(self._machine.topics_named(names, self._now()))

    def _to_read(self, names: Mapping[UUID, str]) -> dict[UUID, str | None]:
        """Leave out names of topics that no stream reads."""
        return {topic_id: name if self._reads(name) else None for topic_id, name in names.items()}
