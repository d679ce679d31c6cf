"""Carries out the actions of `member_state_machine`, and reports their results to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

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
    Partitions,
    ReportFailure,
    Revoke,
    RunAssignor,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
)
from pylogbroker.client.consumer.member_requests import MemberRequests
from pylogbroker.client.consumer.member_state_machine import NO_GENERATION, MemberState, MemberStateMachine
from pylogbroker.client.consumer.member_tasks import MemberTasks
from pylogbroker.client.plugin_guards import guarded_assignor
from pylogbroker.client.plugin_lookup import ResolvedPlugin
from pylogbroker.errors import ErrorCode, PylogbrokerError
from pylogbroker.interfaces import IAssignor, Subscription, TopicPartition
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from pylogbroker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pylogbroker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pylogbroker.wire.schema import Request

log = Logger()

#: for a response, beyond the rebalance timeout
_GRACE_SECONDS: Final = 5.0
_LEAVE_TIMEOUT_SECONDS: Final = 2.0


class MembershipListener(Protocol):
    def topics(self) -> frozenset[str]: ...

    async def revoke(self, partitions: Partitions, lost: bool) -> None:
        """Stop reading; commit unless lost."""

    def assign(self, partitions: Partitions) -> None: ...

    def failed(self, error: Exception) -> None: ...


@attrs.frozen
class MemberSettings:
    group: str
    instance_id: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3000
    rebalance_timeout_ms: int = 300_000
    backoff_ms: int = 100
    backoff_max_ms: int = 1000
    request_timeout: float = 30.0


def _is_cooperative(assignors: Iterable[ResolvedPlugin[IAssignor]]) -> bool:
    return all(assignor.plugin.protocol == "cooperative" for assignor in assignors)


def _subscriptions(members: Iterable[JoinGroupResponseMember]) -> dict[str, Subscription]:
    return {member.member_id: decode_subscription(member.metadata, member.group_instance_id) for member in members}


def _topics_of(subscriptions: Iterable[Subscription]) -> set[str]:
    return {topic for subscription in subscriptions for topic in subscription.topics}


@attrs.define(eq=False, repr=False)
class MemberDriver:
    _cluster: Cluster
    _clock: IReactorTime
    _settings: MemberSettings
    _assignors: Sequence[ResolvedPlugin[IAssignor]]
    _listener: MembershipListener
    _machine: MemberStateMachine = attrs.field(init=False)
    _tasks: MemberTasks = attrs.field(init=False)
    _requests: MemberRequests = attrs.field(init=False)
    _assigned_counts: Mapping[str, int] = attrs.field(
        factory=dict
    )  # partition counts at the last assignment, as leader
    _subscribed: frozenset[str] = frozenset()  # as last sent
    _gone: list[Deferred[None]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        settings = self._settings
        self._tasks = MemberTasks(settings.group, self._clock)
        self._machine = MemberStateMachine(
            settings.session_timeout_ms,
            settings.heartbeat_interval_ms,
            settings.backoff_ms,
            settings.backoff_max_ms,
            cooperative=_is_cooperative(self._assignors),
            static=settings.instance_id is not None,
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

    def start(self) -> None:
        self._do(self._machine.start(self._now()))

    def topics_changed(self) -> None:
        topics = self._listener.topics()
        if self._machine.state in (MemberState.IDLE, MemberState.LEAVING, MemberState.GONE):
            return
        if topics != self._subscribed:
            unsubscribed = frozenset(key for key in self._machine.owned if key[0] not in topics)
            self._do(self._machine.rejoin("the subscription has changed", self._now(), unsubscribed))
        elif self._machine.leads and self._machine.state is MemberState.STABLE and self._have_grown():
            self._do(self._machine.rejoin("topics have changed", self._now()))

    def commit_rejected(self, code: ErrorCode) -> None:
        if self._machine.state in (MemberState.STABLE, MemberState.PREPARING):
            self._do(self._machine.request_rejected(code, self._now()))

    async def leave(self) -> None:
        waits_for_others = self._machine.state in (MemberState.JOINING, MemberState.SYNCING)
        actions = self._machine.leave(self._now())
        if waits_for_others:
            self._cluster.disconnect(self._requests.node)  # else LeaveGroup would queue behind the pending request
        self._do(actions)
        if self._machine.state is not MemberState.GONE:
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
        if self._machine.state is MemberState.GONE:
            gone, self._gone = self._gone, []
            for waiter in gone:
                waiter.callback(None)
        elif any(isinstance(action, Assign) for action in actions):
            self.topics_changed()  # maybe changed during the rebalance

    def _perform(self, action: Action) -> None:
        match action:
            case Assign():
                self._listener.assign(action.partitions)
            case ReportFailure():
                self._listener.failed(action.error)
            case Revoke():
                self._tasks.spawn(self._revoke(action))
            case SendLeave():
                self._tasks.spawn(self._leave(action))
            case FindCoordinator():
                self._requests.find_coordinator()
            case SendJoin():
                self._requests.start(self._join(action))
            case RunAssignor():
                self._requests.start(self._run_assignor(action))
            case SendSync():
                self._requests.start(self._sync(action))
            case SendHeartbeat():
                self._requests.start(self._send_heartbeat(action))

    def _tick(self) -> None:
        self._do(self._machine.tick(self._now()))

    def _now(self) -> int:
        return self._tasks.now_ms()

    # requests

    async def _send(self, request: Request, timeout: float) -> Any:
        return await self._cluster.send(self._requests.node, request, timeout=timeout)

    async def _join(self, join: SendJoin) -> Callable[[], Actions]:
        settings = self._settings
        self._subscribed = self._listener.topics()
        request = JoinGroupRequest(
            group_id=settings.group,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=join.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(assignor.plugin.name, self._subscription(assignor, join))
                for assignor in self._assignors
            ],
            reason=join.reason,
        )
        answer: JoinGroupResponse = await self._send(request, settings.rebalance_timeout_ms / 1000 + _GRACE_SECONDS)
        if answer.skip_assignment:  # the leader still watches for new partitions
            self._assigned_counts = self._counts(_topics_of(_subscriptions(answer.members).values()))
        return lambda: self._machine.joined(answer, self._now())

    def _subscription(self, plugged: ResolvedPlugin[IAssignor], join: SendJoin) -> bytes:
        topics = sorted(self._subscribed)
        cooperative = plugged.plugin.protocol == "cooperative"
        try:
            user_data = plugged.plugin.subscription_user_data(topics, sorted(join.given), join.generation)
        except Exception as error:
            raise plugged.failed(error) from error
        subscription = Subscription(
            topics=topics,
            owned=sorted(join.owned) if cooperative else (),
            user_data=user_data,
            generation=join.generation if cooperative else NO_GENERATION,
            rack=self._settings.rack,
        )
        return encode_subscription(subscription)

    async def _run_assignor(self, divide: RunAssignor) -> Callable[[], Actions]:
        members = _subscriptions(divide.members)
        assign = guarded_assignor(
            next(assignor for assignor in self._assignors if assignor.plugin.name == divide.protocol)
        )
        topics = _topics_of(members.values())
        if any(self._cluster.partitions_of(topic) is None for topic in topics):
            await self._cluster.all_topics()  # a request by name could create topics
        self._assigned_counts = self._counts(topics)
        shares = assign({topic: count for topic, count in self._assigned_counts.items() if count}, members)
        encoded = {member: encode_assignment(shares.get(member, ())) for member in members}
        return lambda: self._machine.assignor_done(encoded)

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        return {topic: self._cluster.partitions_of(topic) or 0 for topic in topics}

    def _have_grown(self) -> bool:
        return self._counts(self._assigned_counts) != self._assigned_counts

    async def _sync(self, sync: SendSync) -> Callable[[], Actions]:
        request = SyncGroupRequest(
            group_id=self._settings.group,
            generation_id=sync.generation,
            member_id=sync.member_id,
            group_instance_id=self._settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=sync.protocol,
            assignments=[SyncGroupRequestAssignment(member, part) for member, part in sync.shares.items()],
        )
        answer = await self._send(request, self._settings.rebalance_timeout_ms / 1000 + _GRACE_SECONDS)
        code = code_of(answer.error_code)
        part = frozenset() if code else self._wanted(decode_assignment(answer.assignment))
        return lambda: self._machine.synced(code, part, self._now())

    def _wanted(self, part: Iterable[TopicPartition]) -> Partitions:
        """Drop other topics' partitions: no stream could read them."""
        partitions = frozenset(key for key in part if key[0] in self._subscribed)
        if unwanted := frozenset(part) - partitions:
            log.warn(
                "ignored partitions {unwanted}, which the leader of {group} assigned: not subscribed to",
                group=self._settings.group,
                unwanted=unwanted,
            )
        return partitions

    async def _send_heartbeat(self, beat: SendHeartbeat) -> Callable[[], Actions]:
        settings = self._settings
        request = HeartbeatRequest(settings.group, beat.generation, beat.member_id, settings.instance_id)
        answer = await self._send(request, settings.request_timeout)
        return lambda: self._machine.heartbeat_answered(code_of(answer.error_code), self._now())

    async def _leave(self, leave: SendLeave) -> None:
        request = LeaveGroupRequest(
            self._settings.group,
            members=[MemberIdentity(leave.member_id, reason="the consumer is shut down")],
        )
        try:
            if await self._cluster.find_version(self._requests.node, LeaveGroupRequest) < 3:
                request.member_id, request.members = leave.member_id, []
            await self._send(request, _LEAVE_TIMEOUT_SECONDS)
        except (PylogbrokerError, CancelledError) as error:
            log.debug("leaving {group} failed: {error}", group=self._settings.group, error=error)
        self._machine.left()
        self._do([])

    async def _revoke(self, action: Revoke) -> None:
        try:
            await self._listener.revoke(action.partitions, action.lost)
        except Exception:
            log.failure("revoking partitions of {group} failed", group=self._settings.group)
        self._do(self._machine.revoked(self._now(), action.partitions))
