"""The offsets of groups: committing, fetching, deleting and expiring them.

Who may commit: to a group with members, its members of the present generation; to an Empty group also whoever does
without membership, by generation -1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.group import Group
from pylogbroker.groups.journal import Journal
from pylogbroker.groups.membership import check_generation
from pylogbroker.groups.rebalance import Rebalancer
from pylogbroker.groups.requests import (
    NO_MEMBER_ID,
    Commit,
    CommitResult,
    CommittedOffset,
    DeleteOffsetsResult,
    FetchResult,
    Reply,
    TopicPartition,
)
from pylogbroker.groups.settings import GroupSettings
from pylogbroker.groups.states import GroupState
from pylogbroker.groups.subscription import PROTOCOL_TYPE
from pylogbroker.groups.turns import Turns


@attrs.define(eq=False)
class Commits:
    """Handles the requests that concern offsets."""

    _settings: GroupSettings
    _turns: Turns
    _rebalancer: Rebalancer
    _journal: Journal

    def commit(self, group: Group, commit: Commit, reply: Reply[CommitResult], now_ms: int) -> None:
        """Store offsets, except those with too much metadata, and then show them."""
        error = _check_commit(group, commit)
        if error:
            self._turns.soon(reply, dict.fromkeys(commit.offsets, error))
            return
        member = group.members.get(commit.member_id)
        if member is not None:
            self._rebalancer.keep_alive(group, member, now_ms)
        result = {
            partition: ErrorCode.NONE if self._fits(offset.metadata) else ErrorCode.OFFSET_METADATA_TOO_LARGE
            for partition, offset in commit.offsets.items()
        }
        taken = {partition: offset for partition, offset in commit.offsets.items() if not result[partition]}
        if taken:
            self._store(group, taken, result, reply, now_ms)
        else:
            self._turns.soon(reply, result)

    def _fits(self, metadata: str) -> bool:
        return len(metadata) <= self._settings.max_metadata_bytes

    def _store(
        self,
        group: Group,
        taken: dict[TopicPartition, CommittedOffset],
        result: CommitResult,
        reply: Reply[CommitResult],
        now_ms: int,
    ) -> None:
        for partition, offset in taken.items():
            group.offsets.begin(partition, offset)

        def stored(error: ErrorCode, later_ms: int) -> None:
            settle = group.offsets.fail if error else group.offsets.complete
            for partition, offset in taken.items():
                settle(partition, offset)
            self._turns.soon(reply, result | dict.fromkeys(taken, error))

        self._journal.store_offsets(group, taken, now_ms, stored)

    def fetch(
        self, group: Group | None, partitions: Sequence[TopicPartition] | None, require_stable: bool
    ) -> FetchResult:
        """What the group remembers of these partitions, or of all; with `require_stable` no pending ones."""
        if group is None:
            return FetchResult(ErrorCode.NONE, dict.fromkeys(partitions or ()))
        offsets = group.offsets

        def find(partition: TopicPartition) -> CommittedOffset | ErrorCode | None:
            if require_stable and partition in offsets.pending:
                return ErrorCode.UNSTABLE_OFFSET_COMMIT
            return offsets.committed.get(partition)

        wanted = list(offsets.committed) if partitions is None else partitions
        return FetchResult(ErrorCode.NONE, {partition: find(partition) for partition in wanted})

    def delete(self, group: Group, partitions: Sequence[TopicPartition], now_ms: int) -> DeleteOffsetsResult:
        """Forget the offsets of partitions that no member consumes."""
        if group.state is not GroupState.EMPTY and group.protocol_type != PROTOCOL_TYPE:
            return DeleteOffsetsResult(ErrorCode.NON_EMPTY_GROUP)
        live = group.state is not GroupState.EMPTY
        result = {
            partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            if live and group.is_subscribed(partition[0])
            else ErrorCode.NONE
            for partition in partitions
        }
        self.forget(group, [partition for partition, error in result.items() if not error], now_ms)
        return DeleteOffsetsResult(ErrorCode.NONE, result)

    def expire(self, group: Group, now_ms: int) -> bool:
        """Forget what is older than the retention time; whether the whole group is gone with it."""
        return self.forget(group, self._expired(group, now_ms), now_ms)

    def forget(self, group: Group, partitions: Iterable[TopicPartition], now_ms: int) -> bool:
        """Forget the offsets of these partitions; whether the group, left with nothing at all, is dead now."""
        removed = group.offsets.remove(partitions)
        is_over = group.state is GroupState.EMPTY and not group.offsets and not group.pending
        if is_over:
            group.move(GroupState.DEAD, now_ms)
        was_stored = group.generation > 0
        self._journal.forget(group, removed, is_over and was_stored, now_ms)
        return is_over

    def _expired(self, group: Group, now_ms: int) -> list[TopicPartition]:
        offsets, retention_ms = group.offsets, self._settings.retention_ms
        if group.protocol_type is None:
            return offsets.expired(now_ms, retention_ms, _since_commit)
        if group.state is GroupState.EMPTY:
            since = group.since
            return offsets.expired(now_ms, retention_ms, _since_commit if since is None else lambda offset: since)
        if group.state is GroupState.STABLE and group.subscribed is not None:
            return offsets.expired(now_ms, retention_ms, _since_commit, group.subscribed)
        return []


def _since_commit(offset: CommittedOffset) -> int:
    return offset.committed


def _check_commit(group: Group, commit: Commit) -> ErrorCode:
    is_alone = commit.generation < 0
    if is_alone and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if is_alone and commit.member_id == NO_MEMBER_ID and commit.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = check_generation(group, commit.generation, commit.member_id, commit.instance_id)
    if error is ErrorCode.NONE and group.state is GroupState.COMPLETING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error
