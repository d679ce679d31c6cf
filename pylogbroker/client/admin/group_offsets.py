"""Committed offsets of groups: read, set, delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import NodeRoute, Router, deferred, outcome, results
from pylogbroker.client.cluster import CoordinatorType
from pylogbroker.client.errors import COORDINATOR_NOT_READY
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire import Request
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

_ONE_GROUP_VERSION_MAX = 7  # of OffsetFetch: the last with one group


@attrs.frozen
class CommittedOffset:
    """Offset of the next record to consume; leader epoch -1 means unknown."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@attrs.frozen(eq=False)
class GroupOffsetsAdmin:
    _router: Router

    @deferred
    async def offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return committed offsets, by default all of them; a partition without one is left out.

        With `require_stable`, wait until no transaction is about to change them.
        """
        rows = None if partitions is None else _offsets_wanted(arguments.partitions("partitions", partitions))
        response = await self._ask_group(
            group,
            lambda: OffsetFetchRequest(group, rows, require_stable=require_stable),
            lambda response: response.error_code,
            newest=_ONE_GROUP_VERSION_MAX,
        )
        found = dict(
            _read(
                response,
                lambda each: CommittedOffset(each.committed_offset, each.committed_leader_epoch, each.metadata or ""),
            )
        )
        return {key: each for key, each in results([*found], found).items() if each.offset >= 0}

    @deferred
    async def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]) -> None:
        """Commit offsets for a group without members."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, partition), given in offsets.items():
            each = given if isinstance(given, CommittedOffset) else CommittedOffset(arguments.offset("offsets", given))
            row = OffsetCommitRequestPartition(
                partition, each.offset, each.leader_epoch, committed_metadata=each.metadata
            )
            topics.setdefault(topic, OffsetCommitRequestTopic(topic)).partitions.append(row)
        if not topics:
            return
        response = await self._ask_group(
            group, lambda: OffsetCommitRequest(group, topics=[*topics.values()]), _coordinator_error
        )
        results([*offsets], dict(_read(response, lambda _: None)))

    @deferred
    async def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of topics that no member of the group is subscribed to."""
        wanted = arguments.partitions("partitions", partitions)
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for topic, partition in wanted:
            rows = topics.setdefault(topic, OffsetDeleteRequestTopic(topic)).partitions
            rows.append(OffsetDeleteRequestPartition(partition))
        if not topics:
            return
        response = await self._ask_group(
            group, lambda: OffsetDeleteRequest(group, [*topics.values()]), lambda response: response.error_code
        )
        results(wanted, dict(_read(response, lambda _: None)))

    def _route(self) -> NodeRoute[str]:
        return self._router.coordinators(CoordinatorType.GROUP)

    async def _ask_group(
        self, group: str, make: Callable[[], Request], code_of: Callable[[Any], int], newest: int | None = None
    ) -> Any:
        """Return the response of a group's coordinator once its error of the request as such is 0."""

        def read(response: Any) -> Iterator[tuple[str, Any]]:
            yield group, outcome(f"group {group}", code_of(response), None, response)

        found = await self._router.ask(
            self._route(), [arguments.name("group", group)], lambda _: make(), read, newest=newest
        )
        return found[group]


def _offsets_wanted(partitions: Iterable[TopicPartition]) -> list[OffsetFetchRequestTopic]:
    topics: dict[str, OffsetFetchRequestTopic] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, OffsetFetchRequestTopic(topic)).partition_indexes.append(partition)
    return [*topics.values()]


def _coordinator_error(response: Any) -> int:
    """Return the error of a coordinator that has moved or is loading, which all partitions have; else 0."""
    codes = (each.error_code for topic in response.topics for each in topic.partitions)
    return next((code for code in codes if code in COORDINATOR_NOT_READY), 0)


def _read(response: Any, value: Callable[[Any], Any]) -> Iterator[tuple[TopicPartition, Any | KafkaError]]:
    for topic in response.topics:
        for each in topic.partitions:
            where = f"{topic.name}/{each.partition_index}"
            yield (topic.name, each.partition_index), outcome(where, each.error_code, None, value(each))
