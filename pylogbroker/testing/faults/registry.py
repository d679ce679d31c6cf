"""Faults of brokers: tests add them, and connections ask for them.

Any thread may add, remove and await faults. All else happens on the broker's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from inspect import iscoroutine, signature
from typing import Any, Final, TypeVar, Unpack

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.threads import blockingCallFromThread
from twisted.python.failure import Failure

from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.context import Caller, RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.config import Listener
from pylogbroker.net.routes import Routes
from pylogbroker.net.service import KafkaFactory, SharedLimits
from pylogbroker.testing.errors import NotRunning
from pylogbroker.testing.faults.chaos import Chaos
from pylogbroker.testing.faults.cluster_faults import ClusterFaults
from pylogbroker.testing.faults.connections import FaultyFactory, FaultyProtocol
from pylogbroker.testing.faults.criteria import Call, Criteria, CriteriaFields, check_names
from pylogbroker.testing.faults.doors import OpenedListener
from pylogbroker.testing.faults.fault import Action, CloseMoment, Fault, FaultNotFired, TimeDriver, Watch
from pylogbroker.testing.faults.group_faults import GroupFaults
from pylogbroker.testing.faults.handlers import Layer, layered, strike
from pylogbroker.testing.faults.log_faults import LogFaults, check_topic
from pylogbroker.testing.faults.names import api_key, error_code, unknown
from pylogbroker.testing.faults.network import NetworkFaults
from pylogbroker.testing.faults.pretended_cluster import PretendedCluster
from pylogbroker.testing.faults.requests import RequestLog, SeenRequest
from pylogbroker.testing.faults.version_caps import Cap, CappedRoutes, VersionCaps

T = TypeVar("T")

_MAY_NAME_NEW_TOPICS: Final = frozenset((3, 19))  # Metadata, CreateTopics
_ONCE: Final = -1


@attrs.define(eq=False, repr=False)  # it would show the whole broker
class Faults:
    """Faults of one broker, also across restarts of it, or of several brokers on one thread."""

    _can_compact: bool = True
    _driver: TimeDriver | None = None
    """None: brokers have a thread of their own."""
    requests: RequestLog = attrs.field(factory=RequestLog, init=False)
    layers: tuple[Layer, ...] = attrs.field(init=False)
    """Changes of the broker that last, outermost first."""
    cluster: ClusterFaults = attrs.field(init=False)
    groups: GroupFaults = attrs.field(init=False)
    logs: LogFaults = attrs.field(init=False)
    network: NetworkFaults = attrs.field(init=False)
    rejected_brokers: frozenset[int] = attrs.field(default=frozenset(), init=False)
    _faults: tuple[Fault, ...] = attrs.field(default=(), init=False)
    _added: int = attrs.field(default=0, init=False)
    _watches: tuple[Watch, ...] = attrs.field(default=(), init=False)
    _silent: tuple[Fault, ...] = attrs.field(default=(), init=False)
    """Removed faults that had to fire, and did not."""
    _reactor: Any = attrs.field(default=None, init=False)
    _brokers: dict[int, Broker] = attrs.field(factory=dict, init=False)
    _thread: int = attrs.field(default=0, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _connections: dict[Caller, FaultyProtocol] = attrs.field(factory=dict, init=False)
    _connected: int = attrs.field(default=0, init=False)
    _caps: VersionCaps = attrs.field(factory=VersionCaps, init=False)
    _pretended: PretendedCluster = attrs.field(init=False)
    _chaos: tuple[Chaos, ...] = attrs.field(default=(), init=False)

    def __attrs_post_init__(self) -> None:
        self._pretended = PretendedCluster(self)
        self.cluster = ClusterFaults(self._pretended, lambda: self.broker, self.run)
        self.groups = GroupFaults(lambda: self.brokers, self.run)
        self.logs = LogFaults(lambda: self.brokers, self.run, self.add_action, self._can_compact)
        self.network = NetworkFaults(self._connections_of_clients, self.run)
        self.layers = (self._caps, self._pretended)

    # -- for tests -----------------------------------------------------------------------------------------------

    def add(
        self,
        api: str | int | None = None,
        error: str | int | Sequence[str | int] | None = None,
        *,
        times: int | None = _ONCE,
        after: bool = False,
        delay: float = 0.0,
        hold: bool = False,
        close: str | None = None,
        answer: Any = None,
        throttle_ms: int = 0,
        must_fire: bool = False,
        **criteria: Unpack[CriteriaFields],
    ) -> Fault:
        """Add a fault for the next `times` requests that match, or with None for all until it is removed.

        Several errors are used one after the other, each once. Raise ValueError for an unknown name.
        """
        check_names(criteria, signature(self.add).parameters)
        concerned = self._criteria(api, **criteria)
        errors = () if error is None else (error,) if isinstance(error, str | int) else tuple(error)
        action = Action(
            tuple(map(error_code, errors)),
            after,
            delay,
            hold,
            None if close is None else _when_closed(close),
            answer,
            throttle_ms,
        )
        if action == Action(after=after):
            raise ValueError("a fault needs an error, delay, hold, close, answer or throttle_ms")
        return self.add_action(concerned, action, max(len(errors), 1) if times == _ONCE else times, must_fire)

    def add_action(
        self, criteria: Criteria, action: Action, times: int | None = None, must_fire: bool = False
    ) -> Fault:
        with self._lock:
            self._added += 1
            fault = self._fault(criteria, action, times, must_fire, self._added)
            self._faults = (*self._faults, fault)
        return fault

    def _fault(
        self, criteria: Criteria, action: Action, times: int | None = None, must_fire: bool = False, number: int = 0
    ) -> Fault:
        return Fault(
            criteria,
            self.requests,
            self._unlist,
            action,
            times,
            must_fire,
            driver=self._driver,
            run=self.run,
            note_silent=self._note_silent,
            id=number,
        )

    def listed(self) -> Sequence[Fault]:
        """Return the faults that are not removed, those that are spent, too."""
        return self._faults

    def find(self, id: int) -> Watch:
        """Return a fault or a watch that is not removed; raise LookupError."""
        for watch in (*self._faults, *self._watches):
            if watch.id == id:
                return watch
        raise LookupError(f"there is no fault or watch {id}")

    def watched(self) -> Sequence[Watch]:
        """Return the watches that are not removed."""
        return self._watches

    def watch(self, api: str | int | None = None, **criteria: Unpack[CriteriaFields]) -> Watch:
        """Count requests from now on; the criteria are those of `add`."""
        concerned = self._criteria(api, **criteria)
        with self._lock:
            self._added += 1
            watch = Watch(concerned, self.requests, self._unlist, driver=self._driver, id=self._added)
            self._watches = (*self._watches, watch)
        return watch

    def control(self, api: str | int, script: Callable[[RequestContext, Any], Any], times: int | None = None) -> Fault:
        """Let a function answer requests; it returns a response, or None for the broker's own."""
        return self.add(api, answer=script, times=times)

    def chaos(self, seed: int, rate: float = 0.1) -> Chaos:
        """Let a part of the requests meet faults that correct clients survive; the same ones for the same seed."""
        chaos = Chaos(seed, rate, self._end_chaos)
        self._chaos = (*self._chaos, chaos)
        return chaos

    def _end_chaos(self, ended: Chaos) -> None:
        self._chaos = tuple(chaos for chaos in self._chaos if chaos is not ended)

    def reject_connections(self, broker: int | None = None) -> None:
        """Close clients' new connections at once, those to one broker or all; `accept_connections` ends it."""
        self.rejected_brokers |= {_ONCE if broker is None else broker}

    def accept_connections(self) -> None:
        self.rejected_brokers = frozenset()

    def cap_versions(self, release: str | None = None, **by_api: Cap) -> None:
        """Offer the API versions of a release, such as "2.8", and of APIs: `Produce=7`, `Fetch=(4, 11)`, `EndTxn=None`.

        None means that the API is not offered. Without arguments nothing is capped any more. Clients ask for versions
        when they connect, so former caps end with all connections.
        """
        are_stale = self._caps.cap(release, by_api)
        for connection in tuple(self._connections.values()):
            connection.forget_routes()
        if are_stale:
            self.network.reset()

    def check(self) -> None:
        """Raise FaultNotFired if a fault with `must_fire` has not fired, also if it was removed since `clear`."""
        for fault in (*self._silent, *self._faults):
            fault.check()

    def clear(self) -> None:
        """Remove all faults and watches, then `check` the removed."""
        for watch in (*self._faults, *self._watches):
            watch.remove()
        with self._lock:
            silent, self._silent = self._silent, ()
        self._chaos = ()
        self.accept_connections()
        self.network.heal()
        self.cap_versions()
        self._pretended.reset()
        self.run(self._pretended.doors.close_brokers)
        failures = [str(failure) for fault in silent if (failure := _failure(fault)) is not None]
        self.requests.clear()
        if failures:
            raise FaultNotFired("; ".join(failures))

    def _criteria(self, api: str | int | None, **criteria: Unpack[CriteriaFields]) -> Criteria:
        key = None if api is None else api_key(api)
        topic = criteria.get("topic")
        if topic is not None and key not in _MAY_NAME_NEW_TOPICS:
            self.check_topic(topic)
        return Criteria.of(key, **criteria)

    def check_topic(self, topic: str) -> None:
        """Raise ValueError for an unknown topic, if the broker runs."""
        if self._brokers:
            check_topic(self.brokers, topic)

    def _unlist(self, watch: Watch) -> bool:
        """Return whether it was listed."""
        with self._lock:
            before = len(self._faults) + len(self._watches)
            self._faults = tuple(fault for fault in self._faults if fault is not watch)
            self._watches = tuple(other for other in self._watches if other is not watch)
            return len(self._faults) + len(self._watches) < before

    def _note_silent(self, fault: Fault) -> None:
        with self._lock:
            self._silent = (*self._silent, fault)

    @property
    def broker(self) -> Broker:
        """The broker, of several the first; raise NotRunning if none runs."""
        return self.brokers[0]

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers of a cluster by their ids, or the one; raise NotRunning if none runs."""
        brokers = tuple(broker for _, broker in sorted(self._brokers.items()))
        if not brokers:
            raise NotRunning("the broker does not run")
        return brokers

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on the broker's thread.

        Other threads wait for its result; the broker's gets a Deferred if the function is a coroutine function. With
        a driver, time passes until the result, unless the caller is itself a call that the driver runs.
        """

        def begin() -> Any:
            result = function(*arguments)
            return ensureDeferred(result) if iscoroutine(result) else result

        if not self._brokers:
            return _result(begin())
        if threading.get_ident() == self._thread:
            result, driver = begin(), self._driver
            if driver is None or driver.is_running or not isinstance(result, Deferred):
                return result
            return driver.run(result, "the change")
        try:
            return blockingCallFromThread(self._reactor, begin)
        except Exception as error:  # pytest shows the objects of each frame: those of a broker fill the memory
            raise error.with_traceback(None) from None

    # -- for the broker ------------------------------------------------------------------------------------------

    def attach(self, reactor: Any, broker: Broker) -> None:
        self._reactor, self._thread = reactor, threading.get_ident()
        self._brokers[broker.node.id] = broker

    async def detach(self, broker: Broker) -> None:
        await self._pretended.doors.close_all()
        self._brokers.pop(broker.node.id, None)

    def factory(self, reactor: Any, services: Services, listener: Listener, bounds: SharedLimits) -> KafkaFactory:
        self._pretended.doors.note(OpenedListener(reactor, services, listener, bounds))
        return FaultyFactory(reactor, services, listener, bounds, self, services.node.id)

    def routes(self, apis: Sequence[Api], services: Services) -> Routes:
        return CappedRoutes(apis, services, self._caps)

    def admits(self, broker_id: int) -> bool:
        return self.rejected_brokers.isdisjoint((_ONCE, broker_id))

    def entered(self, caller: Caller, connection: FaultyProtocol) -> int:
        self._connections[caller] = connection
        if connection.is_of_client:
            self.network.welcome(connection)
        self._connected += 1
        return self._connected

    def _connections_of_clients(self) -> list[FaultyProtocol]:
        return [connection for connection in self._connections.values() if connection.is_of_client]

    def left(self, caller: Caller) -> None:
        self._connections.pop(caller, None)

    async def handle(self, api: Api, services: Services, context: RequestContext, request: Any) -> Any:
        """Note a request, and answer it as the faults want."""
        call = Call(api, services, context, request, self._connections.get(context.caller))
        seen = SeenRequest.of(call)
        if not call.is_of_broker:
            self.requests.add(seen)
        for watch in self._watches:
            if watch.criteria.match(call):
                watch.note(seen)
        work = layered(self.layers)
        for fault in self._faults:
            if not fault.is_spent and fault.criteria.match(call):
                fault.note(seen)
                return await strike(fault, call, work)
        for chaos in self._chaos:
            action = None if call.is_of_broker else chaos.choose(call)
            if action is not None:
                fault = self._fault(Criteria(), action)
                fault.note(seen)
                return await strike(fault, call, work)
        return await work(call)


def _result(outcome: Any) -> Any:
    """Return a result; raise the error of work that ended at once, as it does while no broker runs."""
    if not isinstance(outcome, Deferred):
        return outcome
    results: list[Any] = []
    outcome.addBoth(results.append)
    if results and isinstance(results[0], Failure):
        results[0].raiseException()
    return results[0] if results else None


def _when_closed(close: str) -> CloseMoment:
    try:
        return CloseMoment(close)
    except ValueError:
        raise unknown("moment to close", close, [moment.value for moment in CloseMoment]) from None


def _failure(fault: Fault) -> FaultNotFired | None:
    try:
        fault.check()
    except FaultNotFired as failure:
        return failure
    return None
