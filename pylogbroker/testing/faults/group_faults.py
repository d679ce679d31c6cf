"""Faults of groups: rebalances, and members that are fenced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from pylogbroker.broker.assembly import Broker
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.requests import Leaving


@attrs.define(eq=False, repr=False)
class GroupFaults:
    """Methods for tests; any thread may call them. In a cluster they act on the group's coordinator."""

    _brokers: Callable[[], Sequence[Broker]]
    _run: Callable[..., Any]

    def members(self, group: str) -> list[str]:
        """Return the ids of a group's members; raise KafkaError if its coordinator is not ready."""
        members: list[str] = self._run(self._members, group)
        return members

    def rebalance(self, group: str) -> None:
        """Let a group rebalance: its members get REBALANCE_IN_PROGRESS. Raise KafkaError if it has none."""
        self._run(self._rebalance, group)

    def fence(self, group: str, member: str | None = None) -> None:
        """Remove a member, or all: they get UNKNOWN_MEMBER_ID."""
        self._run(self._fence, group, member)

    def _members(self, group: str) -> list[str]:
        description = self._coordinator(group).groups.describe(group)
        _raise_for(description.error, group)
        return [member.member_id for member in description.members]

    def _rebalance(self, group: str) -> None:
        broker = self._coordinator(group)
        _raise_for(broker.groups.rebalance(group, broker.runtime.now_ms()), group)

    def _fence(self, group: str, member: str | None) -> None:
        broker = self._coordinator(group)
        members = self._members(group) if member is None else [member]
        leaving = [Leaving(member_id) for member_id in members]
        result = broker.groups.leave(group, leaving, broker.runtime.now_ms())
        for code in (result.error, *result.members):
            _raise_for(code, group)

    def _coordinator(self, group: str) -> Broker:
        """Return the broker that has the group's shard, or else is loading it; without one the first."""
        brokers = self._brokers()
        shards = [broker.groups.runtime.find(group) for broker in brokers]
        preferred = sorted(range(len(brokers)), key=lambda index: (_rank(shards[index]), index))
        return brokers[preferred[0]]


def _rank(shard: object) -> int:
    if not isinstance(shard, ErrorCode):
        return 0
    return 1 if shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else 2


def _raise_for(code: ErrorCode, group: str) -> None:
    if code:
        raise KafkaError(f"group {group}: {code.name}", code)
