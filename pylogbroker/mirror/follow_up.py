"""Tasks beside the copying of records: offsets of groups, settings and ACLs of topics follow; heartbeats are written.

    begin           a session copies from its positions on; the tasks run. Before the first one, and before the first
                    one after another process has copied, offset syncs and checkpoints are read, while records are
                    copied already; offsets of groups follow once these are known
    topics_begun    the session copies new topics: their settings and ACLs follow soon
    end             the session is over: offsets of groups follow once more, and the tasks stop
    close           all that was written is sent

A task that fails is tried again at its next time, and its error is logged once. None stops the copying of records: a
mirror without the rights for a task still mirrors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from twisted.internet.defer import CancelledError, Deferred, TimeoutError, ensureDeferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.errors import CorruptRecords, ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.acl_sync import AclSync
from pylogbroker.mirror.checkpoints import Checkpoints
from pylogbroker.mirror.committed_records import CommittedRecords
from pylogbroker.mirror.copier import CopyListener
from pylogbroker.mirror.followed_cluster import FollowedCluster
from pylogbroker.mirror.group_sync import GroupCluster, GroupSync, GroupSyncCounts
from pylogbroker.mirror.heartbeats import Heartbeats
from pylogbroker.mirror.offset_recorder import OffsetRecorder
from pylogbroker.mirror.offset_translation import OffsetTranslation, UnstoredRuns
from pylogbroker.mirror.positions import Position
from pylogbroker.mirror.settings_sync import NameFilter, SettingsSync
from pylogbroker.mirror.sync_settings import SyncSettings
from pylogbroker.mirror.topic_task import TopicTask
from pylogbroker.mirror.wake_up import WakeUp
from pylogbroker.mirror_records.formats import (
    HEARTBEATS_TOPIC,
    Checkpoint,
    OffsetSync,
    checkpoints_topic,
    offset_syncs_topic,
)
from pylogbroker.mirror_records.status import StatusReport
from pylogbroker.records import Header
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.errors import Closed
from pylogbroker.rpc.retries import Pauses

log = Logger()

_BACKOFF: Final = Backoff(0.05, 1.0)
_READ_SECONDS_MAX: Final = 60.0
_LAST_SYNC_SECONDS_MAX: Final = 10.0
_STORE_SECONDS: Final = 1.0
_RECORDS_AT_ONCE: Final = 200
_RIGHTS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)

Report = Callable[[], StatusReport]


class BegunSession(Protocol):
    """A session that begins to copy."""

    @property
    def positions(self) -> Mapping[TopicPartition, Position]: ...
    @property
    def unstored(self) -> Mapping[TopicPartition, UnstoredRuns]: ...
    @property
    def topics(self) -> Mapping[str, str]: ...


class NoFollowUp:
    """Nothing follows the records."""

    def __init__(self) -> None:
        self.listeners: tuple[CopyListener, ...] = ()
        self.group_counts = GroupSyncCounts()

    async def settings_of(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        return {}

    def begin(self, begun: BegunSession, *, is_first: bool) -> None:
        pass

    def topics_begun(self) -> None:
        pass

    async def end(self, topics: Mapping[str, str]) -> None:
        pass

    async def close(self) -> None:
        pass


class FollowUp:
    """`recorder` gets what the sessions commit; `report` returns figures for heartbeats. Not thread-safe."""

    def __init__(
        self, reactor: Any, settings: SyncSettings, source: FollowedCluster, target: FollowedCluster, report: Report
    ) -> None:
        self._reactor = reactor
        self._report = report
        self._settings = settings
        self._source = source
        self._target = target
        self._syncs_cluster = source if settings.offset_syncs_at_source else target
        self._syncs_topic = offset_syncs_topic((target if settings.offset_syncs_at_source else source).alias)
        self._checkpoints_topic = checkpoints_topic(source.alias)
        self._back_topic = checkpoints_topic(target.alias)
        self._translation = OffsetTranslation()
        self.recorder = OffsetRecorder(self._translation, self._write_sync if settings.offset_syncs else None)
        self.listeners: tuple[CopyListener, ...] = (self.recorder,)
        self._checkpoints = Checkpoints(self._write_checkpoint)
        self._unwritten_back: dict[bytes, Checkpoint] = {}
        self._back = Checkpoints(self._keep_back)
        self._groups = GroupSync(
            GroupCluster(source.alias, source.admin, settings.group_offsets_back),
            GroupCluster(target.alias, target.admin, settings.group_offsets),
            NameFilter.of("groups", settings.groups, settings.groups_excluded),
            self._translation,
            self._checkpoints,
            self._back,
        )
        self.group_counts = self._groups.counts
        self._topic_settings = SettingsSync(
            source.admin, target.admin, NameFilter.of("config.properties", settings.settings_excluded)
        )
        acls = AclSync(source.admin, target.admin)
        self._topic_tasks = (
            TopicTask(
                "settings of topics", settings.topic_settings_interval, WakeUp(reactor), self._topic_settings.run
            ),
            TopicTask("ACLs of topics", settings.topic_acls_interval, WakeUp(reactor), acls.run),
        )
        producers = {target.alias: target.producer}
        if settings.offset_syncs_at_source:
            producers[source.alias] = source.producer
        self._heartbeats = Heartbeats(reactor, source.alias, target.alias, producers)
        self._made: set[tuple[str, str]] = set()
        self._loading: Deferred[None] = succeed(None)
        self._loaded_records = 0
        self._is_loaded = False
        self._waiting_for_load: list[Deferred[None]] = []
        self._pauses = Pauses(reactor)
        self._tasks: list[Deferred[Any]] = []
        self._troubles: dict[str, str] = {}

    # life

    def begin(self, begun: BegunSession, *, is_first: bool) -> None:
        """Begin a session; `is_first` says that another process may have copied before it."""
        if is_first:
            self._is_loaded = False
            self.recorder.unload()
            self._checkpoints.clear()
            self._back.clear()
        self.recorder.begin(begun.positions, begun.unstored)
        if is_first:
            self._loading.cancel()
            self._loading = run_in_background(log, self._load(), "reading what mirrors have stored failed")
        self._pauses = Pauses(self._reactor)
        settings = self._settings
        self._repeat("offsets of groups", settings.checkpoints_interval, lambda: self._follow_groups(begun.topics))
        for task in self._topic_tasks:
            self._repeat(task.name, task.interval, partial(task.run, begun.topics), task.wake_up.wait)
        self._repeat("offset syncs", _STORE_SECONDS, self._store)
        self._repeat("heartbeats", settings.heartbeats_interval, self._beat)

    async def settings_of(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of topics that the target does not have yet."""
        settings: Mapping[str, Mapping[str, str]] = {}

        async def describe() -> None:
            nonlocal settings
            settings = await self._topic_settings.of_new(topics)

        if self._settings.topic_settings_interval:
            await self._try("reading settings of new topics", describe)
        return settings

    def topics_begun(self) -> None:
        """Let settings and ACLs of topics follow that the session has begun to copy."""
        for task in self._topic_tasks:
            task.wake_up.call()

    async def end(self, topics: Mapping[str, str]) -> None:
        """End the session; what has not followed of these topics yet does, and offsets of their groups."""
        self._pauses.close()
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        while self.recorder.store():
            await deferLater(self._reactor, 0)
        if topics and self._settings.checkpoints_interval:
            await self._last("offsets of groups", lambda: self._follow_groups(topics))
        for topic_task in self._topic_tasks:
            if topic_task.is_due(topics):
                await self._last(topic_task.name, partial(topic_task.run, topics))

    async def close(self) -> None:
        self._loading.cancel()
        await self._source.close()
        await self._target.close()

    # tasks

    def _repeat(
        self,
        what: str,
        interval: float,
        work: Callable[[], Awaitable[object]],
        pause: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        if interval:
            repeating = self._repeating(what, interval, work, pause or self._pauses.pause)
            self._tasks.append(run_in_background(log, repeating, "following {what} failed", what=what))

    async def _repeating(
        self,
        what: str,
        interval: float,
        work: Callable[[], Awaitable[object]],
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        try:
            while True:
                await self._try(what, work)
                await pause(interval)
        except (Closed, CancelledError):
            pass

    async def _last(self, what: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do some work for the last time, within bounds."""
        try:
            await ensureDeferred(self._try(what, work)).addTimeout(_LAST_SYNC_SECONDS_MAX, self._reactor)
        except TimeoutError:
            log.warn("{what} did not follow the last records in time: run the mirror again", what=what)

    async def _try(self, what: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do some work, or log why it failed, once for each reason."""
        try:
            await work()
            self._troubles.pop(what, None)
        except Closed:
            raise
        except PylogbrokerError as error:
            text = str(error)
            if self._troubles.get(what) == text:
                return
            self._troubles[what] = text
            cure = "; records are mirrored nevertheless"
            if isinstance(error, KafkaError) and error.code in _RIGHTS:
                cure = "; the mirror's user lacks a right for it, records are mirrored nevertheless"
            log.warn(
                "{source}->{target}: {what} failed: {error}{cure}",
                source=self._source.alias,
                target=self._target.alias,
                what=what,
                error=text,
                cure=cure,
            )

    async def _load(self) -> None:
        """Read offset syncs and checkpoints while records are copied: there may be many."""
        try:
            await self._try("reading offset syncs", self._load_syncs)
            await self._try("reading checkpoints", self._load_checkpoints)
        except (Closed, CancelledError):
            return
        self.recorder.loaded()
        self._is_loaded = True
        waiting, self._waiting_for_load = self._waiting_for_load, []
        for deferred in waiting:
            deferred.callback(None)

    def _loaded(self) -> Deferred[None]:
        loaded: Deferred[None] = Deferred(lambda _: self._waiting_for_load.remove(loaded))
        if self._is_loaded:
            loaded.callback(None)
        else:
            self._waiting_for_load.append(loaded)
        return loaded

    async def _follow_groups(self, topics: Mapping[str, str]) -> None:
        await self._loaded()
        await self._make_topic(self._target, self._checkpoints_topic)
        await self._groups.run(topics)
        await self._try("writing checkpoints in the source", self._write_back)

    async def _store(self) -> None:
        while self.recorder.store():
            await deferLater(self._reactor, 0)

    async def _beat(self) -> None:
        await self._make_topic(self._target, HEARTBEATS_TOPIC)
        if self._settings.offset_syncs_at_source:
            await self._make_topic(self._source, HEARTBEATS_TOPIC)
        await self._heartbeats.beat(self._report().header())

    # topics of the mirror

    async def _make_topic(self, where: FollowedCluster, topic: str) -> None:
        if (where.alias, topic) not in self._made:
            await where.make_topic(topic, self._settings.replication_factor)
            self._made.add((where.alias, topic))

    async def _load_syncs(self) -> None:
        if not self._settings.offset_syncs:
            return
        await self._make_topic(self._syncs_cluster, self._syncs_topic)
        async for key, value, headers in self._records_of(self._syncs_cluster, self._syncs_topic):
            await self._give_way()
            try:
                self._translation.load(OffsetSync.decode(key, value), headers)
            except CorruptRecords as error:
                if value is not None:
                    log.warn("a record of {topic} is ignored: {error}", topic=self._syncs_topic, error=str(error))

    async def _load_checkpoints(self) -> None:
        await self._make_topic(self._target, self._checkpoints_topic)
        async for key, value, _ in self._records_of(self._target, self._checkpoints_topic):
            await self._give_way()
            self._checkpoints.load(key, value)

    async def _give_way(self) -> None:
        """Let the reactor do other work after some records."""
        self._loaded_records += 1
        if self._loaded_records % _RECORDS_AT_ONCE == 0:
            await deferLater(self._reactor, 0, lambda: None)

    def _records_of(self, where: FollowedCluster, topic: str) -> Any:
        pauses = Pauses(self._reactor)
        reader = CommittedRecords(where.cluster, pauses, _BACKOFF, _READ_SECONDS_MAX, _READ_SECONDS_MAX)
        return reader.read_with_headers(topic)

    def _write_sync(self, sync: OffsetSync, header: Header) -> Deferred[bool]:
        return self._syncs_cluster.write(self._syncs_topic, sync.key(), sync.value(), (header,))

    def _write_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._target.write(self._checkpoints_topic, checkpoint.key(), checkpoint.value())

    def _keep_back(self, checkpoint: Checkpoint) -> None:
        self._unwritten_back[checkpoint.key()] = checkpoint

    async def _write_back(self) -> None:
        """Write checkpoints of groups that moved back; most mirrors have none, and need no topic for them."""
        if not self._unwritten_back:
            return
        await self._make_topic(self._source, self._back_topic)
        for key, checkpoint in self._unwritten_back.items():
            self._source.write(self._back_topic, key, checkpoint.value())
        self._unwritten_back.clear()
