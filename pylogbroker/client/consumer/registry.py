"""Membership in a group by way of the coordination tree: no broker has a part in it.

/consumers/<group>/ids/<consumer>        that the consumer lives, and what it subscribes to (ephemeral)
/consumers/<group>/owners/<topic>/<n>    `<consumer>-<stream>`, as long as that stream reads the partition (ephemeral)

A consumer registers itself, watches its group, the brokers and the topics, and rebalances at once and at every change:

1. look: who is in the group, which partitions are there. Every watch that has fired is set again before that.
2. plan: what is mine, see `registry_plan`.
3. release what is not mine any more: the listener stops reading it and commits, then the owner's node goes.
4. claim what is new: create the owner's node. The listener is given what could be claimed.
5. What others own still, since they have not got so far yet, is waited for: until the node goes, or anything else
   changes, or `rebalance.backoff.ms` have passed; then all begins anew. When that was in vain `rebalance.max.retries`
   times, the listener is told, but it goes on.

What stays mine is read all the while. If the own registration is gone, with the tree's session, so is all that was
owned: the listener is told that it is lost, and the consumer registers again.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.client.consumer.nodes import ensure, parent
from pylogbroker.client.consumer.registry_plan import View, plan, topics_of
from pylogbroker.client.errors import ClientError
from pylogbroker.coordination import layout, paths
from pylogbroker.coordination.layout import BadNode, ConsumerNode
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
    SetData,
    TopicPartition,
)

log = Logger()
T = TypeVar("T")


class RebalanceFailed(ClientError):
    """Partitions that are this consumer's are still owned by others, or the tree cannot be read; it is tried again."""


class Clock(Protocol):
    """What the registry needs of a reactor."""

    def seconds(self) -> float: ...

    def callLater(self, delay: float, call: Callable[..., Any], *args: Any) -> Any: ...


class Listener(Protocol):
    """Whoever reads the partitions."""

    def give_up(self, partitions: Collection[TopicPartition]) -> Awaitable[None]:
        """Stop reading these and commit how far that came; the others of the group wait for it."""

    def lose(self, partitions: Collection[TopicPartition]) -> Awaitable[None]:
        """Stop reading these: others may read them already."""

    def take(self, partitions: Mapping[TopicPartition, int]) -> object:
        """Begin to read these, each with the stream of that number. What comes of it is not waited for."""

    def failed(self, error: Exception) -> None:
        """A rebalance does not come to an end."""


def new_consumer_id() -> str:
    """An id that nobody has: host and UUID."""
    return f"{socket.gethostname()}:{uuid.uuid4()}"


@attrs.define(eq=False)
class Registry:
    """A consumer in its group. `backoff` is in seconds."""

    _tree: ITree
    _clock: Clock
    _group: str
    _consumer: ConsumerNode
    _listener: Listener
    consumer_id: str = attrs.field(factory=new_consumer_id)
    _max_retries: int = 4
    _backoff: float = 2.0
    _held: dict[TopicPartition, int] = attrs.field(init=False, factory=dict)
    _returning: set[TopicPartition] = attrs.field(init=False, factory=set)  # given up; the tree may not know it yet
    _watching: set[str] = attrs.field(init=False, factory=set)
    _changed: bool = attrs.field(init=False, default=False)
    _waiting: Deferred[None] | None = attrs.field(init=False, default=None)
    _stopping: bool = attrs.field(init=False, default=False)
    _running: Deferred[None] | None = attrs.field(init=False, default=None)

    @property
    def held(self) -> Mapping[TopicPartition, int]:
        """What this consumer owns, and with which stream it reads it."""
        return dict(self._held)

    async def start(self) -> None:
        """Register, and rebalance: once, and then whenever something changes."""
        begun: Deferred[None] = Deferred()
        self._running = ensureDeferred(self._run(begun))
        await begun

    async def stop(self) -> None:
        """Give up everything, and leave the group."""
        self._stopping = True
        self._wake()
        if self._running is not None:
            await self._running
        try:
            await self._release(list(self._held))
        finally:
            await self._delete({paths.consumer(self._group, self.consumer_id)}, lambda node: True)

    def rebalance(self) -> None:
        """Rebalance now, or once more if it is being done."""
        self._changed = True
        self._wake()

    # -- one after another -----------------------------------------------------------------------------------------

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
                    self._say(self._listener.failed, missing)
            await self._wait(self._backoff if missing else None)
        if not begun.called:
            begun.callback(None)

    async def _try(self) -> RebalanceFailed | None:
        """Rebalance once; return why it is not at its end."""
        try:
            others = await self._rebalance()
        except PylogbrokerError as error:
            log.warn("Rebalancing of {group} failed: {error}", group=self._group, error=error)
            self._watching.clear()  # which of them were set is not known
            return RebalanceFailed(f"{self._group}: {error}")
        return RebalanceFailed(f"{self._group}: others own {sorted(others)}") if others else None

    async def _wait(self, seconds: float | None) -> None:
        """Until something changes, or so many seconds have passed."""
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

    # -- a rebalance -----------------------------------------------------------------------------------------------

    async def _rebalance(self) -> set[TopicPartition]:
        """Do it once; return what is this consumer's, but owned by others."""
        view = await self._look()
        if self.consumer_id not in view.members:
            await self._lose()
            await self._register()
            view = await self._look()
        planned = plan(view, self.consumer_id)
        await self._release([each for each, stream in self._held.items() if planned.get(each) != stream])
        claimed = await self._claim({each: planned[each] for each in planned.keys() - self._held.keys()})
        self._held.update(claimed)
        if claimed:
            self._say(self._listener.take, claimed)
        return planned.keys() - self._held.keys()

    async def _register(self) -> None:
        path = paths.consumer(self._group, self.consumer_id)
        await ensure(self._tree, [parent(path)])
        data = layout.encode_consumer(self._consumer, int(self._clock.seconds() * 1000))
        await self._tree.commit([Create(path, data, ephemeral=True)])

    async def _lose(self) -> None:
        lost, self._held = self._held, {}
        if lost:
            await self._tell(self._listener.lose, list(lost))

    async def _release(self, partitions: Collection[TopicPartition]) -> None:
        """Stop reading these; then let go of them, and of those that could not be let go of before."""
        if partitions:
            await self._tell(self._listener.give_up, partitions)
        for partition in partitions:
            del self._held[partition]
        self._returning.update(partitions)
        if self._returning:
            await self._delete({self._owner(each) for each in self._returning}, self._is_mine)
            self._returning.clear()

    async def _claim(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Become the owner of those that nobody owns."""
        owners = {each: self._owner(each) for each in sorted(wanted)}
        await ensure(self._tree, {parent(path) for path in owners.values()})
        nodes = dict(zip(owners, await self._tree.get_many(list(owners.values())), strict=True))
        free = {each: wanted[each] for each, node in nodes.items() if node is None or self._is_mine(node)}
        claims = [self._claiming(owners[each], free[each], nodes[each]) for each in free]
        try:
            if claims:
                await self._tree.commit(claims)
        except (NodeExists, NoNode, BadVersion):
            free = {}  # somebody was faster with one of them
        for each in owners.keys() - free.keys():
            await self._await_release(owners[each])
        return free

    def _claiming(self, path: str, stream: int, node: Node | None) -> Operation:
        """Create the node, or take over the one that a claim whose outcome was not known has left."""
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
                continue  # one of them is gone already
            return

    def _owner(self, partition: TopicPartition) -> str:
        return paths.owner(self._group, *partition)

    def _is_mine(self, node: Node) -> bool:
        return node.data.rpartition(b"-")[0] == self.consumer_id.encode()

    def _say(self, say: Callable[[T], object], what: T) -> None:
        """Let the listener know. What it makes of it is its own affair."""
        try:
            say(what)
        except Exception:
            log.failure("Whoever reads for {group} failed", group=self._group)

    async def _tell(
        self, tell: Callable[[Collection[TopicPartition]], Awaitable[None]], partitions: Collection[TopicPartition]
    ) -> None:
        """Have the listener do its part. If it fails, that must not keep partitions from the others of the group."""
        try:
            await tell(partitions)
        except Exception:
            log.failure("A change of the partitions of {group} was not taken in", group=self._group)

    # -- looking ---------------------------------------------------------------------------------------------------

    async def _look(self) -> View:
        members = await self._members()
        await self._children(paths.BROKER_IDS)
        topics = self._consumer.subscription
        if self._consumer.pattern != "static":
            topics = dict.fromkeys(topics_of(self._consumer, await self._children(paths.TOPICS)), 1)
        return View(members, await self._topics(sorted(topics)))

    async def _members(self) -> dict[str, ConsumerNode]:
        path = paths.consumers(self._group)
        await self._children(path)
        members = {}
        for name, node in (await self._tree.children_with_data(path)).items():
            try:
                members[name] = layout.decode_consumer(node.data)
            except BadNode as error:
                log.warn("{name} in {group} is no consumer: {error}", name=name, group=self._group, error=error)
        return members

    async def _topics(self, names: Iterable[str]) -> dict[str, layout.TopicNode]:
        """The topics of those names that exist. Whether they do, and how many partitions they have, is watched."""
        nodes = {name: paths.topic(name) for name in names}
        for path in nodes.values():
            if path not in self._watching:
                await self._tree.exists(path, self._watch(path))
        found = zip(nodes, await self._tree.get_many(list(nodes.values())), strict=True)
        return {name: layout.decode_topic(node.data) for name, node in found if node is not None}

    async def _children(self, path: str) -> list[str]:
        """The children of a node, none if there is no such node yet, and a watch on them."""
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
