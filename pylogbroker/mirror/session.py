"""A session of a mirror: it opens the target, compares topics, and copies until an error, or until it is stopped.

open    fence earlier sessions, read the positions
run     copy; every `refresh_interval` compare topics: new ones begin, deleted ones end
stop    end after the current transaction
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from twisted.internet.defer import CancelledError, ensureDeferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.background import with_cleanup
from pylogbroker.client.consumer.fetcher import FetchSettings
from pylogbroker.client.errors import TopicRecreated, is_retriable
from pylogbroker.client.producer.coordinator_client import TransactionCoordinatorClient
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.committed_records import CommittedRecords
from pylogbroker.mirror.copier import Copier
from pylogbroker.mirror.errors import TopicStopped
from pylogbroker.mirror.lag_table import LagTable
from pylogbroker.mirror.legacy07_source import Legacy07Reader, Legacy07Source
from pylogbroker.mirror.loops import LoopCheck
from pylogbroker.mirror.parts import MirrorParts
from pylogbroker.mirror.positions import Position, PositionTable, position_in
from pylogbroker.mirror.settings import MirrorSettings
from pylogbroker.mirror.source import SourceReader
from pylogbroker.mirror.target import TargetWriter
from pylogbroker.mirror.topics import MirroredTopic, TopicComparison, nothing_to_copy
from pylogbroker.mirror.wake_up import WakeUp
from pylogbroker.rpc.errors import Closed
from pylogbroker.wire import NO_ID

log = Logger()

_FETCHES_BUFFERED: Final = 4
_WAIT_MS: Final = 500
_LONG_WAIT_MS: Final = 2000
_MANY_PARTITIONS: Final = 1000
_MATCHED_AT_ONCE: Final = 100
"""Names of topics that are matched before other work runs."""
_PROPAGATION_SECONDS: Final = 0.2
"""Pause until created topics and partitions are looked for again: not all brokers know them at once."""
_PARTITION_BYTES_MIN: Final = 16_384
_PARTITION_BYTES_MAX: Final = 1_048_576


async def open_session(
    parts: MirrorParts, on_idle: Callable[[], object], on_topics: Callable[[], object]
) -> MirrorSession:
    """Fence earlier sessions and read the positions.

    `on_idle` is called when all that was fetched is committed, `on_topics` when more topics are copied.
    """
    wake_up = WakeUp(parts.reactor)
    writer = _new_writer(parts, wake_up)
    await writer.open()
    table = PositionTable(parts.source_alias)
    stall_seconds_max = parts.settings.transaction_timeout * 2
    records = CommittedRecords(
        parts.target, parts.pauses, parts.options.backoff, parts.options.block_timeout, stall_seconds_max
    )
    async for key, value, headers in records.read_with_headers(parts.positions_topic):
        table.learn(key, value, headers)
    partitions = len((await parts.target.find_topic(parts.positions_topic)).partitions)
    return MirrorSession(parts, writer, table, wake_up, partitions, on_idle, on_topics)


def _new_writer(parts: MirrorParts, wake_up: WakeUp) -> TargetWriter:
    coordinator = None
    if parts.settings.exactly_once:
        coordinator = TransactionCoordinatorClient(parts.pauses, parts.target, parts.options)
    return TargetWriter(parts.target, coordinator, parts.options, parts.pauses, wake_up)


def _fetch_settings(settings: MirrorSettings, partitions: int) -> FetchSettings:
    """Return settings with which a fetch has no more than a second's worth of a limited rate, or little more.

    With many partitions, a fetch waits longer for records: each one looks at all of them.
    """
    rate = settings.bytes_per_second_max or _PARTITION_BYTES_MAX
    return FetchSettings(
        max_wait_ms=_WAIT_MS if partitions <= _MANY_PARTITIONS else _LONG_WAIT_MS,
        read_committed=True,
        max_bytes=settings.buffer_bytes // _FETCHES_BUFFERED,
        partition_bytes=min(max(rate, _PARTITION_BYTES_MIN), _PARTITION_BYTES_MAX),
    )


def _new_reader(
    parts: MirrorParts, on_ready: Callable[[], object], on_failed: Callable[[TopicPartition, Exception], object]
) -> SourceReader | Legacy07Reader:
    if isinstance(parts.source, Legacy07Source):
        return Legacy07Reader(parts.source, parts.reactor, on_ready, on_failed, parts.lost)
    return SourceReader(
        parts.source,
        parts.reactor,
        parts.pauses,
        _fetch_settings(parts.settings, sum(len(topic.partitions) for topic in parts.source.topics().values())),
        parts.settings.buffer_bytes,
        on_ready,
        on_failed,
        parts.lost,
        parts.settings.restart_recreated,
    )


class NoSession:
    """Stands for a session while there is none."""

    is_caught_up: Final = False
    topics: Final[Mapping[str, str]] = {}

    def __init__(self) -> None:
        self.lags = LagTable()

    def stop(self) -> None:
        """Do nothing."""


class MirrorSession:
    def __init__(
        self,
        parts: MirrorParts,
        writer: TargetWriter,
        table: PositionTable,
        wake_up: WakeUp,
        positions_partitions: int,
        on_idle: Callable[[], object],
        on_topics: Callable[[], object],
    ) -> None:
        self._parts = parts
        self._on_topics = on_topics
        self._writer = writer
        self._table = table
        self._failures: list[Exception] = []
        self._has_compared = False
        self.positions = table.positions
        self.unstored = table.unstored
        self.topics: dict[str, str] = {}
        """Names in the target, by those in the source."""
        settings = parts.settings
        self._loop_check = LoopCheck(parts, settings.transaction_timeout * 2)
        self._reader = _new_reader(parts, wake_up.call, self._partition_failed)
        self._copier = Copier(
            parts.reactor,
            settings,
            self._reader,
            writer,
            table,
            parts.positions_topic,
            positions_partitions,
            wake_up,
            parts.in_thread,
            parts.limit,
            parts.listeners,
            on_idle,
            parts.counts,
            self.topics,
            parts.source_id,
        )

    async def run(self) -> None:
        """Copy until `stop`; raise the first error."""
        refreshing = ensureDeferred(self._refresh())
        refreshing.addErrback(self._refresh_failed)

        async def end() -> None:
            refreshing.cancel()
            self._reader.close()
            self._writer.close()

        await with_cleanup(self._copier.run(), end)
        for error in self._failures:
            raise error

    def stop(self) -> None:
        self._copier.stop()

    @property
    def lags(self) -> LagTable:
        return self._reader.lags

    @property
    def is_caught_up(self) -> bool:
        """True if the target has all that the source had at the last fetch of each partition."""
        is_idle = self._has_compared and self._copier.is_committed and not self._reader.has_chunks
        return is_idle and self._reader.lags.are_zero

    # topics

    async def _refresh(self) -> None:
        parts = self._parts
        while True:
            try:
                await self._compare_topics()
            except PylogbrokerError as error:
                if not is_retriable(error):
                    raise
                log.warn("{mirror}: topics cannot be compared now: {error}", mirror=parts, error=error)
            interval = parts.settings.refresh_interval
            await parts.pauses.pause(interval if self._has_compared else min(interval, _PROPAGATION_SECONDS))
            try:
                await parts.source.refresh()
                plan = await self._plan()
                if plan.missing or plan.too_small:
                    await parts.target.refresh()
            except PylogbrokerError as error:
                log.debug("{mirror}: topics are not known now: {error}", mirror=parts, error=error)

    def _refresh_failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, CancelledError | Closed):
            return
        if not isinstance(error, PylogbrokerError):
            log.failure("comparing topics failed", failure)
        self._fail(error)

    def _fail(self, error: Any) -> None:
        self._failures.append(error)
        self._copier.stop()

    async def _plan(self) -> TopicComparison:
        """Compare topics of both clusters; match new names in slices, since there may be thousands."""
        parts = self._parts
        choice = parts.planner.choice
        for number, name in enumerate(choice.new_among(parts.source.topics()), 1):
            choice.matches(name)
            if number % _MATCHED_AT_ONCE == 0:
                await deferLater(parts.reactor, 0)
        return parts.planner.plan(parts.source.topics(), parts.target.topics())

    async def _compare_topics(self) -> None:
        """Create what the target lacks, and copy what it has; end the topics that the source has no more."""
        parts = self._parts
        now = parts.reactor.seconds()
        parts.stopped.end_waits(now)
        plan = await self._plan()
        errors = dict(plan.stopped)
        if plan.missing or plan.too_small:
            errors |= await parts.preparation.carry_out(plan)
            await parts.target.refresh()
            plan = await self._plan()
        for error in errors.values():
            parts.stopped.add(error, now)
        self._say_if_nothing_is_copied(plan)
        self._end_topics(plan)
        await self._begin_topics(plan)
        self._has_compared = all(name in parts.stopped for name in (*plan.missing, *plan.too_small))
        self._copier.wake_up()

    def _say_if_nothing_is_copied(self, plan: TopicComparison) -> None:
        parts = self._parts
        reason = "" if self._has_compared else nothing_to_copy(plan, parts.source.topics(), parts.settings.topics)
        if reason:
            log.info("{mirror}: {reason}", mirror=parts, reason=reason)

    def _end_topics(self, plan: TopicComparison) -> None:
        gone = [key for key in self._reader.partitions if key[0] not in plan.ready and key[0] not in plan.too_small]
        self._reader.stop(gone)
        for name in {name for name, _ in gone}:
            self.topics.pop(name, None)

    async def _begin_topics(self, plan: TopicComparison) -> None:
        positions: dict[TopicPartition, Position | None] = {}
        stopped = self._parts.stopped
        begun = {name for name, _ in self._reader.partitions}
        waiting = {name: topic for name, topic in plan.ready.items() if name not in stopped}
        await self._stop_loops({name: topic for name, topic in waiting.items() if name not in begun})
        for name, topic in waiting.items():
            keys = [(name, partition) for partition in range(len(topic.source.partitions))]
            new = [key for key in keys if key not in self._reader.partitions]
            if new and name not in stopped:
                try:
                    positions |= {key: self._start(topic, key) for key in new}
                except TopicStopped as error:
                    stopped.add(error, self._parts.reactor.seconds())
                else:
                    self.topics[name] = topic.target
        await self._reader.start(positions)
        if positions:
            self._on_topics()

    async def _stop_loops(self, topics: Mapping[str, MirroredTopic]) -> None:
        """Claim new topics that keep their names; stop those that come from the target, or have another alias."""
        first = {(name, 0): topic for name, topic in topics.items() if topic.target == name}
        new = {key: topic for key, topic in first.items() if key not in self.positions}
        if not new:
            return
        stopped = await self._loop_check.aliases(new.values())
        claims = {
            key: position_in(0, topic.source.topic_id, self._parts.source_id)
            for key, topic in new.items()
            if topic.source.name not in stopped
        }
        if claims:
            await self._copier.set_positions(claims)
            stopped |= await self._loop_check.loops([new[key] for key in claims])
            retracted = {key: None for key in claims if key[0] in stopped}
            if retracted:
                await self._copier.set_positions(retracted)
        for error in stopped.values():
            self._parts.stopped.add(error, self._parts.reactor.seconds())

    def _start(self, topic: MirroredTopic, key: TopicPartition) -> Position | None:
        """Return where to begin; None for the start of the log. Raise TopicStopped for another topic's position."""
        position = self._table.positions.get(key)
        if position is None:
            return None
        if NO_ID not in (position.topic_id, topic.source.topic_id) and position.topic_id != topic.source.topic_id:
            self._check_may_restart(key[0])
            return None
        return position if position.next_offset else None

    def _check_may_restart(self, topic: str) -> None:
        if not self._parts.settings.restart_recreated:
            raise TopicStopped(
                topic,
                "it was deleted and created again in the source, so the mirror's positions are of no use: to append the"
                " new topic's records from its start, set --restart-recreated (topics.recreated=restart)",
            )
        log.warn("{topic} was deleted and created again in the source; it is mirrored from its start", topic=topic)

    # errors of partitions

    def _partition_failed(self, partition: TopicPartition, error: Exception) -> None:
        """End the session: its transaction may have records of the topic."""
        name, number = partition
        if isinstance(error, TopicRecreated):
            self._fail(error)  # the next session sees it by the topic's id
        elif isinstance(error, KafkaError) and error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._fail(TopicStopped(name, "the mirror's user needs the right to read it in the source"))
        else:
            self._fail(TopicStopped(name, f"partition {number} cannot be read in the source: {error}"))
