"""One term of this broker as the controller: watches, and events one after the other.

| event                                 | what happens                                                              |
|---------------------------------------|---------------------------------------------------------------------------|
| `run`                                 | watches are set, then the controller takes over                           |
| a watch is called                     | it is set again, then the controller reads the node                       |
| an answer of a broker                 | the controller notes it, unless it is to UpdateMetadata                   |
| a request of a handler (`ask`)        | the controller acts, the handler gets the result                          |
| first after 5 s, then after each      | leaders are balanced                                                      |
| leader.imbalance.check.interval       |                                                                           |
| an event fails                        | logged; the next event follows                                            |
| the controller resigns, or `end`      | requests fail with NOT_CONTROLLER, other events are dropped; nothing more |
|                                       | is sent                                                                   |

After a reconnection all watches are called. Nodes of brokers and topics that have not changed since are not read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import attrs
from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.broker.membership.controller_channels import AnswerHandler
from pylogbroker.broker.membership.controller_tree import SessionTree
from pylogbroker.broker.metadata.tree_errors import kafka_error
from pylogbroker.broker.runtime.idle_pause import IdlePause
from pylogbroker.controller.controller import WATCHED_CHILDREN, WATCHED_NODES, ClusterController, ControllerPhase
from pylogbroker.controller.fenced_tree import ControllerResigned
from pylogbroker.controller.ports import ControllerSettings, RequestQueues
from pylogbroker.controller.requests import BrokerRequest, UpdateMetadata
from pylogbroker.controller.term import ControllerTerm
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.formatting import counted
from pylogbroker.interfaces import Changed, CoordinationError, NoNode
from pylogbroker.metadata import zk_paths
from pylogbroker.metadata.image import PartitionKey
from pylogbroker.metadata.zk_image import TimeSlices

_BALANCE_FIRST_SECONDS: Final = 5.0
_PARENTS: Final = (zk_paths.BROKER_IDS, zk_paths.TOPICS)
"""Nodes whose children are watched each."""
T = TypeVar("T")
log = Logger()


class TermChannels(RequestQueues, Protocol):
    def close_all(self) -> None: ...


OpenChannels = Callable[[AnswerHandler], TermChannels]
"""Opens the channels of one term; the handler gets the answers."""


def not_controller() -> KafkaError:
    return KafkaError("This broker is not the controller", ErrorCode.NOT_CONTROLLER)


def _nothing() -> None:
    pass


@attrs.frozen(eq=False, repr=False)
class _Event:
    handle: Callable[[], Awaitable[None]]
    drop: Callable[[], None] = _nothing


@attrs.define(eq=False, repr=False)
class ActiveController:
    controller: ClusterController
    _session: SessionTree
    _channels: TermChannels
    _slices: TimeSlices
    _clock: IReactorTime
    _balance_seconds: float | None
    why_ended: str = attrs.field(default="the session has ended, or the broker stops", init=False)
    _events: deque[_Event] = attrs.field(factory=deque, init=False)
    _changed: dict[str, None] = attrs.field(factory=dict, init=False)
    """Watched nodes whose change is an event in the queue."""
    _seen: dict[str, int] = attrs.field(factory=dict, init=False)
    """Nodes of brokers and topics that are watched, with the transaction that set their data."""
    _idle: IdlePause = attrs.field(factory=IdlePause, init=False)
    _timer: IDelayedCall | None = attrs.field(default=None, init=False)

    @classmethod
    def of(
        cls,
        term: ControllerTerm,
        session: SessionTree,
        open_channels: OpenChannels,
        settings: ControllerSettings,
        slices: TimeSlices,
        clock: IReactorTime,
        balance_seconds: float | None,
    ) -> ActiveController:
        """Return a controller that has not taken over; without `balance_seconds` it balances no leaders."""

        def answered(broker_id: int, request: BrokerRequest, errors: Mapping[PartitionKey, ErrorCode]) -> None:
            active.answered(broker_id, request, errors)

        channels = open_channels(answered)
        controller = ClusterController.of(term, session, channels, settings, slices)
        active = cls(controller, session, channels, slices, clock, balance_seconds)
        return active

    @property
    def is_serving(self) -> bool:
        return self.controller.phase is ControllerPhase.SERVING

    @property
    def has_ended(self) -> bool:
        return self.controller.phase is ControllerPhase.RESIGNED

    async def run(self) -> None:
        """Take over, and handle events until the term ends; raise what has prevented the takeover."""
        started = self._clock.seconds()
        await self._watch([*WATCHED_CHILDREN, *WATCHED_NODES])
        try:
            await self.controller.take_over()
        except KafkaError as error:
            if self.has_ended:
                self.why_ended = str(error)
                return
            raise
        image = self.controller.image
        log.info(
            "controller of {brokers}, {topics}, {partitions} after {seconds:.2f} s",
            brokers=counted(len(image.brokers), "broker"),
            topics=counted(len(image.topics), "topic"),
            partitions=counted(image.partition_count, "partition"),
            seconds=self._clock.seconds() - started,
        )
        self._balance_later(_BALANCE_FIRST_SECONDS)
        while not self.has_ended:
            async for event in self._slices.over(self._next_events()):
                await self._handle(event)
            if not self._events and not self.has_ended:
                await self._idle.until_woken()

    def _next_events(self) -> Iterator[_Event]:
        while self._events and not self.has_ended:
            yield self._events.popleft()

    def end(self) -> None:
        """End the term at once; an event that is being handled writes and sends nothing more."""
        self.controller.resign()
        self._channels.close_all()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        events, self._events = self._events, deque()
        for event in events:
            event.drop()
        self._idle.wake()

    async def ask(self, call: Callable[[ClusterController], Awaitable[T]]) -> T:
        """Return the result of a call that changes the cluster, made after all earlier events."""
        if self.has_ended:
            raise not_controller()
        result: Deferred[T] = Deferred()

        async def handle() -> None:
            try:
                value = await call(self.controller)
            except ControllerResigned:
                self.controller.resign()
                result.errback(not_controller())
                raise
            except CoordinationError as error:
                result.errback(kafka_error(error))
            except Exception:
                result.errback(Failure())
            else:
                result.callback(value)

        self._enqueue(_Event(handle, lambda: result.errback(not_controller())))
        return await result

    def enqueue(self, call: Callable[[], Awaitable[None]]) -> None:
        """Handle an event that nobody waits for."""
        if not self.has_ended:
            self._enqueue(_Event(call))

    def answered(self, broker_id: int, request: BrokerRequest, errors: Mapping[PartitionKey, ErrorCode]) -> None:
        if not isinstance(request, UpdateMetadata):  # its answers are very many, and nothing follows from them
            self.enqueue(partial(self.controller.on_answer, broker_id, request, errors))

    def _enqueue(self, event: _Event) -> None:
        self._events.append(event)
        self._idle.wake()

    async def _handle(self, event: _Event) -> None:
        try:
            await event.handle()
        except Exception as error:
            if self.has_ended or not self._session.is_live:  # the term ends with its session
                self.why_ended = str(error)
            else:
                log.failure("the controller could not handle an event, and continues with the next one")

    def _balance_later(self, seconds: float) -> None:
        if self._balance_seconds is not None:
            self._timer = self._clock.callLater(seconds, self.enqueue, partial(self._balance, self._balance_seconds))

    async def _balance(self, seconds: float) -> None:
        try:
            await self.controller.balance_leaders()
        finally:
            if not self.has_ended:
                self._balance_later(seconds)

    # watches

    def _node_changed(self, change: Changed) -> None:
        if self.has_ended or change.path in self._changed:
            return
        self._changed[change.path] = None
        if len(self._changed) == 1:
            self.enqueue(self._read_changed)

    async def _read_changed(self) -> None:
        changed, self._changed = self._changed, {}
        for path in await self._watch(changed):
            if not self.has_ended:
                await self._handle(_Event(partial(self.controller.on_node_changed, path)))

    async def _watch(self, paths: Iterable[str]) -> list[str]:
        """Set watches; return the paths that may have changed since the last time."""
        watched = list(paths)
        children = [path for path in watched if path in WATCHED_CHILDREN]
        for path in children:
            await self._watch_children(path)
        single = [path for path in watched if path not in children]
        changes = await _all([self._watch_node(path) for path in single])
        changed = {path for path, is_changed in zip(single, changes, strict=True) if is_changed}
        return [path for path in watched if path in changed or path in children]

    async def _watch_children(self, path: str) -> None:
        names: list[str] = []
        with suppress(NoNode):
            names = await self._session.children(path, self._node_changed)
        if path in _PARENTS:
            nodes = [f"{path}/{name}" for name in names]
            await _all([self._watch_node(node) for node in nodes if node not in self._seen])

    async def _watch_node(self, path: str) -> bool:
        """Return False if a broker's or topic's node has the data that it had the last time."""
        if path in WATCHED_NODES:
            await self._session.exists(path, self._node_changed)
            return True
        before = self._seen.pop(path, None)
        try:
            node = await self._session.get(path, self._node_changed)
        except NoNode:
            return True
        self._seen[path] = node.stat.modified
        return node.stat.modified != before


async def _all(work: Iterable[Any]) -> list[Any]:
    """Run coroutines at once, so that their requests share round trips."""
    try:
        return await gatherResults([Deferred.fromCoroutine(coroutine) for coroutine in work], consumeErrors=True)
    except FirstError as error:
        raise error.subFailure.value or error from None
