"""Commits, fetches, deletions and expiry of offsets.

Members of the present generation may commit; consumers without membership (generation -1) only to an Empty group. In
transactions, commits without group data are always valid, and members may commit before their generation is Stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from pylogbroker.coordinators import EventQueue, ProducerIdAndEpoch, Reply, TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.classic.rebalance import Rebalancer
from pylogbroker.groups.consumer.partitions import FindTopicId
from pylogbroker.groups.kinds import ClassicGroup, Group, ShareGroup
from pylogbroker.groups.record_writer import GroupRecordWriter
from pylogbroker.groups.requests import (
    Commit,
    CommitResult,
    CommittedOffset,
    DeleteOffsetsResult,
    FetchResult,
    TransactionalCommit,
)
from pylogbroker.groups.settings import GroupSettings

Offsets = dict[TopicPartition, CommittedOffset]


@attrs.define(eq=False, repr=False)
class OffsetManager:
    _settings: GroupSettings
    _events: EventQueue
    _rebalancer: Rebalancer
    _writer: GroupRecordWriter
    _remove_records: Callable[[Group, int], None]
    """Writes tombstones of the records of a group that is not classic."""
    _topic_id: FindTopicId

    def commit(self, group: Group, commit: Commit, reply: Reply[CommitResult], now_ms: int) -> None:
        error = group.check_commit(commit, self._topic_id)
        if error:
            self._events.reply(reply, dict.fromkeys(commit.offsets, error))
            return
        if isinstance(group, ClassicGroup):
            member = group.members.get(commit.member_id)
            if member is not None:
                self._rebalancer.keep_alive(group, member, now_ms)
        taken, result = self._split_by_size(commit)
        if taken:
            self._store_offsets(group, taken, result, reply, now_ms)
        else:
            self._events.reply(reply, result)

    def _split_by_size(self, commit: Commit) -> tuple[Offsets, CommitResult]:
        limit = self._settings.max_metadata_bytes
        result = {
            partition: ErrorCode.OFFSET_METADATA_TOO_LARGE if len(offset.metadata) > limit else ErrorCode.NONE
            for partition, offset in commit.offsets.items()
        }
        return {partition: offset for partition, offset in commit.offsets.items() if not result[partition]}, result

    def _store_offsets(
        self,
        group: Group,
        taken: Offsets,
        result: CommitResult,
        reply: Reply[CommitResult],
        now_ms: int,
    ) -> None:
        group.offsets.begin(taken)

        def stored(error: ErrorCode, later_ms: int) -> None:
            settle = group.offsets.fail if error else group.offsets.complete
            settle(taken)
            self._events.reply(reply, result | dict.fromkeys(taken, error))

        self._writer.write_offsets(group, taken, now_ms, stored)

    def check_transactional(self, group: Group | None, commit: TransactionalCommit) -> ErrorCode:
        if isinstance(group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if commit.generation < 0 and (commit.is_silent or group is None or group.is_empty):
            return ErrorCode.NONE
        return ErrorCode.UNKNOWN_MEMBER_ID if group is None else group.check_transactional(commit, self._topic_id)

    def commit_in_transaction(
        self,
        group: Group,
        commit: TransactionalCommit,
        reply: Reply[CommitResult],
        now_ms: int,
        on_change: Callable[[], None],
    ) -> None:
        """Store offsets; call `on_change` when the transaction's pending ones may have changed."""
        taken, result = self._split_by_size(commit)
        if not taken:
            self._events.reply(reply, result)
            return
        producer_id, offsets = commit.producer_id, group.offsets
        offsets.begin_in_transaction(producer_id, taken)
        on_change()

        def stored(error: ErrorCode, later_ms: int) -> None:
            settle = offsets.fail_in_transaction if error else offsets.complete_in_transaction
            settle(producer_id, taken)
            on_change()
            self._events.reply(reply, result | dict.fromkeys(taken, error))

        self._writer.write_offsets(group, taken, now_ms, stored, ProducerIdAndEpoch(producer_id, commit.producer_epoch))

    def fetch(
        self, group: Group | None, partitions: Sequence[TopicPartition] | None, require_stable: bool
    ) -> FetchResult:
        """Return offsets of these or all partitions; with `require_stable`, errors for pending ones."""
        if group is None:
            return FetchResult(ErrorCode.NONE, dict.fromkeys(partitions or ()))
        committed = group.offsets.committed
        offsets: dict[TopicPartition, CommittedOffset | ErrorCode | None]
        offsets = (
            {**committed} if partitions is None else {partition: committed.get(partition) for partition in partitions}
        )
        if require_stable:
            offsets |= dict.fromkeys(group.offsets.unstable(offsets), ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return FetchResult(ErrorCode.NONE, offsets)

    def delete(self, group: Group, partitions: Sequence[TopicPartition], now_ms: int) -> DeleteOffsetsResult:
        if isinstance(group, ShareGroup):
            return DeleteOffsetsResult(ErrorCode.GROUP_ID_NOT_FOUND)
        live = not group.is_empty
        if live and not group.consumes_partitions:
            return DeleteOffsetsResult(ErrorCode.NON_EMPTY_GROUP)
        result = {
            partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            if live and group.is_subscribed(partition[0])
            else ErrorCode.NONE
            for partition in partitions
        }
        self.remove(group, [partition for partition, error in result.items() if not error], now_ms)
        return DeleteOffsetsResult(ErrorCode.NONE, result)

    def expire(self, group: Group, now_ms: int) -> None:
        self.remove(group, group.expired_offsets(now_ms, self._settings.retention_ms), now_ms)

    def remove(self, group: Group, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Remove offsets; an Empty group without any becomes Dead, but not a share group, which never has any."""
        if isinstance(group, ShareGroup):
            return
        removed = group.offsets.remove(partitions)
        is_dead = group.is_empty and not group.offsets and not group.has_pending
        if is_dead:
            group.die(now_ms)
        if isinstance(group, ClassicGroup):
            was_stored = group.generation > 0
            self._writer.write_tombstones(group, removed, is_dead and was_stored, now_ms)
        else:
            self._writer.write_tombstones(group, removed, False, now_ms)
            if is_dead:
                self._remove_records(group, now_ms)
