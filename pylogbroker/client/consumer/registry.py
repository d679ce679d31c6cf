"""Group membership by the coordination tree, without the brokers.

/consumers/<group>/ids/<consumer>        a live consumer and its subscription (ephemeral)
/consumers/<group>/owners/<topic>/<n>    `<consumer>-<stream>`, while that stream reads the partition (ephemeral)

A consumer registers, then rebalances, now and when its group, the brokers or the topics change:

1. Set the watches that fired, then read the members and partitions.
2. Plan this consumer's share (`registry_plan`).
3. Release other partitions: the listener stops reading and commits, then the owner node is deleted.
4. Claim new partitions: create owner nodes, then give the listener those that succeeded.
5. If others own partitions, wait for a change or `rebalance.backoff.ms`, then start again. After
   `rebalance.max.retries` failures, report an error to the listener and continue.

The end of the tree's session removes registration and owner nodes: the partitions are lost, and the consumer registers
again.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.background import with_cleanup
from pylogbroker.client.consumer.nodes import ensure, parent
from pylogbroker.client.consumer.registry_plan import View, plan, topics_of
from pylogbroker.client.errors import ClientError
from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import (
    BadVersion,
    Changed,
    Create,
    Delete,
    ITree,
    Node,
    NodeExists,
    NoNode,
    Operation,
    SessionEvent,
    SessionExpired,
    SessionState,
    SetData,
    TopicPartition,
)
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.zk_schema import BadNode, ConsumerNode

log = Logger()
T = TypeVar("T")


class RebalanceFailed(ClientError):
    """Others still own partitions, or the tree cannot be read; retries continue."""


class Clock(Protocol):
    def seconds(self) -> float: ...

    def callLater(self, delay: float, call: Callable[..., Any], *args: Any) -> Any: ...


class RegistryListener(Protocol):
    def revoke(self, partitions: Collection[TopicPartition]) -> Awaitable[None]:
        """Stop reading and commit; the group waits."""

    def lose(self, partitions: Collection[TopicPartition]) -> Awaitable[None]:
        """Stop reading: others may read already."""

    def assign(self, partitions: Mapping[TopicPartition, int]) -> object:
        """Read each partition on the stream of that number; not awaited."""

    def failed(self, error: Exception) -> None: ...


def new_consumer_id() -> str:
    return f"{socket.gethostname()}:{uuid.uuid4()}"


@attrs.define(eq=False, repr=False)
class GroupRegistry:
    """Consumer in its group; `backoff` in seconds."""

    _tree: ITree
    _clock: Clock
    _group: str
    _consumer: ConsumerNode
    _listener: RegistryListener
    consumer_id: str = attrs.field(factory=new_consumer_id)
    _max_retries: int = 4
    _backoff: float = 2.0
    _held: dict[TopicPartition, int] = attrs.field(init=False, factory=dict)
    _returning: set[TopicPartition] = attrs.field(init=False, factory=set)  # revoked; owner nodes may still exist
    _session_id: int = attrs.field(init=False, default=0)
    _watching: set[str] = attrs.field(init=False, factory=set)
    _changed: bool = attrs.field(init=False, default=False)
    _waiting: Deferred[None] | None = attrs.field(init=False, default=None)
    _stopping: bool = attrs.field(init=False, default=False)
    _running: Deferred[None] | None = attrs.field(init=False, default=None)

    async def start(self) -> None:
        self._session_id = self._tree.session_id
        self._tree.watch_session(self._session_changed)
        begun: Deferred[None] = Deferred()
        self._running = ensureDeferred(self._run(begun))
        await begun

    async def stop(self) -> None:
        self._stopping = True
        self._wake()
        if self._running is not None:
            await self._running
        await with_cleanup(self._release(list(self._held)), self._delete_own)

    async def _delete_own(self) -> None:
        await self._delete({zk_paths.consumer(self._group, self.consumer_id)}, lambda node: True)

    def rebalance(self) -> None:
        self._changed = True
        self._wake()

    def _session_changed(self, event: SessionEvent) -> None:
        if event.state is SessionState.EXPIRED:
            self.rebalance()  # which fails, and gives the partitions back
        elif event.session_id != self._session_id:
            self._session_id = event.session_id
            self._watching.clear()  # they ended with the session
            self.rebalance()

    # main loop

    async def _run(self, begun: Deferred[None]) -> None:
        try:
            await self._register()
        except Exception:
            begun.errback()
            return
        retries = 0
        while not self._stopping:
            self._changed = False
            missing = await self._try()
            if not begun.called:
                begun.callback(None)
            if self._changed or missing is None:
                retries = 0
            else:
                retries += 1
                if retries == self._max_retries:
                    self._notify(self._listener.failed, missing)
            await self._wait(self._backoff if missing else None)
        if not begun.called:
            begun.callback(None)

    async def _try(self) -> RebalanceFailed | None:
        try:
            others = await self._rebalance()
        except PylogbrokerError as error:
            if isinstance(error, SessionExpired):
                await self._lose()  # other members own the partitions now
            log.warn("rebalancing of {group} failed, it is retried: {error}", group=self._group, error=error)
            self._watching.clear()  # unknown which are set
            return RebalanceFailed(f"{self._group}: {error}")
        return RebalanceFailed(f"{self._group}: other members still own {sorted(others)}") if others else None

    async def _wait(self, seconds: float | None) -> None:
        if self._changed or self._stopping:
            return
        self._waiting = Deferred()
        timer = None if seconds is None else self._clock.callLater(seconds, self._wake)
        await self._waiting
        if timer is not None and timer.active():
            timer.cancel()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)

    # a rebalance

    async def _rebalance(self) -> set[TopicPartition]:
        """Return planned partitions that others own."""
        view = await self._look()
        if self.consumer_id not in view.members:
            await self._lose()
            await self._register()
            view = await self._look()
        planned = plan(view, self.consumer_id)
        await self._release([key for key, stream in self._held.items() if planned.get(key) != stream])
        claimed = await self._claim({key: planned[key] for key in planned.keys() - self._held.keys()})
        self._held.update(claimed)
        if claimed:
            self._notify(self._listener.assign, claimed)
        return planned.keys() - self._held.keys()

    async def _register(self) -> None:
        path = zk_paths.consumer(self._group, self.consumer_id)
        await ensure(self._tree, [parent(path)])
        data = zk_schema.encode_consumer(self._consumer, int(self._clock.seconds() * 1000))
        await self._tree.commit([Create(path, data, ephemeral=True)])

    async def _lose(self) -> None:
        lost, self._held = self._held, {}
        if lost:
            await self._call_listener(self._listener.lose, list(lost))

    async def _release(self, partitions: Collection[TopicPartition]) -> None:
        """Release partitions, and delete owner nodes left by a failed attempt."""
        if partitions:
            await self._call_listener(self._listener.revoke, partitions)
        for partition in partitions:
            del self._held[partition]
        self._returning.update(partitions)
        if self._returning:
            await self._delete({self._owner(key) for key in self._returning}, self._is_mine)
            self._returning.clear()

    async def _claim(self, streams: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        owners = {key: self._owner(key) for key in sorted(streams)}
        await ensure(self._tree, {parent(path) for path in owners.values()})
        nodes = dict(zip(owners, await self._tree.get_many(list(owners.values())), strict=True))
        free = {key: streams[key] for key, node in nodes.items() if node is None or self._is_mine(node)}
        claims = [self._claiming(owners[key], free[key], nodes[key]) for key in free]
        try:
            if claims:
                await self._tree.commit(claims)
        except (NodeExists, NoNode, BadVersion):
            free = {}  # another member was faster
        for taken in owners.keys() - free.keys():
            await self._await_release(owners[taken])
        return free

    def _claiming(self, path: str, stream: int, node: Node | None) -> Operation:
        """Return the operation that claims a node, or takes it over from a claim with unknown outcome."""
        data = f"{self.consumer_id}-{stream}".encode()
        return Create(path, data, ephemeral=True) if node is None else SetData(path, data, node.stat.version)

    async def _await_release(self, path: str) -> None:
        if path not in self._watching and await self._tree.exists(path, self._watch(path)) is None:
            self.rebalance()

    async def _delete(self, doomed: Collection[str], which: Callable[[Node], bool]) -> None:
        while True:
            nodes = zip(doomed, await self._tree.get_many(list(doomed)), strict=True)
            present = [Delete(path, node.stat.version) for path, node in nodes if node is not None and which(node)]
            try:
                if present:
                    await self._tree.commit(present)
            except (NoNode, BadVersion):
                continue  # changed meanwhile
            return

    def _owner(self, partition: TopicPartition) -> str:
        return zk_paths.owner(self._group, *partition)

    def _is_mine(self, node: Node) -> bool:
        return (node.data or b"").rpartition(b"-")[0] == self.consumer_id.encode()

    def _notify(self, say: Callable[[T], object], what: T) -> None:
        try:
            say(what)
        except Exception:
            log.failure("the listener of the group {group} failed", group=self._group)

    async def _call_listener(
        self, method: Callable[[Collection[TopicPartition]], Awaitable[None]], partitions: Collection[TopicPartition]
    ) -> None:
        """Log a failure: it must not keep partitions from the group."""
        try:
            await method(partitions)
        except Exception:
            log.failure(
                "the listener of the group {group} failed to handle a change of its partitions", group=self._group
            )

    # reading the tree

    async def _look(self) -> View:
        members = await self._members()
        await self._children(zk_paths.BROKER_IDS)
        topics = self._consumer.subscription
        if self._consumer.pattern != "static":
            topics = dict.fromkeys(topics_of(self._consumer, await self._children(zk_paths.TOPICS)), 1)
        of_kafka = f"{self._group}_"  # their ids: <group>_<host>-<time>-<random>; ours: <host>:<random>
        is_mixed = any(member.startswith(of_kafka) for member in members)
        return View(members, await self._topics(sorted(topics)), by_number=is_mixed)

    async def _members(self) -> dict[str, ConsumerNode]:
        path = zk_paths.consumers(self._group)
        await self._children(path)
        members = {}
        for name, node in (await self._tree.children_with_data(path)).items():
            try:
                members[name] = zk_schema.decode_consumer(node.data)
            except BadNode as error:
                log.warn(
                    "ignored {name} in {group}, which is not a consumer registration: {error}",
                    name=name,
                    group=self._group,
                    error=error,
                )
        return members

    async def _topics(self, names: Iterable[str]) -> dict[str, zk_schema.TopicNode]:
        nodes = {name: zk_paths.topic(name) for name in names}
        for path in nodes.values():
            if path not in self._watching:
                await self._tree.exists(path, self._watch(path))
        pairs = zip(nodes, await self._tree.get_many(list(nodes.values())), strict=True)
        return {name: zk_schema.decode_topic(node.data) for name, node in pairs if node is not None}

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._tree.children(path, None if path in self._watching else self._watch(path))
        except NoNode:
            self._watching.discard(path)
            return []

    def _watch(self, path: str) -> Callable[[Changed], object]:
        self._watching.add(path)

        def fired(change: Changed) -> None:
            self._watching.discard(path)
            self.rebalance()

        return fired
