"""Stores of a group's offsets: the group coordinator, the coordination tree, or both.

offsets.storage    dual.commit.enabled    committed to     read from
kafka              false                  the brokers      the brokers
zookeeper          false                  the tree         the tree
any                true                   both             both: the larger offset counts

`docs/consumer.md` describes migrating a running group. While some members commit to one store, the larger offset is the
later one. Stores do not retry: the caller knows how long.

The tree has decimal offsets: `/consumers/<group>/offsets/<topic>/<n>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import attrs

from pylogbroker.background import with_cleanup
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.nodes import ensure, parent
from pylogbroker.client.coordinator_requests import CoordinatorType
from pylogbroker.client.errors import COORDINATOR_MOVED, ConnectionLost, RequestTimedOut
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import Create, ITree, NodeExists, NoNode, SetData, TopicPartition
from pylogbroker.metadata import zk_paths
from pylogbroker.metadata.zk_schema import BadNode
from pylogbroker.rpc.answer_rows import rows_by_key, rows_in_order
from pylogbroker.rpc.errors import raise_for
from pylogbroker.wire import UnsupportedVersion
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from pylogbroker.wire.schema import Request

_ONE_GROUP: Final = 7  # OffsetFetch: last version with a single group, first with stable offsets
_EPOCHS: Final = 9  # OffsetCommit and OffsetFetch: first version with member epochs


class OffsetStore(Protocol):
    """Offsets of the next records to read."""

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    async def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return stored offsets; omit partitions without one."""


class CommitIdentity(Protocol):
    """Committing member; the coordinator rejects former ones."""

    @property
    def generation(self) -> int: ...

    @property
    def member_id(self) -> str: ...

    @property
    def instance_id(self) -> str | None: ...


@attrs.frozen
class NoMember:
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


@attrs.define(eq=False, repr=False)
class BrokerOffsets:
    _cluster: Cluster
    _group: str
    _identity: CommitIdentity = NoMember()
    _has_epochs: bool = False
    """Whether the generation is a member's epoch: then reads of offsets name the member, too."""

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, number), offset in offsets.items():
            of_topic = topics.setdefault(topic, OffsetCommitRequestTopic(topic))
            of_topic.partitions.append(OffsetCommitRequestPartition(number, offset))
        request = OffsetCommitRequest(
            self._group,
            self._identity.generation,
            self._identity.member_id,
            self._identity.instance_id,
            topics=list(topics.values()),
        )
        response: OffsetCommitResponse = await self._ask(request)
        for (topic, number), row in self._rows(response, offsets).items():
            self._check(row.error_code, f"{topic}/{number}")

    async def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if self._has_epochs:
            return await self._fetch_as_member(partitions)
        topics: dict[str, OffsetFetchRequestTopic] = {}
        keys = list(partitions)
        for topic, number in keys:
            topics.setdefault(topic, OffsetFetchRequestTopic(topic)).partition_indexes.append(number)
        request = OffsetFetchRequest(self._group, list(topics.values()), require_stable=True)
        response: OffsetFetchResponse = await self._ask(request)
        self._check(response.error_code, self._group)
        return self._offsets(response, keys)

    async def _fetch_as_member(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        topics: dict[str, OffsetFetchRequestTopics] = {}
        keys = list(partitions)
        for topic, number in keys:
            topics.setdefault(topic, OffsetFetchRequestTopics(topic)).partition_indexes.append(number)
        member = self._identity
        is_member = member.generation >= 0
        group = OffsetFetchRequestGroup(
            self._group,
            member.member_id if is_member else None,
            member.generation if is_member else -1,
            list(topics.values()),
        )
        response: OffsetFetchResponse = await self._ask(OffsetFetchRequest(groups=[group], require_stable=True))
        [answer] = rows_in_order(response, "groups", self._coordinator_name, 1)
        self._check(answer.error_code, self._group)
        return self._offsets(answer, keys)

    def _offsets(
        self, answer: OffsetFetchResponse | OffsetFetchResponseGroup, keys: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = {}
        for (topic, number), row in self._rows(answer, keys).items():
            self._check(row.error_code, f"{topic}/{number}")
            if row.committed_offset >= 0:
                offsets[topic, number] = row.committed_offset
        return offsets

    def _rows(self, answer: Any, keys: Iterable[TopicPartition]) -> dict[TopicPartition, Any]:
        return rows_by_key(answer, "topics.partitions", self._coordinator_name, keys, _key)

    @property
    def _coordinator_name(self) -> str:
        return f"the coordinator of group {self._group}"

    async def _ask(self, request: Request) -> Any:
        node = await self._cluster.coordinator(self._group, CoordinatorType.GROUP)
        try:
            if self._has_epochs:
                return await self._cluster.send(node, request, version=_EPOCHS)
            if isinstance(request, OffsetFetchRequest):
                return await self._ask_for_offsets(node, request)
            return await self._cluster.send(node, request)
        except (ConnectionLost, RequestTimedOut):
            self._cluster.forget_coordinator(self._group, CoordinatorType.GROUP)
            raise

    async def _ask_for_offsets(self, node: int, request: OffsetFetchRequest) -> Any:
        try:
            return await self._cluster.send(node, request, version=_ONE_GROUP)
        except UnsupportedVersion:  # an older broker, without stable offsets
            request.require_stable = False
            return await self._cluster.send(node, request)

    def _check(self, code: int, what: str) -> None:
        if code in COORDINATOR_MOVED:
            self._cluster.forget_coordinator(self._group, CoordinatorType.GROUP)
        raise_for(code, what)


def _key(topic: Any, partition: Any) -> TopicPartition:
    return topic.name, partition.partition_index


@attrs.define(eq=False, repr=False)
class TreeOffsets:
    _tree: ITree
    _group: str

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        values = {zk_paths.committed_offset(self._group, *key): b"%d" % offset for key, offset in offsets.items()}
        while values:
            await ensure(self._tree, {parent(path) for path in values})
            nodes = zip(values, await self._tree.get_many(list(values)), strict=True)
            try:
                await self._tree.commit(
                    [
                        Create(path, values[path]) if node is None else SetData(path, values[path])
                        for path, node in nodes
                    ]
                )
            except (NodeExists, NoNode):
                continue  # another client created or deleted a node
            return

    async def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        keys = list(partitions)
        nodes = await self._tree.get_many([zk_paths.committed_offset(self._group, *key) for key in keys])
        return {key: _number(node.data) for key, node in zip(keys, nodes, strict=True) if node is not None}


@attrs.define(eq=False, repr=False)
class DualOffsets:
    _stores: tuple[OffsetStore, OffsetStore]

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit to both stores even if the first fails; raise the error."""
        first, second = self._stores
        await with_cleanup(first.commit(offsets), lambda: second.commit(offsets))

    async def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        keys = list(partitions)
        first, second = [await store.fetch(keys) for store in self._stores]
        return {key: max(first.get(key, -1), second.get(key, -1)) for key in keys if key in first or key in second}


def choose_store(storage: str, dual: bool, brokers: OffsetStore, tree: OffsetStore | None) -> OffsetStore:
    """Raise ConfigError if the tree is missing."""
    if storage == "kafka" and not dual:
        return brokers
    if tree is None:
        setting = "dual.commit.enabled" if dual else f"offsets.storage={storage}"
        raise ConfigError(f"{setting} needs a coordination tree: set zookeeper.connect, or pass one as coordination=")
    if not dual:
        return tree
    return DualOffsets((brokers, tree) if storage == "kafka" else (tree, brokers))


def _number(data: bytes | None) -> int:
    try:
        return int(data or b"")
    except ValueError:
        raise BadNode(f"not an offset: {data and data[:80]!r}") from None
