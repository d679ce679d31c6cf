"""States of a group's partitions at the share coordinator: what the group lets be made and deleted.

The group notes first what it begins, and stores that; then it asks the share coordinator. So a broker that loads the
group knows what is unfinished. What fails is tried again, at growing intervals.

States are made in the group's epoch that was stored. A request of a former coordinator may arrive late: then it repeats
one of its successor, or its epoch is fenced. With an epoch that only it knew, it would void what members have finished.

A partition of a new topic begins where the group's settings say. A partition that was added to a topic of the group
begins at its first record: the group has read the topic all the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.coordinators import EventQueue, Timer, Timers, cancel
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.changes import GroupChanges
from pylogbroker.groups.consumer.partitions import TopicIdPartition, by_topic
from pylogbroker.groups.consumer.port import TopicShape
from pylogbroker.groups.share.group import ShareGroup
from pylogbroker.groups.share.port import SharePort
from pylogbroker.groups.share.stored_state import NO_START

_FIRST_RECORD: Final = 0
_FIRST_RETRY_MS: Final = 200
INITIALIZED_AT_ONCE_MAX: Final = 1_000
"""Partitions that are initialized together, in a few milliseconds; then others have the thread."""

Results = Mapping[TopicIdPartition, ErrorCode]
Done = Callable[[Results, int], None]


@attrs.define(eq=False, repr=False)
class _Waiter:
    """Request that waits for the results of its partitions."""

    missing: set[TopicIdPartition]
    done: Done
    results: dict[TopicIdPartition, ErrorCode] = attrs.field(factory=dict)


@attrs.define(eq=False, repr=False)
class _Work:
    """Work of a group that is under way; most groups have none.

    `chosen` are start offsets that a client has set, `rest` partitions that are stored as initializing. `new_topics`
    had no state when their partitions were noted. `epoch` is the group's that was stored last.
    """

    epoch: int = -1
    new_topics: set[UUID] = attrs.field(factory=set)
    rest: deque[TopicIdPartition] = attrs.field(factory=deque)
    has_new: bool = False
    chosen: dict[TopicIdPartition, int] = attrs.field(factory=dict)
    waiters: list[_Waiter] = attrs.field(factory=list)
    settled: list[Callable[[int], None]] = attrs.field(factory=list)  # called when an attempt has ended
    is_running: bool = False
    retry_ms: int = _FIRST_RETRY_MS
    timer: Timer | None = None


@attrs.frozen
class _Deletion:
    topic_ids: Collection[UUID]
    done: Done


@attrs.define(eq=False, repr=False)
class StateKeeper:
    _retry_ms_max: int
    _events: EventQueue
    _timers: Timers
    _changes: GroupChanges[ShareGroup]
    _port: SharePort
    _on_initialized: Callable[[ShareGroup, int], None]
    _on_forgotten: Callable[[ShareGroup, int], None]
    _work: dict[ShareGroup, _Work] = attrs.field(factory=dict, init=False)
    _deletions: dict[ShareGroup, list[_Deletion]] = attrs.field(factory=dict, init=False)  # the first is under way

    # -- making states -----------------------------------------------------------------------------------------------

    def note_missing(self, group: ShareGroup, topics: Mapping[str, TopicShape]) -> None:
        """Let all partitions of topics get a state; `begin` asks for it."""
        for name, shape in topics.items():
            if shape.topic_id in group.states.deleting:
                continue  # until the former states are gone
            missing = group.states.missing(shape.topic_id, shape.partitions)
            if missing:
                group.initialize(shape.topic_id, name, missing)

    def begin(self, group: ShareGroup, now_ms: int) -> None:
        """Store what the group has noted, then make the states that are missing."""
        if group.states.initializing and not self._is_busy(group):
            work = self._work.setdefault(group, _Work())
            work.is_running = True
            work.new_topics |= group.states.initializing.keys() - group.states.initialized.keys()
            work.rest = deque(_pending(group))
            self._store_and_run(group, work, now_ms)

    def _store_and_run(self, group: ShareGroup, work: _Work, now_ms: int) -> None:
        work.epoch = group.epoch
        self._changes.store(group, now_ms, self._events.as_event(partial(self._run, group, work)))

    def set_starts(self, group: ShareGroup, starts: Mapping[TopicIdPartition, int], done: Done, now_ms: int) -> None:
        """Begin to read partitions at other offsets; a new epoch makes the former states void."""
        work = self._work.setdefault(group, _Work())
        work.chosen |= starts
        for topic_id, numbers in by_topic(starts).items():
            group.initialize(topic_id, self._port.topic_name(topic_id) or "", numbers)
        work.waiters.append(_Waiter(set(starts), done))
        cancel(work.timer)
        self.begin(group, now_ms)

    def when_settled(self, group: ShareGroup, go_on: Callable[[int], None], now_ms: int) -> None:
        """Call `go_on` when the states that are being made are there, or could not be made; else at once."""
        work = self._work.get(group)
        if work is not None and work.is_running:
            work.settled.append(go_on)
        else:
            go_on(now_ms)

    def _is_busy(self, group: ShareGroup) -> bool:
        work = self._work.get(group)
        return work is not None and (work.is_running or (work.timer is not None and work.timer.live))

    def _run(self, group: ShareGroup, work: _Work, error: ErrorCode, now_ms: int) -> None:
        if group.is_dead:
            return
        if error:
            self._failed(group, work, dict.fromkeys(_pending(group), error), now_ms)
            return
        if work.epoch != group.epoch:
            self._store_and_run(group, work, now_ms)
            return
        starts: dict[TopicIdPartition, int] = {}
        while work.rest and len(starts) < INITIALIZED_AT_ONCE_MAX:
            topic_id, number = partition = work.rest.popleft()
            if number in group.states.initializing.get(topic_id, ()):  # else the topic was deleted meanwhile
                starts[partition] = self._start_of(work, partition)
        done = self._events.as_event(partial(self._initialized, group, work, starts))
        self._port.initialize(group.group_id, work.epoch, starts, done)

    @staticmethod
    def _start_of(work: _Work, partition: TopicIdPartition) -> int:
        default = NO_START if partition[0] in work.new_topics else _FIRST_RECORD
        return work.chosen.get(partition, default)

    def _initialized(
        self, group: ShareGroup, work: _Work, starts: Mapping[TopicIdPartition, int], results: Results, now_ms: int
    ) -> None:
        if group.is_dead:
            return
        made = [
            partition
            for partition, start in starts.items()
            if not results.get(partition) and work.chosen.get(partition, start) == start
        ]
        for partition in made:
            work.chosen.pop(partition, None)
        work.has_new |= group.initialized(made)
        self._answer(work, dict.fromkeys(made, ErrorCode.NONE), now_ms)
        failed = {partition: error for partition, error in results.items() if error}
        fenced = [partition for partition, error in failed.items() if error is ErrorCode.FENCED_STATE_EPOCH]
        if fenced:
            work.rest.extendleft(failed)
            self._delete_leftovers(group, work, fenced, now_ms)
        elif failed:
            self._failed(group, work, failed, now_ms)
        elif work.rest:
            self._run(group, work, ErrorCode.NONE, now_ms)
            return  # what is there is stored and assigned with the rest
        else:
            self._finish(group, work, now_ms)
        self._changes.store(group, now_ms, lambda error, later_ms: None)

    def _delete_leftovers(
        self, group: ShareGroup, work: _Work, partitions: Collection[TopicIdPartition], now_ms: int
    ) -> None:
        """Delete states that an earlier group of this name has left, then make new ones.

        A former coordinator may find states of its successor. So a record is stored first: only the present one can.
        """

        def stored(error: ErrorCode, later_ms: int) -> None:
            if group.is_dead:
                return
            if error:
                self._failed(group, work, dict.fromkeys(partitions, error), later_ms)
            else:
                deleted = self._events.as_event(partial(self._leftovers_deleted, group, work))
                self._port.delete(group.group_id, partitions, deleted)

        group.note_states()
        self._changes.store(group, now_ms, stored)

    def _leftovers_deleted(self, group: ShareGroup, work: _Work, results: Results, now_ms: int) -> None:
        failed = {partition: error for partition, error in results.items() if error}
        if group.is_dead:
            return
        if failed:
            self._failed(group, work, failed, now_ms)
        else:
            self._store_and_run(group, work, now_ms)

    def _failed(self, group: ShareGroup, work: _Work, failed: Results, now_ms: int) -> None:
        """Try again later; requests that wait for these partitions, or for the rest, learn that they failed."""
        error = next(iter(failed.values()), ErrorCode.UNKNOWN_SERVER_ERROR)
        self._port.states_failed(group.group_id, error)
        self._answer(work, {**dict.fromkeys(work.rest, error), **failed}, now_ms)
        work.rest.clear()
        self._assign_new(group, work, now_ms)
        work.is_running = False
        work.timer = self._timers.start(now_ms + work.retry_ms, partial(self.begin, group))
        work.retry_ms = min(2 * work.retry_ms, self._retry_ms_max)
        self._settle(work, now_ms)

    def _assign_new(self, group: ShareGroup, work: _Work, now_ms: int) -> None:
        """Let members have the partitions that have got a state."""
        has_new, work.has_new = work.has_new, False
        if has_new:
            self._on_initialized(group, now_ms)

    def _finish(self, group: ShareGroup, work: _Work, now_ms: int) -> None:
        self._assign_new(group, work, now_ms)
        work.is_running = False
        work.new_topics.clear()
        work.retry_ms = _FIRST_RETRY_MS
        self._settle(work, now_ms)
        if group.states.initializing:
            self.begin(group, now_ms)
        elif not work.waiters:
            self._work.pop(group, None)

    @staticmethod
    def _settle(work: _Work, now_ms: int) -> None:
        settled, work.settled = work.settled, []
        for go_on in settled:
            go_on(now_ms)

    @staticmethod
    def _answer(work: _Work, results: Results, now_ms: int) -> None:
        """Answer the requests that wait for no other partitions."""
        for waiter in list(work.waiters):
            results_here = {partition: results[partition] for partition in waiter.missing if partition in results}
            waiter.results |= results_here
            waiter.missing -= results_here.keys()
            if not waiter.missing:
                work.waiters.remove(waiter)
                waiter.done(waiter.results, now_ms)

    # -- deleting states ---------------------------------------------------------------------------------------------

    def delete(self, group: ShareGroup, topic_ids: Collection[UUID], done: Done, now_ms: int) -> None:
        """Delete the states of topics; `done` gets the error of each partition.

        Deletions of a group follow each other. Until the states are gone, members that join meanwhile do not get
        partitions of these topics. A deletion that comes after them gets NON_EMPTY_GROUP.
        """
        deletions = self._deletions.setdefault(group, [])
        deletions.append(_Deletion(topic_ids, done))
        if len(deletions) == 1:
            self._delete_next(group, now_ms)

    def _delete_next(self, group: ShareGroup, now_ms: int) -> None:
        deletion = self._deletions[group][0]
        topic_ids = [
            topic_id for topic_id in deletion.topic_ids if topic_id in group.states.names
        ]  # the others are gone
        partitions = [partition for topic_id in topic_ids for partition in self._all_of(group, topic_id)]
        has_readers = group.members and any(topic_id in group.states for topic_id in topic_ids)
        if not partitions or has_readers or group.is_dead:
            self._deleted(group, deletion, dict.fromkeys(partitions, ErrorCode.NON_EMPTY_GROUP), now_ms)
            return
        group.delete_states(topic_ids)
        self._abandon(group, partitions, now_ms)

        def stored(error: ErrorCode, later_ms: int) -> None:
            if error:
                self._deleted(group, deletion, dict.fromkeys(partitions, error), later_ms)
            else:
                deleted = self._events.as_event(partial(self._deleted, group, deletion))
                self._port.delete(group.group_id, partitions, deleted)

        self._changes.store(group, now_ms, stored)

    def _deleted(self, group: ShareGroup, deletion: _Deletion, results: Results, now_ms: int) -> None:
        failed = {topic_id: error for (topic_id, _), error in results.items() if error}
        if not group.is_dead:
            group.forget_states(topic_id for topic_id in deletion.topic_ids if topic_id not in failed)
            self._changes.store(group, now_ms, lambda error, later_ms: None)
        deletion.done(results, now_ms)
        deletions = self._deletions[group]
        deletions.pop(0)
        if deletions:
            self._delete_next(group, now_ms)
        else:
            del self._deletions[group]
        if not group.is_dead:
            self._on_forgotten(group, now_ms)
            if group.states.deleting and group not in self._deletions:
                self._port.states_failed(group.group_id, next(iter(failed.values()), ErrorCode.UNKNOWN_SERVER_ERROR))
                self._timers.start(now_ms + self._retry_ms_max, partial(self._delete_again, group))

    def _delete_again(self, group: ShareGroup, now_ms: int) -> None:
        if group.states.deleting and not group.is_dead and group not in self._deletions:
            self.delete(group, tuple(group.states.deleting), lambda results, later_ms: None, now_ms)

    def _abandon(self, group: ShareGroup, partitions: Collection[TopicIdPartition], now_ms: int) -> None:
        """Answer requests that wait for states of partitions which are deleted."""
        work = self._work.get(group)
        if work is not None:
            for partition in partitions:
                work.chosen.pop(partition, None)
            self._answer(work, dict.fromkeys(partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), now_ms)

    def _all_of(self, group: ShareGroup, topic_id: UUID) -> Collection[TopicIdPartition]:
        """Return the partitions of a topic that may have a state."""
        name = self._port.topic_name(topic_id)
        shape = None if name is None else self._port.topic(name)
        numbers = group.states.all_of(topic_id) | frozenset(range(0 if shape is None else shape.partitions))
        return [(topic_id, number) for number in sorted(numbers)]

    def forget_deleted(self, group: ShareGroup, now_ms: int) -> None:
        """Forget topics that were deleted, and delete their states."""
        gone = [topic_id for topic_id in group.states.names if self._port.topic_name(topic_id) is None]
        if gone:
            partitions = [(topic_id, number) for topic_id in gone for number in group.states.all_of(topic_id)]
            group.forget_states(gone)
            self._abandon(group, partitions, now_ms)
            self._port.delete(group.group_id, partitions, lambda results, now_ms: None)

    # -- shards --------------------------------------------------------------------------------------------------

    def go_on(self, group: ShareGroup, now_ms: int) -> None:
        """Finish what was begun before the group was loaded."""
        initialized = group.states.initialized
        again = [
            (topic_id, number)
            for topic_id, numbers in group.states.initializing.items()
            for number in numbers & initialized.get(topic_id, frozenset())
        ]
        group.initialized(again)  # a client set their offsets, and got no answer: the former ones hold
        self._delete_again(group, now_ms)
        self.begin(group, now_ms)

    def stop(self, group: ShareGroup, now_ms: int) -> None:
        """Stop the work of a group that is unloaded or deleted."""
        work = self._work.pop(group, None)
        if work is not None:
            cancel(work.timer)
            waiting = {partition for waiter in work.waiters for partition in waiter.missing}
            self._answer(work, dict.fromkeys(waiting, ErrorCode.NOT_COORDINATOR), now_ms)
            self._settle(work, now_ms)


def _pending(group: ShareGroup) -> list[TopicIdPartition]:
    return [(topic_id, number) for topic_id, numbers in group.states.initializing.items() for number in sorted(numbers)]
