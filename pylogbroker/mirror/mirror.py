"""A mirror: copies topics of one cluster to another, from session to session.

    run --> meet both clusters --> make the positions topic --> stand by until elected
                                                                   |            ^
                                                                   v            |
                                                                session --------+ another process takes over
                                                                   |    ^
                                                                   v    | after a pause
                                                                 error -+

Errors before the first session end the mirror, such as wrong credentials. Later ones are logged, and the next session
begins at the committed positions. A topic that cannot be mirrored stops alone, and is tried again later.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorThreads
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.background import with_cleanup
from pylogbroker.client.admin import AdminClient
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.producer.options import options_of
from pylogbroker.client.settings import CLIENT, PRODUCER, read
from pylogbroker.client.sources import StaticBrokers
from pylogbroker.errors import ConfigError, PylogbrokerError
from pylogbroker.mirror.copier import CopyCounts, CopyListener, InThread
from pylogbroker.mirror.copy_rates import CopyRates
from pylogbroker.mirror.election import Election
from pylogbroker.mirror.errors import MirrorError, TopicStopped
from pylogbroker.mirror.follow_up import FollowUp, NoFollowUp
from pylogbroker.mirror.followed_cluster import FollowedCluster
from pylogbroker.mirror.group_sync import GroupSyncCounts
from pylogbroker.mirror.lag_table import LagTable
from pylogbroker.mirror.legacy07_source import Legacy07Source, is_legacy07
from pylogbroker.mirror.lost_offsets import LostOffsets
from pylogbroker.mirror.parts import MirrorParts
from pylogbroker.mirror.preparation import TargetPreparation
from pylogbroker.mirror.rate_limit import RateLimit
from pylogbroker.mirror.rights import explained
from pylogbroker.mirror.session import MirrorSession, NoSession, open_session
from pylogbroker.mirror.settings import MirroredCluster, MirrorSettings
from pylogbroker.mirror.stopped_topics import StoppedTopics
from pylogbroker.mirror.sync_settings import SyncSettings
from pylogbroker.mirror.topics import TopicChoice, TopicPlanner
from pylogbroker.mirror.wake_up import WakeUp
from pylogbroker.mirror_records.status import StatusReport, topics_of
from pylogbroker.plugins.replication_policies import SamePolicy
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.errors import Closed
from pylogbroker.rpc.retries import Pauses

log = Logger()

T = TypeVar("T")
_SESSION_BACKOFF: Final = Backoff(0.1, 5.0)
_HEALTHY_SECONDS: Final = 10.0
"""After a session of this length, the pauses are short again."""
_CLIENT: Final[Mapping[str, str]] = {"allow.auto.create.topics": "false", "retry.backoff.ms": "20"}


@attrs.frozen
class MirrorStatus:
    """Figures of a mirror. `lags` has the present lags also later on."""

    source: str
    target: str
    is_active: bool
    """Whether this process copies; else it stands by, or reconnects."""
    is_caught_up: bool
    lags: LagTable
    counts: CopyCounts
    stopped: Mapping[str, str]
    """Topics that are not mirrored, and why."""
    trouble: str
    """Why the last session ended; "" once the next one has caught up."""
    lost: Mapping[str, int]
    """Topics with offsets that the source deleted before they were mirrored, and how many."""

    @property
    def lag(self) -> int:
        """Records that are not mirrored yet, of the partitions whose ends are known."""
        return self.lags.records


class Mirror:
    """Copies topics until `stop`. Call methods on the reactor thread.

    `listeners` get what is committed. Without `has_standby`, nothing keeps other processes with the same mirror from
    fencing this one again and again.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        reactor: Any,
        *,
        listeners: Sequence[CopyListener] = (),
        in_thread: InThread | None = None,
        has_standby: bool = True,
    ) -> None:
        self.settings = settings
        self._reactor = reactor
        self._listeners = listeners
        self._in_thread = in_thread or _threads_of(reactor)
        self._has_standby = has_standby
        source, target = settings.source, settings.target
        if is_legacy07(target.bootstrap):
            raise ConfigError(f"{target.bootstrap} is not accepted: Kafka 0.7 can only be the source of a mirror")
        self._filter = TopicChoice.of(settings.topics, settings.topics_excluded)
        self._target_values = read(PRODUCER, {**_CLIENT, **target.producer_settings()})
        self._source = _source_of(settings, reactor)
        self._target = Cluster(reactor, self._target_values, StaticBrokers(target.bootstrap))
        self._admin = AdminClient(target.bootstrap, reactor=reactor, settings=target.client_settings())
        self._pauses = Pauses(reactor)
        self._wake_up = WakeUp(reactor)
        self._counts = CopyCounts()
        self._lost = LostOffsets()
        self._stopped = StoppedTopics(settings.retry_stopped)
        self._session: MirrorSession | NoSession = NoSession()
        self._sessions_ended: list[Deferred[None]] = []
        self._aliases = source.alias, target.alias
        self._trouble = ""
        self._follow_up: FollowUp | NoFollowUp = NoFollowUp()
        self._rates = CopyRates(reactor.seconds())
        self._is_stopping = False
        self._has_begun = False
        self._waiting_for_catch_up: list[Deferred[None]] = []
        self._join_errors: list[BaseException] = []
        self._is_running = False
        self._waiting_for_end: list[Deferred[None]] = []
        self._preparing: list[Deferred[Any]] = []

    def __str__(self) -> str:
        source, target = self._aliases
        return f"{source or self.settings.source}->{target or self.settings.target}"

    def run(self) -> Deferred[None]:
        """Mirror; fire after `stop`, or fail with an error that the user must cure. Call it once."""
        self._is_running = True
        return ensureDeferred(with_cleanup(self._run(), self._close))

    def stop(self) -> Deferred[None]:
        """Commit what was copied; fire when `run` ends."""
        self._is_stopping = True
        ended: Deferred[None] = Deferred()
        if not self._is_running:
            ended.callback(None)
            return ended
        self._waiting_for_end.append(ended)
        if isinstance(self._session, NoSession):
            self._pauses.close()
            for preparing in self._preparing:
                preparing.cancel()
        self._session.stop()
        self._wake_up.call()
        return ended

    def caught_up(self) -> Deferred[None]:
        """Fire when the target has all records that the source had at the last fetch of each partition."""
        caught_up: Deferred[None] = Deferred()
        if self._session.is_caught_up:
            caught_up.callback(None)
        else:
            self._waiting_for_catch_up.append(caught_up)
        return caught_up

    @property
    def status(self) -> MirrorStatus:
        session = self._session
        return MirrorStatus(
            *self._aliases,
            isinstance(session, MirrorSession),
            session.is_caught_up,
            session.lags,
            attrs.evolve(self._counts),
            self._stopped.reasons(),
            self._trouble,
            self._lost.by_topic(),
        )

    @property
    def group_counts(self) -> GroupSyncCounts:
        """Figures of offsets of groups that follow."""
        return self._follow_up.group_counts

    # the life of a mirror

    async def _run(self) -> None:
        try:
            parts = await self._until_stop(self._prepare())
            if self._has_standby:
                election = self._new_election(parts)
                try:
                    await with_cleanup(self._copy_if_elected(parts, election), election.leave)
                except PylogbrokerError as error:
                    reason = explained(error, parts.name)
                    if reason is error:
                        raise
                    raise reason from error
            else:
                await self._copy(parts, lambda: True)
        except (Closed, CancelledError):
            if not self._is_stopping:
                raise

    async def _until_stop(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work before a session, which `stop` cancels: it may wait for a cluster that is away."""
        preparing = ensureDeferred(work)
        self._preparing.append(preparing)
        try:
            return await preparing
        finally:
            self._preparing.remove(preparing)

    async def _prepare(self) -> MirrorParts:
        parts = await self._meet()
        await parts.preparation.make_positions_topic(parts.positions_topic, self._target.topics())
        await self._target.find_topic(parts.positions_topic)
        return parts

    async def _meet(self) -> MirrorParts:
        """Learn the ids and topics of both clusters."""
        settings = self.settings
        source_id = await self._met("source", settings.source, self._source)
        target_id = await self._met("target", settings.target, self._target)
        if source_id and source_id == target_id and isinstance(settings.policy, SamePolicy):
            raise MirrorError(
                "source and target are the same cluster, and topics keep their names: name another target, or a policy"
                " that changes names (--names prefix)"
            )
        source = settings.source.alias or source_id or "source"
        target = settings.target.alias or target_id or "target"
        self._aliases = source, target
        if settings.sync is not None and not isinstance(self._source, Legacy07Source):
            self._follow_up = self._new_follow_up(settings.sync, self._source, source, target)
        options = options_of(self._target_values)
        parts = MirrorParts(
            self._reactor,
            settings,
            self._source,
            self._target,
            source,
            target,
            source_id or "",
            target_id or "",
            TopicPlanner(source, target, self._filter, settings.policy),
            TargetPreparation(self._admin, settings.replication_factor, self._follow_up.settings_of),
            options,
            self._pauses,
            RateLimit(settings.bytes_per_second_max),
            self._counts,
            self._lost,
            self._stopped,
            (*self._listeners, *self._follow_up.listeners),
            self._in_thread,
        )
        options = attrs.evolve(options, transactional_id=parts.name, transaction_timeout=settings.transaction_timeout)
        return attrs.evolve(parts, options=options)

    def _new_follow_up(self, sync: SyncSettings, cluster: Cluster, source: str, target: str) -> FollowUp:
        settings, reactor = self.settings, self._reactor
        return FollowUp(
            reactor,
            sync,
            FollowedCluster.of(source, cluster, settings.source, reactor),
            FollowedCluster.of(target, self._target, settings.target, reactor),
            self._report,
        )

    def _report(self) -> StatusReport:
        """Return figures for those who can read the target alone."""
        status = self.status
        records, size = self._rates.since_last(self._reactor.seconds(), status.counts)
        lags = {name: (topic.partitions, topic.records) for name, topic in status.lags.topics.items()}
        return StatusReport(
            status.lag,
            status.counts.records,
            status.counts.bytes,
            records,
            size,
            topics_of(lags, self._session.topics),
            status.stopped,
            status.trouble,
        )

    async def _met(self, side: str, configured: MirroredCluster, cluster: Cluster | Legacy07Source) -> str | None:
        """Learn the topics of a cluster; return its id, or what stands for it."""
        try:
            if isinstance(cluster, Legacy07Source):
                await cluster.refresh()
                return cluster.alias
            await cluster.all_topics()
            return (await cluster.look_up([])).cluster_id
        except Closed:
            raise
        except PylogbrokerError as error:
            raise MirrorError(f"the {side} {configured} cannot be used: {error}") from error

    def _new_election(self, parts: MirrorParts) -> Election:
        target = self.settings.target
        return Election(
            target.bootstrap,
            target.consumer_settings(),
            parts.name,
            parts.positions_topic,
            self._reactor,
            self._wake_up.call,
            self._end_session,
            is_fenced=self.settings.exactly_once,
        )

    async def _copy_if_elected(self, parts: MirrorParts, election: Election) -> None:
        group = (await self._admin.groups.describe([parts.name]))[parts.name]
        if not group.members:
            election.begin()
        joining = ensureDeferred(election.join())
        joining.addErrback(self._join_failed)
        while not self._is_stopping:
            for error in self._join_errors:
                raise error
            if not election.is_elected:
                log.info("{mirror}: another process copies; this one stands by", mirror=self)
            while not (election.is_elected or self._is_stopping or self._join_errors):
                await self._wake_up.wait()
            await self._copy(parts, lambda: election.is_elected and not self._join_errors)

    def _join_failed(self, failure: Failure) -> None:
        error = failure.value
        if not self._is_stopping and error is not None:
            self._join_errors.append(error)
            self._session.stop()
            self._wake_up.call()

    async def _copy(self, parts: MirrorParts, may_copy: Callable[[], bool]) -> None:
        failures = 0
        self._has_begun = False
        while may_copy() and not self._is_stopping:
            begun = self._reactor.seconds()
            try:
                await self._copy_in_session(parts, may_copy)
                continue
            except TopicStopped as error:
                self._stopped.add(error, self._reactor.seconds())
            except PylogbrokerError as error:
                if self._is_stopping:
                    return
                reason = explained(error, parts.name)
                if not self._counts.commits and isinstance(reason, MirrorError):
                    raise reason from error
                self._note(reason)
            failures = 1 if self._reactor.seconds() - begun > _HEALTHY_SECONDS else failures + 1
            await self._pauses.pause(_SESSION_BACKOFF.pause(failures))

    async def _copy_in_session(self, parts: MirrorParts, may_copy: Callable[[], bool]) -> None:
        session = await self._until_stop(open_session(parts, self._idle, self._follow_up.topics_begun))
        if may_copy() and not self._is_stopping:
            self._session = session
            self._follow_up.begin(session, is_first=not self._has_begun)
            self._has_begun = True
            await with_cleanup(session.run(), self._session_ended)

    async def _session_ended(self) -> None:
        session, self._session = self._session, NoSession()
        await self._follow_up.end(session.topics if self._is_stopping else {})
        _fire(self._sessions_ended)

    def _end_session(self) -> Deferred[None]:
        """End the session after its transaction, before another process begins one."""
        over: Deferred[None] = Deferred()
        if isinstance(self._session, NoSession):
            over.callback(None)
        else:
            self._sessions_ended.append(over)
            self._session.stop()
        return over

    def _note(self, error: PylogbrokerError) -> None:
        text = str(error) or type(error).__name__
        if text != self._trouble:
            log.warn("{mirror}: the mirror goes on from its positions after an error: {error}", mirror=self, error=text)
        self._trouble = text

    def _idle(self) -> None:
        if self._session.is_caught_up:
            self._trouble = ""
            _fire(self._waiting_for_catch_up)

    async def _close(self) -> None:
        self._is_stopping = True
        self._pauses.close()
        await self._follow_up.close()
        await self._admin.close()
        await self._source.close()
        await self._target.close()
        self._is_running = False
        _fire(self._waiting_for_end)


def _fire(waiting: list[Deferred[None]]) -> None:
    fired, waiting[:] = waiting[:], []
    for deferred in fired:
        deferred.callback(None)


def _source_of(settings: MirrorSettings, reactor: Any) -> Cluster | Legacy07Source:
    source = settings.source
    if is_legacy07(source.bootstrap):
        return Legacy07Source(reactor, source.bootstrap, settings.topics)
    values = read(CLIENT, {**_CLIENT, **source.client_settings()})
    return Cluster(reactor, values, StaticBrokers(source.bootstrap))


def _threads_of(reactor: Any) -> InThread:
    """Return calls in the reactor's threads; of a reactor without any, at once."""
    if IReactorThreads.providedBy(reactor):
        return lambda work, *arguments: deferToThreadPool(reactor, reactor.getThreadPool(), work, *arguments)

    def at_once(work: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        async def call() -> Any:
            return work(*arguments)

        return ensureDeferred(call())

    return at_once
