"""Requests of the admin client, each sent to the brokers that can answer it.

A route says which node an item (a topic, a group, a partition) belongs to. Items of one node share a request. Those
whose node has changed, or is not ready, are asked for again with backoff, until `default.api.timeout.ms`.

Nothing here needs a reactor. BrokerNodes and Waits are the router's seams: `Cluster` and `reactor_waits` have one, and
`pylogbroker.blocking.admin` blocks. Coroutines over the latter never pause.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypeVar

import attrs

from pylogbroker.client.coordinator_requests import CoordinatorType, broker_of
from pylogbroker.client.errors import (
    COORDINATOR_NOT_READY,
    ClientError,
    ConnectionLost,
    RequestTimedOut,
    is_retriable,
)
from pylogbroker.config import Values
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.answer_rows import no_row
from pylogbroker.rpc.errors import error_of, raise_for
from pylogbroker.rpc.settings import Address
from pylogbroker.wire import Request

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

P = ParamSpec("P")
K = TypeVar("K")
T = TypeVar("T")

#: Errors of items that another attempt may cure. A missing topic is not one of them: its name may be misspelt.
_RETRIED: Final = COORDINATOR_NOT_READY | {
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class ItemsFailed(ClientError):
    """Some items of a call failed: `errors` has each one's error, `results` the others' results."""

    def __init__(self, errors: Mapping[Any, Exception], results: Mapping[Any, Any]) -> None:
        super().__init__("; ".join(dict.fromkeys(map(str, errors.values()))))
        self.errors = dict(errors)
        self.results = dict(results)


class BrokerNodes(Protocol):
    """Brokers by number, and how to find the one for an item."""

    def brokers(self) -> Mapping[int, Address]: ...
    def refresh(self) -> Awaitable[None]: ...
    def ask_controller(self) -> Awaitable[int]: ...
    def controller_is_stale(self) -> None: ...
    def expect_topics(self, topics: Iterable[str]) -> None:
        """Announce the topics of the partitions whose leaders will be asked for."""

    def ask_leader(self, topic: str, partition: int) -> Awaitable[int]: ...
    def leader_is_stale(self, topic: str, partition: int) -> None: ...
    def coordinator(self, key: str, kind: CoordinatorType) -> Awaitable[int]: ...
    def forget_coordinator(self, key: str, kind: CoordinatorType) -> None: ...
    def find_version(self, node_id: int, kind: type[Request]) -> Awaitable[int]: ...
    def send(self, node_id: int, request: Request, *, version: int | None = None) -> Awaitable[Any]: ...
    def send_anywhere(self, request: Request) -> Awaitable[Any]: ...


class Waits(Protocol):
    """Waits of coroutines."""

    def start(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Return the result of a method of an admin client's part."""

    async def together(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Wait for all; raise an error of one."""

    async def retrying(self, work: Callable[[], Awaitable[T]], retriable: Callable[[BaseException], bool]) -> T:
        """Call `work` again with backoff after retriable errors, until `default.api.timeout.ms`."""


def call_seconds(settings: Values) -> float:
    """Return how long a call may take, with all its retries."""
    return settings.integer("default.api.timeout.ms") / 1000


def deferred(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Deferred[T]]:
    """Make a part's method that starts the coroutine at once; it returns a Deferred, unless the router blocks."""

    @wraps(method)
    def start(*arguments: P.args, **options: P.kwargs) -> Deferred[T]:
        part: Any = arguments[0]
        started: Deferred[T] = part._router.waits.start(method(*arguments, **options))
        return started

    return start


def outcome(what: object, code: int, message: str | None, value: T) -> T | KafkaError:
    """Return the value, or the error that a response has for an item."""
    if not code:
        return value
    error = error_of(code, message)
    return KafkaError(f"{what}: {error.detail}", error.code)


@attrs.frozen
class NodeRoute(Generic[K]):
    """Finds the node of an item; `moved` notes that the node was the wrong one.

    `expect` gets all items first, so that one request can be about several.
    """

    node_of: Callable[[K], Awaitable[int]]
    moved: Callable[[K], object] = lambda _: None
    expect: Callable[[Sequence[K]], object] = lambda _: None


@attrs.frozen(eq=False, repr=False)
class Router:
    nodes: BrokerNodes
    waits: Waits
    timeout_ms: int
    """How long brokers may take for a request."""

    @classmethod
    def of(cls, nodes: BrokerNodes, waits: Waits, settings: Values) -> Router:
        return cls(nodes, waits, settings.integer("request.timeout.ms"))

    # routes

    def controller(self) -> NodeRoute[Any]:
        return NodeRoute(lambda _: self.nodes.ask_controller(), lambda _: self.nodes.controller_is_stale())

    def leaders(self) -> NodeRoute[TopicPartition]:
        return NodeRoute(
            lambda key: self.nodes.ask_leader(*key),
            lambda key: self.nodes.leader_is_stale(*key),
            lambda keys: self.nodes.expect_topics({topic for topic, _ in keys}),
        )

    def coordinators(self, kind: CoordinatorType) -> NodeRoute[str]:
        return NodeRoute(
            lambda key: self.nodes.coordinator(key, kind), lambda key: self.nodes.forget_coordinator(key, kind)
        )

    def node(self, node_id: int) -> NodeRoute[Any]:
        async def live_node(_: Any) -> int:
            if node_id not in self.nodes.brokers():
                await self.nodes.refresh()
            if node_id not in self.nodes.brokers():
                raise KafkaError(f"the cluster has no live broker {node_id}", ErrorCode.BROKER_NOT_AVAILABLE)
            return node_id

        return NodeRoute(live_node)

    # requests

    async def anywhere(self, request: Request) -> Any:
        """Send to any broker, again if it is lost."""
        return await self._retried(lambda: self.nodes.send_anywhere(request))

    async def ask_any(
        self,
        items: Iterable[K],
        make: Callable[[list[K]], Request],
        read: Callable[[Any], Iterable[tuple[K, T | KafkaError]]],
    ) -> dict[K, T]:
        """Like `ask`, for what each broker knows."""
        keys = list(dict.fromkeys(items))
        if not keys:
            return {}
        response = await self.anywhere(make(keys))
        return results(keys, outcomes_of(response, "a broker", keys, read(response)))

    async def all_brokers(self, make: Callable[[], Request], only: Iterable[int] | None = None) -> dict[int, Any]:
        """Return the response of each live broker, or of these; raise the error that one has as a whole."""
        await self._retried(self.nodes.refresh)
        responses = {}
        for node_id in sorted(self.nodes.brokers()) if only is None else dict.fromkeys(only):
            try:
                responses[node_id] = await self._retried(partial(self._send_to, node_id, make))
            except KafkaError as error:
                if only is not None or error.code is not ErrorCode.BROKER_NOT_AVAILABLE:
                    raise  # else the broker has left the cluster meanwhile
        return responses

    async def _send_to(self, node_id: int, make: Callable[[], Request]) -> Any:
        await self.node(node_id).node_of(node_id)
        try:
            response: Any = await self.nodes.send(node_id, make())
        except (ConnectionLost, RequestTimedOut):
            await self.nodes.refresh()
            raise
        raise_for(response.error_code)
        return response

    async def ask(
        self,
        route: NodeRoute[K],
        items: Iterable[K],
        make: Callable[[list[K]], Request],
        read: Callable[[Any], Iterable[tuple[K, T | KafkaError]]],
        newest: int | None = None,
    ) -> dict[K, T]:
        """Return each item's result. The error of one item is raised itself, those of several as ItemsFailed.

        `newest` is the last version of the request that `make` is for.
        """
        keys = list(dict.fromkeys(items))
        return results(keys, await self.ask_each(route, keys, make, read, newest))

    async def ask_each(
        self,
        route: NodeRoute[K],
        keys: list[K],
        make: Callable[[list[K]], Request],
        read: Callable[[Any], Iterable[tuple[K, T | KafkaError]]],
        newest: int | None = None,
    ) -> dict[K, T | PylogbrokerError]:
        """Like `ask`, but return errors of items among the results."""
        left, done = list(keys), dict[K, T | PylogbrokerError]()

        async def attempt() -> None:
            done.update(await self._ask_once(route, left, make, read, newest))
            left[:] = [key for key in left if _is_retried(done[key])]
            for key in left:
                route.moved(key)
            if left:
                raise _error(done[left[0]])

        if keys:
            try:
                await self._retried(attempt)
            except PylogbrokerError:
                if len(done) < len(keys):
                    raise
        return done

    async def _ask_once(
        self,
        route: NodeRoute[K],
        items: list[K],
        make: Callable[[list[K]], Request],
        read: Callable[[Any], Iterable[tuple[K, T | KafkaError]]],
        newest: int | None,
    ) -> dict[K, T | PylogbrokerError]:
        outcomes: dict[K, T | PylogbrokerError] = {}
        by_node: dict[int, list[K]] = {}

        async def place(key: K) -> None:
            try:
                by_node.setdefault(await route.node_of(key), []).append(key)
            except PylogbrokerError as error:
                outcomes[key] = error

        async def send(node_id: int, keys: list[K]) -> None:
            request = make(keys)
            try:
                version = None
                if newest is not None:
                    version = min(newest, await self.nodes.find_version(node_id, type(request)))
                response = await self.nodes.send(node_id, request, version=version)
            except PylogbrokerError as error:
                outcomes.update(dict.fromkeys(keys, error))
                return
            outcomes.update(outcomes_of(response, broker_of(node_id), keys, read(response)))

        route.expect(items)
        await self.waits.together(place(key) for key in items)
        await self.waits.together(send(node_id, keys) for node_id, keys in by_node.items())
        return outcomes

    async def _retried(self, work: Callable[[], Awaitable[T]]) -> T:
        return await self.waits.retrying(work, _is_retried)


def _is_retried(outcome: object) -> bool:
    if isinstance(outcome, KafkaError):
        return outcome.code in _RETRIED
    return isinstance(outcome, BaseException) and is_retriable(outcome)


def _error(outcome: object) -> PylogbrokerError:
    assert isinstance(outcome, PylogbrokerError)
    return outcome


def outcomes_of(
    response: Any, broker: object, keys: Sequence[K], read: Iterable[tuple[K, T | PylogbrokerError]]
) -> dict[K, T | PylogbrokerError]:
    """Return what was read about these keys; an error for one that the response says nothing about."""
    outcomes = dict(read)
    return {key: outcomes[key] if key in outcomes else no_row(response, broker, key) for key in keys}


def results(keys: list[K], done: Mapping[K, T | PylogbrokerError]) -> dict[K, T]:
    """Return the results; raise the error of one item, or ItemsFailed."""
    errors = {key: result for key in keys if isinstance(result := done[key], PylogbrokerError)}
    results = {key: result for key in keys if not isinstance(result := done[key], PylogbrokerError)}
    if errors and len(keys) == 1:
        raise errors[keys[0]]
    if errors:
        raise ItemsFailed(errors, results)
    return results
